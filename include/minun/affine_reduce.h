// SPDX-License-Identifier: Apache-2.0
// MEAN and SUM of int8 or int16 codes with scale and zero point, as TensorFlow Lite's kernels compute them: SUM in
// float32.
#ifndef MINUN_AFFINE_REDUCE_H
#define MINUN_AFFINE_REDUCE_H

#include <stdint.h>

#include "minun/cursor.h"
#include "minun/quantised.h"

namespace minun {

namespace detail {

// Sums of codes, `finish`ed. kept and reduced: see `reduce_sum`.
template <class In, class Out, class Where, class Finish>
inline void affine_sums(const typename In::Code* in, typename Out::Code* out, int32_t kept_rank, const int32_t* kept,
                        int32_t reduced_rank, const int32_t* reduced, int32_t zero_out, const Finish& finish) {
  Cursor<1> to(kept, kept_rank, kept_rank);
  do {
    const typename In::Code* from = in + to.offset[0];
    Cursor<1> over(reduced, reduced_rank, reduced_rank);
    int32_t sum = 0;
    do {
      sum += Where::load(from + over.offset[0]);
    } while (over.next());
    const int32_t code = finish(sum) + zero_out;
    *out++ = static_cast<typename Out::Code>(code < Out::kMinCode ? Out::kMinCode : code > Out::kMaxCode ? Out::kMaxCode
                                                                                                         : code);
  } while (to.next());
}

}  // namespace detail

// zero_in: the input's zero point times minus the count of what goes into an output; the count is in `factor`.
template <class In, class Out, class Where>
void affine_mean(const typename In::Code* in, typename Out::Code* out, int32_t kept_rank, const int32_t* kept,
                 int32_t reduced_rank, const int32_t* reduced, int32_t zero_in, int32_t zero_out, int32_t factor,
                 int shift) {
  struct Finish {
    int32_t zero, factor;
    int shift;
    MINUN_INLINE int32_t operator()(int32_t sum) const { return scale_quantised(sum + zero, factor, shift); }
  };
  const Finish finish = {zero_in, factor, shift};
  detail::affine_sums<In, Out, Where>(in, out, kept_rank, kept, reduced_rank, reduced, zero_out, finish);
}

namespace detail {

// A float32 without float: mantissa * 2^exponent, |mantissa| <= 2^24.
struct Single {
  int32_t mantissa;
  int16_t exponent;
};

// value * 2^exponent to 24 bits, ties to even.
inline MINUN_NOINLINE Single nearest_single(int64_t value, int exponent) {
  const bool negative = value < 0;
  const uint64_t magnitude = negative ? 0u - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const uint32_t top = upper_word(magnitude);
  const int bits = top != 0 ? 64 - leading_zeros(top) : magnitude != 0 ? 32 - leading_zeros(static_cast<uint32_t>(magnitude))
                                                                       : 0;
  const int drop = bits > 24 ? bits - 24 : 0;
  uint32_t kept = static_cast<uint32_t>(magnitude >> drop);
  const uint64_t rest = magnitude - (static_cast<uint64_t>(kept) << drop);
  const uint64_t half = drop != 0 ? UINT64_C(1) << (drop - 1) : 1u;
  if (rest > half || (rest == half && (kept & 1u) != 0)) ++kept;
  const int32_t mantissa = static_cast<int32_t>(kept);
  const Single out = {negative ? -mantissa : mantissa, static_cast<int16_t>(exponent + drop)};
  return out;
}

inline Single single_product(Single a, Single b) {
  return nearest_single(static_cast<int64_t>(a.mantissa) * b.mantissa, a.exponent + b.exponent);
}

// Of numbers that have 24 bits, or are zero.
inline Single single_sum(Single a, Single b) {
  if (a.mantissa == 0 || (b.mantissa != 0 && a.exponent < b.exponent)) {
    const Single first = a;
    a = b;
    b = first;
  }
  const int apart = a.exponent - b.exponent;
  if (b.mantissa == 0 || apart > 38) return a;
  return nearest_single(a.mantissa * (INT64_C(1) << apart) + b.mantissa, b.exponent);
}

// The nearest integer, halves away from zero, cut at 2^20.
inline int32_t whole_of(Single x) {
  const uint32_t magnitude = static_cast<uint32_t>(x.mantissa < 0 ? -x.mantissa : x.mantissa);
  int32_t whole = INT32_C(1) << 20;
  if (x.exponent < -25) {
    whole = 0;
  } else if (x.exponent < 0) {
    const uint32_t halves = magnitude >> (-1 - x.exponent);
    whole = static_cast<int32_t>((halves >> 1) + (halves & 1u));
  } else if (magnitude >> (20 - (x.exponent < 20 ? x.exponent : 20)) == 0) {
    whole = static_cast<int32_t>(magnitude << x.exponent);
  }
  if (whole > INT32_C(1) << 20) whole = INT32_C(1) << 20;
  return x.mantissa < 0 ? -whole : whole;
}

}  // namespace detail

// In float32, as there: sum * scale + shift, half away from zero.
template <class In, class Out, class Where>
void affine_sum(const typename In::Code* in, typename Out::Code* out, int32_t kept_rank, const int32_t* kept,
                int32_t reduced_rank, const int32_t* reduced, int32_t zero_out, detail::Single scale,
                detail::Single shift) {
  struct Finish {
    detail::Single scale, shift;
    MINUN_INLINE int32_t operator()(int32_t sum) const {
      return detail::whole_of(
          detail::single_sum(detail::single_product(detail::nearest_single(sum, 0), scale), shift));
    }
  };
  const Finish finish = {scale, shift};
  detail::affine_sums<In, Out, Where>(in, out, kept_rank, kept, reduced_rank, reduced, zero_out, finish);
}

}  // namespace minun

#endif  // MINUN_AFFINE_REDUCE_H
