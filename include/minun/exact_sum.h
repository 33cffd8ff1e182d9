// SPDX-License-Identifier: Apache-2.0
// Sums without rounding: any posit or fixed-point values, their products, and one rounding at the end. Always right;
// the fast kernels replace it where the constant weights prove that a narrower sum suffices.
//
//   ExactSum<MinExponent, MaxExponent> sum;     // terms are multiples of 2^Min, at most 2^Max, fewer than 2^31
//   sum.clear(); sum.add(X::decode(code)); sum.add_product(X::decode(a), W::decode(b));
//   y = sum.template round<Out>();              // destroys the sum
//
// `SumOf<A, B, C>` has room for A*B products and C terms.
#ifndef MINUN_EXACT_SUM_H
#define MINUN_EXACT_SUM_H

#include "minun/formats.h"

namespace minun {

namespace detail {

constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int larger(int a, int b) { return a > b ? a : b; }

}  // namespace detail

// Two's complement in 32-bit limbs, least significant first.
template <int MinExponent, int MaxExponent, bool Narrow>
class ExactSumOf {
 public:
  static const int kLimbs = (MaxExponent - MinExponent + 2 + 31 + 31) / 32;

  void clear() {
    for (int i = 0; i < kLimbs; ++i) limb_[i] = 0;
  }

  void add(Decoded value) {
    const bool negative = value.mantissa < 0;
    const uint32_t magnitude = static_cast<uint32_t>(value.mantissa);
    put(negative, negative ? 0u - magnitude : magnitude, static_cast<unsigned>(value.exponent - MinExponent));
  }

  // The product of the mantissas must fit 32 bits; posits and fixed-point of up to 16 bits do.
  void add_product(Decoded a, Decoded b) {
    add_magnitude(a.mantissa * b.mantissa, static_cast<int16_t>(a.exponent + b.exponent));
  }

  // For mantissas of any width.
  void add_wide_product(Decoded a, Decoded b) {
    const int64_t product = static_cast<int64_t>(a.mantissa) * b.mantissa;
    add_int64(product, a.exponent + b.exponent);
  }

  // value * 2^exponent
  void add_int64(int64_t value, int exponent) {
    const bool negative = value < 0;
    const uint64_t magnitude = negative ? 0u - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    const unsigned shift = static_cast<unsigned>(exponent - MinExponent);
    put(negative, static_cast<uint32_t>(magnitude), shift);
    if (magnitude >> 32) put(negative, static_cast<uint32_t>(magnitude >> 32), shift + 32);
  }

  // One rounding of the sum.
  template <class Out>
  MINUN_NOINLINE typename Out::Code(round)() {  // in parentheses: Arduino has a macro of that name
    const bool negative = make_magnitude();
    int top = kLimbs - 1;
    while (top >= 0 && limb_[top] == 0) --top;
    if (top < 0) return 0;
    const int zeros = leading_zeros(limb_[top]);
    uint32_t significand = limb_[top] << zeros;
    uint32_t rest = 0;
    if (top > 0) {
      if (zeros > 0) significand |= limb_[top - 1] >> (32 - zeros);
      rest = limb_[top - 1] << zeros;
    }
    bool sticky = rest != 0;
    for (int i = top - 2; i >= 0 && !sticky; --i) sticky = limb_[i] != 0;
    return Out::encode(negative, significand, 32 * top + 31 - zeros + MinExponent, sticky);
  }

  // One rounding of sum / divisor, divisor >= 1.
  template <class Out>
  MINUN_NOINLINE typename Out::Code round_divided(uint32_t divisor) {
    const bool negative = make_magnitude();
    int top = kLimbs - 1;
    while (top >= 0 && limb_[top] == 0) --top;
    if (top < 0) return 0;
    // Long division from the top limb, until the quotient has 33 significant bits or more.
    uint64_t remainder = 0;
    uint32_t first = 0, second = 0;
    int first_limb = 0;
    int found = 0;
    int i = top;
    for (; found < 2; --i) {
      const uint64_t part = (remainder << 32) | (i >= 0 ? limb_[i] : 0u);
      const uint32_t quotient = static_cast<uint32_t>(part / divisor);
      remainder = part % divisor;
      if (found == 0) {
        if (quotient == 0) continue;
        first = quotient;
        first_limb = i;
        found = 1;
      } else {
        second = quotient;
        found = 2;
      }
    }
    bool sticky = remainder != 0;
    for (; i >= 0 && !sticky; --i) sticky = limb_[i] != 0;
    const int zeros = leading_zeros(first);
    uint32_t significand = first << zeros;
    if (zeros > 0) significand |= second >> (32 - zeros);
    sticky = sticky || (second << zeros) != 0;
    return Out::encode(negative, significand, 32 * first_limb + 31 - zeros + MinExponent, sticky);
  }

 private:
  uint32_t limb_[static_cast<size_t>(kLimbs)];

