// SPDX-License-Identifier: Apache-2.0
// Convolutions for AVR: the codes under the window are gathered into one row, and the kernels of minun/dense_avr.h take
// it from there, so that a network's dense layers and convolutions share them. Depthwise convolutions gather kAvrChannels
// channels at a time, channel after channel. Weights row-major. All that a turn reads is in scratch before its first
// output is written.
#ifndef MINUN_CONV_AVR_H
#define MINUN_CONV_AVR_H

#include "minun/dense_avr.h"
#include "minun/gather_avr.h"

namespace minun {
namespace avr {

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
  const int8_t* w = layer.w + static_cast<size_t>(channel) * static_cast<size_t>(count);
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

// Sum is int32_t or int64_t; 40 bits hold it without the bias.
template <class Out, class Sum, int Unit>
struct WordLayer {
  const int16_t* w;
  const Sum* bias;
  Clip<Out> clip;

  MINUN_INLINE void turn(const int16_t* codes, int count, typename Out::Code* y, int channel, int outputs,
                         int step) const {
    const int16_t* const rows = w + static_cast<size_t>(channel) * static_cast<size_t>(count);
    word_rows<Out, Sum, Unit>(codes, rows, bias != 0 ? bias + channel : 0, y, count, outputs, step,
                              clip);
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
    const int8_t* weights = w + static_cast<size_t>(channel) * static_cast<size_t>(count);
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

// All other posits of up to 16 bits, as dense_avr_long. wide_span: of values in two planes. scratch: two planes (depthwise
// one) of what a turn gathers, and behind them its codes.
template <class Out, class X, class W, class B, class Inputs, bool Depthwise>
MINUN_NOINLINE void conv_avr_long(const typename X::Code* x, const typename W::Code* w, const int64_t* bias,
                                  typename Out::Code* y, void* scratch, const uint8_t* table, const ConvShape& shape,
                                  Clip<Out> clip, const SumPlan& plan, const Exceptions& exceptions, Inputs inputs,
                                  int8_t wide_span, bool reverse) {
  typedef avr::LongLayer<Out, X, W, B, Inputs> Layer;
  Layer layer = {w, bias, table, scratch, clip, &plan, &exceptions, wide_span, false, inputs, inputs};
  const int planes = Depthwise ? 1 : 2;  // the channels of a turn are too wide one by one
  int bytes = avr::gathered<Depthwise>(shape) * planes * (Layer::kBits == 15 ? 2 : 3);
  bytes += bytes & 1;
  uint8_t* const codes = static_cast<uint8_t*>(scratch) + bytes;
  avr::conv_turns<Depthwise>(x, y, reinterpret_cast<typename X::Code*>(codes), shape, 0, reverse, layer);
}

// int8 fixed-point, products count 2^Unit. scratch: what a turn gathers.
template <class Out, int Unit, bool Depthwise>
MINUN_NOINLINE void conv_avr_fixed8(const int8_t* x, const int8_t* w, const int32_t* bias, typename Out::Code* y,
                                    void* scratch, const ConvShape& shape, Clip<Out> clip, bool reverse) {
  avr::FixedLayer<Out, Unit> layer = {w, bias, clip};
  avr::conv_turns<Depthwise>(x, y, static_cast<int8_t*>(scratch), shape, 0, reverse, layer);
}

// int16 fixed-point, the same.
template <class Out, class Sum, int Unit, bool Depthwise>
MINUN_NOINLINE void conv_avr_fixed16(const int16_t* x, const int16_t* w, const Sum* bias, typename Out::Code* y,
                                     void* scratch, const ConvShape& shape, Clip<Out> clip, bool reverse) {
  const avr::WordLayer<Out, Sum, Unit> layer = {w, bias, clip};
  avr::conv_turns<Depthwise>(x, y, static_cast<int16_t*>(scratch), shape, 0, reverse, layer);
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
