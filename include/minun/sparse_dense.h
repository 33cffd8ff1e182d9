// SPDX-License-Identifier: Apache-2.0
// A dense layer with few weights that are not zero: y[row, n] = round(bias[n] + sum over the kept k of w[n, k] * x[row, k]).
// In flash: all kept weights row after row, their columns likewise, and how many each row has.
#ifndef MINUN_SPARSE_DENSE_H
#define MINUN_SPARSE_DENSE_H

#include "minun/linear.h"

namespace minun {

// Where sparse_dense has its inputs from: decoded in scratch, inputs * sizeof(Unpacked<X>) bytes, aligned for it; or
// without scratch, decoded for each weight.
template <class X>
struct FromScratch {
  Unpacked<X>* values;
  bool prepare(const typename X::Code* x, int inputs) { return unpack<X>(x, inputs, values); }
  MINUN_INLINE Decoded operator()(int column) const { return values[column].get(); }
};
template <class X>
struct FromCodes {
  const typename X::Code* codes;
  bool prepare(const typename X::Code* x, int inputs) {
    codes = x;
    for (int k = 0; k < inputs; ++k) {
      if (X::is_nar(x[k])) return false;
    }
    return true;
  }
  MINUN_INLINE Decoded operator()(int column) const { return X::decode(codes[column]); }
};

// Column and Count: uint8_t or uint16_t. With FromScratch a row of x may be overwritten by its outputs.
template <class Out, class X, class W, class B, class Column, class Count, class Values>
MINUN_NOINLINE void sparse_dense(const typename X::Code* x, const typename W::Code* w, const Column* columns,
                                 const Count* counts, const typename B::Code* bias, typename Out::Code* y,
                                 Values values, int rows, int inputs, int outputs, Clip<Out> clip) {
  for (int row = 0; row < rows; ++row, x += inputs) {
    const bool finite = values.prepare(x, inputs);
    const typename W::Code* weight = w;
    const Column* column = columns;
    for (int n = 0; n < outputs; ++n) {
      SumOf<X, W, B> sum;
      sum.clear();
      if (bias != 0) sum.add(B::decode(flash_load(bias + n)));
      for (Count left = flash_load(counts + n); left != 0; --left) {
        add_product<X, W>(sum, values(flash_load(column)), W::decode(flash_load(weight)));
        ++weight;
        ++column;
      }
      *y++ = finite ? clip(sum.template round<Out>()) : Out::nar();
    }
  }
}

// float32 and its 16-bit storage formats; terms in the order of the columns. Terms that are left out would add zeros.
template <class Out, class X, class W, class B, class Column, class Count>
MINUN_NOINLINE void sparse_dense_float(const typename X::Code* x, const typename W::Code* w, const Column* columns,
                                       const Count* counts, const typename B::Code* bias, typename Out::Code* y,
                                       int rows, int inputs, int outputs, float low, float high) {
  for (int row = 0; row < rows; ++row, x += inputs) {
    const typename W::Code* weight = w;
    const Column* column = columns;
    for (int n = 0; n < outputs; ++n) {
      float sum = bias != 0 ? B::to_float(flash_load(bias + n)) : 0.0f;
      for (Count left = flash_load(counts + n); left != 0; --left) {
        sum = multiply_add(sum, X::to_float(x[flash_load(column)]), W::to_float(flash_load(weight)));
        ++weight;
        ++column;
      }
      *y++ = Out::from_float(sum < low ? low : sum > high ? high
                                                          : sum);
    }
  }
}

}  // namespace minun

#endif
