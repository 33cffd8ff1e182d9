// SPDX-License-Identifier: Apache-2.0
// Number formats as types. Every format has `Code` (what memory holds), kBits, kMinCode and kMaxCode (finite codes).
// Posit and fixed-point formats also have
//   decode(code)    the value as an integer times a power of two, exact (NaR gives 0: ask is_nar first),
//   encode(...)     one rounding of an exact value, given by its leading bits and a sticky bit,
//   kMinExponent    every decoded value is a multiple of 2^kMinExponent,
//   kMaxExponent    no magnitude exceeds 2^kMaxExponent.
// Sums of products are exact in `minun/exact_sum.h`. Rounding rules: docs/numerics.md.
#ifndef MINUN_FORMATS_H
#define MINUN_FORMATS_H

#include <stdint.h>
#include <string.h>

#include "minun/flash.h"
#include "minun/platform.h"

namespace minun {

// value = mantissa * 2^exponent
struct Decoded {
  int32_t mantissa;
  int16_t exponent;
};

namespace detail {

template <int Bytes>
struct SignedOfBytes;
template <>
struct SignedOfBytes<1> {
  typedef int8_t Type;
};
template <>
struct SignedOfBytes<2> {
  typedef int16_t Type;
};
template <>
struct SignedOfBytes<4> {
  typedef int32_t Type;
};

constexpr int storage_bytes(int bits) { return bits <= 8 ? 1 : bits <= 16 ? 2
                                                                          : 4; }

}  // namespace detail

// Posit Standard 2022 with any exponent size. The code is the N-bit string as a signed integer.
template <int N, int Es>
struct Posit {
  typedef typename detail::SignedOfBytes<detail::storage_bytes(N)>::Type Code;
  static const int kBits = N;
  static const int kExponentBits = Es;
  static const int kMaxScale = (N - 2) * (1 << Es);
  static const int kFractionBits = N - 3 - Es > 0 ? N - 3 - Es : 0;
  static const int kMinExponent = -kMaxScale - kFractionBits;
  static const int kMaxExponent = kMaxScale;
  static const int kMantissaBits = kFractionBits + 1;
  static const Code kMaxCode = static_cast<Code>((UINT32_C(1) << (N - 1)) - 1);
  static const Code kMinCode = static_cast<Code>(-kMaxCode);
  static const Code kNaR = static_cast<Code>(-kMaxCode - 1);
  static const bool kHasNaR = true;

  static MINUN_INLINE bool is_nar(Code code) { return code == kNaR; }
  static MINUN_INLINE Code nar() { return kNaR; }

  static MINUN_INLINE Decoded decode(Code code) {
    Decoded out = {0, 0};
    const bool negative = code < 0;
    const uint32_t magnitude = negative ? 0u - static_cast<uint32_t>(code) : static_cast<uint32_t>(code);
    uint32_t bits = magnitude << (33 - N);  // the regime starts at the top bit
    if (bits == 0) return out;
    int regime;
    if (bits >> 31) {
      const int run = leading_zeros(~bits);
      regime = run - 1;
      bits <<= run;
    } else {
      const int run = leading_zeros(bits);
      regime = -run;
      bits <<= run;
    }
    bits <<= 1;
    int exponent = regime * (1 << Es);
    if (Es > 0) {
      exponent += static_cast<int>(bits >> ((32 - Es) & 31));
      bits <<= Es;
    }
    uint32_t mantissa = UINT32_C(1) << kFractionBits;
    if (kFractionBits > 0) mantissa |= bits >> ((32 - kFractionBits) & 31);
    out.mantissa = negative ? -static_cast<int32_t>(mantissa) : static_cast<int32_t>(mantissa);
    out.exponent = static_cast<int16_t>(exponent - kFractionBits);
    return out;
  }

