// SPDX-License-Identifier: Apache-2.0
// What dense, matmul and the convolutions share: shapes, the layout of weights, clipping, and the dot product that is
// right for every posit and fixed-point format: y = round(bias + sum of w * x), exact sum, one rounding.
#ifndef MINUN_LINEAR_H
#define MINUN_LINEAR_H

#include "minun/arithmetic.h"
#include "minun/exact_sum.h"
#include "minun/formats.h"

namespace minun {

// A fused relu, relu6 or clip: bounds on the output's codes. NaR is never clipped.
template <class Out>
struct Clip {
  typename Out::Code low;
  typename Out::Code high;

  MINUN_INLINE typename Out::Code operator()(typename Out::Code code) const {
    return code < low ? low : code > high ? high
                                          : code;
  }
};

// Weights in the network's own order: row after row.
struct RowMajor {
  static MINUN_INLINE size_t start(int row, int inputs, int) {
    return static_cast<size_t>(row) * static_cast<size_t>(inputs);
  }
  static MINUN_INLINE int step(int, int) { return 1; }
};

// Groups of Rows rows, element by element (k0 of each row, k1 of each row, ...); the rows left over follow row-major.
template <int Rows>
struct Interleaved {
  static MINUN_INLINE size_t start(int row, int inputs, int outputs) {
    const int within = row % Rows;
    if (row - within + Rows > outputs) return static_cast<size_t>(row) * static_cast<size_t>(inputs);
    return static_cast<size_t>(row - within) * static_cast<size_t>(inputs) + static_cast<size_t>(within);
  }
  static MINUN_INLINE int step(int row, int outputs) { return row - row % Rows + Rows > outputs ? 1 : Rows; }
};

namespace detail {

template <bool Small>
struct UnpackedOf {
  typedef Decoded Type;
};
template <>
struct UnpackedOf<true> {
  struct Type {
    int16_t mantissa;
    int16_t exponent;
  };
};

}  // namespace detail

#if defined(__AVR__)  // bit by bit in 16 bits, where wide shifts are dear
template <class F>
MINUN_INLINE Decoded decoded(typename F::Code code) { return detail::decode<F>(code); }
#else
template <class F>
MINUN_INLINE Decoded decoded(typename F::Code code) { return F::decode(code); }
#endif

// A decoded value in as few bytes as its format allows: 4 for formats of up to 16 bits, else 8.
template <class F>
struct Unpacked : detail::UnpackedOf<(F::kMantissaBits <= 15)>::Type {
  MINUN_INLINE void set(typename F::Code code) {
    const Decoded value = decoded<F>(code);
    this->mantissa = static_cast<decltype(this->mantissa)>(value.mantissa);
    this->exponent = value.exponent;
  }
  MINUN_INLINE Decoded get() const {
    const Decoded value = {this->mantissa, this->exponent};
    return value;
  }
};

// Decodes `count` codes, `step` apart; false when one is NaR.
template <class F>
inline bool unpack(const typename F::Code* codes, int count, Unpacked<F>* out) {
  for (int i = 0; i < count; ++i) {
    if (F::is_nar(codes[i])) return false;
    out[i].set(codes[i]);
  }
  return true;
}

// The bias of an output: codes of format B in flash, or null.
template <class B>
struct CodeBias {
  typedef B Format;
  const typename B::Code* codes;

  template <class Sum>
  MINUN_INLINE void add_to(Sum& sum, int channel) const {
    if (codes != 0) sum.add(B::decode(flash_load(codes + channel)));
  }
};

// The same already decoded: integers times 2^unit, each a value of format B.
template <class B>
struct WideBias {
  typedef B Format;
  const int64_t* values;
  int unit;

  template <class Sum>
  MINUN_INLINE void add_to(Sum& sum, int channel) const {
    if (values != 0) sum.add_int64(flash_load(values + channel), unit);
  }
};

// 32-bit integers times 2^unit.
template <class B>
struct ShortBias {
  typedef B Format;
  const int32_t* values;
  int unit;

  template <class Sum>
  MINUN_INLINE void add_to(Sum& sum, int channel) const {
    if (values != 0) sum.add_int64(flash_load(values + channel), unit);
  }
};

// bias[channel] + sum of w[k * step] * x[k], w in flash.
template <class Out, class X, class W, class Bias>
inline typename Out::Code exact_dot(const Unpacked<X>* x, const typename W::Code* w, int step, int count,
                                    const Bias& bias, int channel) {
  SumOf<X, W, typename Bias::Format> sum;
  sum.clear();
  bias.add_to(sum, channel);
  for (int k = 0; k < count; ++k) {
    add_product<X, W>(sum, x[k].get(), decoded<W>(flash_load(w)));
    w += step;
  }
  return sum.template round<Out>();
}

// The same of codes in RAM.
template <class Out, class X, class W, class Bias>
inline typename Out::Code exact_dot_of_codes(const typename X::Code* x, const typename W::Code* w, int step, int count,
                                             const Bias& bias, int channel) {
  SumOf<X, W, typename Bias::Format> sum;
  sum.clear();
  bias.add_to(sum, channel);
  for (int k = 0; k < count; ++k) {
    add_product<X, W>(sum, decoded<X>(x[k]), decoded<W>(flash_load(w)));
    w += step;
  }
  return sum.template round<Out>();
}

// sum of a * b of floats, in order, every step rounded to float32.
MINUN_INLINE float multiply_add(float sum, float a, float b) { return rounded(sum + rounded(a * b)); }

}  // namespace minun

#endif
