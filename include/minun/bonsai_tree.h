// SPDX-License-Identifier: Apache-2.0
// Bonsai: a shallow tree whose path is chosen by the projected input; only the nodes on the path are evaluated.
#ifndef MINUN_BONSAI_TREE_H
#define MINUN_BONSAI_TREE_H

#include <stdint.h>

#include "minun/arithmetic.h"
#include "minun/exact_sum.h"
#include "minun/functions.h"

namespace minun {

// What is done to V z: tanh by a table over all codes (8 bits), by a curve (9 to 16 bits), computed (wider
// and floats), or a clamp to -1..1.
template <class F>
struct TableGate {
  const typename F::Code* table;  // in flash
  inline typename F::Code operator()(typename F::Code code) const {
    return flash_load(table + (static_cast<uint8_t>(code) & static_cast<uint8_t>((1u << F::kBits) - 1u)));
  }
};
template <class F>
struct CurveGate {
  const uint16_t* cells;  // in flash, as the nodes
  const int16_t* nodes;
  inline typename F::Code operator()(typename F::Code code) const {
    typename F::Code result;
    curve<F, F>(&code, &result, 1, cells, nodes);
    return result;
  }
};
template <class F>
struct TanhGate {
  inline typename F::Code operator()(typename F::Code code) const { return evaluate<Tanh, F, F>(code, Tanh()); }
};
template <class F>
struct ClampGate {
  typename F::Code low, high;
  inline typename F::Code operator()(typename F::Code code) const { return clamp_code<F>(code, low, high); }
};

namespace detail {

// Sums of products over a row in flash, and over the path.
template <class Out, class Z, class W, bool Floating = IsFloat<Z>::kValue>
struct TreeRow {
  SumOf<Z, W, W> sum;
  bool nar;

  TreeRow(const typename Z::Code* z, const typename W::Code* row, int32_t length) : nar(false) {
    sum.clear();
    for (int32_t k = 0; k < length; ++k) {
      const typename W::Code weight = flash_load(row + k);
      nar = nar || Z::is_nar(z[k]) || W::is_nar(weight);
      add_product<Z, W>(sum, decode<Z>(z[k]), decode<W>(weight));
    }
  }
  inline typename Out::Code result() { return nar ? Out::nar() : sum.template round<Out>(); }
  inline bool positive() { return !nar && sum.template round<Posit<8, 0> >() > 0; }
};

template <class Out, class Z, class W>
struct TreeRow<Out, Z, W, true> {
  float sum;

  TreeRow(const typename Z::Code* z, const typename W::Code* row, int32_t length) : sum(0.0f) {
    for (int32_t k = 0; k < length; ++k) {
      sum = rounded(sum + rounded(Z::to_float(z[k]) * W::to_float(flash_load(row + k))));
    }
  }
  inline typename Out::Code result() { return Out::from_float(sum); }
  inline bool positive() { return sum > 0.0f; }
};

template <class Out, bool Floating = IsFloat<Out>::kValue>
struct TreeScore {
  SumOf<Out, Out, Out> sum;
  bool nar;

  TreeScore() : nar(false) { sum.clear(); }
  inline void add(typename Out::Code a, typename Out::Code b) {
    nar = nar || Out::is_nar(a) || Out::is_nar(b);
    add_product<Out, Out>(sum, decode<Out>(a), decode<Out>(b));
  }
  inline typename Out::Code result() { return nar ? Out::nar() : sum.template round<Out>(); }
};

template <class Out>
struct TreeScore<Out, true> {
  float sum;

  TreeScore() : sum(0.0f) {}
  inline void add(typename Out::Code a, typename Out::Code b) {
    sum = rounded(sum + rounded(Out::to_float(a) * Out::to_float(b)));
  }
  inline typename Out::Code result() { return Out::from_float(sum); }
};

}  // namespace detail

// z (length); w, v (nodes * classes, length), node-major, and t (internal nodes, length) in flash. From node n the path
// goes to 2n + 1 where t[n] . z > 0, else to 2n + 2, `depth` times (at most 15).
// out[c] = sum over the path of (w z) * gate(sigma * (v z)); every product row is rounded to Out, the sum once more.
template <class Out, class Z, class W, class V, class T, class Gate>
void bonsai_tree(const typename Z::Code* z, const typename W::Code* w, const typename V::Code* v,
                 const typename T::Code* t, typename Out::Code* out, int32_t depth, int32_t classes, int32_t length,
                 bool scaled, typename Out::Code sigma, const Gate& gate) {
  int32_t path[16];
  path[0] = 0;
  for (int32_t i = 0; i < depth; ++i) {
    detail::TreeRow<Out, Z, T> turn(z, t + path[i] * length, length);
    path[i + 1] = 2 * path[i] + (turn.positive() ? 1 : 2);
  }
  for (int32_t c = 0; c < classes; ++c) {
    detail::TreeScore<Out> score;
    for (int32_t i = 0; i <= depth; ++i) {
      const int32_t row = (path[i] * classes + c) * length;
      detail::TreeRow<Out, Z, W> first(z, w + row, length);
      detail::TreeRow<Out, Z, V> second(z, v + row, length);
      typename Out::Code inner = second.result();
      if (scaled) inner = Arithmetic<Out, Out, Out>::multiply(inner, sigma);
      score.add(first.result(), gate(inner));
    }
    out[c] = score.result();
  }
}

}  // namespace minun

#endif  // MINUN_BONSAI_TREE_H