  // `significand` has its top bit set and counts 2^exponent there; `sticky`: something non-zero lies below it.
  // Nearest, ties to even on the bit string, never to zero and never to NaR.
  static inline Code encode(bool negative, uint32_t significand, int exponent, bool sticky) {
    uint32_t code;
    if (static_cast<unsigned>(exponent + kMaxScale) >= 2u * kMaxScale) {
      code = exponent < 0 ? 1u : static_cast<uint32_t>(kMaxCode);
    } else {
      // 10 (or 01), exponent bits, fraction: shifting this right repeats the regime's leading bit.
      const int regime = exponent >> Es;
      const uint32_t low = static_cast<uint32_t>(exponent) & ((1u << Es) - 1u);
      uint32_t string = (significand << 1) >> (2 + Es);
      string |= low << (30 - Es);
      string |= regime < 0 ? UINT32_C(0x40000000) : UINT32_C(0x80000000);
      const int shift = (regime < 0 ? ~regime : regime) + 33 - N;
#if defined(__AVR__)
      if (N <= 16) return finish_16(negative, string, static_cast<uint8_t>(shift - 16), significand, sticky);
#endif
      const uint32_t doubled = static_cast<uint32_t>(static_cast<int32_t>(string) >> (shift - 1));
      code = (doubled >> 1) & static_cast<uint32_t>(kMaxCode);
      if (doubled & 1u) {
        const uint32_t below = N < 32 ? string << ((33 - shift) & 31) : (string << (32 - shift)) << 1;
        const uint32_t lost = significand << (31 - Es);
        if (sticky || ((doubled & 2u) | below | lost) != 0) ++code;
      }
    }
    return static_cast<Code>(negative ? 0u - code : code);
  }

  // The same from 16 leading bits, in 16-bit arithmetic; for N up to 16.
  static inline Code encode_16(bool negative, uint16_t significand, int exponent, bool sticky) {
    uint16_t code;
    if (exponent >= kMaxScale) {
      code = static_cast<uint16_t>(kMaxCode);
    } else if (exponent < -kMaxScale) {
      code = 1;
    } else {
      const int8_t regime = static_cast<int8_t>(exponent >> Es);
      uint16_t string = static_cast<uint16_t>(significand << 1) >> (2 + Es);
      string |= static_cast<uint16_t>((static_cast<uint8_t>(exponent) & ((1u << Es) - 1u)) << (14 - Es));
      string |= regime < 0 ? 0x4000u : 0x8000u;
      uint8_t shift = static_cast<uint8_t>((regime < 0 ? ~regime : regime) + 17 - N);
      uint8_t below = (significand & ((2u << Es) - 1u)) != 0 || sticky;
      int16_t word = static_cast<int16_t>(string);
      if (N <= 8) {  // shift is 9 or more
        below = static_cast<uint8_t>(below | static_cast<uint8_t>(word));
        word >>= 8;
        shift = static_cast<uint8_t>(shift - 8);
      }
      while (--shift != 0) {
        below = static_cast<uint8_t>(below | (static_cast<uint8_t>(word) & 1u));
        word >>= 1;
      }
      code = static_cast<uint16_t>(word >> 1) & static_cast<uint16_t>(kMaxCode);
      if ((word & 1) && (below || (code & 1u))) ++code;
    }
    return static_cast<Code>(negative ? 0u - code : code);
  }

 private:
  // The last steps of encode on 16-bit words, bit by bit: AVR has no barrel shifter.
  static inline Code finish_16(bool negative, uint32_t string, uint8_t shift, uint32_t significand, bool sticky) {
    int16_t word = static_cast<int16_t>(string >> 16);
    const uint8_t lost = static_cast<uint8_t>(significand) & static_cast<uint8_t>((1u << (Es + 1)) - 1u);
    uint8_t below = static_cast<uint8_t>(static_cast<uint16_t>(string) != 0 || lost != 0 || sticky);
    while (--shift != 0) {
      below = static_cast<uint8_t>(below | (static_cast<uint8_t>(word) & 1u));
      word >>= 1;
    }
    uint16_t code = static_cast<uint16_t>(word >> 1) & static_cast<uint16_t>(kMaxCode);
    if ((word & 1) && (below || (code & 1u))) ++code;
    return static_cast<Code>(negative ? 0u - code : code);
  }
};

// value = code * 2^Exponent; round half up, saturate. Exponent is the tensor's scale.
template <int Bits, int Exponent>
struct Fixed {
  typedef typename detail::SignedOfBytes<detail::storage_bytes(Bits)>::Type Code;
  static const int kBits = Bits;
  static const int kExponent = Exponent;
  static const int kMinExponent = Exponent;
  static const int kMaxExponent = Exponent + Bits - 1;
  static const int kMantissaBits = Bits - 1;
  static const Code kMaxCode = static_cast<Code>((UINT32_C(1) << (Bits - 1)) - 1);
  static const Code kMinCode = static_cast<Code>(-kMaxCode - 1);
  static const bool kHasNaR = false;

