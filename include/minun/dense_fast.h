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

// Calls finish(sums, row, how many) for up to four rows at a time; the sums begin with the bias, if there is one.
template <class Method, class Finish>
MINUN_INLINE void rows_of_four(const typename Method::Value* values, const typename Method::Weight* w,
                               const typename Method::Sum* bias, const typename Method::Entry* table, int inputs,
                               int outputs, const Finish& finish) {
  typename Method::Sum sums[4];
  int n = 0;
  for (; n + 4 <= outputs; n += 4, w += 4 * inputs) {
    if (bias != 0) {
      for (int r = 0; r < 4; ++r) sums[r] = flash_load(bias + n + r);
    } else {
      for (int r = 0; r < 4; ++r) sums[r] = 0;
    }
    dense_sums<Method>(sums, values, w, inputs, table);
    finish(sums, n, 4);
  }
  for (; n < outputs; ++n, w += inputs) {
    sums[0] = row_sum<Method>(values, w, inputs, table);
    if (bias != 0) sums[0] += flash_load(bias + n);
    finish(sums, n, 1);
  }
}

// value << bits, 0 to 31: a few instructions, where the general shift of 64 bits takes many.
MINUN_INLINE uint64_t shifted(int64_t value, int bits) {
  const uint32_t low = static_cast<uint32_t>(value);
  const uint32_t high = static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32);
  const uint32_t carried = (low >> 1) >> (31 - bits);
  return (static_cast<uint64_t>((high << bits) | carried) << 32) | (low << bits);
}

MINUN_INLINE uint32_t shifted(int32_t value, int bits) { return static_cast<uint32_t>(value) << bits; }

struct Decoded32 {
  const int32_t* values;
  MINUN_INLINE int32_t operator()(int column) const { return values[column]; }
};

// What is added to a row's sum of products: the bias, and the weights that are exceptions. Sums have the inner loop's
// unit, and only where an exception or a finer bias needs it the unit of the exceptions, 2^fine_bits finer.
// `Values` gives the input of a column.
template <class Sum, class Values>
struct Additions {
  const Sum* bias;
  int fine_bits;
  int bias_shift;  // bias << bias_shift counts the inner loop's unit; negative: it needs the finer one. 0 without bias
  Values values;
  const uint16_t* place;  // the next exception, up to `end`
  const int32_t* exception;
  const uint16_t* end;

  // What the sums of rows n, n + 1, ... begin with.
  MINUN_INLINE void start(Sum* sums, int n, int count) const {
    if (bias == 0) {
      for (int i = 0; i < count; ++i) sums[i] = 0;
      return;
    }
    for (int i = 0; i < count; ++i) sums[i] = flash_load(bias + n + i);
    if (bias_shift != 0) move(sums, count);
  }

  // The sums of rows n, n + 1, ... are complete after this, in a unit that is 2^(what is returned) finer.
  MINUN_INLINE int finish(Sum* sums, int n, int count) {
    const bool odd = place != end && static_cast<int>(flash_load(place)) < n + count;
    if (!odd && bias_shift >= 0) return 0;
    refine(sums, n, count);
    return fine_bits;
  }

  MINUN_INLINE Sum fine_bias(int n) const {
    if (bias_shift >= 0) return 0;
    return static_cast<Sum>(static_cast<uint64_t>(flash_load(bias + n)) << (bias_shift + fine_bits));
  }

 private:
  MINUN_NOINLINE void move(Sum* sums, int count) const {
    for (int i = 0; i < count; ++i) {
      sums[i] = bias_shift < 0 ? 0 : static_cast<Sum>(static_cast<uint64_t>(sums[i]) << bias_shift);
    }
  }
  MINUN_NOINLINE void refine(Sum* sums, int n, int count) {
    if (fine_bits != 0) {
      for (int i = 0; i < count; ++i) {
        sums[i] = static_cast<Sum>(shifted(sums[i], fine_bits) + static_cast<uint64_t>(fine_bias(n + i)));
      }
    }
    const uint16_t* at = place;
    const int32_t* weight = exception;
    int row;
    while (at != end && (row = static_cast<int>(flash_load(at)) - n) < count) {
      sums[row] += static_cast<Sum>(values(static_cast<int>(flash_load(at + 1)))) * flash_load(weight);
      at += 2;
      ++weight;
    }
    place = at;
    exception = weight;
  }
};

}  // namespace detail

