// SPDX-License-Identifier: Apache-2.0
// Squared distances in plain integers, to constants that the code generator has made integers of one unit.
// minun_pio/ops/distance_kernels.py proves that no sum overflows while |code| <= limit.
#ifndef MINUN_SQUARED_DISTANCE_FAST_H
#define MINUN_SQUARED_DISTANCE_FAST_H

#include <stdint.h>

#include "minun/arithmetic.h"
#include "minun/exact_sum.h"
#include "minun/posit_small.h"

namespace minun {

namespace detail {

// Sums of squares. The largest sum is below 2^31 (Value int16_t) or 2^63 (int32_t).
template <class Value>
struct Squares;

#if defined(MINUN_ASM_AVR)
// One rounding of a sum of squares in bytes.
template <class Out, bool kSmallPosit>
struct RoundBytes {
  static MINUN_NOINLINE typename Out::Code of(const uint8_t* bytes, uint8_t count, int unit) {
    union {
      uint8_t bytes[8];
      int64_t whole;
    } sum;
    for (uint8_t i = 0; i < 8; ++i) sum.bytes[i] = i < count ? bytes[i] : 0;
    return encode64<Out>(sum.whole, unit);
  }
};
template <class Out>
struct RoundBytes<Out, true> {
  static MINUN_INLINE typename Out::Code of(const uint8_t* bytes, uint8_t count, int unit) {
    return pack_bytes<Out>(bytes, count, static_cast<int16_t>(unit));
  }
};

// d1:d0 squared: the two squares side by side, then twice the product between them.
template <>
struct Squares<int16_t> {
  uint8_t a0, a1, a2, a3;

  MINUN_INLINE void clear() { a0 = a1 = a2 = a3 = 0; }
  MINUN_INLINE void add(int16_t difference) {
    const uint16_t d = static_cast<uint16_t>(difference < 0 ? -difference : difference);
    const uint8_t z = 0;
    __asm__(
        "mul %A[d], %A[d]\n movw r18, r0\n mul %B[d], %B[d]\n"
        "add %[a0], r18\n adc %[a1], r19\n adc %[a2], r0\n adc %[a3], r1\n"
        "mul %A[d], %B[d]\n lsl r0\n rol r1\n"
        "adc %[a3], %[z]\n add %[a1], r0\n adc %[a2], r1\n adc %[a3], %[z]\n clr r1\n"
        : [a0] "+&r"(a0), [a1] "+&r"(a1), [a2] "+&r"(a2), [a3] "+&r"(a3)
        : [d] "r"(d), [z] "r"(z)
        : "r18", "r19", "r0");
  }
  template <class Out>
  MINUN_INLINE typename Out::Code rounded_to(int unit) const {
    const uint8_t bytes[4] = {a0, a1, a2, a3};
    return RoundBytes<Out, IsSmallPosit<Out>::kValue>::of(bytes, 4, unit);
  }
};

// d2:d1:d0 squared, and only where d3 is not zero the products with it.
template <>
struct Squares<int32_t> {
  uint8_t a0, a1, a2, a3, a4, a5, a6, a7;

  MINUN_INLINE void clear() { a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0; }
  MINUN_INLINE void add(int32_t difference) {
    const uint32_t d = static_cast<uint32_t>(difference < 0 ? -difference : difference);
    const uint8_t z = 0;
    __asm__(
        "mul %A[d], %A[d]\n movw r18, r0\n mul %B[d], %B[d]\n movw r20, r0\n mul %C[d], %C[d]\n"
        "add %[a0], r18\n adc %[a1], r19\n adc %[a2], r20\n adc %[a3], r21\n"
        "adc %[a4], r0\n adc %[a5], r1\n adc %[a6], %[z]\n adc %[a7], %[z]\n"
        "mul %A[d], %B[d]\n movw r18, r0\n mul %B[d], %C[d]\n movw r20, r0\n"
        "mul %A[d], %C[d]\n add r19, r0\n adc r20, r1\n adc r21, %[z]\n"
        "lsl r18\n rol r19\n rol r20\n rol r21\n clr r1\n rol r1\n"
        "add %[a1], r18\n adc %[a2], r19\n adc %[a3], r20\n adc %[a4], r21\n"
        "adc %[a5], r1\n adc %[a6], %[z]\n adc %[a7], %[z]\n"
        "tst %D[d]\n breq 1f\n"
        "mul %D[d], %D[d]\n add %[a6], r0\n adc %[a7], r1\n"
        "mul %D[d], %A[d]\n movw r18, r0\n mul %D[d], %C[d]\n movw r20, r0\n"
        "mul %D[d], %B[d]\n add r19, r0\n adc r20, r1\n adc r21, %[z]\n"
        "lsl r18\n rol r19\n rol r20\n rol r21\n clr r1\n rol r1\n"
        "add %[a3], r18\n adc %[a4], r19\n adc %[a5], r20\n adc %[a6], r21\n adc %[a7], r1\n"
        "1: clr r1\n"
        : [a0] "+&r"(a0), [a1] "+&r"(a1), [a2] "+&r"(a2), [a3] "+&r"(a3), [a4] "+&r"(a4), [a5] "+&r"(a5),
          [a6] "+&r"(a6), [a7] "+&r"(a7)
        : [d] "r"(d), [z] "r"(z)
        : "r18", "r19", "r20", "r21", "r0");
  }
  template <class Out>
  MINUN_INLINE typename Out::Code rounded_to(int unit) const {
    const uint8_t bytes[8] = {a0, a1, a2, a3, a4, a5, a6, a7};
    return RoundBytes<Out, IsSmallPosit<Out>::kValue>::of(bytes, 8, unit);
  }
};
#else
template <>
struct Squares<int16_t> {
  int32_t sum;

