// SPDX-License-Identifier: Apache-2.0
// Softmax of int8 and int16 codes and the logarithm of int8's, as TensorFlow Lite's reference kernels compute them
// (reference/softmax.h, integer_ops/log_softmax.h).
#ifndef MINUN_SOFTMAX_AFFINE_H
#define MINUN_SOFTMAX_AFFINE_H

#include <stdint.h>

#include "minun/gemmlowp.h"
#include "minun/line_table.h"
#include "minun/quantised.h"

namespace minun {

namespace detail {

// 1 / total for a sum with twelve integer bits: a number without them, and the power of two in `over`.
inline int32_t reciprocal_of_sum(int32_t total, int* over) {
  const int zeros = leading_zeros(static_cast<uint32_t>(total));
  *over = 12 - zeros;
  return reciprocal_of_one_plus(static_cast<int32_t>((static_cast<uint32_t>(total) << zeros) - (UINT32_C(1) << 31)));
}

template <class Code>
inline int32_t largest_of(const Code* lane, int32_t extent, int32_t inner) {
  Code largest = lane[0];
  for (int32_t k = 1; k < extent; ++k) {
    if (lane[k * inner] > largest) largest = lane[k * inner];
  }
  return largest;
}

}  // namespace detail

// All of these: in, out (outer, extent, inner), along `extent`, in place if need be. `multiplier` and `shift` scale
// differences to the maximum; those under `lowest` count as minus infinity.
inline void softmax_int8(const int8_t* in, int8_t* out, int32_t outer, int32_t extent, int32_t inner,
                         int32_t multiplier, int left_shift, int32_t lowest) {
  for (; outer > 0; --outer, in += extent * inner, out += extent * inner) {
    for (int32_t i = 0; i < inner; ++i) {
      const int8_t* lane = in + i;
      const int32_t largest = detail::largest_of(lane, extent, inner);
      int32_t total = 0;
      for (int32_t k = 0; k < extent; ++k) {
        const int32_t apart = lane[k * inner] - largest;
        if (apart < lowest) continue;
        const int32_t scaled = detail::times(apart * (INT32_C(1) << left_shift), multiplier);
        total += detail::halved(detail::exp_of_negative(scaled), 12);
      }
      int over;
      const int32_t scale = detail::reciprocal_of_sum(total, &over);
      for (int32_t k = 0; k < extent; ++k) {
        const int32_t apart = lane[k * inner] - largest;
        int32_t code = -128;
        if (apart >= lowest) {
          const int32_t scaled = detail::times(apart * (INT32_C(1) << left_shift), multiplier);
          const int32_t share = detail::times(detail::exp_of_negative(scaled), scale);
          code += detail::halved(share, over + 23);
          if (code > 127) code = 127;
        }
        out[k * inner + i] = static_cast<int8_t>(code);
      }
    }
  }
}

// exp and 1 / (1 + x) by tables of 513 entries in flash (minun_pio/numerics/tflite_softmax.py). A row's powers are in
// `out` until their sum is known.
inline void softmax_int16(const int16_t* in, int16_t* out, int32_t outer, int32_t extent, int32_t inner,
                          int32_t multiplier, int shift, const int16_t* powers, const int16_t* reciprocals) {
  for (; outer > 0; --outer, in += extent * inner, out += extent * inner) {
    for (int32_t i = 0; i < inner; ++i) {
      const int16_t* lane = in + i;
      int16_t* share = out + i;
      const int32_t largest = detail::largest_of(lane, extent, inner);
      uint32_t total = 0;
      for (int32_t k = 0; k < extent; ++k) {
        const int32_t scaled = scale_quantised(lane[k * inner] - largest, multiplier, shift) + 32767;
        const int16_t power = line_of(powers, scaled < -32768 ? -32768 : static_cast<int16_t>(scaled));
        share[k * inner] = power;
        total += static_cast<uint32_t>(power);
      }
      const int zeros = leading_zeros(total);
      const int32_t fraction = static_cast<int32_t>(((static_cast<uint64_t>(total) << (zeros - 1)) + (1u << 13)) >> 14);
      const int32_t place = fraction - (INT32_C(3) << 15);
      const int16_t scale = line_of(reciprocals, place < -32768 ? -32768 : place > 32767 ? 32767
                                                                                         : static_cast<int16_t>(place));
      const int right = 31 - zeros;
      for (int32_t k = 0; k < extent; ++k) {
        const int32_t product = static_cast<int32_t>(share[k * inner]) * scale;
        const int32_t code = (product + (INT32_C(1) << (right - 1))) >> right;
        share[k * inner] = static_cast<int16_t>(code < 0 ? 0 : code > 32767 ? 32767
                                                                            : code);
      }
    }
  }
}

namespace detail {

// log(x) with five integer bits, for x >= 1 with twelve (log_x_for_x_greater_than_or_equal_to_1).
inline MINUN_NOINLINE int32_t log_of_at_least_one(int32_t x) {
  const int32_t root = 1518500250, fourth_root = 1805811301;  // of one half
  const int32_t quarter = INT32_C(1) << 23;
  const int zeros = leading_zeros(static_cast<uint32_t>(x));
  const int32_t first = doubled(times(doubled(x, zeros - 1), root), 1);
  const int32_t first_power = (12 - zeros) * (INT32_C(1) << 25) + quarter;
  const int beside = leading_zeros(static_cast<uint32_t>(times(x, root))) - 1;
  const int32_t second = doubled(x, beside);
  const int32_t second_power = (12 - beside) * (INT32_C(1) << 25) - quarter;
  const int32_t r = first < second ? first : second;
  const int32_t power = first_power > second_power ? first_power : second_power;
  const int32_t p = static_cast<int32_t>((static_cast<uint32_t>(r) + static_cast<uint32_t>(fourth_root) + 1u) >> 1);
  const int32_t q = 2 * (r - fourth_root);
  const int32_t square = times(q, q);
  const int32_t above = times(q, r) + times(times(q, square), 117049297);
  const int32_t inner = 1057819769 + q + times(square, 127690142);
  const int32_t below = times(p, inner) + times(q, 638450708);
  const int32_t ratio = times(halved(above, 6), reciprocal_of_one_plus(below));
  return doubled(times(power, 1488522236) + ratio, 1);
}

}  // namespace detail

// `back` and `back_shift` take a logarithm back to a difference of codes.
inline void log_softmax_int8(const int8_t* in, int8_t* out, int32_t outer, int32_t extent, int32_t inner,
                             int32_t multiplier, int shift, int32_t lowest, int32_t back, int back_shift) {
  for (; outer > 0; --outer, in += extent * inner, out += extent * inner) {
    for (int32_t i = 0; i < inner; ++i) {
      const int8_t* lane = in + i;
      const int32_t largest = detail::largest_of(lane, extent, inner);
      int32_t total = 0;
      for (int32_t k = 0; k < extent; ++k) {
        const int32_t apart = lane[k * inner] - largest;
        if (apart < lowest) continue;
        total += detail::halved(detail::exp_of_negative(scale_quantised(apart, multiplier, shift)), 12);
      }
      const int32_t log = detail::log_of_at_least_one(total);
      int32_t reach = scale_quantised(log + INT32_MIN, back, back_shift);
      if (reach < lowest - 1) reach = lowest - 1;
      for (int32_t k = 0; k < extent; ++k) {
        const int32_t apart = lane[k * inner] - largest;
        int32_t code = -128;
        if (apart > reach) {
          code = detail::halved(scale_quantised(apart, multiplier, shift) - log, 22) + 127;
          code = code < -128 ? -128 : code > 127 ? 127
                                                 : code;
        }
        out[k * inner + i] = static_cast<int8_t>(code);
      }
    }
  }
}

}  // namespace minun

#endif  // MINUN_SOFTMAX_AFFINE_H
