// SPDX-License-Identifier: Apache-2.0
// gemmlowp's fixed-point arithmetic, of which TensorFlow Lite's reference kernels are made (fixedpoint/fixedpoint.h,
// lite/kernels/internal/common.h). A number with k integer bits is an int32 in units of 2^(k - 31). Host twin:
// minun_pio/numerics/gemmlowp.py.
#ifndef MINUN_GEMMLOWP_H
#define MINUN_GEMMLOWP_H

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

// 1 / (1 + x) for x in [0, 1], no integer bits.
inline MINUN_NOINLINE int32_t reciprocal_of_one_plus(int32_t x) {
  const int32_t half = static_cast<int32_t>((static_cast<uint32_t>(x) + (UINT32_C(1) << 31)) >> 1);
  int32_t y = 1515870810 + times(half, -1010580540);
  for (uint8_t i = 0; i < 3; ++i) {
    const int32_t rest = (INT32_C(1) << 29) - times(half, y);
    y += doubled(times(y, rest), 2);
  }
  return doubled(y, 1);
}

// 1 / sqrt(x) of an integer = result * 2^(*shift - 31); up to 1 the result is one.
inline MINUN_NOINLINE int32_t inverse_square_root(int32_t x, int* shift) {
  *shift = 0;
  if (x <= 1) return INT32_MAX;
  int right = 11;
  for (; x >= (INT32_C(1) << 29); x /= 4) ++right;
  const int pairs = (leading_zeros(static_cast<uint32_t>(x)) - 1) / 2 - 1;
  right -= pairs;
  x = static_cast<int32_t>(static_cast<uint32_t>(x) << (2 * pairs));
  const int32_t half = halved(x >> 1, 1);
  int32_t y = INT32_C(1) << 28;  // one, with three integer bits
  for (uint8_t i = 0; i < 5; ++i) {
    const int32_t cube = doubled(times(times(y, y), y), 6);
    y = doubled(times(y, INT32_C(3) << 27) - times(half, cube), 3);
  }
  y = times(y, 1518500250);  // the root of one half
  if (right < 0) return static_cast<int32_t>(static_cast<uint32_t>(y) << -right);
  *shift = -right;
  return y;
}

}  // namespace detail

}  // namespace minun

#endif  // MINUN_GEMMLOWP_H
