// SPDX-License-Identifier: Apache-2.0
// Dense layers in plain integers, for weights that the code generator has proven safe. Weights are Interleaved<4>.
#ifndef MINUN_DENSE_FAST_H
#define MINUN_DENSE_FAST_H

#include "minun/dense.h"
#include "minun/quantised.h"
#include "minun/sums.h"
#include "minun/values.h"

namespace minun {

// Weights that the inner loop's table cannot hold and takes for 0: sorted by row. In flash.
struct Exceptions {
  const uint16_t* places;  // row, column; row, column; ...
  const int32_t* values;   // count 2^weight_unit
  int16_t count;
};

namespace detail {

template <class Method, class Finish>
MINUN_INLINE void rows_of_four(const typename Method::Value* values, const typename Method::Weight* w,
                               const typename Method::Entry* table, int inputs, int outputs, const Finish& finish) {
  int n = 0;
  for (; n + 4 <= outputs; n += 4, w += 4 * inputs) {
    typename Method::Sum sums[4] = {0, 0, 0, 0};
    dense_sums<Method>(sums, values, w, inputs, table);
    for (int r = 0; r < 4; ++r) finish(n + r, sums[r]);
  }
  for (; n < outputs; ++n, w += inputs) finish(n, row_sum<Method>(values, w, inputs, table));
}

}  // namespace detail

// 32-bit sums: posit<8,0> (`values` decoded into scratch, inputs * sizeof(Value) bytes) and fixed-point (codes used in
// place, no scratch). `bias`: one int32 an output in flash, in units of the product; or null.
template <class Out, class X, class Method, class Decoder>
MINUN_NOINLINE void dense_short(const typename X::Code* x, const typename Method::Weight* w, const int32_t* bias,
                                typename Out::Code* y, void* scratch, const typename Method::Entry* table, int rows,
                                int inputs, int outputs, Clip<Out> clip, int unit) {
  typename Method::Value* const values = static_cast<typename Method::Value*>(scratch);
  const SumPlan none = {0, 0, 0, 0, 0, 0};
  struct Finish {
    const int32_t* bias;
    typename Out::Code* y;
    Clip<Out> clip;
    int unit;
    MINUN_INLINE void operator()(int n, int32_t sum) const {
      if (bias != 0) sum += flash_load(bias + n);
      y[n] = clip(RoundSum<Out>::of(sum, unit));
    }
  };
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    Decoder decode;
    if (decode.prepare(x, inputs, none) == kNaR) {
      for (int n = 0; n < outputs; ++n) y[n] = Out::nar();
      continue;
    }
    for (int k = 0; k < inputs; ++k) values[k] = decode(x[k]);
    const Finish finish = {bias, y, clip, unit};
    detail::rows_of_four<Method>(values, w, table, inputs, outputs, finish);
  }
}

// Fixed-point: codes are values. Sum is int32_t or int64_t.
template <class Out, class Method>
MINUN_NOINLINE void dense_fixed(const typename Method::Value* x, const typename Method::Weight* w,
                                const typename Method::Sum* bias, typename Out::Code* y, int rows, int inputs,
                                int outputs, Clip<Out> clip, int unit) {
  struct Finish {
    const typename Method::Sum* bias;
    typename Out::Code* y;
    Clip<Out> clip;
    int unit;
    MINUN_INLINE void operator()(int n, typename Method::Sum sum) const {
      if (bias != 0) sum += flash_load(bias + n);
      y[n] = clip(RoundSum<Out>::of(sum, unit));
    }
  };
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    const Finish finish = {bias, y, clip, unit};
    detail::rows_of_four<Method>(x, w, static_cast<const int8_t*>(0), inputs, outputs, finish);
  }
}

// TensorFlow Lite's int8.
template <class Out>
MINUN_NOINLINE void dense_quantised8(const int8_t* x, const int8_t* w, const int32_t* bias, typename Out::Code* y,
                                     int rows, int inputs, int outputs, const Requantise<Out>& requantise) {
  struct Finish {
    const int32_t* bias;
    typename Out::Code* y;
    const Requantise<Out>* requantise;
    MINUN_INLINE void operator()(int n, int32_t sum) const {
      y[n] = (*requantise)(static_cast<int32_t>(sum + flash_load(bias + n)), n);
    }
  };
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    const Finish finish = {bias, y, &requantise};
    detail::rows_of_four<Plain<int8_t, int8_t, int32_t> >(x, w, static_cast<const int8_t*>(0), inputs, outputs,
                                                          finish);
  }
}

// 64-bit sums: all other posits. scratch: inputs * 4 bytes, aligned. Where a row of inputs does not fit the plan it is
// summed exactly (counted by MINUN_SLOW_PATH). `bias`: int64 an output in flash, or null.
template <class Out, class X, class W, class B, class Method, class Decoder>
MINUN_NOINLINE void dense_long(const typename X::Code* x, const typename W::Code* w, const int64_t* bias,
                               typename Out::Code* y, void* scratch, const typename Method::Entry* table, int rows,
                               int inputs, int outputs, Clip<Out> clip, const SumPlan& plan,
                               const Exceptions& exceptions, Decoder decode) {
  int32_t* const values = static_cast<int32_t*>(scratch);
  struct Finish {
    const int64_t* bias;
    typename Out::Code* y;
    Clip<Out> clip;
    const int32_t* values;
    const uint16_t* place;
    const int32_t* exception;
    const uint16_t* end;
    int fine_bits, bias_shift, unit;

    MINUN_INLINE void operator()(int n, int64_t sum) {
      sum = static_cast<int64_t>(static_cast<uint64_t>(sum) << fine_bits);
      if (bias != 0) sum += static_cast<int64_t>(static_cast<uint64_t>(flash_load(bias + n)) << bias_shift);
      while (place != end && flash_load(place) == static_cast<uint16_t>(n)) {
        sum += static_cast<int64_t>(values[flash_load(place + 1)]) * flash_load(exception);
        place += 2;
        ++exception;
      }
      y[n] = clip(RoundSum<Out>::of(sum, unit));
    }
  };
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    const Readiness ready = decode.prepare(x, inputs, plan);
    if (ready == kFast) {
      for (int k = 0; k < inputs; ++k) values[k] = decode(x[k]);
      Finish finish = {bias,
                       y,
                       clip,
                       values,
                       exceptions.places,
                       exceptions.values,
                       exceptions.places + 2 * exceptions.count,
                       plan.fine_bits,
                       plan.bias_unit - plan.weight_unit - decode.unit(),
                       plan.weight_unit + decode.unit()};
      int n = 0;
      const typename W::Code* weights = w;
      for (; n + 4 <= outputs; n += 4, weights += 4 * inputs) {
        int64_t sums[4] = {0, 0, 0, 0};
        dense_sums<Method>(sums, values, weights, inputs, table);
        for (int r = 0; r < 4; ++r) finish(n + r, sums[r]);
      }
      for (; n < outputs; ++n, weights += inputs) finish(n, row_sum<Method>(values, weights, inputs, table));
    } else {
      MINUN_SLOW_PATH();
      const WideBias<B> added = {bias, plan.bias_unit};
      dense_row<Out, X, W, Interleaved<4> >(x, w, added, y, scratch, inputs, outputs, clip);
    }
  }
}

}  // namespace minun

#endif
