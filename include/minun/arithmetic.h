// SPDX-License-Identifier: Apache-2.0
// One operation on two numbers of one family, the exact result rounded once; order and clamping of codes.
#ifndef MINUN_ARITHMETIC_H
#define MINUN_ARITHMETIC_H

#include <stdint.h>

#include "minun/formats.h"
#include "minun/posit_small.h"

namespace minun {

namespace detail {

template <class F>
struct IsFloat {
  static const bool kValue = false;
};
template <>
struct IsFloat<Float32> {
  static const bool kValue = true;
};
template <>
struct IsFloat<Float16> {
  static const bool kValue = true;
};
template <>
struct IsFloat<BFloat16> {
  static const bool kValue = true;
};

template <class F, bool kSmallPosit>
struct Decoding {
  static MINUN_INLINE Decoded of(typename F::Code code) { return F::decode(code); }
};
#if defined(__AVR__)
template <class F>
struct Decoding<F, true> {
  static MINUN_INLINE Decoded of(typename F::Code code) {
    const Unpacked value = unpack<F>(code);
    const int32_t mantissa = significand_of(value) >> (15 - F::kFractionBits);
    const Decoded out = {code < 0 ? -mantissa : mantissa,
                         static_cast<int16_t>(value == 0 ? 0 : exponent_of(value) - F::kFractionBits)};
    return out;
  }
};
#endif

// Not inlined: every kernel of a program shares one decoder a format.
template <class F>
MINUN_NOINLINE Decoded decode(typename F::Code code) {
  return Decoding<F, IsSmallPosit<F>::kValue>::of(code);
}

MINUN_INLINE uint32_t magnitude_of(int32_t value) {
  return value < 0 ? 0u - static_cast<uint32_t>(value) : static_cast<uint32_t>(value);
}

// Mantissas of any width.
template <class Out, bool Narrow>
struct Rounding {
  typedef typename Out::Code Code;

  static MINUN_NOINLINE Code sum(Decoded a, Decoded b) {
    if (a.mantissa == 0) return encode32<Out>(b.mantissa, b.exponent);
    if (b.mantissa == 0) return encode32<Out>(a.mantissa, a.exponent);
    if (a.exponent < b.exponent) swap(&a, &b);
    const int apart = a.exponent - b.exponent;
    const int room = leading_zeros(magnitude_of(a.mantissa)) + 30;  // shifts a's highest bit to bit 61
    if (apart <= room) {
      return encode64<Out>(a.mantissa * (static_cast<int64_t>(1) << apart) + b.mantissa, b.exponent);
    }
    const int drop = apart - room > 31 ? 31 : apart - room;
    const int32_t kept = b.mantissa >> drop;  // floor
    const bool sticky = kept * (static_cast<int64_t>(1) << drop) != b.mantissa;
    const int64_t total = a.mantissa * (static_cast<int64_t>(1) << room) + kept;
    return encode64<Out>(total * 2 + (sticky ? 1 : 0), a.exponent - room - 1);
  }

  static MINUN_NOINLINE Code product(Decoded a, Decoded b) {
    return encode64<Out>(static_cast<int64_t>(a.mantissa) * b.mantissa, a.exponent + b.exponent);
  }

  // b is not 0.
  static MINUN_NOINLINE Code quotient(Decoded a, Decoded b) {
    if (a.mantissa == 0) return 0;
    const bool negative = (a.mantissa < 0) != (b.mantissa < 0);
    const uint32_t top = magnitude_of(a.mantissa);
    const uint32_t low = magnitude_of(b.mantissa);
    const int zeros = leading_zeros(top) + 30;  // the dividend's highest bit is bit 61
    const uint64_t dividend = static_cast<uint64_t>(top) << zeros;
    const uint64_t whole = dividend / low;
    const uint64_t doubled = whole * 2 + (whole * low != dividend ? 1 : 0);
    const int64_t with_sign = negative ? -static_cast<int64_t>(doubled) : static_cast<int64_t>(doubled);
    return encode64<Out>(with_sign, a.exponent - zeros - b.exponent - 1);
  }

