// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm along an axis, in 32-bit integer arithmetic, for posit, fixed-point and floats.
#ifndef MINUN_SOFTMAX_H
#define MINUN_SOFTMAX_H

#include <stdint.h>

#include "minun/arithmetic.h"
#include "minun/functions.h"
#include "minun/real.h"

namespace minun {

// in, out (outer, extent, inner), along `extent`. In place if the codes have one size. Differences to the maximum are
// multiplied by beta where kBeta. Exponentials are computed twice, so that nothing has to be kept.
template <class Out, class In, bool kLog, bool kBeta>
void softmax(const typename In::Code* in, typename Out::Code* out, int32_t outer, int32_t extent, int32_t inner,
             Real beta) {
  for (; outer > 0; --outer, in += extent * inner, out += extent * inner) {
    for (int32_t i = 0; i < inner; ++i) {
      const typename In::Code* lane = in + i;
      typename In::Code largest = lane[0];
      for (int32_t k = 1; k < extent; ++k) {
        if (Order<In>::less(largest, lane[k * inner])) largest = lane[k * inner];
      }
      const Real top = to_real<In>(largest);
      Real sum = real::zero();
      for (int32_t k = 0; k < extent; ++k) {
        Real apart = real::subtract(to_real<In>(lane[k * inner]), top);
        if (kBeta) apart = real::multiply(apart, beta);
        sum = real::add(sum, real::exponential(apart));
      }
      if (kLog) sum = real::logarithm(sum);
      for (int32_t k = 0; k < extent; ++k) {
        Real apart = real::subtract(to_real<In>(lane[k * inner]), top);
        if (kBeta) apart = real::multiply(apart, beta);
        const Real share = kLog ? real::subtract(apart, sum) : real::divide(real::exponential(apart), sum);
        out[k * inner + i] = from_real<Out>(share);
      }
    }
  }
}

}  // namespace minun

#endif  // MINUN_SOFTMAX_H
