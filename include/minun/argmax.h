// SPDX-License-Identifier: Apache-2.0
// The index of the largest or smallest element along an axis.
#ifndef MINUN_ARGMAX_H
#define MINUN_ARGMAX_H

#include <stdint.h>

#include "minun/arithmetic.h"

namespace minun {

// in (outer, extent, inner) -> out (outer, inner). Ties go to the first one, or to the last.
template <class F, bool kLast, bool kSmallest>
void argmax(const typename F::Code* in, int32_t* out, int32_t outer, int32_t extent, int32_t inner) {
  for (; outer > 0; --outer, in += extent * inner) {
    for (int32_t i = 0; i < inner; ++i) {
      typename F::Code best = in[i];
      int32_t index = 0;
      for (int32_t k = 1; k < extent; ++k) {
        const typename F::Code code = in[k * inner + i];
        const typename F::Code low = kSmallest ? code : best;
        const typename F::Code high = kSmallest ? best : code;
        if (kLast ? !Order<F>::less(high, low) : Order<F>::less(low, high)) {
          best = code;
          index = k;
        }
      }
      *out++ = index;
    }
  }
}

}  // namespace minun

#endif  // MINUN_ARGMAX_H