// 32-bit sums: posit<8,0>. Values are decoded into scratch, inputs * sizeof(Value) bytes. `bias`: one int32 an output in
// flash, counting 2^Unit as the products do; or null.
template <class Out, class X, class Method, class Decoder, int Unit>
MINUN_NOINLINE void dense_short(const typename X::Code* x, const typename Method::Weight* w, const int32_t* bias,
                                typename Out::Code* y, void* scratch, const typename Method::Entry* table, int rows,
                                int inputs, int outputs, Clip<Out> clip) {
  typename Method::Value* const values = static_cast<typename Method::Value*>(scratch);
  const SumPlan none = {0, 0, 0, 0, 0, 0};
  struct Finish {
    typename Out::Code* y;
    Clip<Out> clip;
    MINUN_INLINE void operator()(const int32_t* sums, int n, int count) const {
      for (int r = 0; r < count; ++r) y[n + r] = clip(RoundSum<Out>::of(sums[r], Unit));
    }
  };
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    Decoder decode;
    if (decode.fill(x, inputs, none, values) == kNaR) {
      for (int n = 0; n < outputs; ++n) y[n] = Out::nar();
      continue;
    }
    const Finish finish = {y, clip};
    detail::rows_of_four<Method>(values, w, bias, table, inputs, outputs, finish);
  }
}

// Fixed-point: codes are values, products count 2^Unit, sums are int32_t or int64_t as the Method says.
template <class Out, class Method, int Unit>
MINUN_NOINLINE void dense_fixed(const typename Method::Value* x, const typename Method::Weight* w,
                                const typename Method::Sum* bias, typename Out::Code* y, int rows, int inputs,
                                int outputs, Clip<Out> clip) {
  struct Finish {
    typename Out::Code* y;
    Clip<Out> clip;
    MINUN_INLINE void operator()(const typename Method::Sum* sums, int n, int count) const {
      for (int r = 0; r < count; ++r) y[n + r] = RoundFixed<Out, Unit>::of(sums[r], clip);
    }
  };
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    const Finish finish = {y, clip};
    detail::rows_of_four<Method>(x, w, bias, static_cast<const int8_t*>(0), inputs, outputs, finish);
  }
}

// TensorFlow Lite's int8.
template <class Out, class Method, bool kSmall>
MINUN_NOINLINE void dense_quantised8(const int8_t* x, const int8_t* w, const int32_t* bias, typename Out::Code* y,
                                     int rows, int inputs, int outputs, const RequantiseDense<Out, kSmall>& requantise) {
  struct Finish {
    typename Out::Code* y;
    const RequantiseDense<Out, kSmall>* requantise;
    MINUN_INLINE void operator()(const int32_t* sums, int n, int count) const {
      for (int r = 0; r < count; ++r) y[n + r] = (*requantise)(sums[r], n + r);
    }
  };
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    const Finish finish = {y, &requantise};
    detail::rows_of_four<Method>(x, w, bias, static_cast<const int8_t*>(0), inputs, outputs, finish);
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
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    if (decode.fill(x, inputs, plan, values) != kFast) {
      MINUN_SLOW_PATH();
      const WideBias<B> added = {bias, plan.bias_unit};
      dense_row<Out, X, W, Interleaved<4> >(x, w, added, y, scratch, inputs, outputs, clip);
      continue;
    }
    const int unit = plan.weight_unit + plan.fine_bits + decode.unit();
    const detail::Decoded32 decoded = {values};
    detail::Additions<int64_t, detail::Decoded32> additions = {
        bias, plan.fine_bits, bias != 0 ? plan.bias_unit - unit : 0, decoded,
        exceptions.places, exceptions.values, exceptions.places + 2 * exceptions.count};
    const typename W::Code* weights = w;
    int n = 0;
    for (; n + 4 <= outputs; n += 4, weights += 4 * inputs) {
      int64_t sums[4];
      additions.start(sums, n, 4);
      dense_sums<Method>(sums, values, weights, inputs, table);
      const int finer = additions.finish(sums, n, 4);
      round_sums<Out>(sums, 4, unit - finer, clip, y + n);
    }
    for (; n < outputs; ++n, weights += inputs) {
      int64_t sum;
      additions.start(&sum, n, 1);
      sum += row_sum<Method>(values, weights, inputs, table);
      const int finer = additions.finish(&sum, n, 1);
      round_sums<Out>(&sum, 1, unit - finer, clip, y + n);
    }
  }
}

}  // namespace minun

#endif
