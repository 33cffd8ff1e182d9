// SPDX-License-Identifier: Apache-2.0
// The same values in another format or family, rounded once, in raster order or in reverse.
#ifndef MINUN_CONVERT_H
#define MINUN_CONVERT_H

#include <stdint.h>

#include "minun/arithmetic.h"
#include "minun/flash.h"
#include "minun/io.h"
#include "minun/raster.h"

namespace minun {

namespace detail {

// A float32 as mantissa and exponent, exact; false for infinities and NaN.
inline bool split_float(float value, Decoded* out) {
  const uint32_t bits = bits_of(value);
  const int16_t biased = static_cast<int16_t>((bits >> 23) & 255u);
  const int32_t fraction = static_cast<int32_t>(bits & 0x7FFFFFu);
  const int32_t mantissa = biased == 0 ? fraction : fraction | 0x800000;
  out->mantissa = bits >> 31 ? -mantissa : mantissa;
  out->exponent = static_cast<int16_t>((biased == 0 ? 1 : biased) - 150);
  return biased != 255;
}

// mantissa * 2^exponent rounded to float32, ties to even; `odd`: to 24 bits with the last bit sticky, so that a second
// rounding to 16 bits is the only one that counts.
inline float join_float(Decoded value, bool odd) {
  uint32_t magnitude = magnitude_of(value.mantissa);
  if (magnitude == 0) return 0.0f;
  const uint32_t sign = value.mantissa < 0 ? UINT32_C(1) << 31 : 0u;
  const int zeros = leading_zeros(magnitude);
  magnitude <<= zeros;
  const int exponent = value.exponent + 31 - zeros;  // of the leading bit
  if (exponent > 127) return float_of(sign | 0x7F800000u);
  int drop = exponent >= -126 ? 8 : 8 - 126 - exponent;
  if (drop > 33) drop = 33;
  uint32_t kept = drop >= 32 ? 0u : magnitude >> drop;
  const uint32_t rest = drop >= 32 ? magnitude : magnitude & ((UINT32_C(1) << drop) - 1u);
  if (odd) {
    if (rest != 0) kept |= 1u;
  } else if (drop <= 32) {
    const uint32_t half = UINT32_C(1) << (drop - 1);
    if (rest > half || (rest == half && (kept & 1u))) ++kept;
  }
  return float_of(sign | ((exponent >= -126 ? static_cast<uint32_t>(exponent + 126) << 23 : 0u) + kept));
}

template <class Out, class In, bool ToFloat = IsFloat<Out>::kValue, bool FromFloat = IsFloat<In>::kValue>
struct Conversion {  // posit and fixed-point among each other
  static inline typename Out::Code apply(typename In::Code code) {
    if (In::is_nar(code)) return Out::nar();
    const Decoded value = decode<In>(code);
    return encode32<Out>(value.mantissa, value.exponent);
  }
};

template <class Out, class In>
struct Conversion<Out, In, true, false> {
  static inline typename Out::Code apply(typename In::Code code) {
    if (In::is_nar(code)) return Out::from_float(float_of(0x7FC00000u));
    return Out::from_float(join_float(decode<In>(code), Out::kBits < 32));
  }
};

template <class Out, class In>
struct Conversion<Out, In, false, true> {
  static inline typename Out::Code apply(typename In::Code code) {
    Decoded value;
    const float number = In::to_float(code);
    if (split_float(number, &value)) return encode32<Out>(value.mantissa, value.exponent);
    if (Out::kHasNaR || number != number) return Out::nar();
    return number > 0 ? Out::kMaxCode : Out::kMinCode;
  }
};

template <class Out, class In>
struct Conversion<Out, In, true, true> {
  static inline typename Out::Code apply(typename In::Code code) { return Out::from_float(In::to_float(code)); }
};

// |magnitude| * 2^exponent / (scale * 2^scale_exponent) to the nearest integer, halves away from zero, saturated to
// 2^20; 2^23 <= scale < 2^24.
inline int32_t steps_of(uint32_t magnitude, int exponent, uint32_t scale, int scale_exponent) {
  if (magnitude == 0) return 0;
  const int zeros = leading_zeros(magnitude);
  const int apart = exponent - scale_exponent;
  if (32 - zeros + apart > 46) return INT32_C(1) << 20;
  if (32 - zeros + apart < 20) return 0;
  const uint64_t above = apart > 0 ? static_cast<uint64_t>(magnitude) << apart : magnitude;
  const uint64_t below = apart < 0 ? static_cast<uint64_t>(scale) << -apart : scale;
  const uint64_t steps = (above + below / 2) / below;
  return steps > (UINT32_C(1) << 20) ? INT32_C(1) << 20 : static_cast<int32_t>(steps);
}

template <class Out>
inline typename Out::Code place_code(int32_t code) {
  return static_cast<typename Out::Code>(code < Out::kMinCode ? Out::kMinCode : code > Out::kMaxCode ? Out::kMaxCode
                                                                                                     : code);
}

}  // namespace detail

template <class Out, class In, class Where, bool kReverse = false>
void convert(const typename In::Code* in, typename Out::Code* out, int32_t count) {
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    out[i] = detail::Conversion<Out, In>::apply(Where::load(in + i));
  }
}

// Posit or fixed-point to affine: the exact quotient by the scale, halves away from zero.
template <class Out, class In, class Where, bool kReverse = false>
void convert_to_affine(const typename In::Code* in, typename Out::Code* out, int32_t count, uint32_t scale,
                       int scale_exponent, int32_t zero_point) {
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    const typename In::Code code = Where::load(in + i);
    const Decoded value = detail::decode<In>(code);
    const int32_t steps =
        detail::steps_of(detail::magnitude_of(value.mantissa), value.exponent, scale, scale_exponent);
    out[i] = In::is_nar(code) ? static_cast<typename Out::Code>(zero_point)
                              : detail::place_code<Out>(zero_point + (value.mantissa < 0 ? -steps : steps));
  }
}

// float to affine, as at a network's edge (AffineQuantize).
template <class Out, class In, class Where, bool kReverse = false>
void quantise(const typename In::Code* in, typename Out::Code* out, int32_t count, float scale, int32_t zero_point) {
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    out[i] = encode_affine<Out::kBits>(In::to_float(Where::load(in + i)), scale, zero_point);
  }
}

// Affine to posit or fixed-point: (code - zero point) * scale, exact, rounded once.
template <class Out, class In, class Where, bool kReverse = false>
void convert_from_affine(const typename In::Code* in, typename Out::Code* out, int32_t count, int32_t scale,
                         int scale_exponent, int32_t zero_point) {
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    const int64_t steps = static_cast<int64_t>(Where::load(in + i)) - zero_point;
    out[i] = encode64<Out>(steps * scale, scale_exponent);
  }
}

// Affine to float (DEQUANTIZE).
template <class Out, class In, class Where, bool kReverse = false>
void dequantise(const typename In::Code* in, typename Out::Code* out, int32_t count, float scale,
                int32_t zero_point) {
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    const int32_t steps = static_cast<int32_t>(Where::load(in + i)) - zero_point;
    out[i] = Out::from_float(rounded(static_cast<float>(steps) * scale));
  }
}

}  // namespace minun

#endif  // MINUN_CONVERT_H