  static MINUN_INLINE bool is_nar(Code) { return false; }
  static MINUN_INLINE Code nar() { return 0; }

  static MINUN_INLINE Decoded decode(Code code) {
    const Decoded out = {code, Exponent};
    return out;
  }

  static inline Code encode(bool negative, uint32_t significand, int exponent, bool sticky) {
    const int drop = Exponent + 31 - exponent;  // low bits of the significand below one unit
    if (drop > 32) return 0;
    if (drop <= 0) return negative ? static_cast<Code>(kMinCode) : static_cast<Code>(kMaxCode);
    uint32_t quotient = drop == 32 ? 0 : significand >> drop;
    const bool half = (significand >> (drop - 1)) & 1u;
    const bool below = sticky || (drop > 1 && (significand << (33 - drop)) != 0);
    if (half && (!negative || below)) ++quotient;
    if (quotient > static_cast<uint32_t>(kMaxCode)) {
      return negative ? static_cast<Code>(kMinCode) : static_cast<Code>(kMaxCode);
    }
    return static_cast<Code>(negative ? 0u - quotient : quotient);
  }
};

// Integer codes with scale and zero point, which stand in the kernel's arguments (TensorFlow Lite's arithmetic).
template <int Bits>
struct Affine {
  typedef typename detail::SignedOfBytes<detail::storage_bytes(Bits)>::Type Code;
  static const int kBits = Bits;
  static const Code kMaxCode = static_cast<Code>((UINT32_C(1) << (Bits - 1)) - 1);
  static const Code kMinCode = static_cast<Code>(-kMaxCode - 1);
};
typedef Affine<8> Affine8;
typedef Affine<16> Affine16;
typedef Affine<32> Affine32;

struct Float32 {
  typedef float Code;
  static const int kBits = 32;
  static MINUN_INLINE float to_float(float code) { return code; }
  static MINUN_INLINE float from_float(float value) { return value; }
};

namespace detail {

MINUN_INLINE uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
MINUN_INLINE float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace detail

// IEEE 754 binary16 for storage; arithmetic is in float32.
struct Float16 {
  typedef uint16_t Code;
  static const int kBits = 16;

  static inline float to_float(Code code) {
    const uint32_t sign = static_cast<uint32_t>(code & 0x8000u) << 16;
    const uint32_t exponent = (code >> 10) & 31u;
    uint32_t fraction = code & 0x3FFu;
    if (exponent == 31) return detail::float_of(sign | 0x7F800000u | (fraction << 13));
    if (exponent == 0) {
      if (fraction == 0) return detail::float_of(sign);
      const int shift = leading_zeros(fraction) - 21;  // brings the leading one to bit 10
      fraction = (fraction << shift) & 0x3FFu;
      return detail::float_of(sign | (static_cast<uint32_t>(113 - shift) << 23) | (fraction << 13));
    }
    return detail::float_of(sign | ((exponent + 112u) << 23) | (fraction << 13));
  }

