// SPDX-License-Identifier: Apache-2.0
// float to code and back, for the edges of a network: what a sensor gives, what a user reads. Uses float; kernels of
// other formats do not.
#ifndef MINUN_IO_H
#define MINUN_IO_H

#include <stdint.h>
#include <string.h>

#include "minun/formats.h"

namespace minun {

namespace detail {

// 2^exponent, 0 or infinity where a float ends.
MINUN_INLINE float power_of_two(int exponent) {
  if (exponent > 127) return float_of(0x7F800000u);
  if (exponent >= -126) return float_of(static_cast<uint32_t>(exponent + 127) << 23);
  return exponent < -149 ? 0.0f : float_of(UINT32_C(1) << (exponent + 149));
}

}  // namespace detail

// Posit and fixed-point: the code nearest to `value`, by the format's rounding. NaN and, for posits, infinities
// give NaR (0 in fixed-point, which has none; its infinities saturate).
template <class Format>
struct FloatEdge {
  typedef typename Format::Code Code;

  static Code encode(float value) {
    const uint32_t bits = detail::bits_of(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    const bool negative = (bits >> 31) != 0;
    if (magnitude == 0) return 0;
    if (magnitude >= 0x7F800000u) {
      if (magnitude > 0x7F800000u || Format::kHasNaR) return Format::nar();
      return negative ? static_cast<Code>(Format::kMinCode) : static_cast<Code>(Format::kMaxCode);
    }
    const int biased = static_cast<int>(magnitude >> 23);
    const uint32_t fraction = magnitude & 0x7FFFFFu;
    const int32_t mantissa = static_cast<int32_t>(biased == 0 ? fraction : fraction | 0x800000u);
    return encode32<Format>(negative ? -mantissa : mantissa, (biased == 0 ? 1 : biased) - 150);
  }

  static float decode(Code code) {
    if (Format::is_nar(code)) return detail::float_of(0x7FC00000u);
    const Decoded found = Format::decode(code);
    // in two steps, so that no power on the way leaves float's range
    const int half = found.exponent / 2;
    return static_cast<float>(found.mantissa) * detail::power_of_two(half) *
           detail::power_of_two(found.exponent - half);
  }
};

template <>
struct FloatEdge<Float32> {
  static float encode(float value) { return value; }
  static float decode(float code) { return code; }
};

template <>
struct FloatEdge<Float16> {
  static uint16_t encode(float value) { return Float16::from_float(value); }
  static float decode(uint16_t code) { return Float16::to_float(code); }
};

template <>
struct FloatEdge<BFloat16> {
  static uint16_t encode(float value) { return BFloat16::from_float(value); }
  static float decode(uint16_t code) { return BFloat16::to_float(code); }
};

// Indices are themselves; a float is cut to its integer.
template <>
struct FloatEdge<Index32> {
  static int32_t encode(float value) { return static_cast<int32_t>(value); }
  static float decode(int32_t code) { return static_cast<float>(code); }
};

// code = value / scale + zero_point, half away from zero, saturated (TensorFlow Lite's quantiser).
template <int Bits>
inline typename Affine<Bits>::Code encode_affine(float value, float scale, int32_t zero_point) {
  typedef typename Affine<Bits>::Code Code;
  const float scaled = value / scale;
  const float low = static_cast<float>(Affine<Bits>::kMinCode), high = static_cast<float>(Affine<Bits>::kMaxCode);
  if (!(scaled > -16777216.0f)) return static_cast<Code>(Affine<Bits>::kMinCode);  // also NaN
  if (scaled > 16777216.0f) return static_cast<Code>(Affine<Bits>::kMaxCode);
  int32_t whole = static_cast<int32_t>(scaled);  // towards zero
  const float rest = scaled - static_cast<float>(whole);
  if (rest >= 0.5f) ++whole;
  if (rest <= -0.5f) --whole;
  const int32_t code = whole + zero_point;
  if (static_cast<float>(code) < low) return static_cast<Code>(Affine<Bits>::kMinCode);
  if (static_cast<float>(code) > high) return static_cast<Code>(Affine<Bits>::kMaxCode);
  return static_cast<Code>(code);
}

inline float decode_affine(int32_t code, float scale, int32_t zero_point) {
  return static_cast<float>(code - zero_point) * scale;
}

}  // namespace minun

#endif