  MINUN_INLINE void add_magnitude(int32_t mantissa, int16_t exponent) {
    const bool negative = mantissa < 0;
    const uint32_t magnitude = negative ? 0u - static_cast<uint32_t>(mantissa) : static_cast<uint32_t>(mantissa);
#if defined(__AVR__)  // where code is dearer than a call
    put(negative, magnitude, static_cast<unsigned>(exponent - MinExponent));
#else
    add_bits(negative, magnitude, static_cast<unsigned>(exponent - MinExponent));
#endif
  }

  MINUN_NOINLINE void put(bool negative, uint32_t magnitude, unsigned shift) { add_bits(negative, magnitude, shift); }

  MINUN_INLINE void add_bits(bool negative, uint32_t magnitude, unsigned shift) {
    if (magnitude == 0) return;
    uint32_t* limb = limb_ + (shift >> 5);
    const unsigned within = shift & 31u;
    const uint32_t low = magnitude << within;
    const uint32_t high = (magnitude >> 1) >> (31u - within);
    if (negative) {
      const uint32_t before = limb[0];
      limb[0] = before - low;
      subtract_high(limb + 1, high, before < low);
    } else {
      const uint32_t after = limb[0] + low;
      limb[0] = after;
      add_high(limb + 1, high, after < low);
    }
  }

  MINUN_INLINE void add_high(uint32_t* limb, uint32_t high, bool carry) {
    const uint32_t* const end = limb_ + kLimbs;
    if (limb == end) return;
    uint32_t after = *limb + high;
    bool more = after < high;
    after += carry;
    more |= carry && after == 0;
    *limb = after;
    while (more && ++limb != end) more = ++*limb == 0;
  }

  MINUN_INLINE void subtract_high(uint32_t* limb, uint32_t high, bool borrow) {
    const uint32_t* const end = limb_ + kLimbs;
    if (limb == end) return;
    const uint32_t before = *limb;
    bool more = before < high || (borrow && before == high);
    *limb = before - high - borrow;
    while (more && ++limb != end) more = (*limb)-- == 0;
  }

  // Leaves |sum| in the limbs; true when the sum was negative.
  bool make_magnitude() {
    if (!(limb_[kLimbs - 1] >> 31)) return false;
    bool carry = true;
    for (int i = 0; i < kLimbs; ++i) {
      limb_[i] = ~limb_[i] + carry;
      carry = carry && limb_[i] == 0;
    }
    return true;
  }
};

// A sum that fits 64 bits.
template <int MinExponent, int MaxExponent>
class ExactSumOf<MinExponent, MaxExponent, true> {
 public:
  MINUN_INLINE void clear() { sum_ = 0; }
  MINUN_INLINE void add(Decoded value) {
    sum_ += static_cast<int64_t>(static_cast<uint64_t>(static_cast<int64_t>(value.mantissa))
                                 << (value.exponent - MinExponent));
  }
  MINUN_INLINE void add_product(Decoded a, Decoded b) {
    const int32_t product = a.mantissa * b.mantissa;
    sum_ += static_cast<int64_t>(static_cast<uint64_t>(static_cast<int64_t>(product))
                                 << (a.exponent + b.exponent - MinExponent));
  }
  MINUN_INLINE void add_wide_product(Decoded a, Decoded b) {
    add_int64(static_cast<int64_t>(a.mantissa) * b.mantissa, a.exponent + b.exponent);
  }
  MINUN_INLINE void add_int64(int64_t value, int exponent) {
    sum_ += static_cast<int64_t>(static_cast<uint64_t>(value) << (exponent - MinExponent));
  }
  template <class Out>
  typename Out::Code(round)() {  // in parentheses: Arduino has a macro of that name
    return encode64<Out>(sum_, MinExponent);
  }
  template <class Out>
  typename Out::Code round_divided(uint32_t divisor) {
    ExactSumOf<MinExponent, MaxExponent, false> wide;
    wide.clear();
    wide.add_int64(sum_, MinExponent);
    return wide.template round_divided<Out>(divisor);
  }

 private:
  int64_t sum_;
};

template <int MinExponent, int MaxExponent>
class ExactSum : public ExactSumOf<MinExponent, MaxExponent, (MaxExponent - MinExponent + 2 + 31 <= 64)> {};

// Room for products A*B and single terms of C (a bias; also A or B themselves when they are C).
template <class A, class B, class C>
class SumOf : public ExactSum<detail::smaller(A::kMinExponent + B::kMinExponent, C::kMinExponent),
                              detail::larger(A::kMaxExponent + B::kMaxExponent, C::kMaxExponent)> {};

namespace detail {

template <bool Wide>
struct ProductInto {
  template <class Sum>
  static MINUN_INLINE void add(Sum& sum, Decoded a, Decoded b) { sum.add_product(a, b); }
};
template <>
struct ProductInto<true> {
  template <class Sum>
  static MINUN_INLINE void add(Sum& sum, Decoded a, Decoded b) { sum.add_wide_product(a, b); }
};

}  // namespace detail

// Adds the product of a value of format A and one of format B in the cheapest exact way.
template <class A, class B, class Sum>
MINUN_INLINE void add_product(Sum& sum, Decoded a, Decoded b) {
  detail::ProductInto<(A::kMantissaBits + B::kMantissaBits > 31)>::add(sum, a, b);
}

}  // namespace minun

#endif
