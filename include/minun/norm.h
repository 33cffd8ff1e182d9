// SPDX-License-Identifier: Apache-2.0
// Layer normalisation and L2 normalisation, in 32-bit integer arithmetic (minun/real.h), rounded once.
#ifndef MINUN_NORM_H
#define MINUN_NORM_H

#include <stdint.h>

#include "minun/functions.h"
#include "minun/real.h"

namespace minun {

// x, out (rows, length); scale and bias (length) in flash, or null: 1 and 0. In place if the codes have one size.
// y = (x - mean) / sqrt(variance + epsilon) * scale + bias.
template <class Out, class X, class S, class B>
void layer_norm(const typename X::Code* x, const typename S::Code* scale, const typename B::Code* bias,
                typename Out::Code* out, int32_t rows, int32_t length, Real epsilon) {
  const Real count = real::normalise(static_cast<uint32_t>(length), 31, false);
  for (; rows > 0; --rows, x += length, out += length) {
    Real mean = real::zero();
    for (int32_t i = 0; i < length; ++i) mean = real::add(mean, to_real<X>(x[i]));
    mean = real::divide(mean, count);
    Real spread = real::zero();
    for (int32_t i = 0; i < length; ++i) {
      const Real apart = real::subtract(to_real<X>(x[i]), mean);
      spread = real::add(spread, real::multiply(apart, apart));
    }
    bool inexact;
    const Real root = real::square_root(real::add(real::divide(spread, count), epsilon), &inexact);
    for (int32_t i = 0; i < length; ++i) {
      Real y = real::divide(real::subtract(to_real<X>(x[i]), mean), root);
      if (scale) y = real::multiply(y, to_real<S>(flash_load(scale + i)));
      if (bias) y = real::add(y, to_real<B>(flash_load(bias + i)));
      out[i] = from_real<Out>(y);
    }
  }
}

// x, out (outer, extent, inner): y = x / max(norm along `extent`, epsilon), 0 where the norm is 0.
template <class Out, class X>
void l2_norm(const typename X::Code* x, typename Out::Code* out, int32_t outer, int32_t extent, int32_t inner,
             Real epsilon) {
  for (; outer > 0; --outer, x += extent * inner, out += extent * inner) {
    for (int32_t i = 0; i < inner; ++i) {
      Real sum = real::zero();
      for (int32_t k = 0; k < extent; ++k) {
        const Real value = to_real<X>(x[k * inner + i]);
        sum = real::add(sum, real::multiply(value, value));
      }
      bool inexact;
      Real norm = real::square_root(sum, &inexact);
      if (!real::is_undefined(norm)) {
        const Real above = real::subtract(epsilon, norm);
        if (above.significand != 0 && !above.negative) norm = epsilon;
      }
      for (int32_t k = 0; k < extent; ++k) {
        const bool nothing = norm.significand == 0 && !real::is_undefined(norm);
        const Real y = nothing ? real::zero() : real::divide(to_real<X>(x[k * inner + i]), norm);
        out[k * inner + i] = from_real<Out>(y);
      }
    }
  }
}

}  // namespace minun

#endif  // MINUN_NORM_H
