// SPDX-License-Identifier: Apache-2.0
// Convolutions for AVR: the codes under the window are gathered into one row, and the kernels of minun/dense_avr.h take
// it from there, so that a network's dense layers and convolutions share them. Depthwise convolutions gather kAvrChannels
// channels at a time, channel after channel. Weights row-major. All that a turn reads is in scratch before its first
// output is written.
#ifndef MINUN_CONV_AVR_H
#define MINUN_CONV_AVR_H

#include "minun/dense_avr.h"
#include "minun/patch.h"
#include "minun/row_sums_avr.h"

namespace minun {

static const int kAvrChannels = 8;

namespace avr {

// Copies up to 1020 bytes.
MINUN_INLINE uint8_t* copied(const uint8_t* from, int bytes, uint8_t* out) {
#if defined(MINUN_ASM_AVR)
  uint8_t fours = static_cast<uint8_t>(bytes >> 2);
  const uint8_t left = static_cast<uint8_t>(bytes);
  __asm__ volatile(
      "sbrs %[n], 0\n rjmp 1f\n ld r0, X+\n st Z+, r0\n"
      "1: sbrs %[n], 1\n rjmp 2f\n ld r0, X+\n st Z+, r0\n ld r0, X+\n st Z+, r0\n"
      "2: tst %[c]\n breq 4f\n"
      "3: ld r0, X+\n st Z+, r0\n ld r0, X+\n st Z+, r0\n ld r0, X+\n st Z+, r0\n ld r0, X+\n st Z+, r0\n"
      "dec %[c]\n brne 3b\n 4:\n"
      : "+x"(from), "+z"(out), [c] "+&r"(fours)
      : [n] "r"(left)
      : "r0", "memory");
  return out;
#else
  memcpy(out, from, static_cast<size_t>(bytes));
  return out + bytes;
#endif
}

static const int kMostCopied = 1020;

MINUN_NOINLINE inline uint8_t* long_copied(const uint8_t* from, int bytes, uint8_t* out) {
  for (; bytes > kMostCopied; bytes -= kMostCopied, from += kMostCopied) out = copied(from, kMostCopied, out);
  return copied(from, bytes, out);
}

// out[0], out[step], ... of `count` codes, 1 to 255.
template <class Code>
MINUN_INLINE void spread(const Code* from, uint8_t count, int step, Code* out) {
#if defined(MINUN_ASM_AVR)
  const int skip = static_cast<int>((step - 1) * sizeof(Code));
  if (sizeof(Code) == 1) {
    __asm__ volatile("1: ld r0, X+\n st Z+, r0\n add r30, %A[s]\n adc r31, %B[s]\n dec %[c]\n brne 1b\n"
                     : "+x"(from), "+z"(out), [c] "+&r"(count)
                     : [s] "r"(skip)
                     : "r0", "memory");
  } else {
    __asm__ volatile(
        "1: ld r0, X+\n st Z+, r0\n ld r0, X+\n st Z+, r0\n add r30, %A[s]\n adc r31, %B[s]\n dec %[c]\n brne 1b\n"
        : "+x"(from), "+z"(out), [c] "+&r"(count)
        : [s] "r"(skip)
        : "r0", "memory");
  }
#else
  for (; count > 0; --count, out += step) *out = *from++;
#endif
}

// What is gathered of the input, in bytes: codes of all widths are copied alike. All bytes of a code outside are the same.
struct Window {
  const ConvShape* shape;
  int tap;       // of a turn's channels
  int pixel;     // of all channels
  size_t pitch;  // of a row of the input
  int run;       // of a kernel row whose taps lie side by side; otherwise 0
  uint8_t outside;

