// SPDX-License-Identifier: Apache-2.0
// Real: a number with a 32-bit significand in integer arithmetic, wide enough that a function computed in it and
// rounded once to 16 bits is off by at most one code. Every operation truncates; none uses float or libm.
// The host's twin, bit for bit, is minun_pio/numerics/real.py.
#ifndef MINUN_REAL_H
#define MINUN_REAL_H

#include <stdint.h>

#include "minun/flash.h"
#include "minun/formats.h"
#include "minun/platform.h"
#include "minun/posit_small.h"

namespace minun {

// value = significand * 2^(exponent - 31); the significand's top bit is set, or it is zero for zero and for the undefined.
struct Real {
  uint32_t significand;
  int16_t exponent;
  bool negative;
};

namespace real {

static const int16_t kInfinite = 4096;     // exponent of float32's infinities: beyond every format
static const int16_t kPole = 0x7FFE;       // exponent of a result like 1 / 0: NaR, infinity, or the largest code
static const int16_t kUndefined = 0x7FFF;  // exponent of NaN, with significand 0

MINUN_INLINE Real make(uint32_t significand, int exponent, bool negative) {
  Real out;
  out.significand = significand;
  out.exponent = static_cast<int16_t>(exponent);
  out.negative = negative;
  return out;
}
MINUN_INLINE Real zero() { return make(0, 0, false); }
MINUN_INLINE Real undefined() { return make(0, kUndefined, false); }
MINUN_INLINE Real pole(bool negative) { return make(UINT32_C(1) << 31, kPole, negative); }
MINUN_INLINE bool is_undefined(Real x) { return x.significand == 0 && x.exponent == kUndefined; }
MINUN_INLINE Real negate(Real x) {
  x.negative = !x.negative;
  return x;
}

#if defined(MINUN_ASM_AVR)
// The upper half of a * b; the lower half in *low. Partial products lie side by side in r18 to r23, those of one byte's
// distance three at a time, so that few carries are needed.
MINUN_NOINLINE inline uint32_t wide_product(uint32_t a, uint32_t b, uint32_t* low) {
  uint32_t p, q;
  const uint8_t z = 0;
  __asm__(
      "mul %A[a], %A[b]\n movw %A[p], r0\n mul %B[a], %B[b]\n movw %C[p], r0\n"
      "mul %C[a], %C[b]\n movw %A[q], r0\n mul %D[a], %D[b]\n movw %C[q], r0\n"
      "mul %A[a], %B[b]\n movw r18, r0\n mul %B[a], %C[b]\n movw r20, r0\n mul %C[a], %D[b]\n movw r22, r0\n"
      "add %B[p], r18\n adc %C[p], r19\n adc %D[p], r20\n adc %A[q], r21\n adc %B[q], r22\n adc %C[q], r23\n"
      "adc %D[q], %[z]\n"
      "mul %B[a], %A[b]\n movw r18, r0\n mul %C[a], %B[b]\n movw r20, r0\n mul %D[a], %C[b]\n movw r22, r0\n"
      "add %B[p], r18\n adc %C[p], r19\n adc %D[p], r20\n adc %A[q], r21\n adc %B[q], r22\n adc %C[q], r23\n"
      "adc %D[q], %[z]\n"
      "mul %A[a], %C[b]\n movw r18, r0\n mul %B[a], %D[b]\n movw r20, r0\n"
      "add %C[p], r18\n adc %D[p], r19\n adc %A[q], r20\n adc %B[q], r21\n adc %C[q], %[z]\n adc %D[q], %[z]\n"
      "mul %C[a], %A[b]\n movw r18, r0\n mul %D[a], %B[b]\n movw r20, r0\n"
      "add %C[p], r18\n adc %D[p], r19\n adc %A[q], r20\n adc %B[q], r21\n adc %C[q], %[z]\n adc %D[q], %[z]\n"
      "mul %A[a], %D[b]\n add %D[p], r0\n adc %A[q], r1\n adc %B[q], %[z]\n adc %C[q], %[z]\n adc %D[q], %[z]\n"
      "mul %D[a], %A[b]\n add %D[p], r0\n adc %A[q], r1\n adc %B[q], %[z]\n adc %C[q], %[z]\n adc %D[q], %[z]\n"
      "clr r1\n"
      : [p] "=&r"(p), [q] "=&r"(q)
      : [a] "r"(a), [b] "r"(b), [z] "r"(z)
      : "r18", "r19", "r20", "r21", "r22", "r23", "r0");
  *low = p;
  return q;
}
#else
MINUN_INLINE uint32_t wide_product(uint32_t a, uint32_t b, uint32_t* low) {
  const uint64_t product = static_cast<uint64_t>(a) * b;
  *low = static_cast<uint32_t>(product);
  return static_cast<uint32_t>(product >> 32);
}
#endif

MINUN_INLINE uint32_t high_product(uint32_t a, uint32_t b) {
  uint32_t low;
  return wide_product(a, b, &low);
}

// bits * 2^(exponent - 31), for any bits.
MINUN_NOINLINE inline Real normalise(uint32_t bits, int exponent, bool negative) {
  if (bits == 0) return zero();
  const int zeros = leading_zeros(bits);
  return make(bits << zeros, exponent - zeros, negative);
}

MINUN_NOINLINE inline Real multiply(Real a, Real b) {
  if (a.significand == 0 || b.significand == 0) return is_undefined(a) || is_undefined(b) ? undefined() : zero();
  uint32_t low;
  uint32_t top = wide_product(a.significand, b.significand, &low);
  const bool carry = (top >> 31) != 0;
  if (!carry) top = (top << 1) | (low >> 31);
  return make(top, a.exponent + b.exponent + (carry ? 1 : 0), a.negative != b.negative);
}

MINUN_NOINLINE inline Real add(Real a, Real b) {
  if (a.significand == 0) return is_undefined(a) ? a : b;
  if (b.significand == 0) return is_undefined(b) ? b : a;
  if (a.exponent < b.exponent || (a.exponent == b.exponent && a.significand < b.significand)) {
    const Real swapped = a;
    a = b;
    b = swapped;
  }
  const int apart = a.exponent - b.exponent;
  if (apart > 62) return a;
  uint64_t sum = static_cast<uint64_t>(a.significand) << 31;
  const uint64_t small = (static_cast<uint64_t>(b.significand) << 31) >> apart;
  sum = a.negative == b.negative ? sum + small : sum - small;
  if (sum == 0) return zero();
  const uint32_t high = static_cast<uint32_t>(sum >> 32);
  const int zeros = high != 0 ? leading_zeros(high) : 32 + leading_zeros(static_cast<uint32_t>(sum));
  return make(static_cast<uint32_t>((sum << zeros) >> 32), a.exponent + 1 - zeros, a.negative);
}

MINUN_INLINE Real subtract(Real a, Real b) { return add(a, negate(b)); }

// a / b, truncated; `inexact` is set when something was cut off. a / 0 is a pole, 0 / 0 undefined.
MINUN_NOINLINE inline Real divide(Real a, Real b, bool* inexact) {
  if (is_undefined(a) || is_undefined(b)) return undefined();
  if (b.significand == 0) return a.significand == 0 ? undefined() : pole(a.negative);
  if (a.significand == 0) return zero();
  const bool less = a.significand < b.significand;
  const uint64_t dividend = static_cast<uint64_t>(a.significand) << (less ? 32 : 31);
  const uint64_t quotient = dividend / b.significand;
  *inexact = quotient * b.significand != dividend;
  return make(static_cast<uint32_t>(quotient), a.exponent - b.exponent - (less ? 1 : 0), a.negative != b.negative);
}
MINUN_INLINE Real divide(Real a, Real b) {
  bool inexact;
  return divide(a, b, &inexact);
}

// 2^62 / d to about 30 bits, for d in [2^31, 2^32): in (2^30, 2^31]. One 32-bit division and one Newton step.
MINUN_NOINLINE inline uint32_t reciprocal_bits(uint32_t d) {
  const uint32_t guess = UINT32_C(0xFFFFFFFF) / (d >> 16);  // 2^48 / d, 17 bits
  const int64_t error = (INT64_C(1) << 48) - static_cast<int64_t>(static_cast<uint64_t>(d) * guess);
  const int64_t step = static_cast<int64_t>(guess) * static_cast<int32_t>(error >> 16);
  return (guess << 14) + static_cast<uint32_t>(static_cast<int32_t>(step >> 18));
}

// The integer square root of a 64-bit number; `inexact` is set when something remains.
MINUN_NOINLINE inline uint32_t root_bits(uint64_t radicand, bool* inexact) {
  uint32_t root = 0;
  uint64_t rest = 0;
  for (uint8_t i = 0; i < 32; ++i) {
    rest = (rest << 2) | (radicand >> 62);
    radicand <<= 2;
    const uint64_t trial = (static_cast<uint64_t>(root) << 2) | 1u;
    root <<= 1;
    if (rest >= trial) {
      rest -= trial;
      root |= 1u;
    }
  }
  *inexact = rest != 0;
  return root;
}

// Square root of x >= 0, truncated; `inexact` tells that something was cut off. Negative x: undefined.
MINUN_NOINLINE inline Real square_root(Real x, bool* inexact) {
  *inexact = false;
  if (x.significand == 0) return x;
  if (x.negative) return undefined();
  const bool odd = (x.exponent & 1) != 0;
  const uint64_t radicand = static_cast<uint64_t>(x.significand) << (odd ? 32 : 31);
  const uint32_t root = root_bits(radicand, inexact);
  return make(root, (x.exponent - (odd ? 1 : 0)) / 2, false);
}

}  // namespace real

namespace detail {

template <class F, bool kSmallPosit = IsSmallPosit<F>::kValue>
struct RealOf {
  static inline Real from(typename F::Code code) {
    if (F::is_nar(code)) return real::undefined();
    const Decoded d = F::decode(code);
    const bool negative = d.mantissa < 0;
    const uint32_t magnitude = negative ? 0u - static_cast<uint32_t>(d.mantissa) : static_cast<uint32_t>(d.mantissa);
    return real::normalise(magnitude, d.exponent + 31, negative);
  }
  static inline typename F::Code nearest(Real x, bool inexact) {
    if (x.significand == 0) return real::is_undefined(x) ? F::nar() : static_cast<typename F::Code>(0);
    if (F::kHasNaR && x.exponent == real::kPole) return F::nar();
    return F::encode(x.negative, x.significand, x.exponent, inexact);
  }
};

template <class F>
struct RealOf<F, true> {
  static inline Real from(typename F::Code code) {
    if (F::is_nar(code)) return real::undefined();
    const Unpacked value = unpack<F>(code);
    return real::make(static_cast<uint32_t>(significand_of(value)) << 16, exponent_of(value), code < 0);
  }
  static inline typename F::Code nearest(Real x, bool inexact) {
    if (x.significand == 0) return real::is_undefined(x) ? F::nar() : static_cast<typename F::Code>(0);
    if (x.exponent == real::kPole) return F::nar();
    return pack<F>(x.negative, x.significand, x.exponent, inexact);
  }
};

template <>
struct RealOf<Float32, false> {
  static inline Real from(float code) {
    const uint32_t bits = bits_of(code);
    const bool negative = (bits >> 31) != 0;
    const int biased = static_cast<int>((bits >> 23) & 0xFFu);
    const uint32_t fraction = bits & 0x7FFFFFu;
    if (biased == 255) {
      if (fraction != 0) return real::undefined();
      return real::make(UINT32_C(1) << 31, real::kInfinite, negative);
    }
    if (biased == 0) return real::normalise(fraction << 8, -126, negative);
    return real::make((fraction | 0x800000u) << 8, biased - 127, negative);
  }
  // Nearest, ties to even, subnormals included.
  static inline float nearest(Real x, bool inexact) { return cut(x, inexact, false); }

