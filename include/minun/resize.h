// SPDX-License-Identifier: Apache-2.0
// Resize: nearest neighbour by index, and linear between the neighbours along one or two axes.
#ifndef MINUN_RESIZE_H
#define MINUN_RESIZE_H

#include <stdint.h>

#include "minun/arithmetic.h"
#include "minun/exact_sum.h"
#include "minun/memory.h"
#include "minun/raster.h"

namespace minun {

// table, in flash: `rank` input extents, `rank` output extents, then for every axis the input index of each output
// index; the last axis has none where it keeps its extent (`whole_rows`). rank <= 8.
template <class T, bool kReverse = false>
void resize_nearest(const T* in, T* out, int32_t rank, const int32_t* table, bool whole_rows) {
  typedef Raster<kReverse> Turn;
  int32_t position[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  const int32_t in_row = flash_load(table + rank - 1);
  const int32_t out_row = flash_load(table + 2 * rank - 1);
  int32_t axis;
  if (kReverse) {
    int32_t rows = 1;
    for (axis = 0; axis < rank - 1; ++axis) {
      const int32_t extent = flash_load(table + rank + axis);
      position[axis] = extent - 1;
      rows *= extent;
    }
    out += (rows - 1) * out_row;
  }
  do {
    const int32_t* picks = table + 2 * rank;
    int32_t base = 0;
    for (axis = 0; axis < rank - 1; ++axis) {
      base = base * flash_load(table + axis) + flash_load(picks + position[axis]);
      picks += flash_load(table + rank + axis);
    }
    const T* from = in + base * in_row;
    if (whole_rows) {
      copy_run<T, InRam>(from, out, out_row);
    } else {
      for (int32_t i = Turn::first(out_row); Turn::within(i, out_row); i += Turn::kStep) {
        out[i] = from[flash_load(picks + i)];
      }
    }
    out += Turn::kStep * out_row;
    for (axis = rank - 2; axis >= 0; --axis) {
      const int32_t extent = flash_load(table + rank + axis);
      position[axis] += Turn::kStep;
      if (Turn::within(position[axis], extent)) break;
      position[axis] = Turn::first(extent);
    }
  } while (axis >= 0);
}

namespace detail {

// The value between four neighbours; `down` and `right` weigh the lower and the right ones.
template <class F, bool Floating = IsFloat<F>::kValue>
struct Between {  // posit and fixed-point: weights in 1/32768ths, the exact sum rounded once
  typedef typename F::Code Code;
  static inline Code apply(Code a, Code b, Code c, Code d, int32_t down, int32_t right) {
    if (F::kHasNaR && (F::is_nar(a) || F::is_nar(b) || F::is_nar(c) || F::is_nar(d))) return F::nar();
    const int32_t one = 32768;
    ExactSum<F::kMinExponent - 30, F::kMaxExponent + 2> sum;
    sum.clear();
    term(&sum, a, (one - down) * (one - right));
    term(&sum, b, (one - down) * right);
    term(&sum, c, down * (one - right));
    term(&sum, d, down * right);
    return sum.template round<F>();
  }

 private:
  template <class Sum>
  static inline void term(Sum* sum, Code code, int32_t weight) {
    const Decoded factor = {weight, -30};
    if (weight != 0) sum->add_wide_product(decode<F>(code), factor);
  }
};

template <class F>
struct Between<F, true> {  // float32; the weights are given as bits
  typedef typename F::Code Code;
  static inline Code apply(Code a, Code b, Code c, Code d, int32_t down_bits, int32_t right_bits) {
    const float down = float_of(static_cast<uint32_t>(down_bits));
    const float right = float_of(static_cast<uint32_t>(right_bits));
    const float top = mix(F::to_float(a), F::to_float(b), right);
    const float bottom = mix(F::to_float(c), F::to_float(d), right);
    return F::from_float(mix(top, bottom, down));
  }

 private:
  static inline float mix(float a, float b, float weight) {
    const float rest = rounded(1.0f - weight);
    return rounded(rounded(a * rest) + rounded(b * weight));
  }
};

template <int Bits>
struct Between<Affine<Bits>, false> {  // codes: weights in 1/1024ths, halves away from zero
  typedef typename Affine<Bits>::Code Code;
  static inline Code apply(Code a, Code b, Code c, Code d, int32_t down, int32_t right) {
    const int32_t one = 1024;
    const int64_t sum = static_cast<int64_t>(a) * ((one - down) * (one - right)) +
                        static_cast<int64_t>(b) * ((one - down) * right) +
                        static_cast<int64_t>(c) * (down * (one - right)) + static_cast<int64_t>(d) * (down * right);
    const int64_t half = sum > 0 ? INT64_C(1) << 19 : -(INT64_C(1) << 19);
    return static_cast<Code>((sum + half) / (INT64_C(1) << 20));
  }
};

}  // namespace detail

// in (outer, rows, middle, columns, inner) -> out (outer, out_rows, middle, out_columns, inner). In flash, for every
// output row and column: low neighbour, high neighbour, weight of the high one.
template <class F, bool kReverse = false>
void resize_linear(const typename F::Code* in, typename F::Code* out, int32_t outer, int32_t rows, int32_t middle,
                   int32_t columns, int32_t inner, int32_t out_rows, int32_t out_columns,
                   const int32_t* row_neighbours, const int32_t* column_neighbours) {
  typedef typename F::Code Code;
  typedef Raster<kReverse> Turn;
  const int32_t plane = columns * inner;
  const int32_t block = middle * plane;
  out += Turn::first(outer * out_rows * middle * out_columns * inner);
  in += Turn::first(outer) * rows * block;
  for (; outer > 0; --outer, in += Turn::kStep * rows * block) {
    for (int32_t y = Turn::first(out_rows); Turn::within(y, out_rows); y += Turn::kStep) {
      const Code* low = in + flash_load(row_neighbours + 3 * y) * block + Turn::first(middle) * plane;
      const Code* high = in + flash_load(row_neighbours + 3 * y + 1) * block + Turn::first(middle) * plane;
      const int32_t down = flash_load(row_neighbours + 3 * y + 2);
      for (int32_t m = 0; m < middle; ++m, low += Turn::kStep * plane, high += Turn::kStep * plane) {
        for (int32_t x = Turn::first(out_columns); Turn::within(x, out_columns); x += Turn::kStep) {
          const int32_t left = flash_load(column_neighbours + 3 * x) * inner;
          const int32_t right = flash_load(column_neighbours + 3 * x + 1) * inner;
          const int32_t weight = flash_load(column_neighbours + 3 * x + 2);
          for (int32_t i = Turn::first(inner); Turn::within(i, inner); i += Turn::kStep) {
            *out = detail::Between<F>::apply(low[left + i], low[right + i], high[left + i], high[right + i],
                                             down, weight);
            out += Turn::kStep;
          }
        }
      }
    }
  }
}

}  // namespace minun

#endif  // MINUN_RESIZE_H
