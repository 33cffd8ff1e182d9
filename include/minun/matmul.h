// SPDX-License-Identifier: Apache-2.0
// y = round(a @ b) for batches of matrices, each operand an activation (RAM) or a constant (flash), any strides.
#ifndef MINUN_MATMUL_H
#define MINUN_MATMUL_H

#include "minun/linear.h"
#include "minun/quantised.h"

namespace minun {

// Extents and, in elements, the strides of both operands (0 where an operand is broadcast). y is row-major.
// An AVR's int has 16 bits: it has no RAM for a longer extent, and takes no array of so many constants.
struct MatmulShape {
  int outer, inner, rows, columns, depth;
  int32_t a_outer, a_inner, a_row, a_depth;
  int32_t b_outer, b_inner, b_column, b_depth;
};

template <class Out, class A, class B, class LoadA, class LoadB>
MINUN_NOINLINE void matmul(const typename A::Code* a, const typename B::Code* b, typename Out::Code* y,
                           const MatmulShape& shape) {
  for (int i = 0; i < shape.outer; ++i) {
    for (int j = 0; j < shape.inner; ++j) {
      for (int row = 0; row < shape.rows; ++row) {
        for (int column = 0; column < shape.columns; ++column) {
          const typename A::Code* left = a + i * shape.a_outer + j * shape.a_inner + row * shape.a_row;
          const typename B::Code* right = b + i * shape.b_outer + j * shape.b_inner + column * shape.b_column;
          SumOf<A, B, Out> sum;
          sum.clear();
          bool finite = true;
          for (int k = 0; k < shape.depth; ++k, left += shape.a_depth, right += shape.b_depth) {
            const typename A::Code u = LoadA::load(left);
            const typename B::Code v = LoadB::load(right);
            finite = finite && !A::is_nar(u) && !B::is_nar(v);
            add_product<A, B>(sum, A::decode(u), B::decode(v));
          }
          *y++ = finite ? sum.template round<Out>() : Out::nar();
        }
      }
    }
  }
}

template <class Out, class A, class B, class LoadA, class LoadB>
MINUN_NOINLINE void matmul_float(const typename A::Code* a, const typename B::Code* b, typename Out::Code* y,
                                 const MatmulShape& shape) {
  for (int i = 0; i < shape.outer; ++i) {
    for (int j = 0; j < shape.inner; ++j) {
      for (int row = 0; row < shape.rows; ++row) {
        for (int column = 0; column < shape.columns; ++column) {
          const typename A::Code* left = a + i * shape.a_outer + j * shape.a_inner + row * shape.a_row;
          const typename B::Code* right = b + i * shape.b_outer + j * shape.b_inner + column * shape.b_column;
          float sum = 0.0f;
          for (int k = 0; k < shape.depth; ++k, left += shape.a_depth, right += shape.b_depth) {
            sum = multiply_add(sum, A::to_float(LoadA::load(left)), B::to_float(LoadB::load(right)));
          }
          *y++ = Out::from_float(sum);
        }
      }
    }
  }
}

// int8 (Sum: int32_t) and int16 (int64_t) codes less their zero points, as TensorFlow Lite's BATCH_MATMUL.
template <class Out, class A, class B, class LoadA, class LoadB, class Sum>
MINUN_NOINLINE void matmul_quantised(const typename A::Code* a, const typename B::Code* b, typename Out::Code* y,
                                     const MatmulShape& shape, int32_t zero_a, int32_t zero_b, int32_t zero_out,
                                     int32_t multiplier, int shift) {
  for (int i = 0; i < shape.outer; ++i) {
    for (int j = 0; j < shape.inner; ++j) {
      for (int row = 0; row < shape.rows; ++row) {
        for (int column = 0; column < shape.columns; ++column) {
          const typename A::Code* left = a + i * shape.a_outer + j * shape.a_inner + row * shape.a_row;
          const typename B::Code* right = b + i * shape.b_outer + j * shape.b_inner + column * shape.b_column;
          Sum sum = 0;
          for (int k = 0; k < shape.depth; ++k, left += shape.a_depth, right += shape.b_depth) {
            sum += static_cast<Sum>(LoadA::load(left) - zero_a) * (LoadB::load(right) - zero_b);
          }
          const int32_t code = scale_quantised(sum, multiplier, shift) + zero_out;
          *y++ = static_cast<typename Out::Code>(code < Out::kMinCode ? Out::kMinCode : code > Out::kMaxCode ? Out::kMaxCode
                                                                                                             : code);
        }
      }
    }
  }
}

}  // namespace minun

#endif