  MINUN_INLINE bool holds(int row, int left) const {
    return row >= 0 && left >= 0 && row + (shape->kernel_height - 1) * shape->dilation_height < shape->in_height &&
           left + (shape->kernel_width - 1) * shape->dilation_width < shape->in_width;
  }
};

// Windows that reach over the input's edge, and taps that are apart.
MINUN_NOINLINE inline void gather_taps(const Window& window, const uint8_t* x, int row, int left, uint8_t* out) {
  const ConvShape& shape = *window.shape;
  int taps = shape.kernel_width, from = 0, bytes = window.tap;
  if (window.run != 0) {  // a kernel row is one run, `from` bytes behind its begin
    const int begin = left < 0 ? -left : 0;
    const int room = shape.in_width - left;
    const int end = room < taps ? room : taps;
    taps = 1;
    from = begin * window.tap;
    bytes = end > begin ? (end - begin) * window.tap : 0;
    left += begin;
  }
  const int whole = window.run != 0 ? window.run : window.tap;
  const uint8_t* line = x + static_cast<ptrdiff_t>(window.pitch) * row + left * window.pixel;
  const ptrdiff_t pitch = static_cast<ptrdiff_t>(window.pitch) * shape.dilation_height;
  for (uint8_t i = static_cast<uint8_t>(shape.kernel_height); i > 0; --i, row += shape.dilation_height, line += pitch) {
    const bool within = row >= 0 && row < shape.in_height;
    int column = left;
    const uint8_t* tap = line;
    for (int j = taps; j > 0; --j, column += shape.dilation_width, tap += window.pixel * shape.dilation_width) {
      const bool read = within && column >= 0 && column < shape.in_width;
      if (!read || bytes != whole) memset(out, window.outside, static_cast<size_t>(whole));
      if (read) long_copied(tap, bytes, out + from);
      out += whole;
    }
  }
}

// One group's codes under the window whose first tap is at (row, left), in the order of its weights.
MINUN_NOINLINE inline void gather_row(const Window& window, const uint8_t* x, int row, int left, uint8_t* out) {
  if (window.run == 0 || !window.holds(row, left)) {
    gather_taps(window, x, row, left, out);
    return;
  }
  x += window.pitch * static_cast<size_t>(row) + left * window.pixel;
  const size_t pitch = window.pitch * window.shape->dilation_height;
  for (int i = window.shape->kernel_height; i > 0; --i, x += pitch) out = copied(x, window.run, out);
}

// The codes of `channels` channels, all of one channel together.
template <class Code>
MINUN_NOINLINE void gather_channels(const Window& window, const Code* x, int row, int left, uint8_t channels, Code* out) {
  const ConvShape& shape = *window.shape;
  const int width = shape.kernel_width, taps = shape.kernel_height * width;
  const int step = shape.in_channels * shape.dilation_width;
  const ptrdiff_t pitch = static_cast<ptrdiff_t>(shape.in_width) * shape.in_channels;
  x += pitch * row + static_cast<ptrdiff_t>(left) * shape.in_channels;
  const bool whole = window.holds(row, left);
  for (int i = shape.kernel_height; i > 0; --i, row += shape.dilation_height, x += pitch * shape.dilation_height) {
    const Code* tap = x;
    Code* const end = out + width;
    if (whole) {
      for (; out != end; ++out, tap += step) spread(tap, channels, taps, out);
      continue;
    }
    const bool within = row >= 0 && row < shape.in_height;
    int column = left;
    for (; out != end; ++out, tap += step, column += shape.dilation_width) {
      if (within && column >= 0 && column < shape.in_width) {
        spread(tap, channels, taps, out);
      } else {
        Code* to = out;
        for (uint8_t c = channels; c > 0; --c, to += taps) *to = static_cast<Code>(static_cast<int8_t>(window.outside));
      }
    }
  }
}

// Elements that a turn gathers at most.
template <bool Depthwise>
MINUN_INLINE int gathered(const ConvShape& shape) {
  const int channels = shape.in_channels < kAvrChannels ? shape.in_channels : kAvrChannels;
  return shape.patch_elements() * (Depthwise ? channels : 1);
}

// The order of the turns: output positions, and of one position the groups; all in reverse if so asked. A Layer has
//   turn(codes, count, y, channel, outputs, step)
// for so many outputs from `channel` on, each a sum over a row of `count`; the rows are `step` apart, which is 0 (all
// outputs have the same row) or count.
template <bool Depthwise, class Code, class OutCode, class Layer>
MINUN_INLINE void conv_turns(const Code* x, OutCode* y, Code* codes, const ConvShape& shape, int8_t outside, bool reverse,
                             Layer& layer) {
  const int count = shape.patch_elements();
  const int outputs = Depthwise ? kAvrChannels : shape.group_outputs();  // of a turn
  const int inputs = Depthwise ? kAvrChannels : shape.group_inputs();
  const int turns = Depthwise ? (shape.in_channels + kAvrChannels - 1) / kAvrChannels : shape.groups;
  const int step = reverse ? -1 : 1;
  const int pixel = static_cast<int>(shape.in_channels * sizeof(Code));
  const int tap = static_cast<int>(inputs * sizeof(Code));
  const int run = shape.kernel_width * tap;
  const bool side_by_side = !Depthwise && shape.groups == 1 && shape.dilation_width == 1 && run <= kMostCopied;
  const Window window = {&shape, tap, pixel, static_cast<size_t>(shape.in_width) * pixel, side_by_side ? run : 0,
                         static_cast<uint8_t>(outside)};
  if (reverse) y += (static_cast<size_t>(shape.out_height) * shape.out_width - 1) * shape.out_channels;
  int row = reverse ? shape.out_height - 1 : 0;
  for (int rows = shape.out_height; rows > 0; --rows, row += step) {
    const int top = row * shape.stride_height - shape.pad_top;
    int column = reverse ? shape.out_width - 1 : 0;
    for (int columns = shape.out_width; columns > 0; --columns, column += step, y += step * shape.out_channels) {
      const int left = column * shape.stride_width - shape.pad_left;
      int turn = reverse ? turns - 1 : 0;
      for (int todo = turns; todo > 0; --todo, turn += step) {
        const int channel = turn * outputs;
        if (Depthwise) {
          const int rest = shape.in_channels - channel;
          const int channels = rest < kAvrChannels ? rest : kAvrChannels;
          gather_channels(window, x + channel, top, left, static_cast<uint8_t>(channels), codes);
          layer.turn(codes, count, y + channel, channel, channels, count);
        } else {
          gather_row(window, reinterpret_cast<const uint8_t*>(x + turn * inputs), top, left,
                     reinterpret_cast<uint8_t*>(codes));
          layer.turn(codes, count, y + channel, channel, outputs, 0);
        }
      }
    }
  }
}

// The code of a row's sum of products * 2^Unit, quick while the sum has few bits.
template <class Out, int Unit>
struct RoundRow {
  static MINUN_NOINLINE typename Out::Code of(int32_t sum, Clip<Out> clip) { return clip(RoundSum<Out>::of(sum, Unit)); }
};
// Up to one, the code of posit<N,0> is the value.
template <int N, int Unit>
struct RoundRow<Posit<N, 0>, Unit> {
  typedef Posit<N, 0> Out;
  static MINUN_NOINLINE typename Out::Code of(int32_t sum, Clip<Out> clip) {
    const int drop = 2 - N - Unit;
    const int up = drop > 0 && drop <= 8 ? 8 - drop : 0;  // then whole bytes are dropped
    const int32_t one = INT32_C(1) << (N - 2 + 8 - up);
    if (N > 8 || drop != 8 - up || sum > one || sum < -one) return clip(encode32<Out>(sum, Unit));
    const bool negative = sum < 0;
    const int16_t narrow = static_cast<int16_t>(sum);
    const uint16_t magnitude = static_cast<uint16_t>(negative ? -narrow : narrow);
    const uint16_t places = static_cast<uint16_t>(magnitude << up);
    uint8_t code = static_cast<uint8_t>(places >> 8);
    const uint8_t lost = static_cast<uint8_t>(places);
    if (lost > 128 || (lost == 128 && (code & 1u))) ++code;
    if (code == 0 && magnitude != 0) code = 1;
    return clip(static_cast<typename Out::Code>(negative ? -code : code));
  }
};
template <int Bits, int Exponent, int Unit>
struct RoundRow<Fixed<Bits, Exponent>, Unit> {
  typedef Fixed<Bits, Exponent> Out;
  static MINUN_NOINLINE typename Out::Code of(int32_t sum, Clip<Out> clip) {
    const int drop = Exponent - Unit;
    const int up = drop > 0 && drop <= 8 ? 8 - drop : 0;
    if (drop != 8 - up || sum >= INT32_C(1) << (23 - up) || sum < -(INT32_C(1) << (23 - up))) {
      return RoundFixed<Out, Unit>::of(sum, clip);
    }
    const int32_t value = (static_cast<int32_t>(static_cast<uint32_t>(sum) << up) + 128) >> 8;
    const int16_t code = static_cast<int16_t>(value);
    return code > clip.high ? clip.high : code < clip.low ? clip.low
                                                          : static_cast<typename Out::Code>(code);
  }
};

// Rows of bytes of any length.
MINUN_NOINLINE inline int32_t long_row_8x8(const int8_t* values, const int8_t* w, int count) {
  int32_t sum = 0;
  for (; count > kMostRowSteps; count -= kMostRowSteps, values += kMostRowSteps, w += kMostRowSteps) {
    sum += row_8x8(values, w, kMostRowSteps);
  }
  return sum + row_8x8(values, w, count);
}

// `step`: values from one row to the next. layer.code(sum, channel) rounds.
template <class OutCode, class Layer>
MINUN_NOINLINE void byte_rows(const int8_t* values, int count, OutCode* y, int channel, int outputs, int step,
                              const Layer& layer) {
  const int8_t* w = layer.w + static_cast<size_t>(channel) * count;
  const int32_t* bias = layer.bias;
  if (bias != 0) bias += channel;
  for (OutCode* const end = y + outputs; y != end; values += step, w += count) {
    int32_t sum = count > kMostRowSteps ? long_row_8x8(values, w, count) : row_8x8(values, w, count);
    if (bias != 0) sum += flash_load(bias++);
    *y++ = layer.code(sum, channel++);
  }
}

template <class Out, int Unit>
struct FixedLayer {
  const int8_t* w;
  const int32_t* bias;
  Clip<Out> clip;

