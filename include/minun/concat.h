// SPDX-License-Identifier: Apache-2.0
// Concat and split: runs of codes between one tensor and several.
#ifndef MINUN_CONCAT_H
#define MINUN_CONCAT_H

#include <stdint.h>

#include "minun/memory.h"

namespace minun {

// Copies `rows` runs of `run` codes; consecutive runs start `in_stride` and `out_stride` codes apart.
template <class T>
void copy_rows(const T* in, int32_t in_stride, T* out, int32_t out_stride, int32_t run, int32_t rows) {
  for (; rows > 0; --rows, in += in_stride, out += out_stride) copy_run<T, InRam>(in, out, run);
}

template <class T>
void copy_rows(FlashPointer<T> in, int32_t in_stride, T* out, int32_t out_stride, int32_t run, int32_t rows) {
  for (; rows > 0; --rows, in.address += in_stride, out += out_stride) copy_run<T, InFlash>(in.address, out, run);
}

template <class T>
inline void concat(T*, int32_t, int32_t) {}

// out: `rows` rows of `stride` codes; then for each input its pointer and the codes it gives to a row.
template <class T, class Pointer, class... Rest>
inline void concat(T* out, int32_t rows, int32_t stride, Pointer in, int32_t run, Rest... rest) {
  copy_rows(in, run, out, stride, run, rows);
  concat<T>(out + run, rows, stride, rest...);
}

template <class T>
inline void split(const T*, int32_t, int32_t) {}

// in: `rows` rows of `stride` codes; then for each output its pointer and the codes it takes from a row.
template <class T, class... Rest>
inline void split(const T* in, int32_t rows, int32_t stride, T* out, int32_t run, Rest... rest) {
  copy_rows(in, stride, out, run, run, rows);
  split<T>(in + run, rows, stride, rest...);
}

template <class T>
inline void split(FlashPointer<T>, int32_t, int32_t) {}

template <class T, class... Rest>
inline void split(FlashPointer<T> in, int32_t rows, int32_t stride, T* out, int32_t run, Rest... rest) {
  copy_rows(in, stride, out, run, run, rows);
  split<T>(in_flash(in.address + run), rows, stride, rest...);
}

}  // namespace minun

#endif  // MINUN_CONCAT_H
