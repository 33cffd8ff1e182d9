// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite's reference arithmetic for int8 and int16 tensors with scale and zero point, to the bit: dense and
// convolution, integer accumulators, a multiplier and a shift per output channel.
// Source: tensorflow/lite/kernels/internal/common.h and reference/integer_ops.
#ifndef MINUN_QUANTISED_H
#define MINUN_QUANTISED_H

#include "minun/flash.h"
#include "minun/formats.h"
#include "minun/patch.h"

namespace minun {

namespace detail {

MINUN_INLINE uint32_t upper_word(uint64_t value) {
#if defined(__AVR__)
  union {
    uint64_t whole;
    uint32_t words[2];
  } split;  // a shift by 32 would be a call
  split.whole = value;
  return split.words[1];
#else
  return static_cast<uint32_t>(value >> 32);
#endif
}

}  // namespace detail

// MultiplyByQuantizedMultiplier: x * multiplier * 2^(shift - 31), rounded twice as gemmlowp does, halves away from zero.
// In magnitudes, which spares 64-bit shifts.
inline int32_t scale_quantised(int32_t x, int32_t multiplier, int shift) {
  uint32_t magnitude = static_cast<uint32_t>(x) << (shift > 0 ? shift : 0);
  bool negative = static_cast<int32_t>(magnitude) < 0;
  if (negative) magnitude = 0u - magnitude;
  uint32_t factor = static_cast<uint32_t>(multiplier);
  if (multiplier < 0) {
    factor = 0u - factor;
    negative = !negative;
  }
  uint64_t product = static_cast<uint64_t>(magnitude) * factor;
  product += negative ? (UINT32_C(1) << 30) - 1 : UINT32_C(1) << 30;
  uint32_t high = (detail::upper_word(product) << 1) | (static_cast<uint32_t>(product) >> 31);
  if (high >> 31) high = INT32_MAX;  // INT32_MIN squared
  if (shift < 0) {
    uint8_t drop = static_cast<uint8_t>(-1 - shift);
#if defined(__AVR__)
    for (; drop >= 8; drop = static_cast<uint8_t>(drop - 8)) high >>= 8;
#endif
    high >>= drop;
    high = (high >> 1) + (high & 1u);
  }
  return static_cast<int32_t>(negative ? 0u - high : high);
}

// MultiplyByQuantizedMultiplier for int64 accumulators (int16 activations): a 16-bit multiplier, rounded once.
inline int32_t scale_quantised(int64_t x, int32_t multiplier, int shift) {
  const int32_t reduced = multiplier < 0x7FFF0000 ? (multiplier + (INT32_C(1) << 15)) >> 16 : 0x7FFF;
  const int total = 15 - shift;
  return static_cast<int32_t>((x * reduced + (INT64_C(1) << (total - 1))) >> total);
}
namespace detail {

// magnitude * factor rounded to a double and then to an integer, halves up, cut at 2^30: how the interpreter scales a
// fully connected layer. factor: (high * 2^21 + low) / 2^(53 + drop) with high >= 2^31, low < 2^21; magnitude < 2^42.
inline MINUN_NOINLINE int32_t round_in_double(uint64_t magnitude, uint32_t high, uint32_t low, int drop) {
  const uint32_t x_low = static_cast<uint32_t>(magnitude), x_high = upper_word(magnitude);
  const uint32_t f_low = (high << 21) | low, f_high = high >> 11;
  const uint64_t lowest = static_cast<uint64_t>(x_low) * f_low;
  uint64_t product = static_cast<uint64_t>(x_high) * f_low + static_cast<uint64_t>(x_low) * f_high + upper_word(lowest);
  product += static_cast<uint64_t>(x_high * f_high) << 32;  // without its last 32 bits
  const int shift = drop + 21;
  if (shift > 63) return 0;
  if ((product >> shift) >= (UINT64_C(1) << 30)) return INT32_C(1) << 30;
  const uint64_t unit = UINT64_C(1) << shift;
  const uint64_t sum = product + (unit >> 1);
  const uint64_t gap = unit - (sum & (unit - 1));  // to the next tie
  int32_t result = static_cast<int32_t>(sum >> shift);
  if (gap <= 2048 && product >> 21 != 0) {  // a double of 53 bits may reach it
    const uint32_t top = upper_word(product);
    const int bits = top != 0 ? 64 - leading_zeros(top) : 32 - leading_zeros(static_cast<uint32_t>(product));
    const uint64_t half = UINT64_C(1) << (bits - 22);  // of the last place
    if ((gap << 32) <= half + static_cast<uint32_t>(lowest)) ++result;
  }
  return result;
}

// Whether `product` in units of 2^-(53 + drop), of which 64 bits are given, rounded to 53 bits is tie / 2 or more; it
// is less than 2^55 away.
inline MINUN_NOINLINE bool reaches_tie(uint64_t product, uint32_t tie, uint8_t drop) {
  const uint64_t place = drop < 12 ? static_cast<uint64_t>(tie << (20 + drop)) << 32 : 0u;
  const int64_t apart = static_cast<int64_t>(place - product);
  if (apart <= 0) return true;
  int bits = 30 - leading_zeros(tie) + drop;  // 2^bits: half of the last of 53 places below the tie
  if (tie == 1) --bits;
  const uint64_t last = static_cast<uint64_t>(apart) - 1u;
  return upper_word(last) == 0 && (bits >= 32 || static_cast<uint32_t>(last) >> bits == 0);
}

}  // namespace detail

// The same of a 32-bit sum with a drop of 3 to 32: one product of 32 bits tells, unless a tie is near.
inline int32_t scale_in_double(int32_t x, uint32_t high, uint32_t low, uint8_t drop) {
  const uint32_t magnitude = x < 0 ? 0u - static_cast<uint32_t>(x) : static_cast<uint32_t>(x);
  const uint64_t wide = static_cast<uint64_t>(magnitude) * high;
  const uint32_t product = detail::upper_word(wide);  // less than 2 too small
  uint8_t places = static_cast<uint8_t>(drop - 1);
  const uint8_t mask = static_cast<uint8_t>(places >= 8 ? 0xFFu : (1u << places) - 1u);
  uint32_t halves = product;
#if defined(__AVR__)
  for (; places >= 8; places = static_cast<uint8_t>(places - 8)) halves >>= 8;
#endif
  halves >>= places;
  int32_t result = static_cast<int32_t>((halves >> 1) + (halves & 1u));
  if ((product & mask) >= mask - 1u && (halves & 1u) == 0 && (product + 2u) >> (drop - 1) != halves) {
    result += detail::reaches_tie((wide << 21) + static_cast<uint64_t>(magnitude) * low, halves + 1, drop) ? 1 : 0;
  }
  return x < 0 ? -result : result;
}
inline int32_t scale_in_double(int32_t x, uint32_t high, uint32_t low, int drop) {
  const uint32_t magnitude = x < 0 ? 0u - static_cast<uint32_t>(x) : static_cast<uint32_t>(x);
  const int32_t result = detail::round_in_double(magnitude, high, low, drop);
  return x < 0 ? -result : result;
}
inline int32_t scale_in_double(int64_t x, uint32_t high, uint32_t low, int drop) {
  const uint64_t magnitude = x < 0 ? 0u - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  const int32_t result = detail::round_in_double(magnitude, high, low, drop);
  return x < 0 ? -result : result;
}

template <bool kSmall>
struct SmallDrop {
  typedef int Type;
};
template <>
struct SmallDrop<true> {
  typedef uint8_t Type;
};

// How accumulators become codes: in flash, a multiplier and a shift per output channel (or one for all).
template <class Out>
struct Requantise {
  const int32_t* multipliers;
  const int8_t* shifts;
  bool per_channel;
  int32_t zero_point;
  typename Out::Code low, high;

