// SPDX-License-Identifier: Apache-2.0
// Bonsai's rows in plain integers, for weights that the code generator has made integers of one unit a matrix.
// minun_pio/ops/bonsai_kernels.py proves that no sum overflows while |code| <= limit.
#ifndef MINUN_BONSAI_TREE_FAST_H
#define MINUN_BONSAI_TREE_FAST_H

#include <stdint.h>

#include "minun/bonsai_tree.h"
#include "minun/real.h"
#include "minun/squared_distance_fast.h"

namespace minun {

// Integers in flash, times 2^Unit; their values are of format F.
template <class F, class IntegerType, int UnitExponent>
struct WholeWeights {
  typedef F Format;
  typedef IntegerType Integer;
  static const int kUnit = UnitExponent;
  const Integer* rows;
};

namespace detail {

#if defined(MINUN_ASM_AVR)
// A sum of products of 32 bits, in two words.
struct ProductSum {
  uint32_t low, high;

  MINUN_INLINE void clear() { low = high = 0; }
  MINUN_INLINE void add(int32_t a, int32_t b) {
    uint32_t below;
    const uint32_t above = real::wide_product(a < 0 ? 0u - static_cast<uint32_t>(a) : static_cast<uint32_t>(a),
                                              b < 0 ? 0u - static_cast<uint32_t>(b) : static_cast<uint32_t>(b), &below);
    if ((a < 0) == (b < 0)) {
      low += below;
      high += above;
      if (low < below) ++high;
    } else {
      if (low < below) --high;
      low -= below;
      high -= above;
    }
  }
  MINUN_INLINE int64_t whole() const {
    union {
      uint32_t words[2];
      int64_t whole;
    } sum = {{low, high}};
    return sum.whole;
  }
};
#else
struct ProductSum {
  int64_t sum;

  MINUN_INLINE void clear() { sum = 0; }
  MINUN_INLINE void add(int32_t a, int32_t b) { sum += static_cast<int64_t>(a) * b; }
  MINUN_INLINE int64_t whole() const { return sum; }
};
#endif

// Products of z, in whole units of 2^Unit, with rows of weights.
template <int Unit>
struct WholeProducts {
  const int32_t* values;
  int32_t length;

  template <class Out, class W>
  MINUN_NOINLINE typename Out::Code row(const W& weights, int32_t index) const {
    return encode64<Out>(sum(weights.rows + index * length), Unit + W::kUnit);
  }
  template <class W>
  bool positive(const W& weights, int32_t index) const {
    return sum(weights.rows + index * length) > 0;
  }

 private:
  template <class Integer>
  MINUN_NOINLINE int64_t sum(const Integer* weights) const {
    ProductSum total;
    total.clear();
    const int32_t* value = values;
    for (int32_t k = length; k > 0; --k) total.add(*value++, flash_load(weights++));
    return total.whole();
  }
};

// The same for any z, exactly.
template <class Z>
struct ExactProducts {
  const typename Z::Code* z;
  int32_t length;

  template <class Out, class W>
  MINUN_NOINLINE typename Out::Code row(const W& weights, int32_t index) const {
    SumOf<Z, typename W::Format, typename W::Format> total;
    return sum(total, weights, index) ? total.template round<Out>() : Out::nar();
  }
  template <class W>
  bool positive(const W& weights, int32_t index) const {
    SumOf<Z, typename W::Format, typename W::Format> total;
    return sum(total, weights, index) && total.template round<Posit<8, 0> >() > 0;
  }

 private:
  // False where a NaR is among z.
  template <class Sum, class W>
  MINUN_NOINLINE bool sum(Sum& total, const W& weights, int32_t index) const {
    const typename W::Integer* integers = weights.rows + index * length;
    total.clear();
    for (int32_t k = 0; k < length; ++k) {
      if (Z::is_nar(z[k])) return false;
      const Decoded weight = {flash_load(integers + k), W::kUnit};
      total.add_wide_product(decode<Z>(z[k]), weight);
    }
    return true;
  }
};

template <class Out, class Products, class W, class V, class T, class Gate>
void walk_tree(const Products& products, const W& w, const V& v, const T& t, typename Out::Code* out, int32_t depth,
               int32_t classes, bool scaled, typename Out::Code sigma, const Gate& gate) {
  int32_t path[16];
  path[0] = 0;
  for (int32_t i = 0; i < depth; ++i) path[i + 1] = 2 * path[i] + (products.positive(t, path[i]) ? 1 : 2);
  for (int32_t c = 0; c < classes; ++c) {
    TreeScore<Out> score;
    for (int32_t i = 0; i <= depth; ++i) {
      const int32_t row = path[i] * classes + c;
      typename Out::Code inner = products.template row<Out>(v, row);
      if (scaled) inner = Arithmetic<Out, Out, Out>::multiply(inner, sigma);
      score.add(products.template row<Out>(w, row), gate(inner));
    }
    out[c] = score.result();
  }
}

}  // namespace detail

// As bonsai_tree; W, V, T are WholeWeights. scratch: 4 * length bytes. Codes z beyond `limit` or finer than 2^Unit take the
// exact sums.
template <class Out, class Z, int Unit, class W, class V, class T, class Gate>
void bonsai_tree_fast(const typename Z::Code* z, const W& w, const V& v, const T& t, typename Out::Code* out,
                      void* scratch, int32_t depth, int32_t classes, int32_t length, bool scaled,
                      typename Out::Code sigma, const Gate& gate, typename Z::Code limit) {
  int32_t* const values = static_cast<int32_t*>(scratch);
  if (detail::whole_units<Z, Unit>(z, values, static_cast<int>(length), limit)) {
    const detail::WholeProducts<Unit> products = {values, length};
    detail::walk_tree<Out>(products, w, v, t, out, depth, classes, scaled, sigma, gate);
  } else {
    MINUN_SLOW_PATH();
    const detail::ExactProducts<Z> products = {z, length};
    detail::walk_tree<Out>(products, w, v, t, out, depth, classes, scaled, sigma, gate);
  }
}

}  // namespace minun

#endif  // MINUN_BONSAI_TREE_FAST_H
