// SPDX-License-Identifier: Apache-2.0
// Dense layers for AVR, one row at a time; the loops are in minun/sums_avr.h, rows of long sums in minun/long_rows_avr.h.
#ifndef MINUN_DENSE_AVR_H
#define MINUN_DENSE_AVR_H

#include "minun/long_rows_avr.h"

namespace minun {
namespace avr {

// posit<8,0> from two, code 96, to 64, code 127: the low 7 bits, then what counts 128.
static const uint8_t kFromTwo[64] MINUN_FLASH = {
    0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 0, 32, 64, 96, 0, 32,
    64, 96, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 5, 6, 7, 8, 12, 16, 32};

// posit<8,0>. Where weights are their codes, values are bytes: what magnitudes from two have above 7 bits is listed
// behind, if few enough are so large. Otherwise values are 16 bits.
template <class X, bool Tabled>
struct ShortInputs {
  static const int16_t kWide = -1;     // values are 16 bits
  static const int16_t kNone = -2;     // a NaR
  static const int kMostListed = 250;  // and a third: more would cost as much as 16 bits
  static const bool kBytes = !Tabled && X::kBits == 8;

  // How many values are listed, or kWide, or kNone.
  static MINUN_NOINLINE int16_t fill(const typename X::Code* codes, int count, void* scratch) {
    if (kBytes) {
      const int16_t listed = fill_bytes(codes, count, static_cast<int8_t*>(scratch));
      if (listed != kWide) return listed;
    }
    NarrowValues<X> decode;
    const int8_t one = static_cast<int8_t>(NarrowValues<X>::kOne);
    int16_t* out = static_cast<int16_t*>(scratch);
    for (int k = count; k > 0; --k) {
      const int8_t code = *codes++;
      int16_t value = code;
      if (code > one || code < static_cast<int8_t>(-one)) {
        if (X::is_nar(code)) return kNone;
        value = X::kBits == 8 ? beyond_one(code) : decode(code);
      }
      *out++ = value;
    }
    return kWide;
  }

  // Between one and two, codes go in steps of two values.
  static MINUN_INLINE int16_t beyond_one(int8_t code) {
    const uint8_t magnitude = static_cast<uint8_t>(code < 0 ? -code : code);
    if (magnitude < 96) {
      const uint8_t value = static_cast<uint8_t>(2 * magnitude - 64);
      return static_cast<int8_t>(code < 0 ? -value : value);
    }
    const uint8_t* const entry = kFromTwo + (magnitude - 96);
    const int16_t value = static_cast<int16_t>((static_cast<uint16_t>(flash_load(entry + 32) << 8) >> 1) | flash_load(entry));
    return code < 0 ? static_cast<int16_t>(-value) : value;
  }

  // Copies codes up to one, which are their values, and stops at another.
  static MINUN_INLINE int8_t* take_small(const typename X::Code*& codes, int8_t* out, const int8_t* end) {
#if defined(MINUN_ASM_AVR)
    __asm__ volatile(
        "rjmp 2f\n"
        "1: ld r20, X+\n mov r21, r20\n subi r21, 0xC0\n cpi r21, 129\n brsh 3f\n st Z+, r20\n"
        "2: cp r30, %A[e]\n cpc r31, %B[e]\n brne 1b\n rjmp 4f\n"
        "3: sbiw r26, 1\n 4:\n"
        : "+x"(codes), "+z"(out)
        : [e] "r"(end)
        : "r20", "r21", "memory");
#else
    while (out != end && static_cast<uint8_t>(*codes + 64) <= 128) *out++ = *codes++;
#endif
    return out;
  }

  static int16_t fill_bytes(const typename X::Code* codes, int count, int8_t* out) {
    int8_t* const end = out + count;
    uint8_t* list = reinterpret_cast<uint8_t*>(end);
    const int8_t* next = out;
    uint8_t room = static_cast<uint8_t>(count < 3 * kMostListed ? (count >> 2) + (count >> 4) + (count >> 6) : kMostListed);
    const uint8_t most = room;
    for (; out != end; ++out) {
      out = take_small(codes, out, end);
      if (out == end) break;
      int8_t code = *codes++;
      if (static_cast<uint8_t>(code + 64) > 128) {
        uint8_t magnitude = static_cast<uint8_t>(code < 0 ? -code : code);
        if (magnitude < 96) {
          magnitude = static_cast<uint8_t>(2 * magnitude - 64);
        } else {
          if (magnitude == 128) return kNone;
          int skipped = static_cast<int>(out - next);
          for (; room != 0 && skipped > 255; skipped -= 256, --room) {
            *list++ = 255;
            *list++ = 0;
          }
          if (room == 0) return kWide;
          --room;
          const uint8_t* const entry = kFromTwo + static_cast<uint8_t>(magnitude - 96);
          const uint8_t above = flash_load(entry + 32);
          *list++ = static_cast<uint8_t>(skipped);
          *list++ = code < 0 ? static_cast<uint8_t>(-above) : above;
          next = out + 1;
          magnitude = flash_load(entry);
        }
        code = static_cast<int8_t>(code < 0 ? -magnitude : magnitude);
      }
      *out = code;
    }
    return static_cast<int16_t>(most - room);
  }