  template <class Sum>
  MINUN_INLINE typename Out::Code operator()(Sum sum, int channel) const {
    const int at = per_channel ? channel : 0;
    const int32_t multiplier = flash_load(multipliers + at);
    const int shift = flash_load(shifts + at);
    const int32_t value = scale_quantised(sum, multiplier, shift) + zero_point;
    return value < low ? low : value > high ? high
                                            : static_cast<typename Out::Code>(value);
  }
};

// The same of a dense layer: the parts of its factors (`detail::round_in_double`). kSmall: 8-bit codes, and every drop
// is 3 to 32.
template <class Out, bool kSmall>
struct RequantiseDense {
  typedef typename SmallDrop<kSmall>::Type Drop;
  const uint32_t* highs;
  const uint32_t* lows;
  const int8_t* drops;
  bool per_channel;
  int32_t zero_point;
  typename Out::Code low, high;

  template <class Sum>
  MINUN_INLINE typename Out::Code operator()(Sum sum, int channel) const {
    const int at = per_channel ? channel : 0;
    const Drop drop = static_cast<Drop>(flash_load(drops + at));
    const int32_t value = scale_in_double(sum, flash_load(highs + at), flash_load(lows + at), drop) + zero_point;
    return value < low ? low : value > high ? high
                                            : static_cast<typename Out::Code>(value);
  }
};

// Sum is int32_t for int8 activations, int64_t for int16 ones. `bias` holds one Sum per output in flash: the
// network's bias less x's zero point times the sum of the row's weights.
template <class Out, class X, class W, class Sum, bool kSmall>
MINUN_NOINLINE void dense_quantised(const typename X::Code* x, const typename W::Code* w, const Sum* bias,
                                    typename Out::Code* y, int rows, int inputs, int outputs,
                                    const RequantiseDense<Out, kSmall>& requantise) {
  for (int row = 0; row < rows; ++row, x += inputs) {
    const typename W::Code* weight = w;
    for (int n = 0; n < outputs; ++n) {
      Sum sum = flash_load(bias + n);
      for (int k = 0; k < inputs; ++k) sum += static_cast<Sum>(static_cast<int32_t>(x[k]) * flash_load(weight++));
      *y++ = requantise(sum, n);
    }
  }
}

namespace detail {

template <class Code>
struct PutCode {
  Code* out;
  Code zero;
  MINUN_INLINE void run(int index, const Code* from, int count) {
    for (Code* at = out + index; count > 0; --count) *at++ = *from++;
  }
  MINUN_INLINE void outside(int index, int count) {
    for (Code* at = out + index; count > 0; --count) *at++ = zero;
  }
};

}  // namespace detail

// scratch: patch_elements() codes of x. `zero` is x's zero point, which also pads.
template <class Out, class X, class W, class Sum, class Taps>
MINUN_NOINLINE void conv_quantised(const typename X::Code* x, const typename W::Code* w, const Sum* bias,
                                   typename Out::Code* y, void* scratch, const ConvShape& shape,
                                   typename X::Code zero, const Requantise<Out>& requantise) {
  const int count = shape.patch_elements();
  const int outputs = shape.group_outputs();
  detail::PutCode<typename X::Code> put = {static_cast<typename X::Code*>(scratch), zero};
  typedef Raster<Taps::kReverse> Turn;
  const int first = Turn::first(shape.groups) * outputs;  // channel
  w += static_cast<size_t>(first) * static_cast<size_t>(count);
  y += Turn::first(shape.positions()) * shape.out_channels + first;
  for (int row = Turn::first(shape.out_height); Turn::within(row, shape.out_height); row += Turn::kStep) {
    for (int column = Turn::first(shape.out_width); Turn::within(column, shape.out_width); column += Turn::kStep) {
      const typename W::Code* weight = w;
      int channel = first;
      for (int group = Turn::first(shape.groups); Turn::within(group, shape.groups); group += Turn::kStep) {
        for_patch<Taps>(x, shape, row, column, group, put);
        for (int n = 0; n < outputs; ++n, ++channel) {
          Sum sum = flash_load(bias + channel);
          for (int k = 0; k < count; ++k) {
            sum += static_cast<Sum>(static_cast<int32_t>(put.out[k]) * flash_load(weight++));
          }
          *y++ = requantise(sum, channel);
        }
        if (Taps::kReverse) {
          channel -= 2 * outputs;
          weight -= static_cast<size_t>(2 * outputs) * static_cast<size_t>(count);
          y -= 2 * outputs;
        }
      }
    }
  }
}

}  // namespace minun

#endif
