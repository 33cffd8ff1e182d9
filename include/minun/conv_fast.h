// SPDX-License-Identifier: Apache-2.0
// Convolutions in plain integers, for weights that the code generator has proven safe: four output positions at a time,
// their patches decoded and interleaved in scratch, so that every weight is decoded once for four products. In
// groups (depthwise too) one position and one group at a time. Weights row-major. What a turn reads is in scratch before
// its first output is written; turns go from the last to the first where Taps::kReverse.
#ifndef MINUN_CONV_FAST_H
#define MINUN_CONV_FAST_H

#include "minun/conv.h"
#include "minun/dense_fast.h"

namespace minun {

namespace detail {

// Decodes a patch into every Step-th value of `out`.
template <int Step, class Value, class Code, class Decoder>
struct PutDecoded {
  Value* out;
  const Decoder* decode;
  Value zero;
  MINUN_INLINE void run(int index, const Code* from, int count) {
    Value* at = out + Step * index;
    for (const Code* const end = from + count; from != end; at += Step) *at = (*decode)(*from++);
  }
  MINUN_INLINE void outside(int index, int count) {
    for (Value* at = out + Step * index; count > 0; --count, at += Step) *at = zero;
  }
};

// The first `shared` kernel columns of one lane are the last ones of the lane before.
template <class Value>
MINUN_NOINLINE void share_columns(Value* to, const Value* from, const ConvShape& shape, int shared) {
  const int run = shared * shape.in_channels;
  const int row = shape.kernel_width * shape.in_channels;
  from += 4 * (row - run);
  for (int i = 0; i < shape.kernel_height; ++i, to += 4 * row, from += 4 * row) {
    Value* out = to;
    const Value* in = from;
    int k = run;
    for (; k >= 4; k -= 4, out += 16, in += 16) {
      out[0] = in[0];
      out[4] = in[4];
      out[8] = in[8];
      out[12] = in[12];
    }
    for (; k > 0; --k, out += 4, in += 4) *out = *in;
  }
}

struct AsIs {
  template <class Code>
  MINUN_INLINE Code operator()(Code code) const { return code; }
};

// `rows`: start(sums, channel) puts the bias into four sums; finish(sums, channel, y, stride, count) rounds `count` of
// them into y[0], y[stride], ...
template <class Method, class Taps, class OutCode, class Code, class Decoder, class Rows>
MINUN_INLINE void conv_by_four(const Code* x, const typename Method::Weight* w, OutCode* y,
                               typename Method::Value* values, const typename Method::Entry* table,
                               const ConvShape& shape, Code zero, const Decoder& decode, Rows& rows) {
  const int count = shape.patch_elements();
  const int32_t positions = shape.positions();
  // Kernel columns that a position has in common with the one before it in its row.
  const bool slides = Taps::kSlides && shape.dilation_width == 1 && shape.stride_width < shape.kernel_width;
  const int shared = slides ? shape.kernel_width - shape.stride_width : 0;
  typedef Raster<Taps::kReverse> Turn;
  int row = 0, column = 0;
  int32_t position = Turn::first(positions) & ~static_cast<int32_t>(3);
  y += position * shape.out_channels;
  for (; Turn::within(position, positions); position += 4 * Turn::kStep) {
    if (Taps::kReverse) {
      row = static_cast<int>(position / shape.out_width);
      column = static_cast<int>(position % shape.out_width);
    }
    const int lanes = positions - position < 4 ? static_cast<int>(positions - position) : 4;
    for (int lane = 0; lane < lanes; ++lane) {
      PutDecoded<4, typename Method::Value, Code, Decoder> put = {values + lane, &decode, decode(zero)};
      int from = 0;
      if (column > 0 && shared > 0 && !(Taps::kReverse && lane == 0)) {
        share_columns(values + lane, values + ((lane + 3) & 3), shape, shared);
        from = shared;
      }
      for_patch<Taps>(x, shape, row, column, 0, put, from);
      if (++column == shape.out_width) {
        column = 0;
        ++row;
      }
    }
    for (int lane = lanes; lane < 4; ++lane) {  // whatever is there, but defined
      for (int k = 0; k < count; ++k) values[4 * k + lane] = 0;
    }
    rows.begin();
    const typename Method::Weight* weights = w;
    for (int channel = 0; channel < shape.out_channels; ++channel, weights += count) {
      typename Method::Sum sums[4];
      rows.start(sums, channel);
      conv_sums<Method>(sums, values, weights, count, table);
      rows.finish(sums, channel, y + channel, shape.out_channels, lanes);
    }
    y += 4 * Turn::kStep * shape.out_channels;
  }
}

// Channels that a depthwise convolution gathers at a time: what a tap costs is shared by them.
static const int kChannels = 8;

// The taps of `channels` channels, channel after channel.
template <class Taps, class Value, class Code, class Decoder>
MINUN_INLINE void gather_channels(const Code* x, Value* values, const ConvShape& shape, int out_row, int out_column,
                                  int channels, Value zero, const Decoder& decode) {
  const int count = shape.kernel_height * shape.kernel_width;
  for (int i = 0; i < shape.kernel_height; ++i) {
    const int row =
        Taps::source(out_row, i, shape.in_height, shape.stride_height, shape.pad_top, shape.dilation_height);
    for (int j = 0; j < shape.kernel_width; ++j, ++values) {
      const int column =
          Taps::source(out_column, j, shape.in_width, shape.stride_width, shape.pad_left, shape.dilation_width);
      Value* out = values;
      if (row < 0 || column < 0) {
        for (int c = channels; c > 0; --c, out += count) *out = zero;
      } else {
        const Code* from = x + (static_cast<int32_t>(row) * shape.in_width + column) * shape.in_channels;
        for (int c = channels; c > 0; --c, out += count) *out = decode(*from++);
      }
    }
  }
}

// Any groups: one position and one group (of a depthwise convolution, kChannels of them) at a time, its patch decoded in
// scratch.
template <class Method, class Taps, class OutCode, class Code, class Decoder, class Rows>
MINUN_INLINE void conv_by_group(const Code* x, const typename Method::Weight* w, OutCode* y,
                                typename Method::Value* values, const typename Method::Entry* table,
                                const ConvShape& shape, Code zero, const Decoder& decode, Rows& rows) {
  const int count = shape.patch_elements();
  const int outputs = shape.group_outputs();
  const bool depthwise = shape.group_inputs() == 1 && outputs == 1;
  typedef Raster<Taps::kReverse> Turn;
  if (Taps::kReverse) y += shape.positions() * shape.out_channels;  // what y points at is done
  for (int row = Turn::first(shape.out_height); Turn::within(row, shape.out_height); row += Turn::kStep) {
    for (int column = Turn::first(shape.out_width); Turn::within(column, shape.out_width); column += Turn::kStep) {
      if (!Taps::kReverse) rows.begin();
      if (depthwise) {
        const int first = Turn::first(shape.in_channels) / kChannels * kChannels;
        for (int channel = first; Turn::within(channel, shape.in_channels); channel += Turn::kStep * kChannels) {
          const int left = shape.in_channels - channel;
          const int channels = left < kChannels ? left : kChannels;
          gather_channels<Taps>(x + channel, values, shape, row, column, channels, decode(zero), decode);
          if (Taps::kReverse) {
            rows.begin_at(channel);
            y -= channels;
          }
          for (int c = 0; c < channels; ++c) {
            rows.use(values + c * count);
            const typename Method::Weight* const own =
                w + static_cast<size_t>(channel + c) * static_cast<size_t>(count);
            *y++ = rows.one(row_sum<Method>(values + c * count, own, count, table), channel + c);
          }
          if (Taps::kReverse) y -= channels;
        }
        continue;
      }
      int channel = Turn::first(shape.groups) * outputs;
      const typename Method::Weight* weights = w + static_cast<size_t>(channel) * static_cast<size_t>(count);
      for (int group = Turn::first(shape.groups); Turn::within(group, shape.groups); group += Turn::kStep) {
        PutDecoded<1, typename Method::Value, Code, Decoder> put = {values, &decode, decode(zero)};
        for_patch<Taps>(x, shape, row, column, group, put);
        if (Taps::kReverse) {
          rows.begin_at(channel);
          y -= outputs;
        }
        for (int n = 0; n < outputs; ++n, ++channel, weights += count) {
          *y++ = rows.one(row_sum<Method>(values, weights, count, table), channel);
        }
        if (Taps::kReverse) {
          channel -= 2 * outputs;
          weights -= static_cast<size_t>(2 * outputs) * static_cast<size_t>(count);
          y -= outputs;
        }
      }
    }
  }
}

template <class Method, class Taps, class OutCode, class Code, class Decoder, class Rows>
MINUN_INLINE void conv_fast(const Code* x, const typename Method::Weight* w, OutCode* y,
                            typename Method::Value* values, const typename Method::Entry* table,
                            const ConvShape& shape, Code zero, const Decoder& decode, Rows& rows, bool grouped) {
  if (grouped) {
    conv_by_group<Method, Taps>(x, w, y, values, table, shape, zero, decode, rows);
  } else {
    conv_by_four<Method, Taps>(x, w, y, values, table, shape, zero, decode, rows);
  }
}

template <class Out, class Sum>
MINUN_NOINLINE void round_strided(const Sum* sums, int count, int unit, Clip<Out> clip, typename Out::Code* y,
                                  int stride) {
  for (int i = 0; i < count; ++i, y += stride) *y = clip(RoundSum<Out>::of(sums[i], unit));
}

// Rows of convolutions with 32-bit or 64-bit sums that begin with the bias.
template <class Out, class Sum, class Round>
struct PlainRows {
  const Sum* bias;
  Round to_code;