  static inline void swap(Decoded* a, Decoded* b) {
    const Decoded first = *a;
    *a = *b;
    *b = first;
  }
};

// Mantissas of up to 16 bits, those of `Out` too: 32-bit arithmetic is enough.
template <class Out>
struct Rounding<Out, true> {
  typedef typename Out::Code Code;

  static MINUN_NOINLINE Code sum(Decoded a, Decoded b) {
    if (a.mantissa == 0) return encode32<Out>(b.mantissa, b.exponent);
    if (b.mantissa == 0) return encode32<Out>(a.mantissa, a.exponent);
    if (a.exponent < b.exponent) Rounding<Out, false>::swap(&a, &b);
    const int apart = a.exponent - b.exponent;
    const int room = leading_zeros(magnitude_of(a.mantissa)) - 2;  // shifts a's highest bit to bit 29
    if (apart <= room) return encode32<Out>(a.mantissa * (INT32_C(1) << apart) + b.mantissa, b.exponent);
    const int drop = apart - room > 31 ? 31 : apart - room;
    const int32_t kept = b.mantissa >> drop;  // floor
    const bool sticky = drop > 16 || kept * (INT32_C(1) << drop) != b.mantissa;
    return encode32<Out>((a.mantissa * (INT32_C(1) << room) + kept) * 2 + (sticky ? 1 : 0), a.exponent - room - 1);
  }

  static MINUN_NOINLINE Code product(Decoded a, Decoded b) {
    return encode32<Out>(a.mantissa * b.mantissa, a.exponent + b.exponent);
  }

  // b is not 0. The quotient has 16 bits or more; Out's codes need no more.
  static MINUN_NOINLINE Code quotient(Decoded a, Decoded b) {
    if (a.mantissa == 0) return 0;
    const bool negative = (a.mantissa < 0) != (b.mantissa < 0);
    const uint32_t top = magnitude_of(a.mantissa);
    const uint32_t low = magnitude_of(b.mantissa);
    const int zeros = leading_zeros(top);
    const uint32_t dividend = top << zeros;
    const uint32_t whole = dividend / low;
    const int above = leading_zeros(whole);
    const int exponent = 31 - above + a.exponent - zeros - b.exponent;
    return Out::encode(negative, whole << above, exponent, whole * low != dividend);
  }
};

template <class Out, class A, class B>
struct RoundingOf
    : Rounding<Out, (A::kMantissaBits <= 15 && B::kMantissaBits <= 15 && Out::kMantissaBits <= 15)> {};

// No NaR among the operands.
template <class Out, class A, class B, bool kSmallPosits>
struct OneOperation {
  typedef typename Out::Code Code;

  static inline Code sum(typename A::Code a, typename B::Code b) { return RoundingOf<Out, A, B>::sum(decode<A>(a), decode<B>(b)); }
  static inline Code difference(typename A::Code a, typename B::Code b) {
    Decoded negated = decode<B>(b);
    if (negated.mantissa == INT32_MIN) {  // fixed-point of 32 bits
      negated.mantissa /= 2;
      ++negated.exponent;
    }
    negated.mantissa = -negated.mantissa;
    return RoundingOf<Out, A, B>::sum(decode<A>(a), negated);
  }
  static inline Code product(typename A::Code a, typename B::Code b) {
    return RoundingOf<Out, A, B>::product(decode<A>(a), decode<B>(b));
  }
};
template <class Out, class A, class B>
struct OneOperation<Out, A, B, true> {
  typedef typename Out::Code Code;

