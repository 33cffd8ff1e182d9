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

// 2^exponent up to 2^127; 0 for what is no normal float.
MINUN_INLINE float power_of_two(int exponent) {
  return exponent < -126 ? 0.0f : float_of(static_cast<uint32_t>(exponent + 127) << 23);
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
    // in two steps, so that no power on the way leaves float's range (below 2^-252 the value is 0 anyway)
    static_assert(Format::kMaxExponent <= 2 * 127, "numbers beyond the square of a float's largest");
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

// Indices are themselves; a float is cut to its integer and saturates, NaN is 0.
template <>
struct FloatEdge<Index32> {
  static int32_t encode(float value) {
    if (value != value) return 0;
    if (value >= 2147483648.0f) return INT32_MAX;
    return value < -2147483648.0f ? INT32_MIN : static_cast<int32_t>(value);
  }
  static float decode(int32_t code) { return static_cast<float>(code); }
};

namespace detail {

// Codes less their zero point, with room to saturate.
template <bool Wide>
struct AffineSteps {
  typedef int32_t Type;
  static MINUN_INLINE float limit() { return 131072.0f; }
};
template <>
struct AffineSteps<true> {
  typedef int64_t Type;
  static MINUN_INLINE float limit() { return 8589934592.0f; }
};

}  // namespace detail

// code = value / scale + zero_point: divided in float32, half away from zero, saturated; NaN is the zero point
// (TensorFlow Lite's quantiser, AffineQuantize).
template <int Bits>
inline typename Affine<Bits>::Code encode_affine(float value, float scale, int32_t zero_point) {
  typedef Affine<Bits> Out;
  typedef typename Out::Code Code;
  typedef detail::AffineSteps<(Bits > 16)> Steps;
  const float scaled = rounded(value / scale);
  if (scaled != scaled) return static_cast<Code>(zero_point);
  if (scaled >= Steps::limit()) return static_cast<Code>(Out::kMaxCode);
  if (scaled <= -Steps::limit()) return static_cast<Code>(Out::kMinCode);
  typename Steps::Type steps = static_cast<typename Steps::Type>(scaled);  // toward zero
  const float rest = scaled - static_cast<float>(steps);
  if (rest >= 0.5f) ++steps;
  if (rest <= -0.5f) --steps;
  steps += zero_point;
  if (steps < Out::kMinCode) return static_cast<Code>(Out::kMinCode);
  return steps > Out::kMaxCode ? static_cast<Code>(Out::kMaxCode) : static_cast<Code>(steps);
}

// (code - zero_point) * scale in float32.
template <class Code>
inline float decode_affine(Code code, float scale, int32_t zero_point) {
  typedef typename detail::AffineSteps<(sizeof(Code) > 2)>::Type Steps;
  return static_cast<float>(static_cast<Steps>(code) - zero_point) * scale;
}

}  // namespace minun

#endif
