// SPDX-License-Identifier: Apache-2.0
// Squared Euclidean distances from one vector to the rows of a matrix (ProtoNN).
#ifndef MINUN_SQUARED_DISTANCE_H
#define MINUN_SQUARED_DISTANCE_H

#include <stdint.h>

#include "minun/arithmetic.h"
#include "minun/exact_sum.h"

namespace minun {

namespace detail {

// Posit and fixed-point: the exact difference squared where it fits 31 bits, else x^2 - 2xb + b^2.
template <class Out, class X, class B, bool Floating = IsFloat<X>::kValue>
struct Distance {
  static const int kMin = smaller(X::kMinExponent, B::kMinExponent);
  static const int kMax = larger(X::kMaxExponent, B::kMaxExponent);
  static const int kRoom = 30 - larger(X::kMantissaBits, B::kMantissaBits);  // bits by which a mantissa may grow
  ExactSum<2 * kMin, 2 * kMax + 2> sum;
  bool nar;

  inline void clear() {
    sum.clear();
    nar = false;
  }
  inline void add(typename X::Code x, typename B::Code b) {
    nar = nar || X::is_nar(x) || B::is_nar(b);
    const Decoded dx = decode<X>(x);
    const Decoded db = decode<B>(b);
    const int apart = dx.exponent - db.exponent;
    if (apart >= -kRoom && apart <= kRoom) {
      const int32_t gap = apart >= 0 ? dx.mantissa * (INT32_C(1) << apart) - db.mantissa
                                     : dx.mantissa - db.mantissa * (INT32_C(1) << -apart);
      sum.add_int64(static_cast<int64_t>(gap) * gap, 2 * (apart >= 0 ? db.exponent : dx.exponent));
      return;
    }
    Decoded twice = dx;
    ++twice.exponent;
    sum.add_wide_product(dx, dx);
    sum.add_wide_product(db, db);
    sum.add_int64(-(static_cast<int64_t>(twice.mantissa) * db.mantissa), twice.exponent + db.exponent);
  }
  inline typename Out::Code result() { return nar ? Out::nar() : sum.template round<Out>(); }
};

template <class Out, class X, class B>
struct Distance<Out, X, B, true> {
  float sum;

  inline void clear() { sum = 0.0f; }
  inline void add(typename X::Code x, typename B::Code b) {
    const float apart = rounded(X::to_float(x) - B::to_float(b));
    sum = rounded(sum + rounded(apart * apart));
  }
  inline typename Out::Code result() { return Out::from_float(sum); }
};

}  // namespace detail

// x (length); b (rows, length) in flash; out (rows): sum of (x - b)^2, rounded once.
template <class Out, class X, class B>
void squared_distance(const typename X::Code* x, const typename B::Code* b, typename Out::Code* out, int32_t rows,
                      int32_t length) {
  detail::Distance<Out, X, B> distance;
  for (; rows > 0; --rows) {
    distance.clear();
    for (int32_t i = 0; i < length; ++i) distance.add(x[i], flash_load(b++));
    *out++ = distance.result();
  }
}

}  // namespace minun

#endif  // MINUN_SQUARED_DISTANCE_H
