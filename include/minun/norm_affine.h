// SPDX-License-Identifier: Apache-2.0
// L2 normalisation of int8 codes as TensorFlow Lite's reference kernel computes it (integer_ops/l2normalization.h).
#ifndef MINUN_NORM_AFFINE_H
#define MINUN_NORM_AFFINE_H

#include <stdint.h>

#include "minun/gemmlowp.h"
#include "minun/quantised.h"

namespace minun {

// in, out (outer, extent, inner): lanes along `extent` brought to length 1, in units of 1/128; int8.
inline void l2_norm_int8(const int8_t* in, int8_t* out, int32_t outer, int32_t extent, int32_t inner, int32_t zero) {
  for (; outer > 0; --outer, in += extent * inner, out += extent * inner) {
    for (int32_t i = 0; i < inner; ++i) {
      int32_t sum = 0;
      for (int32_t k = 0; k < extent; ++k) {
        const int32_t x = in[k * inner + i] - zero;
        sum += x * x;
      }
      int shift;
      const int32_t factor = detail::inverse_square_root(sum, &shift);
      for (int32_t k = 0; k < extent; ++k) {
        const int32_t y = scale_quantised(static_cast<int32_t>(in[k * inner + i]) - zero, factor, shift + 7);
        out[k * inner + i] = static_cast<int8_t>(y < -128 ? -128 : y > 127 ? 127
                                                                           : y);
      }
    }
  }
}

}  // namespace minun

#endif  // MINUN_NORM_AFFINE_H