  MINUN_INLINE void clear() { sum = 0; }
  MINUN_INLINE void add(int32_t difference) { sum += difference * difference; }
  template <class Out>
  MINUN_INLINE typename Out::Code rounded_to(int unit) const {
    return encode32<Out>(sum, unit);
  }
};
template <>
struct Squares<int32_t> {
  int64_t sum;

  MINUN_INLINE void clear() { sum = 0; }
  MINUN_INLINE void add(int32_t difference) { sum += static_cast<int64_t>(difference) * difference; }
  template <class Out>
  MINUN_INLINE typename Out::Code rounded_to(int unit) const {
    return encode64<Out>(sum, unit);
  }
};
#endif

// The codes as integers of 2^Unit; false where one is beyond `limit` (NaR is) or not a whole number of units.
template <class X, int Unit, class Value>
MINUN_NOINLINE bool whole_units(const typename X::Code* x, Value* values, int length, typename X::Code limit) {
  for (int i = 0; i < length; ++i) {
    const typename X::Code code = x[i];
    if (code > limit || code < -limit) return false;
    const Decoded d = decode<X>(code);
    int shift = d.exponent - Unit;
    int32_t value = d.mantissa;
    if (value != 0 && shift >= 0) {
      value = static_cast<int32_t>(static_cast<uint32_t>(value) << shift);
    } else if (value != 0) {
      for (; shift < 0; ++shift) {
        if (value & 1) return false;
        value >>= 1;
      }
    }
    values[i] = static_cast<Value>(value);
  }
  return true;
}

// For any x: x^2 - 2 x b + b^2, exactly.
template <class Out, class X, class B, class Integer, int BUnit>
MINUN_NOINLINE void exact_distances(const typename X::Code* x, const Integer* b, typename Out::Code* out, int rows,
                                    int length) {
  static const int kMin = smaller(X::kMinExponent, B::kMinExponent);
  static const int kMax = larger(X::kMaxExponent, B::kMaxExponent);
  ExactSum<2 * kMin, 2 * kMax + 2> sum;
  for (; rows > 0; --rows) {
    bool nar = false;
    sum.clear();
    for (int i = 0; i < length; ++i) {
      nar = nar || X::is_nar(x[i]);
      const Decoded dx = decode<X>(x[i]);
      const Decoded db = {flash_load(b++), BUnit};
      sum.add_wide_product(dx, dx);
      sum.add_wide_product(db, db);
      sum.add_int64(-(static_cast<int64_t>(dx.mantissa) * db.mantissa), dx.exponent + BUnit + 1);
    }
    *out++ = nar ? Out::nar() : sum.template round<Out>();
  }
}

}  // namespace detail

// x (length); b (rows, length) in flash, counting 2^(Unit + Shift); out (rows); scratch: length Values. Posit or
// fixed-point codes x beyond `limit` or finer than 2^Unit take the exact sums.
template <class Out, class X, class B, class Value, class Integer, int Unit, int Shift>
MINUN_NOINLINE void squared_distance_fast(const typename X::Code* x, const Integer* b, typename Out::Code* out,
                                          void* scratch, int rows, int length, typename X::Code limit) {
  Value* const values = static_cast<Value*>(scratch);
  if (!detail::whole_units<X, Unit>(x, values, length, limit)) {
    MINUN_SLOW_PATH();
    detail::exact_distances<Out, X, B, Integer, Unit + Shift>(x, b, out, rows, length);
    return;
  }
  detail::Squares<Value> squares;
  for (; rows > 0; --rows) {
    const Value* value = values;
    squares.clear();
    for (int i = 0; i < length; ++i) {
      const Value from = static_cast<Value>(static_cast<uint32_t>(static_cast<int32_t>(flash_load(b++))) << Shift);
      squares.add(static_cast<Value>(*value++ - from));
    }
    *out++ = squares.template rounded_to<Out>(2 * Unit);
  }
}

}  // namespace minun

#endif  // MINUN_SQUARED_DISTANCE_FAST_H
