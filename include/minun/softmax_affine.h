// SPDX-License-Identifier: Apache-2.0
// Softmax of int8 codes as TensorFlow Lite's reference kernel computes it (reference/softmax.h, gemmlowp fixedpoint.h).
// A fixed-point number with k integer bits is an int32 in units of 2^(k - 31).
#ifndef MINUN_SOFTMAX_AFFINE_H
#define MINUN_SOFTMAX_AFFINE_H

#include <stdint.h>

#include "minun/quantised.h"

namespace minun {

namespace detail {

// a * b * 2^-31 rounded half away from zero.
inline MINUN_NOINLINE int32_t times(int32_t a, int32_t b) { return scale_quantised(a, b, 0); }

// x / 2^places rounded half away from zero.
inline int32_t halved(int32_t x, int places) {
  const int32_t mask = static_cast<int32_t>((UINT32_C(1) << places) - 1u);
  const int32_t rest = x & mask;
  return (x >> places) + (rest > (mask >> 1) + (x < 0 ? 1 : 0) ? 1 : 0);
}

inline int32_t doubled(int32_t x, int places) {
  const int64_t wide = x * (INT64_C(1) << places);
  return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN
                                                         : static_cast<int32_t>(wide);
}

// exp(a) without integer bits, for a <= 0 with five of them.
inline MINUN_NOINLINE int32_t exp_of_negative(int32_t a) {
  static const int32_t powers[7] MINUN_FLASH = {1672461947, 1302514674, 790015084, 290630308,
                                                39332535, 720401, 242};  // exp(-2^i), i from -2
  if (a == 0) return INT32_MAX;
  const int32_t quarter = INT32_C(1) << 24;
  const int32_t part = (a & (quarter - 1)) - quarter;
  const int32_t x = part * 32 + (INT32_C(1) << 28);
  const int32_t square = times(x, x);
  const int32_t cube = times(square, x);
  const int32_t fourth = halved(times(square, square), 2);
  const int32_t tail = halved(times(fourth + cube, 715827883) + square, 1);
  int32_t result = 1895147668 + times(x + tail, 1895147668);
  const uint32_t remainder = static_cast<uint32_t>(part - a);
  for (uint8_t i = 0; i < 7; ++i) {
    if (remainder & (UINT32_C(1) << (24 + i))) result = times(result, flash_load(powers + i));
  }
  return result;
}

// 1 / total for a sum with twelve integer bits: a number without them, and the power of two in `over`.
inline MINUN_NOINLINE int32_t reciprocal_of_sum(int32_t total, int* over) {
  const int zeros = leading_zeros(static_cast<uint32_t>(total));
  *over = 12 - zeros;
  const int32_t fraction =
      static_cast<int32_t>((static_cast<uint32_t>(total) << zeros) - (UINT32_C(1) << 31));
  const int32_t half = static_cast<int32_t>((static_cast<int64_t>(fraction) + INT32_MAX + 1) / 2);
  int32_t x = 1515870810 + times(half, -1010580540);
  for (uint8_t i = 0; i < 3; ++i) {
    const int32_t rest = (INT32_C(1) << 29) - times(half, x);
    x += doubled(times(x, rest), 2);
  }
  return doubled(x, 1);
}

}  // namespace detail

// in, out (outer, extent, inner), along `extent`; differences to the maximum under `lowest` count as minus infinity.
template <class Out, class In>
void softmax_affine(const typename In::Code* in, typename Out::Code* out, int32_t outer, int32_t extent,
                    int32_t inner, int32_t multiplier, int left_shift, int32_t lowest) {
  for (; outer > 0; --outer, in += extent * inner, out += extent * inner) {
    for (int32_t i = 0; i < inner; ++i) {
      const typename In::Code* lane = in + i;
      int32_t largest = lane[0];
      for (int32_t k = 1; k < extent; ++k) {
        if (lane[k * inner] > largest) largest = lane[k * inner];
      }
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
        int32_t code = Out::kMinCode;
        if (apart >= lowest) {
          const int32_t scaled = detail::times(apart * (INT32_C(1) << left_shift), multiplier);
          const int32_t share = detail::times(detail::exp_of_negative(scaled), scale);
          code += detail::halved(share, over + 31 - Out::kBits);
          if (code > Out::kMaxCode) code = Out::kMaxCode;
        }
        out[k * inner + i] = static_cast<typename Out::Code>(code);
      }
    }
  }
}

}  // namespace minun

#endif  // MINUN_SOFTMAX_AFFINE_H
