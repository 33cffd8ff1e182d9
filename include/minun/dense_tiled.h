// SPDX-License-Identifier: Apache-2.0
// Dense layers that decode their inputs a tile at a time: the kernels of minun/dense_fast.h with little scratch. Up to
// sixteen rows are summed together; each such group decodes the inputs anew.
#ifndef MINUN_DENSE_TILED_H
#define MINUN_DENSE_TILED_H

#include "minun/dense_fast.h"

namespace minun {

static const int kTileRows = 16;
static const int kTileInputs = 32;

namespace detail {

template <class Code, class Decoder>
struct DecodedAnew {
  const Code* codes;
  const Decoder* decode;
  MINUN_INLINE int32_t operator()(int column) const { return (*decode)(codes[column]); }
};

template <class B>
MINUN_INLINE WideBias<B> bias_at(const int64_t* values, int unit) {
  const WideBias<B> bias = {values, unit};
  return bias;
}
template <class B>
MINUN_INLINE ShortBias<B> bias_at(const int32_t* values, int unit) {
  const ShortBias<B> bias = {values, unit};
  return bias;
}

// Rows `first` to `first + count` of a layer, exactly, into `codes`.
template <class Out, class X, class W, class Layout, class Bias>
MINUN_NOINLINE void exact_rows(const typename X::Code* x, const typename W::Code* w, const Bias& bias,
                               typename Out::Code* codes, int inputs, int outputs, int first, int count,
                               Clip<Out> clip) {
  for (int n = first; n < first + count; ++n) {
    *codes++ = clip(exact_dot_of_codes<Out, X, W>(x, w + Layout::start(n, inputs, outputs), Layout::step(n, outputs),
                                                  inputs, bias, n));
  }
}

}  // namespace detail

// posit: as dense_short and dense_long, `plan` and `exceptions` too. scratch: kTileRows sums, kTileInputs values. A group
// of rows reads all of the row's inputs before it writes its outputs.
template <class Out, class X, class W, class B, class Method, class Decoder>
MINUN_NOINLINE void dense_tiled(const typename X::Code* x, const typename W::Code* w, const typename Method::Sum* bias,
                                typename Out::Code* y, void* scratch, const typename Method::Entry* table, int rows,
                                int inputs, int outputs, Clip<Out> clip, const SumPlan& plan,
                                const Exceptions& exceptions, Decoder decode) {
  typedef typename Method::Sum Sum;
  typedef detail::DecodedAnew<typename X::Code, Decoder> Values;
  Sum* const sums = static_cast<Sum*>(scratch);
  typename Method::Value* const values = reinterpret_cast<typename Method::Value*>(sums + kTileRows);
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    const Readiness ready = decode.prepare(x, inputs, plan);
    if (ready == kNaR) {
      for (int n = 0; n < outputs; ++n) y[n] = Out::nar();
      continue;
    }
    if (ready == kSlow) MINUN_SLOW_PATH();
    const int unit = plan.weight_unit + plan.fine_bits + decode.unit();
    const Values anew = {x, &decode};
    detail::Additions<Sum, Values> additions = {
        bias, plan.fine_bits, bias != 0 ? plan.bias_unit - unit : 0, anew,
        exceptions.places, exceptions.values, exceptions.places + 2 * exceptions.count};
    for (int n = 0; n < outputs; n += kTileRows) {
      const int count = outputs - n < kTileRows ? outputs - n : kTileRows;
      if (ready == kSlow) {
        typename Out::Code* const codes = static_cast<typename Out::Code*>(scratch);
        detail::exact_rows<Out, X, W, Interleaved<4> >(x, w, detail::bias_at<B>(bias, plan.bias_unit), codes, inputs,
                                                       outputs, n, count, clip);
        for (int i = 0; i < count; ++i) y[n + i] = codes[i];
        continue;
      }
      additions.start(sums, n, count);
      for (int k = 0; k < inputs; k += kTileInputs) {
        const int taken = inputs - k < kTileInputs ? inputs - k : kTileInputs;
        for (int i = 0; i < taken; ++i) values[i] = decode(x[k + i]);
        int i = 0;
        for (; i + 4 <= count; i += 4) {
          const size_t at = static_cast<size_t>(n + i) * static_cast<size_t>(inputs);
          dense_sums<Method>(sums + i, values, w + at + 4 * k, taken, table);
        }
        for (; i < count; ++i) {
          const size_t at = static_cast<size_t>(n + i) * static_cast<size_t>(inputs);
          sums[i] += row_sum<Method>(values, w + at + k, taken, table);
        }
      }
      const int finer = additions.finish(sums, n, count);
      round_sums<Out>(sums, count, unit - finer, clip, y + n);
    }
  }
}

}  // namespace minun

#endif
