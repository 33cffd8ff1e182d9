// SPDX-License-Identifier: Apache-2.0
// y[row, n] = round(bias[n] + sum over k of w[n, k] * x[row, k]).
#ifndef MINUN_DENSE_H
#define MINUN_DENSE_H

#include "minun/linear.h"

namespace minun {

// One row, right for any weights and inputs.
template <class Out, class X, class W, class Layout, class Bias>
MINUN_NOINLINE void dense_row(const typename X::Code* x, const typename W::Code* w, const Bias& bias,
                              typename Out::Code* y, void* scratch, int inputs, int outputs, Clip<Out> clip) {
  Unpacked<X>* const values = static_cast<Unpacked<X>*>(scratch);
  const bool finite = unpack<X>(x, inputs, values);
  for (int n = 0; n < outputs; ++n) {
    *y++ = !finite ? Out::nar()
                   : clip(exact_dot<Out, X, W>(values, w + Layout::start(n, inputs, outputs),
                                               Layout::step(n, outputs), inputs, bias, n));
  }
}

// Any posit or fixed-point formats of one family. `w`: outputs x inputs codes in flash, in `Layout`'s order; `bias`:
// `outputs` codes in flash or null; `scratch`: inputs * sizeof(Unpacked<X>) bytes, aligned for it. A row of x is read
// whole before the first output of that row is written, so one row may be overwritten by its output.
template <class Out, class X, class W, class B, class Layout>
MINUN_NOINLINE void dense(const typename X::Code* x, const typename W::Code* w, const typename B::Code* bias,
                          typename Out::Code* y, void* scratch, int rows, int inputs, int outputs, Clip<Out> clip) {
  const CodeBias<B> added = {bias};
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    dense_row<Out, X, W, Layout>(x, w, added, y, scratch, inputs, outputs, clip);
  }
}

// float32 and its 16-bit storage formats: float32 arithmetic, summed in order from the bias.
template <class Out, class X, class W, class B>
MINUN_NOINLINE void dense_float(const typename X::Code* x, const typename W::Code* w, const typename B::Code* bias,
                                typename Out::Code* y, int rows, int inputs, int outputs, float low, float high) {
  for (int row = 0; row < rows; ++row, x += inputs) {
    const typename W::Code* weight = w;
    for (int n = 0; n < outputs; ++n) {
      float sum = bias ? B::to_float(flash_load(bias + n)) : 0.0f;
      for (int k = 0; k < inputs; ++k) {
        sum = multiply_add(sum, X::to_float(x[k]), W::to_float(flash_load(weight++)));
      }
      *y++ = Out::from_float(sum < low ? low : sum > high ? high
                                                          : sum);
    }
  }
}

}  // namespace minun

#endif