  // How a row is summed: bytes and words are whole turns of one assembly loop.
  enum Kind { kOfBytes,
              kOfWords,
              kParts };

  static MINUN_INLINE uint8_t kind(int count, bool narrow) {
    if (count > kMostSteps || count % kTurn != 0 || count == 0) return kParts;
    return narrow ? kOfBytes : kOfWords;
  }
  static MINUN_INLINE int32_t row(const void* values, uint8_t kind, bool narrow, const int8_t* w, int count,
                                  const uint8_t* table) {
    if (!Tabled && kind == kOfBytes) return sum_8x7(static_cast<const int8_t*>(values), w, count);
    if (kind == kOfWords) {
      return Tabled ? sum_table_32(static_cast<const int16_t*>(values), w, table, count)
                    : sum_16x8(static_cast<const int16_t*>(values), w, count);
    }
    return long_row(values, narrow, w, count, table);
  }

  static MINUN_NOINLINE int32_t long_row(const void* values, bool narrow, const int8_t* w, int count,
                                         const uint8_t* table) {
    const int16_t* const words = static_cast<const int16_t*>(values);
    const int8_t* const bytes = static_cast<const int8_t*>(values);
    int32_t sum = 0;
    int k = 0;
    while (count - k >= kTurn) {
      const int steps = count - k > kMostSteps ? kMostSteps : (count - k) / kTurn * kTurn;
      sum += Tabled   ? sum_table_32(words + k, w + k, table, steps)
             : narrow ? sum_8x7(bytes + k, w + k, steps)
                      : sum_16x8(words + k, w + k, steps);
      k += steps;
    }
    for (; k < count; ++k) {
      const uint8_t code = static_cast<uint8_t>(flash_load(w + k));
      const int32_t value = narrow ? bytes[k] : words[k];
      sum += value * (Tabled ? entry_16(table, code) : static_cast<int8_t>(code));
    }
    return sum;
  }
};

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
    const int bits = drop <= 8 ? 8 : 16;  // whole bytes are dropped, after a shift to the left
    const int up = drop > 0 && drop <= 16 ? bits - drop : 0;
    const int32_t most = INT32_C(1) << ((bits == 8 ? 22 : 30) - up);
    if (Bits > 16 || drop != bits - up || sum >= most || sum < -most) return RoundFixed<Out, Unit>::of(sum, clip);
    const int32_t places = static_cast<int32_t>(static_cast<uint32_t>(sum) << up) + (INT32_C(1) << (bits - 1));
    const int16_t code = static_cast<int16_t>(places >> bits);
    return code > clip.high ? clip.high : code < clip.low ? clip.low
                                                          : static_cast<typename Out::Code>(code);
  }
  static MINUN_NOINLINE typename Out::Code of(int64_t sum, Clip<Out> clip) { return RoundFixed<Out, Unit>::of(sum, clip); }
};

// Rows of words; `step`: values from one row to the next. Sum is int32_t or int64_t; without the bias 40 bits hold it.
MINUN_NOINLINE inline Sum40 long_row_16x16(const int16_t* values, const int16_t* w, int count) {
  Sum40 sum = {0, 0};
  for (int k = 0; k < count; k += kMostRowSteps) {
    const Sum40 part = row_16x16(values + k, w + k, count - k < kMostRowSteps ? count - k : kMostRowSteps);
    sum.add(part.low, part.high);
  }
  return sum;
}
template <class Out, class Sum, int Unit>
MINUN_NOINLINE void word_rows(const int16_t* values, const int16_t* w, const Sum* bias, typename Out::Code* y, int count,
                              int outputs, int step, Clip<Out> clip) {
  for (typename Out::Code* const end = y + outputs; y != end; values += step, w += count) {
    const Sum40 row = count > kMostRowSteps ? long_row_16x16(values, w, count) : row_16x16(values, w, count);
    Sum sum = sizeof(Sum) == 4 ? static_cast<Sum>(static_cast<int32_t>(row.low)) : static_cast<Sum>(row.whole());
    if (bias != 0) sum += flash_load(bias++);
    *y++ = RoundRow<Out, Unit>::of(sum, clip);
  }
}