  // With `odd`, the last bit tells that something was cut off: then a second rounding to 16 bits comes out right.
  static MINUN_NOINLINE float cut(Real x, bool inexact, bool odd) {
    if (x.significand == 0) return float_of(real::is_undefined(x) ? 0x7FC00000u : 0u);
    const uint32_t sign = x.negative ? UINT32_C(1) << 31 : 0u;
    if (x.exponent > 127) return float_of(sign | 0x7F800000u);
    if (x.exponent < -150) return float_of(sign | (odd ? 1u : 0u));
    uint32_t base = 0;
    int drop = 8;
    if (x.exponent >= -126) {
      base = static_cast<uint32_t>(x.exponent + 126) << 23;  // the significand's own top bit adds one
    } else {
      drop = 8 + (-126 - x.exponent);  // at most 32
    }
    uint32_t kept = drop == 32 ? 0u : x.significand >> drop;
    const bool half = ((x.significand >> (drop - 1)) & 1u) != 0;
    const bool below = inexact || (x.significand << (33 - drop)) != 0;
    if (odd) {
      if (half || below) kept |= 1u;
    } else if (half && (below || (kept & 1u))) {
      ++kept;
    }
    return float_of(sign | (base + kept));
  }
};

template <>
struct RealOf<Float16, false> {
  static inline Real from(uint16_t code) { return RealOf<Float32>::from(Float16::to_float(code)); }
  static inline uint16_t nearest(Real x, bool inexact) { return Float16::from_float(RealOf<Float32>::cut(x, inexact, true)); }
};
template <>
struct RealOf<BFloat16, false> {
  static inline Real from(uint16_t code) { return RealOf<Float32>::from(BFloat16::to_float(code)); }
  static inline uint16_t nearest(Real x, bool inexact) { return BFloat16::from_float(RealOf<Float32>::cut(x, inexact, true)); }
};

}  // namespace detail

// The exact value of a posit, fixed-point or float code.
template <class F>
MINUN_NOINLINE Real to_real(typename F::Code code) {
  return detail::RealOf<F>::from(code);
}

// One rounding into F; `inexact`: the true value lies a little beyond x in magnitude.
template <class F>
MINUN_NOINLINE typename F::Code from_real(Real x, bool inexact = false) {
  return detail::RealOf<F>::nearest(x, inexact);
}

}  // namespace minun

#endif  // MINUN_REAL_H