  MINUN_INLINE typename Out::Code code(int32_t sum, int) const { return RoundRow<Out, Unit>::of(sum, clip); }
  MINUN_INLINE void turn(const int8_t* codes, int count, typename Out::Code* y, int channel, int outputs, int step) {
    byte_rows(codes, count, y, channel, outputs, step, *this);
  }
};

template <class Out>
struct QuantisedLayer {
  const int8_t* w;
  const int32_t* bias;
  const Requantise<Out>* requantise;

  MINUN_INLINE typename Out::Code code(int32_t sum, int channel) const { return (*requantise)(sum, channel); }
  MINUN_INLINE void turn(const int8_t* codes, int count, typename Out::Code* y, int channel, int outputs, int step) {
    byte_rows(codes, count, y, channel, outputs, step, *this);
  }
};

// What a row's listed values add. Rows with values of their own take their part of the list, one after the other.
struct Listed {
  const uint8_t* pairs;
  const int8_t* next;  // the weight that the next pair counts from
  uint8_t left;
  bool all;

  MINUN_NOINLINE int32_t take(const int8_t* w, int count) {
    if (left == 0) return 0;
    uint32_t sum = 0;
    if (all) {
      sum = static_cast<uint32_t>(sum_listed(pairs, w, left));
    } else {
      for (; left != 0 && next + pairs[0] < w + count; --left, pairs += 2) {
        next += pairs[0];
        sum += static_cast<uint32_t>(static_cast<int16_t>(static_cast<int8_t>(pairs[1])) * flash_load(next++));
      }
    }
    return static_cast<int32_t>(sum << 8) >> 1;
  }
};

template <class Out, class X, bool Tabled, int Unit>
struct ShortLayer {
  typedef ShortInputs<X, Tabled> Inputs;
  const int8_t* w;
  const int32_t* bias;
  const uint8_t* table;
  void* scratch;
  Clip<Out> clip;

