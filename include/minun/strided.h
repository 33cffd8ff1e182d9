// SPDX-License-Identifier: Apache-2.0
// Transpose, slice, reverse, expand: each output element lies in the input at a linear form of its position.
#ifndef MINUN_STRIDED_H
#define MINUN_STRIDED_H

#include <stdint.h>

#include "minun/cursor.h"

namespace minun {

// out: the output in raster order, walk[0..rank-1] its extents, walk[rank..2*rank-1] the input's step in
// elements for each of its axes (0: repeated, negative: backwards). 1 <= rank <= 8. `walk` is in flash.
template <class T, class Where>
void strided_copy(const T* in, T* out, int32_t rank, const int32_t* walk) {
  const int32_t inner = flash_load(walk + rank - 1);
  const int32_t step = flash_load(walk + 2 * rank - 1);
  Cursor<1> rows(walk, rank, rank - 1);
  do {
    const T* from = in + rows.offset[0];
    for (int32_t i = 0; i < inner; ++i, from += step) *out++ = Where::load(from);
  } while (rows.next());
}

}  // namespace minun

#endif  // MINUN_STRIDED_H
