// SPDX-License-Identifier: Apache-2.0
// Pad: the tensor with more elements around it.
#ifndef MINUN_PAD_H
#define MINUN_PAD_H

#include <stdint.h>

#include "minun/flash.h"

namespace minun {

// The input index that output index `i` (already less the pad before) takes, or -1 for the fill value.
// mode 0: fill, 1: nearest edge, 2: reflected about the edge element, 3: about the edge itself.
inline int32_t pad_source(int32_t i, int32_t extent, uint8_t mode) {
  if (i >= 0 && i < extent) return i;
  if (mode == 0) return -1;
  if (mode == 1) return i < 0 ? 0 : extent - 1;
  const int32_t again = mode == 3 ? 1 : 0;  // whether the edge element comes twice
  return i < 0 ? -i - again : 2 * (extent - 1) - i + again;
}

// shape, in flash: `rank` output extents, `rank` input extents, `rank` elements before. rank <= 8.
template <class T, class Where>
void pad(const T* in, T* out, int32_t rank, const int32_t* shape, uint8_t mode, T fill) {
  int32_t position[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  const int32_t row = flash_load(shape + rank - 1);
  const int32_t in_row = flash_load(shape + 2 * rank - 1);
  const int32_t before = flash_load(shape + 3 * rank - 1);
  int32_t axis;
  do {
    int32_t base = 0;  // input index of the row's first element, or -1 for a row of fill
    for (axis = 0; axis < rank - 1 && base >= 0; ++axis) {
      const int32_t extent = flash_load(shape + rank + axis);
      const int32_t source = pad_source(position[axis] - flash_load(shape + 2 * rank + axis), extent, mode);
      base = source < 0 ? -1 : base * extent + source;
    }
    for (int32_t i = 0; i < row; ++i) {
      const int32_t source = base < 0 ? -1 : pad_source(i - before, in_row, mode);
      *out++ = source < 0 ? fill : Where::load(in + base * in_row + source);
    }
    for (axis = rank - 2; axis >= 0; --axis) {
      if (++position[axis] < flash_load(shape + axis)) break;
      position[axis] = 0;
    }
  } while (axis >= 0);
}

}  // namespace minun

#endif  // MINUN_PAD_H
