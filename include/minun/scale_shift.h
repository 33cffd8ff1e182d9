// SPDX-License-Identifier: Apache-2.0
// x * scale + shift a channel, the last axis: a batch normalisation that nothing could take in.
#ifndef MINUN_SCALE_SHIFT_H
#define MINUN_SCALE_SHIFT_H

#include <stdint.h>

#include "minun/arithmetic.h"
#include "minun/exact_sum.h"
#include "minun/raster.h"

namespace minun {

namespace detail {

template <class Out, class X, class S, class T, bool Floating = IsFloat<X>::kValue>
struct ScaleShift {
  static inline typename Out::Code apply(typename X::Code x, typename S::Code scale, typename T::Code shift) {
    if (X::is_nar(x) || S::is_nar(scale) || T::is_nar(shift)) return Out::nar();
    SumOf<X, S, T> sum;
    sum.clear();
    sum.add(decode<T>(shift));
    add_product<X, S>(sum, decode<X>(x), decode<S>(scale));
    return sum.template round<Out>();
  }
};

template <class Out, class X, class S, class T>
struct ScaleShift<Out, X, S, T, true> {
  static inline typename Out::Code apply(typename X::Code x, typename S::Code scale, typename T::Code shift) {
    return Out::from_float(rounded(rounded(X::to_float(x) * S::to_float(scale)) + T::to_float(shift)));
  }
};

}  // namespace detail

// x, out (rows, channels); scale, shift (channels) in flash. One rounding, then the clamp.
template <class Out, class X, class S, class T, bool kReverse = false>
void scale_shift(const typename X::Code* x, const typename S::Code* scale, const typename T::Code* shift,
                 typename Out::Code* out, int32_t rows, int32_t channels, typename Out::Code low,
                 typename Out::Code high) {
  typedef Raster<kReverse> Turn;
  x += Turn::first(rows * channels);
  out += Turn::first(rows * channels);
  for (; rows > 0; --rows) {
    for (int32_t c = Turn::first(channels); Turn::within(c, channels); c += Turn::kStep) {
      const typename Out::Code code =
          detail::ScaleShift<Out, X, S, T>::apply(*x, flash_load(scale + c), flash_load(shift + c));
      *out = clamp_code<Out>(code, low, high);
      x += Turn::kStep;
      out += Turn::kStep;
    }
  }
}

}  // namespace minun

#endif  // MINUN_SCALE_SHIFT_H