  // Nearest, ties to even; overflow gives infinity.
  static inline Code from_float(float value) {
    const uint32_t bits = detail::bits_of(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return static_cast<Code>(sign | 0x7E00u);
    if (magnitude >= 0x47800000u) return static_cast<Code>(sign | 0x7C00u);
    uint32_t kept, drop;
    if (magnitude >= 0x38800000u) {  // normal
      kept = magnitude - 0x38000000u;
      drop = 13;
    } else {
      if (magnitude < 0x33000000u) return static_cast<Code>(sign);
      kept = (magnitude & 0x7FFFFFu) | 0x800000u;
      drop = 126u - (magnitude >> 23);
    }
    uint32_t code = kept >> drop;
    const uint32_t rest = kept & ((UINT32_C(1) << drop) - 1u);
    const uint32_t half = UINT32_C(1) << (drop - 1);
    if (rest > half || (rest == half && (code & 1u))) ++code;
    return static_cast<Code>(sign | code);
  }
};

// The upper half of a float32, for storage; arithmetic is in float32.
struct BFloat16 {
  typedef uint16_t Code;
  static const int kBits = 16;
  static MINUN_INLINE float to_float(Code code) { return detail::float_of(static_cast<uint32_t>(code) << 16); }
  // Nearest, ties to even.
  static inline Code from_float(float value) {
    const uint32_t bits = detail::bits_of(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0u;
    return static_cast<Code>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
  }
};

// Indices (argmax, gather): plain int32.
struct Index32 {
  typedef int32_t Code;
  static const int kBits = 32;
};

// Rounds value * 2^exponent into a posit or fixed-point format.
template <class Out>
MINUN_NOINLINE typename Out::Code encode32(int32_t value, int exponent) {
  if (value == 0) return 0;
  const bool negative = value < 0;
  const uint32_t magnitude = negative ? 0u - static_cast<uint32_t>(value) : static_cast<uint32_t>(value);
  const int zeros = leading_zeros(magnitude);
  return Out::encode(negative, magnitude << zeros, 31 - zeros + exponent, false);
}

namespace detail {

template <class Out, bool Short>
struct Encode16 {  // never called
  static MINUN_INLINE typename Out::Code of(bool, uint16_t, int, bool) { return 0; }
};
template <int N, int Es>
struct Encode16<Posit<N, Es>, true> {
  static MINUN_INLINE typename Posit<N, Es>::Code of(bool negative, uint16_t significand, int exponent, bool sticky) {
    return Posit<N, Es>::encode_16(negative, significand, exponent, sticky);
  }
};

}  // namespace detail

template <class Out>
MINUN_INLINE typename Out::Code encode64_inline(int64_t value, int exponent) {
  if (value == 0) return 0;
  const bool negative = value < 0;
#if defined(__AVR__)
  union {
    uint64_t whole;
    uint8_t bytes[8];
  } split;
  split.whole = negative ? 0u - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  int8_t last = 7;
  while (split.bytes[last] == 0) --last;
  if (Out::kHasNaR && Out::kBits <= 16) {
    uint16_t high = static_cast<uint16_t>(split.bytes[last] << 8);
    uint8_t third = 0;
    if (last >= 1) high |= split.bytes[last - 1];
    if (last >= 2) third = split.bytes[last - 2];
    bool below = false;
    for (int8_t i = static_cast<int8_t>(last - 3); i >= 0; --i) below = below || split.bytes[i] != 0;
    int place = 8 * last + 7 + exponent;
    while (!(high & 0x8000u)) {
      high = static_cast<uint16_t>((high << 1) | static_cast<uint16_t>(third >> 7));
      third = static_cast<uint8_t>(third << 1);
      --place;
    }
    return detail::Encode16<Out, (Out::kHasNaR && Out::kBits <= 16)>::of(negative, high, place, below || third != 0);
  }
  uint32_t leading = 0;
  int8_t from = last;
  for (uint8_t i = 0; i < 4; ++i, --from) leading = (leading << 8) | (from >= 0 ? split.bytes[from] : 0);
  uint8_t next = from >= 0 ? split.bytes[from] : 0;  // some of it moves into the leading bits
  bool rest = false;
  while (--from >= 0) rest = rest || split.bytes[from] != 0;
  int place = 8 * last + 7 + exponent;
  while (!(leading >> 31)) {
    leading = (leading << 1) | static_cast<uint32_t>(next >> 7);
    next = static_cast<uint8_t>(next << 1);
    --place;
  }
  return Out::encode(negative, leading, place, rest || next != 0);
#else
  const uint64_t magnitude = negative ? 0u - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  uint32_t high = static_cast<uint32_t>(magnitude >> 32);
  uint32_t low = static_cast<uint32_t>(magnitude);
  int top = 63;
  if (high == 0) {
    high = low;
    low = 0;
    top = 31;
  }
  const int shift = leading_zeros(high);
  high = (high << shift) | ((low >> 1) >> (31 - shift));
  low <<= shift;
  return Out::encode(negative, high, top - shift + exponent, low != 0);
#endif
}

template <class Out>
MINUN_NOINLINE typename Out::Code encode64(int64_t value, int exponent) {
  return encode64_inline<Out>(value, exponent);
}

}  // namespace minun

#endif