  MINUN_NOINLINE void turn(const typename X::Code* codes, int count, typename Out::Code* y, int channel, int outputs,
                           int step) {
    const int values = step == 0 ? count : outputs * step;
    const int16_t filled = Inputs::fill(codes, values, scratch);
    if (filled != Inputs::kNone) {
      if (Inputs::kBytes && filled >= 0) {
        rows<true>(count, y, channel, outputs, step, static_cast<const uint8_t*>(scratch) + values,
                   static_cast<uint8_t>(filled));
      } else {
        rows<false>(count, y, channel, outputs, step, 0, 0);
      }
    } else if (step == 0) {
      for (; outputs > 0; --outputs) *y++ = Out::nar();
    } else {  // one of these channels has a NaR
      for (; outputs > 0; --outputs, codes += step) turn(codes, count, y++, channel++, 1, 0);
    }
  }

 private:
  template <bool Bytes>
  MINUN_INLINE int32_t row(int from, const int8_t* weights, int count) const {
    const int8_t* const bytes = static_cast<const int8_t*>(scratch) + from;
    const int16_t* const words = static_cast<const int16_t*>(scratch) + from;
    return Bytes    ? row_8x7(bytes, weights, count)
           : Tabled ? row_table_32(words, weights, table, count)
                    : row_16x8(words, weights, count);
  }
  template <bool Bytes>
  MINUN_NOINLINE int32_t long_row(int from, const int8_t* weights, int count) const {
    int32_t sum = 0;
    for (; count > kMostRowSteps; count -= kMostRowSteps, from += kMostRowSteps, weights += kMostRowSteps) {
      sum += row<Bytes>(from, weights, kMostRowSteps);
    }
    return sum + row<Bytes>(from, weights, count);
  }