  MINUN_INLINE void begin() {}
  MINUN_INLINE void begin_at(int) {}
  MINUN_INLINE void start(Sum* sums, int channel) const {
    const Sum value = bias != 0 ? flash_load(bias + channel) : 0;
    sums[0] = sums[1] = sums[2] = sums[3] = value;
  }
  template <class Value>
  MINUN_INLINE void use(const Value*) const {}
  MINUN_INLINE typename Out::Code one(Sum sum, int channel) const {
    return to_code(static_cast<Sum>(bias != 0 ? sum + flash_load(bias + channel) : sum), channel);
  }
  MINUN_INLINE void finish(const Sum* sums, int channel, typename Out::Code* y, int stride, int count) const {
    for (int i = 0; i < count; ++i, y += stride) *y = to_code(sums[i], channel);
  }
};

template <class Out, int Unit>
struct RoundShort {
  Clip<Out> clip;
  MINUN_INLINE typename Out::Code operator()(int32_t sum, int) const { return clip(RoundSum<Out>::of(sum, Unit)); }
};

template <class Out, int Unit>
struct RoundFixedRow {
  Clip<Out> clip;
  template <class Sum>
  MINUN_INLINE typename Out::Code operator()(Sum sum, int) const {
    return RoundFixed<Out, Unit>::of(sum, clip);
  }
};

template <class Out>
struct RoundQuantised {
  const Requantise<Out>* requantise;
  MINUN_INLINE typename Out::Code operator()(int32_t sum, int channel) const { return (*requantise)(sum, channel); }
};

template <class Out>
struct LongRows {
  Additions<int64_t, Decoded32> additions;
  const uint16_t* first_place;
  const int32_t* first_exception;
  int unit;
  Clip<Out> clip;

