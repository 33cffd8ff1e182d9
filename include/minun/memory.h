// SPDX-License-Identifier: Apache-2.0
// Moves of runs of codes, and marked pointers for operators with any number of operands.
#ifndef MINUN_MEMORY_H
#define MINUN_MEMORY_H

#include <stdint.h>
#include <string.h>

#include "minun/flash.h"

namespace minun {

namespace detail {

inline void copy_bytes(const void* in, void* out, size_t bytes, InRam) { memmove(out, in, bytes); }
inline void copy_bytes(const void* in, void* out, size_t bytes, InFlash) { flash_copy(out, in, bytes); }

}  // namespace detail

// Copies `count` codes; runs in RAM may overlap, or be the same one.
template <class T, class Where>
inline void copy_run(const T* in, T* out, int32_t count) {
  if (in != out) detail::copy_bytes(in, out, static_cast<size_t>(count) * sizeof(T), Where());
}

template <class T>
struct FlashPointer {  // marks an operand that lies in flash
  const T* address;
};

template <class T>
inline FlashPointer<T> in_flash(const T* address) {
  const FlashPointer<T> marked = {address};
  return marked;
}

}  // namespace minun

#endif  // MINUN_MEMORY_H
