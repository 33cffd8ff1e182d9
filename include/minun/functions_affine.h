// SPDX-License-Identifier: Apache-2.0
// Functions of int16 codes as TensorFlow Lite's reference kernels compute them, where no table of lines serves
// (line_table.h); those of int8 are tables over all codes (functions.h).
#ifndef MINUN_FUNCTIONS_AFFINE_H
#define MINUN_FUNCTIONS_AFFINE_H

#include <stdint.h>

#include "minun/flash.h"
#include "minun/functions.h"
#include "minun/quantised.h"
#include "minun/raster.h"

namespace minun {

namespace detail {

inline int16_t code16(int32_t code) {
  return static_cast<int16_t>(code < -32768 ? -32768 : code > 32767 ? 32767
                                                                    : code);
}

}  // namespace detail

// x times one factor from zero up, another below.
template <bool kReverse>
void leaky_relu_int16(const int16_t* in, int16_t* out, int32_t count, int32_t zero_in, int32_t zero_out,
                      int32_t factor_up, int shift_up, int32_t factor_down, int shift_down) {
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    const int32_t x = in[i] - zero_in;
    const int32_t y = x < 0 ? scale_quantised(x, factor_down, shift_down) : scale_quantised(x, factor_up, shift_up);
    out[i] = detail::code16(y + zero_out);
  }
}

// 1 / (1 + e^-x), or kTanh, as codes with 15 bits after the point: lines between the entries of `table`, 65536
// sigmoid(k / 24) for k from 0 to 255, in flash. multiplier / 2^shift takes codes to 1/24 with nine bits more.
template <bool kTanh, bool kReverse>
void sigmoid_int16(const int16_t* in, int16_t* out, int32_t count, const uint16_t* table, int32_t multiplier,
                   int shift) {
  const uint8_t bits = kTanh ? 8 : 9;
  const int32_t half = shift > 0 ? INT32_C(1) << (shift - 1) : 0;
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    const int32_t x = (in[i] * multiplier + half) >> shift;
    const uint32_t size = x < 0 ? 0u - static_cast<uint32_t>(x) : static_cast<uint32_t>(x);
    const uint32_t place = size >> bits;
    int32_t line = kTanh ? INT32_C(0xFFFF) << 8 : INT32_C(0x7FFF) << 10;
    if (place < 255) {
      const int32_t left = flash_load(table + place);
      const int32_t rise = flash_load(table + place + 1) - left;
      line = left * (INT32_C(1) << bits) + static_cast<int32_t>(size & ((1u << bits) - 1u)) * rise;
    }
    if (kTanh) {
      const int32_t above = line - (INT32_C(1) << 23);
      out[i] = static_cast<int16_t>((x < 0 ? 127 - above : above + 128) >> 8);
    } else {
      out[i] = static_cast<int16_t>((x < 0 ? (INT32_C(1) << 25) - line + 511 : line + 512) >> 10);
    }
  }
}

// The root in float32 over the output's scale, cut off. Negative numbers count as zero.
template <bool kReverse>
void square_root_int16(const int16_t* in, int16_t* out, int32_t count, int32_t zero_in, float scale_in,
                       int32_t zero_out, float scale_out) {
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    const int32_t x = in[i] - zero_in;
    const float value = x < 0 ? 0.0f : rounded(static_cast<float>(x) * scale_in);
    const float steps = rounded(evaluate<Sqrt, Float32, Float32>(value, Sqrt()) / scale_out);
    out[i] = detail::code16(steps >= 65536.0f ? INT32_C(65536) : static_cast<int32_t>(steps) + zero_out);
  }
}

}  // namespace minun

#endif  // MINUN_FUNCTIONS_AFFINE_H