  MINUN_INLINE void begin() {
    additions.place = first_place;
    additions.exception = first_exception;
  }
  MINUN_INLINE void begin_at(int channel) {
    begin();
    while (additions.place != additions.end && flash_load(additions.place) < static_cast<uint16_t>(channel)) {
      additions.place += 2;
      ++additions.exception;
    }
  }
  MINUN_INLINE void start(int64_t* sums, int channel) const {
    additions.start(sums, channel, 1);
    sums[1] = sums[2] = sums[3] = sums[0];
  }
  MINUN_INLINE void finish(int64_t* sums, int channel, typename Out::Code* y, int stride, int count) {
    int finer = 0;
    const bool odd =
        additions.place != additions.end && flash_load(additions.place) == static_cast<uint16_t>(channel);
    if (odd || additions.bias_shift < 0) {
      refine(sums, channel);
      finer = additions.fine_bits;
    }
    round_strided<Out>(sums, count, unit - finer, clip, y, stride);
  }
  MINUN_INLINE void use(const int32_t* values) { additions.values.values = values; }
  MINUN_INLINE typename Out::Code one(int64_t sum, int channel) {
    int64_t first;
    additions.start(&first, channel, 1);
    sum += first;
    const int finer = additions.finish(&sum, channel, 1);
    typename Out::Code code;
    round_strided<Out>(&sum, 1, unit - finer, clip, &code, 1);
    return code;
  }