  template <bool Bytes>
  MINUN_INLINE void rows(int count, typename Out::Code* y, int channel, int outputs, int step, const uint8_t* pairs,
                         uint8_t listed) const {
    const int8_t* weights = w + static_cast<size_t>(channel) * count;
    const int32_t* added = bias != 0 ? bias + channel : 0;
    Listed cursor = {pairs, weights, listed, step == 0};
    int from = 0;
    for (typename Out::Code* const end = y + outputs; y != end; from += step) {
      int32_t sum = count > kMostRowSteps ? long_row<Bytes>(from, weights, count) : row<Bytes>(from, weights, count);
      if (Bytes && listed != 0) sum += cursor.take(weights, count);
      if (added != 0) sum += flash_load(added++);
      weights += count;
      *y++ = RoundRow<Out, Unit>::of(sum, clip);
    }
  }
};

MINUN_INLINE int16_t* moved_by(int16_t* values, int count) { return values + count; }
MINUN_INLINE uint8_t* moved_by(uint8_t* values, int count) { return values + 3 * count; }

// All other posits of up to 16 bits. Inputs: WordInputs or PieceInputs. Rows whose values need more bits than those have
// are two planes of them: value = low + high * 2^kBits, and so are the sums.
template <class Out, class X, class W, class B, class Inputs>
struct LongLayer {
  static const int kBits = sizeof(static_cast<Inputs*>(0)->values[0]) == 2 ? 15 : 23;
  const typename W::Code* w;
  const int64_t* bias;
  const uint8_t* table;
  void* scratch;
  Clip<Out> clip;
  const SumPlan* plan;
  const Exceptions* exceptions;
  int8_t wide_span;
  bool wide;
  Inputs inputs, high;

  MINUN_NOINLINE void turn(const typename X::Code* codes, int count, typename Out::Code* y, int channel, int outputs,
                           int step) {
    wide = false;
    const int values = step == 0 ? count : outputs * step;
    if (inputs.fill(codes, values, *plan, table) || (step == 0 && fill_wide(codes, count))) {
      rows(count, y, channel, outputs, step);
    } else if (step != 0) {  // one of these channels does not fit
      for (; outputs > 0; --outputs, codes += step) turn(codes, count, y++, channel++, 1, 0);
    } else {
      MINUN_SLOW_PATH();
      const WideBias<B> added = {bias != 0 ? bias + channel : 0, plan->bias_unit};
      dense_row<Out, X, W, RowMajor>(codes, w + static_cast<size_t>(channel) * count, added, y, scratch, count, outputs,
                                     clip);
    }
  }

 private:
  MINUN_NOINLINE bool fill_wide(const typename X::Code* codes, int count) {
    SpanValues<X> span;
    SumPlan own = *plan;
    own.span_bits = wide_span;
    if (prepare_span(span, codes, count, own) != kFast) return false;
    wide = true;
    inputs.unit_ = span.unit_;
    high.values = moved_by(inputs.values, count);
    for (int k = 0; k < count; ++k) {
      const int32_t value = decode_at<X>(span.unit_, codes[k]);
      inputs.put(k, value & ((INT32_C(1) << kBits) - 1));
      high.put(k, value >> kBits);
    }
    return true;
  }
  MINUN_INLINE int64_t joined_planes(int64_t low, int64_t above) const {
    return static_cast<int64_t>(static_cast<uint64_t>(low) + (static_cast<uint64_t>(above) << kBits));
  }

