// SPDX-License-Identifier: Apache-2.0
// Walks over tensors by extents and strides that stand in flash: nested loops whose depth is a run-time number.
#ifndef MINUN_CURSOR_H
#define MINUN_CURSOR_H

#include <stdint.h>

#include "minun/flash.h"

namespace minun {

// Offsets, in elements, into `Operands` tensors that are walked together in raster order. In flash: `extents[0..]`,
// then per operand as many strides, the table's rows `row` numbers long. The first `axes` (at most 8) are walked.
// kReverse: from the last position to the first.
template <int Operands, bool kReverse = false>
class Cursor {
 public:
  int32_t offset[static_cast<size_t>(Operands)];

  Cursor(const int32_t* table, int32_t row, int32_t axes) : table_(table), row_(row), axes_(axes) {
    for (int i = 0; i < Operands; ++i) offset[i] = 0;
    for (int i = 0; i < 8; ++i) position_[i] = 0;
    for (int32_t axis = 0; kReverse && axis < axes; ++axis) {
      for (int i = 0; i < Operands; ++i) {
        offset[i] += (flash_load(table + axis) - 1) * flash_load(table + (i + 1) * row + axis);
      }
    }
  }

  // To the next position; false after the last one, when the offsets are back at the start.
  bool next() {
    for (int32_t axis = axes_ - 1; axis >= 0; --axis) {
      const bool wraps = ++position_[axis] == flash_load(table_ + axis);
      const int32_t* stride = table_ + axis;
      for (int i = 0; i < Operands; ++i) {
        stride += row_;
        offset[i] += (kReverse ? -1 : 1) * flash_load(stride) * (wraps ? 1 - position_[axis] : 1);
      }
      if (!wraps) return true;
      position_[axis] = 0;
    }
    return false;
  }

 private:
  const int32_t* table_;
  int32_t row_;
  int32_t axes_;
  int32_t position_[8];
};

}  // namespace minun

#endif  // MINUN_CURSOR_H
