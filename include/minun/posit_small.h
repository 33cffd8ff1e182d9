// SPDX-License-Identifier: Apache-2.0
// Posits of up to 16 bits as 16-bit significands: decoding, and one operation rounded once, in 32-bit arithmetic. The
// same bits as through `Decoded` and the exact sums, in fewer steps; on AVR, which has no barrel shifter, far fewer.
#ifndef MINUN_POSIT_SMALL_H
#define MINUN_POSIT_SMALL_H

#include <stdint.h>

#include "minun/formats.h"

namespace minun {

namespace detail {

// |value| = significand * 2^(exponent - 15); the significand's top bit is set, or all is zero. In one word, significand
// above exponent: AVR passes that in registers.
typedef uint32_t Unpacked;

MINUN_INLINE Unpacked unpacked(uint16_t significand, int16_t exponent) {
  return (static_cast<uint32_t>(significand) << 16) | static_cast<uint16_t>(exponent);
}
MINUN_INLINE uint16_t significand_of(Unpacked value) { return static_cast<uint16_t>(value >> 16); }
MINUN_INLINE int16_t exponent_of(Unpacked value) { return static_cast<int16_t>(static_cast<uint16_t>(value)); }

template <class F>
struct IsSmallPosit {
  static const bool kValue = false;
};
template <int N, int Es>
struct IsSmallPosit<Posit<N, Es> > {
  static const bool kValue = N <= 16;
};

#if defined(__AVR__)
#define MINUN_SHARED MINUN_NOINLINE  // where code is dearer than a call
#else
#define MINUN_SHARED MINUN_INLINE
#endif

// NaR gives 0, as `decode` does.
template <class F>
MINUN_SHARED Unpacked unpack(typename F::Code code) {
#if defined(__AVR__)
  uint16_t bits = static_cast<uint16_t>(code);
  if (code < 0) bits = static_cast<uint16_t>(0u - bits);
  bits = static_cast<uint16_t>(bits << (17 - F::kBits));  // the regime starts at the top bit
  if (bits == 0) return 0;
  int8_t regime;
  if (bits & 0x8000u) {
    regime = -1;
    do {
      bits = static_cast<uint16_t>(bits << 1);
      ++regime;
    } while (bits & 0x8000u);
  } else {
    regime = 0;
    do {
      bits = static_cast<uint16_t>(bits << 1);
      --regime;
    } while (!(bits & 0x8000u));
  }
  int16_t exponent = static_cast<int16_t>(regime * (1 << F::kExponentBits));
  for (uint8_t i = F::kExponentBits; i > 0; --i) {
    bits = static_cast<uint16_t>(bits << 1);
    if (bits & 0x8000u) exponent = static_cast<int16_t>(exponent + (1 << (i - 1)));
  }
  return unpacked(bits | 0x8000u, exponent);
#else
  const uint32_t magnitude = code < 0 ? 0u - static_cast<uint32_t>(code) : static_cast<uint32_t>(code);
  uint32_t bits = magnitude << (33 - F::kBits);
  if (bits == 0) return 0;
  const bool ones = bits >> 31 != 0;
  const int run = leading_zeros(ones ? ~bits : bits);
  bits = (bits << run) << 1;
  int exponent = (ones ? run - 1 : -run) * (1 << F::kExponentBits);
  if (F::kExponentBits > 0) {
    exponent += static_cast<int>(bits >> ((32 - F::kExponentBits) & 31));
    bits <<= F::kExponentBits;
  }
  return unpacked(static_cast<uint16_t>(0x8000u | (bits >> 17)), static_cast<int16_t>(exponent));
#endif
}

#if defined(__AVR__)
// The bit string built from its end, shifted right into place bit by bit: exponent, end of the regime, the regime.
template <class Out>
MINUN_NOINLINE typename Out::Code pack_16(bool negative, uint16_t significand, int16_t exponent, uint8_t below) {
  uint16_t code;
  if (exponent >= Out::kMaxScale) {
    code = static_cast<uint16_t>(Out::kMaxCode);
  } else if (exponent < -Out::kMaxScale) {
    code = 1;
  } else {
    uint16_t word = static_cast<uint16_t>(significand << 1);
    for (uint8_t i = 0; i < Out::kExponentBits; ++i, exponent >>= 1) {
      below = static_cast<uint8_t>(below | (static_cast<uint8_t>(word) & 1u));
      word >>= 1;
      if (static_cast<uint8_t>(exponent) & 1u) word |= 0x8000u;
    }
    int8_t regime = static_cast<int8_t>(exponent);
    below = static_cast<uint8_t>(below | (static_cast<uint8_t>(word) & 1u));
    word >>= 1;
    if (regime < 0) {
      word |= 0x8000u;
      do {
        below = static_cast<uint8_t>(below | (static_cast<uint8_t>(word) & 1u));
        word >>= 1;
      } while (++regime != 0);
    } else {
      do {
        below = static_cast<uint8_t>(below | (static_cast<uint8_t>(word) & 1u));
        word = (word >> 1) | 0x8000u;
      } while (--regime >= 0);
    }
    const uint16_t half = 1u << (16 - Out::kBits);
    code = word >> (17 - Out::kBits);
    if ((word & half) && (below || (word & (half - 1u)) || (code & 1u))) ++code;
  }
  return static_cast<typename Out::Code>(negative ? 0u - code : code);
}
#endif

// `Out::encode`; 16 bits of the significand suffice, with what they leave out in `sticky`.
template <class Out>
MINUN_INLINE typename Out::Code pack(bool negative, uint32_t significand, int16_t exponent, bool sticky) {
#if defined(__AVR__)
  const bool low = static_cast<uint16_t>(significand) != 0;
  return pack_16<Out>(negative, static_cast<uint16_t>(significand >> 16), exponent, sticky || low ? 1 : 0);
#else
  return Out::encode(negative, significand, exponent, sticky);
#endif
}

MINUN_INLINE uint32_t product_16(uint16_t a, uint16_t b) {
#if defined(MINUN_ASM_AVR)
  uint32_t product;
  const uint8_t z = 0;
  __asm__(
      "mul %A[a], %A[b]\n movw %A[p], r0\n mul %B[a], %B[b]\n movw %C[p], r0\n"
      "mul %A[a], %B[b]\n add %B[p], r0\n adc %C[p], r1\n adc %D[p], %[z]\n"
      "mul %B[a], %A[b]\n add %B[p], r0\n adc %C[p], r1\n adc %D[p], %[z]\n clr r1\n"
      : [p] "=&r"(product)
      : [a] "r"(a), [b] "r"(b), [z] "r"(z)
      : "r0");
  return product;
#else
  return static_cast<uint32_t>(a) * b;
#endif
}

#if defined(__AVR__)
// One rounding of a sum of `count` bytes, lowest first, times 2^exponent; it is not negative.
template <class Out>
MINUN_NOINLINE typename Out::Code pack_bytes(const uint8_t* bytes, uint8_t count, int16_t exponent) {
  while (count > 0 && bytes[count - 1] == 0) --count;
  if (count == 0) return 0;
  uint8_t at = count;
  uint16_t leading = static_cast<uint16_t>(bytes[--at] << 8);
  uint8_t next = 0, below = 0;
  if (at > 0) leading |= bytes[--at];
  if (at > 0) next = bytes[--at];
  while (at > 0) below = static_cast<uint8_t>(below | bytes[--at]);
  exponent = static_cast<int16_t>(exponent + 8 * count - 1);
  for (; !(leading & 0x8000u); --exponent) {
    leading = static_cast<uint16_t>(leading << 1);
    if (next & 0x80u) ++leading;
    next = static_cast<uint8_t>(next << 1);
  }
  return pack_16<Out>(false, leading, exponent, below | next);
}
#endif

template <class Out>
MINUN_INLINE typename Out::Code small_product(Unpacked a, Unpacked b, bool negative) {
  if (significand_of(a) == 0 || significand_of(b) == 0) return 0;
  uint32_t product = product_16(significand_of(a), significand_of(b));
  int16_t exponent = static_cast<int16_t>(exponent_of(a) + exponent_of(b) + 1);
  if (!(product >> 31)) {
    product <<= 1;
    --exponent;
  }
  return pack<Out>(negative, product, exponent, false);
}

// `part` shifted right by 0 to 31 bits; `sticky` is set when bits are lost.
MINUN_INLINE uint32_t shifted_down(uint32_t part, uint8_t bits, bool* sticky) {
#if defined(__AVR__)
  uint8_t lost = 0;
  for (; bits >= 8; bits = static_cast<uint8_t>(bits - 8)) {
    lost |= static_cast<uint8_t>(part);
    part >>= 8;
  }
  for (; bits > 0; --bits) {
    lost = static_cast<uint8_t>(lost | (static_cast<uint8_t>(part) & 1u));
    part >>= 1;
  }
  *sticky = lost != 0;
  return part;
#else
  *sticky = (part & ((UINT32_C(1) << bits) - 1u)) != 0;
  return part >> bits;
#endif
}

// |a| >= |b|, a is not zero; `subtract` when their signs differ.
template <class Out>
MINUN_SHARED typename Out::Code small_sum(Unpacked a, Unpacked b, bool negative, bool subtract) {
  uint32_t sum = static_cast<uint32_t>(significand_of(a)) << 15;  // the top bit stays free
  bool sticky = false;
  if (b != 0) {
    uint32_t part = static_cast<uint32_t>(significand_of(b)) << 15;
    const int16_t apart = static_cast<int16_t>(exponent_of(a) - exponent_of(b));
    if (apart > 31) {
      part = 0;
      sticky = true;
    } else {
      part = shifted_down(part, static_cast<uint8_t>(apart), &sticky);
    }
    if (!subtract) {
      sum += part;
    } else {
      sum -= part;
      if (sticky) --sum;
      if (sum == 0) return 0;
    }
  }
  int16_t exponent = static_cast<int16_t>(exponent_of(a) + 1);
#if defined(__AVR__)
  for (; !(sum >> 24); sum <<= 8) exponent = static_cast<int16_t>(exponent - 8);
  for (; !(sum >> 31); sum <<= 1) --exponent;
#else
  const int zeros = leading_zeros(sum);
  sum <<= zeros;
  exponent = static_cast<int16_t>(exponent - zeros);
#endif
  return pack<Out>(negative, sum, exponent, sticky);
}

#undef MINUN_SHARED

}  // namespace detail

}  // namespace minun

#endif  // MINUN_POSIT_SMALL_H