template <class Finish>
MINUN_INLINE void rows_8x8(const int8_t* x, const int8_t* w, const int32_t* bias, int inputs, int outputs,
                           const Finish& finish) {
  for (int n = 0; n < outputs; ++n) {
    int32_t sum = bias != 0 ? flash_load(bias + n) : 0;
    for (int k = 0; k < inputs;) {
      const int steps = inputs - k < kMostRowSteps ? inputs - k : kMostRowSteps;
      sum += row_8x8(x + k, w, steps);
      k += steps;
      w += steps;
    }
    finish(n, sum);
  }
}

}  // namespace avr

// int8 fixed-point, products count 2^Unit.
template <class Out, int Unit>
MINUN_NOINLINE void dense_avr_fixed8(const int8_t* x, const int8_t* w, const int32_t* bias, typename Out::Code* y,
                                     int rows, int inputs, int outputs, Clip<Out> clip) {
  struct Finish {
    typename Out::Code* y;
    Clip<Out> clip;
    MINUN_INLINE void operator()(int n, int32_t sum) const { y[n] = RoundFixed<Out, Unit>::of(sum, clip); }
  };
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    const Finish finish = {y, clip};
    avr::rows_8x8(x, w, bias, inputs, outputs, finish);
  }
}

// int16 fixed-point, the same.
template <class Out, class Sum, int Unit>
MINUN_NOINLINE void dense_avr_fixed16(const int16_t* x, const int16_t* w, const Sum* bias, typename Out::Code* y, int rows,
                                      int inputs, int outputs, Clip<Out> clip) {
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    avr::word_rows<Out, Sum, Unit>(x, w, bias, y, inputs, outputs, 0, clip);
  }
}

// TensorFlow Lite's int8.
template <class Out, bool kSmall>
MINUN_NOINLINE void dense_avr_quantised8(const int8_t* x, const int8_t* w, const int32_t* bias,
                                         typename Out::Code* y, int rows, int inputs, int outputs,
                                         const RequantiseDense<Out, kSmall>& requantise) {
  struct Finish {
    typename Out::Code* y;
    const RequantiseDense<Out, kSmall>* requantise;
    MINUN_INLINE void operator()(int n, int32_t sum) const { y[n] = (*requantise)(sum, n); }
  };
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    const Finish finish = {y, &requantise};
    avr::rows_8x8(x, w, bias, inputs, outputs, finish);
  }
}

// posit<8,0>, weights row-major: codes that are values, or (Tabled) two pages. scratch: 2 * inputs bytes.
template <class Out, class X, bool Tabled, int Unit>
MINUN_NOINLINE void dense_avr_short(const typename X::Code* x, const int8_t* w, const int32_t* bias,
                                    typename Out::Code* y, void* scratch, const uint8_t* table, int rows, int inputs,
                                    int outputs, Clip<Out> clip) {
  typedef avr::ShortInputs<X, Tabled> Inputs;
  for (int row = 0; row < rows; ++row, x += inputs) {
    const int16_t filled = Inputs::fill(x, inputs, scratch);
    if (filled == Inputs::kNone) {
      for (int n = 0; n < outputs; ++n) *y++ = Out::nar();
      continue;
    }
    const bool narrow = filled >= 0;
    const uint8_t listed = static_cast<uint8_t>(narrow ? filled : 0);
    const uint8_t kind = Inputs::kind(inputs, narrow);
    const uint8_t* const list = static_cast<const uint8_t*>(scratch) + inputs;
    const int8_t* weights = w;
    const int32_t* added = bias;
    for (int n = outputs; n > 0; --n, weights += inputs) {
      int32_t sum = Inputs::row(scratch, kind, narrow, weights, inputs, table);
      if (Inputs::kBytes && listed != 0) {
        const uint32_t above = static_cast<uint32_t>(avr::sum_listed(list, weights, listed));
        sum += static_cast<int32_t>(above << 8) >> 1;
      }
      if (bias != 0) sum += flash_load(added++);
      *y++ = clip(RoundSum<Out>::of(sum, Unit));
    }
  }
}

// All other posits of up to 16 bits. Inputs: avr::WordInputs or avr::PieceInputs. wide_span: of values in two planes.
// scratch: 4 * inputs bytes, with PieceInputs 6 * inputs.
template <class Out, class X, class W, class B, class Inputs>
MINUN_NOINLINE void dense_avr_long(const typename X::Code* x, const typename W::Code* w, const int64_t* bias,
                                   typename Out::Code* y, void* scratch, const uint8_t* table, int rows, int inputs,
                                   int outputs, Clip<Out> clip, const SumPlan& plan, const Exceptions& exceptions,
                                   Inputs values, int8_t wide_span) {
  avr::LongLayer<Out, X, W, B, Inputs> layer = {w, bias, table, scratch, clip, &plan, &exceptions, wide_span, false,
                                                values, values};
  for (; rows > 0; --rows, x += inputs, y += outputs) layer.turn(x, inputs, y, 0, outputs, 0);
}

}  // namespace minun

#endif