 private:
  MINUN_NOINLINE void refine(int64_t* sums, int channel) {
    if (additions.fine_bits != 0) {
      const uint64_t bias = static_cast<uint64_t>(additions.fine_bias(channel));
      for (int i = 0; i < 4; ++i) sums[i] = static_cast<int64_t>(shifted(sums[i], additions.fine_bits) + bias);
    }
    int64_t sum0 = sums[0], sum1 = sums[1], sum2 = sums[2], sum3 = sums[3];
    const uint16_t* at = additions.place;
    const int32_t* exception = additions.exception;
    while (at != additions.end && flash_load(at) == static_cast<uint16_t>(channel)) {
      const int32_t* const values = additions.values.values + 4 * flash_load(at + 1);
      const int32_t weight = flash_load(exception);
      sum0 += static_cast<int64_t>(values[0]) * weight;
      sum1 += static_cast<int64_t>(values[1]) * weight;
      sum2 += static_cast<int64_t>(values[2]) * weight;
      sum3 += static_cast<int64_t>(values[3]) * weight;
      at += 2;
      ++exception;
    }
    additions.place = at;
    additions.exception = exception;
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
  }
};

}  // namespace detail

// posit<8,0>: `w` codes, scratch 8 * patch_elements() bytes (in groups half, depthwise as much). `bias` counts 2^Unit as the products do; B is its format.
template <class Out, class X, class W, class B, class Taps, class Method, int Unit, bool Grouped>
MINUN_NOINLINE void conv_short(const typename X::Code* x, const typename W::Code* w, const int32_t* bias,
                               typename Out::Code* y, void* scratch, const typename Method::Entry* table,
                               const ConvShape& shape, Clip<Out> clip) {
  NarrowValues<X> decode;
  const SumPlan none = {0, 0, 0, 0, 0, 0};
  const int32_t elements = static_cast<int32_t>(shape.in_height) * shape.in_width * shape.in_channels;
  if (decode.prepare(x, elements, none) != kFast) {
    MINUN_SLOW_PATH();
    const ShortBias<B> added = {bias, Unit};
    conv_exact<Out, X, W, Taps>(x, w, added, y, scratch, shape, clip);
    return;
  }
  detail::PlainRows<Out, int32_t, detail::RoundShort<Out, Unit> > rows = {bias, {clip}};
  detail::conv_fast<Method, Taps>(x, w, y, static_cast<typename Method::Value*>(scratch), table, shape,
                                  static_cast<typename X::Code>(0), decode, rows, Grouped);
}

// Fixed-point: scratch 4 * patch_elements() codes (in groups a quarter, depthwise twice that).
template <class Out, class Taps, class Method, int Unit, bool Grouped>
MINUN_NOINLINE void conv_fixed(const typename Method::Value* x, const typename Method::Weight* w,
                               const typename Method::Sum* bias, typename Out::Code* y, void* scratch,
                               const ConvShape& shape, Clip<Out> clip) {
  detail::PlainRows<Out, typename Method::Sum, detail::RoundFixedRow<Out, Unit> > rows = {bias, {clip}};
  detail::conv_fast<Method, Taps>(x, w, y, static_cast<typename Method::Value*>(scratch),
                                  static_cast<const int8_t*>(0), shape, static_cast<typename Method::Value>(0),
                                  detail::AsIs(), rows, Grouped);
}

// TensorFlow Lite's int8: scratch 4 * patch_elements() bytes (in groups a quarter, depthwise twice that).
template <class Out, class Taps, bool Grouped>
MINUN_NOINLINE void conv_quantised8(const int8_t* x, const int8_t* w, const int32_t* bias, typename Out::Code* y,
                                    void* scratch, const ConvShape& shape, int8_t zero,
                                    const Requantise<Out>& requantise) {
  detail::PlainRows<Out, int32_t, detail::RoundQuantised<Out> > rows = {bias, {&requantise}};
  detail::conv_fast<Plain<int8_t, int8_t, int32_t>, Taps>(x, w, y, static_cast<int8_t*>(scratch),
                                                          static_cast<const int8_t*>(0), shape, zero,
                                                          detail::AsIs(), rows, Grouped);
}

// All other posits: scratch 16 * patch_elements() bytes (in groups a quarter, depthwise twice that). Where the input does not fit the plan, the layer is summed
// exactly (counted by MINUN_SLOW_PATH).
template <class Out, class X, class W, class B, class Taps, class Method, class Decoder, bool Grouped>
MINUN_NOINLINE void conv_long(const typename X::Code* x, const typename W::Code* w, const int64_t* bias,
                              typename Out::Code* y, void* scratch, const typename Method::Entry* table,
                              const ConvShape& shape, Clip<Out> clip, const SumPlan& plan,
                              const Exceptions& exceptions, Decoder decode) {
  const int32_t elements = static_cast<int32_t>(shape.in_height) * shape.in_width * shape.in_channels;
  if (decode.prepare(x, elements, plan) != kFast) {
    MINUN_SLOW_PATH();
    const WideBias<B> added = {bias, plan.bias_unit};
    conv_exact<Out, X, W, Taps>(x, w, added, y, scratch, shape, clip);
    return;
  }
  int32_t* const values = static_cast<int32_t*>(scratch);
  const int unit = plan.weight_unit + plan.fine_bits + decode.unit();
  detail::LongRows<Out> rows = {{bias, plan.fine_bits, bias != 0 ? plan.bias_unit - unit : 0, {values}, exceptions.places, exceptions.values, exceptions.places + 2 * exceptions.count},
                                exceptions.places,
                                exceptions.values,
                                unit,
                                clip};
  detail::conv_fast<Method, Taps>(x, w, y, values, table, shape, static_cast<typename X::Code>(0), decode, rows, Grouped);
}

}  // namespace minun

#endif
