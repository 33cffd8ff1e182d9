// SPDX-License-Identifier: Apache-2.0
// Gather: runs of codes picked by index.
#ifndef MINUN_GATHER_H
#define MINUN_GATHER_H

#include <stdint.h>

#include "minun/memory.h"

namespace minun {

// in: (outer, extent, inner); indices: `count` of them; out: (outer, count, inner). Negative indices count
// from the end; whatever an index holds, nothing outside `in` is read.
template <class T, class Where, class IndicesWhere>
void gather(const T* in, const int32_t* indices, T* out, int32_t outer, int32_t extent, int32_t inner,
            int32_t count) {
  for (; outer > 0; --outer, in += extent * inner) {
    for (int32_t i = 0; i < count; ++i, out += inner) {
      int32_t index = IndicesWhere::load(indices + i);
      if (index < 0) index += extent;
      if (index < 0) index = 0;
      if (index >= extent) index = extent - 1;
      copy_run<T, Where>(in + index * inner, out, inner);
    }
  }
}

}  // namespace minun

#endif  // MINUN_GATHER_H
