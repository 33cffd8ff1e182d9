// SPDX-License-Identifier: Apache-2.0
// Addition, subtraction and multiplication of int8 or int16 codes with scale and zero point, as TensorFlow Lite's
// reference kernels compute them.
#ifndef MINUN_AFFINE_BINARY_H
#define MINUN_AFFINE_BINARY_H

#include <stdint.h>

#include "minun/arithmetic.h"
#include "minun/cursor.h"
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

// MEAN and SUM: the sum of codes less zero points, scaled. kept and reduced: see `reduce_sum`; `count` elements go
// into each output.
template <class In, class Out, class Where>
void affine_reduce(const typename In::Code* in, typename Out::Code* out, int32_t kept_rank, const int32_t* kept,
                   int32_t reduced_rank, const int32_t* reduced, int32_t count, int32_t zero_in, int32_t zero_out,
                   int32_t factor, int shift) {
  Cursor<1> to(kept, kept_rank, kept_rank);
  do {
    const typename In::Code* from = in + to.offset[0];
    Cursor<1> over(reduced, reduced_rank, reduced_rank);
    int32_t sum = -zero_in * count;
    do {
      sum += Where::load(from + over.offset[0]);
    } while (over.next());
    *out++ = detail::place<Out>(detail::rescale(sum, factor, shift) + zero_out, Out::kMinCode, Out::kMaxCode);
  } while (to.next());
}

}  // namespace minun

#endif  // MINUN_AFFINE_BINARY_H