  static MINUN_NOINLINE Code sum(typename A::Code a, typename B::Code b) {
    Unpacked left = unpack<A>(a), right = unpack<B>(b);
    bool negative = a < 0;
    const bool subtract = negative != (b < 0);
    const int16_t apart = static_cast<int16_t>(exponent_of(left) - exponent_of(right));
    const bool less = apart < 0 || (apart == 0 && significand_of(left) < significand_of(right));
    if (right != 0 && (left == 0 || less)) {
      const Unpacked first = left;
      left = right;
      right = first;
      negative = b < 0;
    }
    return left == 0 ? static_cast<Code>(0) : small_sum<Out>(left, right, negative, subtract);
  }
  // The negative of a posit is that of its code.
  static MINUN_INLINE Code difference(typename A::Code a, typename B::Code b) {
    return sum(a, static_cast<typename B::Code>(-b));
  }
  static MINUN_NOINLINE Code product(typename A::Code a, typename B::Code b) {
    return small_product<Out>(unpack<A>(a), unpack<B>(b), (a < 0) != (b < 0));
  }
};
template <class Out, class A, class B>
struct OperationOf
    : OneOperation<Out, A, B, IsSmallPosit<Out>::kValue && IsSmallPosit<A>::kValue && IsSmallPosit<B>::kValue> {};

}  // namespace detail

// Posit and fixed-point. NaR in gives NaR; x / 0 is NaR, in fixed-point the outermost code of x's sign
// (0 / 0: 0).
template <class Out, class A, class B, bool Floating = detail::IsFloat<A>::kValue>
struct Arithmetic {
  typedef typename Out::Code Code;
  static inline bool nar(typename A::Code a, typename B::Code b) { return A::is_nar(a) || B::is_nar(b); }

  static inline Code add(typename A::Code a, typename B::Code b) {
    return nar(a, b) ? Out::nar() : detail::OperationOf<Out, A, B>::sum(a, b);
  }
  static inline Code subtract(typename A::Code a, typename B::Code b) {
    return nar(a, b) ? Out::nar() : detail::OperationOf<Out, A, B>::difference(a, b);
  }
  static inline Code multiply(typename A::Code a, typename B::Code b) {
    return nar(a, b) ? Out::nar() : detail::OperationOf<Out, A, B>::product(a, b);
  }
  static inline Code divide(typename A::Code a, typename B::Code b) {
    if (nar(a, b)) return Out::nar();
    if (b == 0) {
      if (Out::kHasNaR) return Out::nar();
      return a < 0 ? Out::kMinCode : a > 0 ? Out::kMaxCode
                                           : static_cast<Code>(0);
    }
    return detail::RoundingOf<Out, A, B>::quotient(detail::decode<A>(a), detail::decode<B>(b));
  }
};

// float32 arithmetic, whatever the storage.
template <class Out, class A, class B>
struct Arithmetic<Out, A, B, true> {
  typedef typename Out::Code Code;
  static inline Code add(typename A::Code a, typename B::Code b) {
    return Out::from_float(rounded(A::to_float(a) + B::to_float(b)));
  }
  static inline Code subtract(typename A::Code a, typename B::Code b) {
    return Out::from_float(rounded(A::to_float(a) - B::to_float(b)));
  }
  static inline Code multiply(typename A::Code a, typename B::Code b) {
    return Out::from_float(rounded(A::to_float(a) * B::to_float(b)));
  }
  static inline Code divide(typename A::Code a, typename B::Code b) {
    return Out::from_float(rounded(A::to_float(a) / B::to_float(b)));
  }
};

// The order of codes: integers of every family as they are, 16-bit floats by value. A NaN is never less.
template <class F>
struct Order {
  static inline bool less(typename F::Code a, typename F::Code b) { return a < b; }
};
template <>
struct Order<Float16> {
  static inline bool less(uint16_t a, uint16_t b) { return Float16::to_float(a) < Float16::to_float(b); }
};
template <>
struct Order<BFloat16> {
  static inline bool less(uint16_t a, uint16_t b) { return BFloat16::to_float(a) < BFloat16::to_float(b); }
};

namespace detail {

template <class F>
struct Nar {
  static inline bool is(typename F::Code) { return false; }
};
template <int N, int Es>
struct Nar<Posit<N, Es> > {
  static inline bool is(typename Posit<N, Es>::Code code) { return Posit<N, Es>::is_nar(code); }
};

}  // namespace detail

// `code` brought between `low` and `high`; NaR and NaN stay.
template <class F>
inline typename F::Code clamp_code(typename F::Code code, typename F::Code low, typename F::Code high) {
  if (Order<F>::less(code, low)) return detail::Nar<F>::is(code) ? code : low;
  return Order<F>::less(high, code) ? high : code;
}

}  // namespace minun

#endif  // MINUN_ARITHMETIC_H