  MINUN_INLINE void rows(int count, typename Out::Code* y, int channel, int outputs, int step) const {
    // As in dense_avr_long: rows without exceptions keep the coarser unit, unless the bias needs the finer one.
    const int fine_bits = plan->fine_bits;
    const int unit = plan->weight_unit + inputs.unit() + fine_bits;
    const int bias_shift = bias != 0 ? plan->bias_unit - unit : 0;
    const uint16_t* place = exceptions->places;
    const int32_t* exception = exceptions->values;
    const uint16_t* const end = place + 2 * exceptions->count;
    for (; place != end && static_cast<int>(flash_load(place)) < channel; place += 2) ++exception;
    const typename W::Code* weights = w + static_cast<size_t>(channel) * count;
    const int64_t* added = bias != 0 ? bias + channel : 0;
    Inputs values = inputs;
    for (; outputs > 0; --outputs, ++channel, weights += count, values.values = moved_by(values.values, step)) {
      const bool odd = place != end && static_cast<int>(flash_load(place)) == channel;
      if (!odd && bias_shift == 0 && !wide) {
        *y++ = clip(values.template whole_row<Out>(weights, added, count, table, unit));
      } else {
        int64_t sum = values.row(weights, count, table);
        if (wide) sum = joined_planes(sum, high.row(weights, count, table));
        const int fine = odd || bias_shift < 0 ? fine_bits : 0;
        if (fine != 0) sum = static_cast<int64_t>(static_cast<uint64_t>(sum) << fine);
        if (added != 0) {
          const uint64_t addend = static_cast<uint64_t>(flash_load(added));
          sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + moved(addend, bias_shift + fine));
        }
        for (; place != end && static_cast<int>(flash_load(place)) == channel; place += 2, ++exception) {
          const int at = flash_load(place + 1);
          int32_t value = values.value(at);
          if (wide) value += static_cast<int32_t>(static_cast<uint32_t>(high.value(at)) << kBits);
          sum += product(value, flash_load(exception));
        }
        *y++ = clip(encode64<Out>(sum, unit - fine));
      }
      if (added != 0) ++added;
    }
  }
};

}  // namespace avr

// posit<8,0>, as dense_avr_short. scratch: 3 bytes an element of what a turn gathers.
template <class Out, class X, bool Tabled, int Unit, bool Depthwise>
MINUN_NOINLINE void conv_avr_short(const typename X::Code* x, const int8_t* w, const int32_t* bias,
                                   typename Out::Code* y, void* scratch, const uint8_t* table, const ConvShape& shape,
                                   Clip<Out> clip, bool reverse) {
  avr::ShortLayer<Out, X, Tabled, Unit> layer = {w, bias, table, scratch, clip};
  avr::conv_turns<Depthwise>(x, y, static_cast<typename X::Code*>(scratch) + 2 * avr::gathered<Depthwise>(shape), shape,
                             0, reverse, layer);
}

// All other posits of up to 16 bits, as dense_avr_long. wide_span: of values in two planes. scratch: two planes of what a
// turn gathers (at least 4 bytes an element), and behind them its codes.
template <class Out, class X, class W, class B, class Inputs, bool Depthwise>
MINUN_NOINLINE void conv_avr_long(const typename X::Code* x, const typename W::Code* w, const int64_t* bias,
                                  typename Out::Code* y, void* scratch, const uint8_t* table, const ConvShape& shape,
                                  Clip<Out> clip, const SumPlan& plan, const Exceptions& exceptions, Inputs inputs,
                                  int8_t wide_span, bool reverse) {
  typedef avr::LongLayer<Out, X, W, B, Inputs> Layer;
  Layer layer = {w, bias, table, scratch, clip, &plan, &exceptions, wide_span, false, inputs, inputs};
  const int planes = avr::gathered<Depthwise>(shape) * (Layer::kBits == 15 ? 4 : 6);
  uint8_t* const codes = static_cast<uint8_t*>(scratch) + planes;
  avr::conv_turns<Depthwise>(x, y, reinterpret_cast<typename X::Code*>(codes), shape, 0, reverse, layer);
}

// int8 fixed-point, products count 2^Unit. scratch: what a turn gathers.
template <class Out, int Unit, bool Depthwise>
MINUN_NOINLINE void conv_avr_fixed8(const int8_t* x, const int8_t* w, const int32_t* bias, typename Out::Code* y,
                                    void* scratch, const ConvShape& shape, Clip<Out> clip, bool reverse) {
  avr::FixedLayer<Out, Unit> layer = {w, bias, clip};
  avr::conv_turns<Depthwise>(x, y, static_cast<int8_t*>(scratch), shape, 0, reverse, layer);
}

// TensorFlow Lite's int8. scratch: what a turn gathers.
template <class Out, bool Depthwise>
MINUN_NOINLINE void conv_avr_quantised8(const int8_t* x, const int8_t* w, const int32_t* bias, typename Out::Code* y,
                                        void* scratch, const ConvShape& shape, int8_t zero,
                                        const Requantise<Out>& requantise, bool reverse) {
  avr::QuantisedLayer<Out> layer = {w, bias, &requantise};
  avr::conv_turns<Depthwise>(x, y, static_cast<int8_t*>(scratch), shape, zero, reverse, layer);
}

}  // namespace minun

#endif
