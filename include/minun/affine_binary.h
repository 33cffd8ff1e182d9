// SPDX-License-Identifier: Apache-2.0
// Operations on two tensors of int8 or int16 codes with scale and zero point, as TensorFlow Lite's
// reference kernels compute them; requantisation.
#ifndef MINUN_AFFINE_BINARY_H
#define MINUN_AFFINE_BINARY_H

#include <stdint.h>

#include "minun/arithmetic.h"
#include "minun/cursor.h"
#include "minun/gemmlowp.h"
#include "minun/quantised.h"
#include "minun/raster.h"

namespace minun {

namespace detail {

// x * factor * 2^(shift - 31) with the two roundings of scale_quantised, shared by all kernels.
inline MINUN_NOINLINE int32_t rescale(int32_t x, int32_t factor, int shift) { return scale_quantised(x, factor, shift); }

template <class Out>
inline typename Out::Code place(int32_t value, typename Out::Code low, typename Out::Code high) {
  return value < low ? low : value > high ? high
                                          : static_cast<typename Out::Code>(value);
}

}  // namespace detail

// walk: see `binary`. Both inputs are shifted left, scaled to a common unit and added; the sum is scaled to the
// output's unit. kSubtract: the second is taken away.
template <class A, class B, class Out, class WhereA, class WhereB, bool kSubtract>
void affine_add(const typename A::Code* a, const typename B::Code* b, typename Out::Code* out, int32_t rank,
                const int32_t* walk, int32_t zero_a, int32_t zero_b, int32_t zero_out, int left_shift,
                int32_t factor_a, int shift_a, int32_t factor_b, int shift_b, int32_t factor_out, int shift_out,
                typename Out::Code low, typename Out::Code high) {
  const int32_t unit = static_cast<int32_t>(1) << left_shift;
  Cursor<2> at(walk, rank, rank);
  do {
    const int32_t left = detail::rescale((WhereA::load(a + at.offset[0]) - zero_a) * unit, factor_a, shift_a);
    const int32_t right = detail::rescale((WhereB::load(b + at.offset[1]) - zero_b) * unit, factor_b, shift_b);
    const int32_t sum = kSubtract ? left - right : left + right;
    *out++ = detail::place<Out>(detail::rescale(sum, factor_out, shift_out) + zero_out, low, high);
  } while (at.next());
}

template <class A, class B, class Out, class WhereA, class WhereB>
void affine_multiply(const typename A::Code* a, const typename B::Code* b, typename Out::Code* out, int32_t rank,
                     const int32_t* walk, int32_t zero_a, int32_t zero_b, int32_t zero_out, int32_t factor, int shift,
                     typename Out::Code low, typename Out::Code high) {
  Cursor<2> at(walk, rank, rank);
  do {
    const int32_t product = (WhereA::load(a + at.offset[0]) - zero_a) * (WhereB::load(b + at.offset[1]) - zero_b);
    *out++ = detail::place<Out>(detail::rescale(product, factor, shift) + zero_out, low, high);
  } while (at.next());
}

// By zero: the outermost code of a's sign, 0 / 0 is 0.
template <class A, class B, class Out, class WhereA, class WhereB>
void affine_divide(const typename A::Code* a, const typename B::Code* b, typename Out::Code* out, int32_t rank,
                   const int32_t* walk, int32_t zero_a, int32_t zero_b, int32_t zero_out, int32_t factor, int shift,
                   typename Out::Code low, typename Out::Code high) {
  Cursor<2> at(walk, rank, rank);
  do {
    int32_t above = WhereA::load(a + at.offset[0]) - zero_a;
    int32_t below = WhereB::load(b + at.offset[1]) - zero_b;
    if (below < 0) {
      below = -below;
      above = -above;
    }
    int32_t quotient = 0;
    if (below == 0) {
      quotient = above < 0 ? -(INT32_C(1) << 20) : above > 0 ? INT32_C(1) << 20
                                                             : 0;
    } else if (above != 0) {
      const int zeros = leading_zeros(static_cast<uint32_t>(below));
      const int32_t inverse = detail::reciprocal_of_one_plus(
          static_cast<int32_t>((static_cast<uint32_t>(below) << zeros) - (UINT32_C(1) << 31)));
      const uint32_t bits = static_cast<uint32_t>(above < 0 ? ~above : above);
      const int room = leading_zeros((bits << 1) | 1u);  // sign bits less one
      const int32_t wide = static_cast<int32_t>(static_cast<uint32_t>(above) << room);
      const int right = 31 - zeros + room - shift;
      if (right < 32) quotient = detail::halved(detail::times(detail::times(wide, inverse), factor), right);
    }
    *out++ = detail::place<Out>(quotient + zero_out, low, high);
  } while (at.next());
}

// (a - b)^2 of int8. Inputs, shifted left by 7, are scaled to a common unit.
template <class A, class B, class Out, class WhereA, class WhereB>
void affine_squared_difference(const typename A::Code* a, const typename B::Code* b, typename Out::Code* out,
                               int32_t rank, const int32_t* walk, int32_t zero_a, int32_t zero_b, int32_t zero_out,
                               int32_t factor_a, int shift_a, int32_t factor_b, int shift_b, int32_t factor_out,
                               int shift_out, typename Out::Code low, typename Out::Code high) {
  Cursor<2> at(walk, rank, rank);
  do {
    const int32_t left = detail::rescale((WhereA::load(a + at.offset[0]) - zero_a) * INT32_C(128), factor_a, shift_a);
    const int32_t right = detail::rescale((WhereB::load(b + at.offset[1]) - zero_b) * INT32_C(128), factor_b, shift_b);
    const int32_t gap = left - right;
    *out++ = detail::place<Out>(detail::rescale(gap * gap, factor_out, shift_out) + zero_out, low, high);
  } while (at.next());
}

// a, times b where it is negative: int8.
template <class A, class B, class Out, class WhereA, class WhereB>
void affine_prelu(const typename A::Code* a, const typename B::Code* b, typename Out::Code* out, int32_t rank,
                  const int32_t* walk, int32_t zero_a, int32_t zero_b, int32_t zero_out, int32_t factor_up,
                  int shift_up, int32_t factor_down, int shift_down, typename Out::Code low, typename Out::Code high) {
  Cursor<2> at(walk, rank, rank);
  do {
    const int32_t value = WhereA::load(a + at.offset[0]) - zero_a;
    const int32_t slope = WhereB::load(b + at.offset[1]) - zero_b;
    const int32_t scaled = value < 0 ? detail::rescale(value * slope, factor_down, shift_down)
                                     : detail::rescale(value, factor_up, shift_up);
    *out++ = detail::place<Out>(scaled + zero_out, low, high);
  } while (at.next());
}

// QUANTIZE from one affine format to another.
template <class In, class Out, class Where, bool kReverse = false>
void affine_rescale(const typename In::Code* in, typename Out::Code* out, int32_t count, int32_t zero_in,
                    int32_t zero_out, int32_t factor, int shift) {
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    const int32_t value = detail::rescale(Where::load(in + i) - zero_in, factor, shift) + zero_out;
    out[i] = detail::place<Out>(value, Out::kMinCode, Out::kMaxCode);
  }
}

}  // namespace minun

#endif  // MINUN_AFFINE_BINARY_H
