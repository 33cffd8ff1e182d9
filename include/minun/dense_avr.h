// SPDX-License-Identifier: Apache-2.0
// Dense layers for AVR, one row at a time; the loops are in minun/sums_avr.h.
#ifndef MINUN_DENSE_AVR_H
#define MINUN_DENSE_AVR_H

#include "minun/dense_fast.h"
#include "minun/posit_small.h"
#include "minun/row_sums_avr.h"

namespace minun {
namespace avr {

// Decoded inputs in scratch, and the sum of a row. Each has
//   unit()                          values count 2^unit
//   fill(codes, count, plan, table) false: use the exact sums
//   row(w, count, table)            sum of products
//   value(k)                        one value, for the exceptions

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

  static int16_t entry_16(const uint8_t* table, uint8_t code) {
    return static_cast<int16_t>(flash_load(table + code) | (static_cast<uint16_t>(flash_load(table + 256 + code)) << 8));
  }
};

template <class Out, bool Short>
struct Encode40 {
  static MINUN_INLINE typename Out::Code of(Sum40 sum, int unit) { return encode64<Out>(sum.whole(), unit); }
};
template <class Out>
struct Encode40<Out, true> {
  static MINUN_INLINE typename Out::Code of(Sum40 sum, int unit) { return encode40<Out>(sum, unit); }
};

// Called, as they are long.
template <class X>
MINUN_NOINLINE Readiness prepare_span(SpanValues<X>& span, const typename X::Code* codes, int count, const SumPlan& plan) {
  return span.prepare(codes, count, plan);
}
template <class X>
MINUN_NOINLINE int32_t decode_at(int16_t unit, typename X::Code code) {
#if defined(__AVR__)
  const detail::Unpacked value = detail::unpack<X>(code);
  uint32_t magnitude = detail::significand_of(value);
  int8_t shift = static_cast<int8_t>(detail::exponent_of(value) - 15 - unit);
  if (magnitude == 0) return 0;
  for (; shift >= 8; shift = static_cast<int8_t>(shift - 8)) magnitude <<= 8;
  for (; shift <= -8; shift = static_cast<int8_t>(shift + 8)) magnitude >>= 8;
  for (; shift > 0; --shift) magnitude += magnitude;
  for (; shift < 0; ++shift) magnitude >>= 1;
  return static_cast<int32_t>(code < 0 ? 0u - magnitude : magnitude);
#else
  SpanValues<X> span;
  span.unit_ = unit;
  return span(code);
#endif
}

// For inputs in tiles: whether their table or their span decodes them, and at which unit.
template <class Inputs, class Code>
MINUN_INLINE Readiness prepare_tiles(Inputs& inputs, const Code* codes, int count, const SumPlan& plan,
                                     const uint8_t* table) {
  inputs.tabled = Inputs::kShared && inputs.table_unit <= plan.unit_limit && inputs.table_unit >= plan.unit_floor;
  for (int k = 0; inputs.tabled && k < count; ++k) inputs.tabled = Inputs::knows(codes[k], table);
  inputs.unit_ = inputs.table_unit;
  if (inputs.tabled) return kFast;
  SpanValues<typename Inputs::Format> span;
  const Readiness ready = prepare_span(span, codes, count, plan);
  inputs.unit_ = static_cast<int16_t>(span.unit());
  return ready;
}

// 8-bit posits as 16-bit integers, weights by two pages at table_unit.
template <class X, bool Shared>
struct WordInputs {
  typedef X Format;
  static const bool kShared = Shared;
  typedef int8_t Weight;
  int16_t* values;
  int16_t table_unit;
  int16_t unit_;
  bool tabled;  // prepare: the table knows all inputs

  int unit() const { return unit_; }
  int32_t value(int k) const { return values[k]; }

  MINUN_NOINLINE bool fill(const typename X::Code* codes, int count, const SumPlan& plan, const uint8_t* table) {
    if (Shared && by_table(codes, count, plan, table)) return true;
    SpanValues<X> span;
    if (prepare_span(span, codes, count, plan) != kFast) return false;
    unit_ = static_cast<int16_t>(span.unit());
    for (int k = 0; k < count; ++k) values[k] = static_cast<int16_t>(decode_at<X>(unit_, codes[k]));
    return true;
  }

  // For tiles: the unit of a whole row of inputs, then value after value.
  Readiness prepare(const typename X::Code* codes, int count, const SumPlan& plan, const uint8_t* table) {
    return prepare_tiles(*this, codes, count, plan, table);
  }
  int32_t decode(typename X::Code code, const uint8_t* table) const {
    return tabled ? entry(code, table) : decode_at<X>(unit_, code);
  }
  void put(int k, int32_t value) { values[k] = static_cast<int16_t>(value); }
  static bool knows(typename X::Code code, const uint8_t* table) { return code == 0 || entry(code, table) != 0; }

  // The code generator has proven that 40 bits hold the sum.
  MINUN_INLINE Sum40 sum(const int8_t* w, int count, const uint8_t* table) const {
    return count > kMostRowSteps ? long_sum(w, count, table) : row_table_40(values, w, table, count);
  }
  MINUN_NOINLINE Sum40 long_sum(const int8_t* w, int count, const uint8_t* table) const {
    Sum40 sum = {0, 0};
    for (int k = 0; k < count; k += kMostRowSteps) {
      const int steps = count - k > kMostRowSteps ? kMostRowSteps : count - k;
      const Sum40 part = row_table_40(values + k, w + k, table, steps);
      sum.add(part.low, part.high);
    }
    return sum;
  }
  int64_t row(const int8_t* w, int count, const uint8_t* table) const { return sum(w, count, table).whole(); }

  // A row that 40 bits hold with its bias.
  template <class Out>
  typename Out::Code whole_row(const int8_t* w, const int64_t* bias, int count, const uint8_t* table, int unit) const {
    Sum40 total = sum(w, count, table);
    if (bias != 0) {
      const uint32_t low = flash_load(reinterpret_cast<const uint32_t*>(bias));
      total.add(low, flash_load(reinterpret_cast<const int8_t*>(bias) + 4));
    }
    return Encode40<Out, (Out::kHasNaR && Out::kBits <= 12)>::of(total, unit);
  }

 private:
  static int16_t entry(typename X::Code code, const uint8_t* table) {
    return ShortInputs<X, true>::entry_16(table, static_cast<uint8_t>(code));
  }
  // How many codes are left where the table does not know one.
  static MINUN_INLINE int look_up(const typename X::Code* codes, int count, const uint8_t* table, int16_t* out) {
#if defined(MINUN_ASM_AVR)
    if (count == 0) return 0;
    const uint8_t page = static_cast<uint8_t>(reinterpret_cast<uint16_t>(table) >> 8);
    __asm__ volatile(
        "1: ld r30, X+\n mov r23, r30\n mov r31, %[page]\n lpm r20, Z\n inc r31\n lpm r21, Z\n"
        "mov r22, r20\n or r22, r21\n brne 2f\n tst r23\n brne 3f\n"
        "2: movw r30, %[out]\n st Z+, r20\n st Z+, r21\n movw %[out], r30\n"
        "subi %A[n], 1\n sbci %B[n], 0\n brne 1b\n 3:\n"
        : "+x"(codes), [out] "+&r"(out), [n] "+&d"(count)
        : [page] "r"(page)
        : "r20", "r21", "r22", "r23", "r30", "r31", "memory");
#else
    for (; count > 0; --count) {
      const int16_t value = entry(*codes, table);
      if (value == 0 && *codes != 0) break;
      *out++ = value;
      ++codes;
    }
#endif
    return count;
  }
  // X is the weights' format: their table decodes it too, unless a value does not fit.
  bool by_table(const typename X::Code* codes, int count, const SumPlan& plan, const uint8_t* table) {
    if (table_unit > plan.unit_limit || table_unit < plan.unit_floor) return false;
    if (look_up(codes, count, table, values) != 0) return false;
    unit_ = table_unit;
    return true;
  }
};

// 9 to 16 bit posits as 24-bit integers, weights by three pages at table_unit.
template <class X, bool Shared>
struct PieceInputs {
  typedef int16_t Weight;
  typedef X Format;
  static const bool kShared = Shared;
  uint8_t* values;
  int16_t table_unit;
  int16_t unit_;
  bool tabled;  // prepare: the table knows all inputs

  template <class Out>
  typename Out::Code whole_row(const int16_t* w, const int64_t* bias, int count, const uint8_t* table,
                               int unit) const {
    int64_t sum = row(w, count, table);
    if (bias != 0) sum += flash_load(bias);
    return encode64<Out>(sum, unit);
  }
  int unit() const { return unit_; }
  int32_t value(int k) const {
    const uint8_t* const at = values + 3 * k;
    const uint32_t low = static_cast<uint32_t>(at[0]) | (static_cast<uint32_t>(at[1]) << 8);
    return static_cast<int32_t>((low | (static_cast<uint32_t>(at[2]) << 16)) << 8) >> 8;
  }

  MINUN_NOINLINE bool fill(const typename X::Code* codes, int count, const SumPlan& plan, const uint8_t* table) {
    if (Shared && by_table(codes, count, plan, table)) return true;
    SpanValues<X> span;
    if (prepare_span(span, codes, count, plan) != kFast) return false;
    unit_ = static_cast<int16_t>(span.unit());
    for (int k = 0; k < count; ++k) put(k, decode_at<X>(unit_, codes[k]));
    return true;
  }

  int64_t row(const int16_t* w, int count, const uint8_t* table) const {
    int64_t sum = 0;
    for (int k = 0; k < count;) {
      const int steps = count - k > 255 ? 255 : count - k;
      const int64_t part = sum_pieces_56(values + 3 * k, w + k, table, steps);
      sum = k == 0 ? part : sum + part;
      k += steps;
    }
    return sum;
  }

  Readiness prepare(const typename X::Code* codes, int count, const SumPlan& plan, const uint8_t* table) {
    return prepare_tiles(*this, codes, count, plan, table);
  }
  int32_t decode(typename X::Code code, const uint8_t* table) const {
    return tabled ? piece(left_aligned(code), table) : decode_at<X>(unit_, code);
  }
  static bool knows(typename X::Code code, const uint8_t* table) {
    return code == 0 || flash_load(table + static_cast<uint8_t>(left_aligned(code) >> 8)) != 0;
  }
  void put(int k, int32_t value) {
    uint8_t* const at = values + 3 * k;
    at[0] = static_cast<uint8_t>(value);
    at[1] = static_cast<uint8_t>(value >> 8);
    at[2] = static_cast<uint8_t>(value >> 16);
  }

 private:
  static int16_t left_aligned(typename X::Code code) { return static_cast<int16_t>(code * (1 << (16 - X::kBits))); }
  static int32_t piece(int16_t code, const uint8_t* table) {
    const uint8_t* const entry = table + static_cast<uint8_t>(code >> 8);
    const uint16_t high = static_cast<uint16_t>(flash_load(entry + 256)) |
                          (static_cast<uint16_t>(flash_load(entry + 512)) << 8);
    const uint32_t line = static_cast<uint32_t>(static_cast<int32_t>(code) * flash_load(entry));
    return static_cast<int32_t>((line + (static_cast<uint32_t>(high) << 8)) << 8) >> 8;  // 24 bits
  }
  bool by_table(const typename X::Code* codes, int count, const SumPlan& plan, const uint8_t* table) {
    if (table_unit > plan.unit_limit || table_unit < plan.unit_floor) return false;
    uint8_t* out = values;
    for (; count > 0; --count) {
      const typename X::Code code = *codes++;
      const int16_t aligned = left_aligned(code);
#if defined(MINUN_ASM_AVR)
      const uint8_t page = static_cast<uint8_t>(reinterpret_cast<uint16_t>(table) >> 8);
      uint8_t slope, low, middle, top;
      __asm__ volatile(
          "mov r30, %B[code]\n mov r31, %[page]\n lpm %[slope], Z\n inc r31\n lpm %[middle], Z\n inc r31\n"
          "lpm %[top], Z\n mul %A[code], %[slope]\n mov %[low], r0\n mov r30, r1\n mulsu %B[code], %[slope]\n"
          "add %[middle], r0\n adc %[top], r1\n clr r1\n add %[middle], r30\n adc %[top], r1\n"
          : [slope] "=&a"(slope), [low] "=&r"(low), [middle] "=&r"(middle), [top] "=&r"(top)
          : [code] "a"(aligned), [page] "r"(page)
          : "r0", "r30", "r31");
      if (slope == 0 && code != 0) return false;
      *out++ = low;
      *out++ = middle;
      *out++ = top;
#else
      if (!knows(code, table)) return false;
      put(static_cast<int>(out - values) / 3, piece(aligned, table));
      out += 3;
#endif
    }
    unit_ = table_unit;
    return true;
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
template <class Out>
MINUN_NOINLINE void dense_avr_quantised8(const int8_t* x, const int8_t* w, const int32_t* bias,
                                         typename Out::Code* y, int rows, int inputs, int outputs,
                                         const Requantise<Out>& requantise) {
  struct Finish {
    typename Out::Code* y;
    const Requantise<Out>* requantise;
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

namespace avr {

// addend * 2^shift; where shift is negative that is a whole number.
MINUN_INLINE uint64_t moved(uint64_t addend, int shift) {
  if (shift == 0) return addend;
  if (shift > 0) return addend << shift;
  return static_cast<uint64_t>(static_cast<int64_t>(addend) >> -shift);
}

// The short product where both factors are short, as they mostly are.
MINUN_INLINE int64_t product(int32_t value, int32_t weight) {
  if (value == static_cast<int16_t>(value) && weight == static_cast<int16_t>(weight)) {
    return static_cast<int32_t>(static_cast<int16_t>(value)) * static_cast<int16_t>(weight);
  }
  return static_cast<int64_t>(value) * weight;
}

}  // namespace avr

// All other posits of up to 16 bits. Inputs: avr::WordInputs or avr::PieceInputs. scratch: 4 * inputs bytes.
template <class Out, class X, class W, class B, class Inputs>
MINUN_NOINLINE void dense_avr_long(const typename X::Code* x, const typename W::Code* w, const int64_t* bias,
                                   typename Out::Code* y, void* scratch, const uint8_t* table, int rows, int inputs,
                                   int outputs, Clip<Out> clip, const SumPlan& plan, const Exceptions& exceptions,
                                   Inputs values) {
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    if (!values.fill(x, inputs, plan, table)) {
      MINUN_SLOW_PATH();
      const WideBias<B> added = {bias, plan.bias_unit};
      dense_row<Out, X, W, RowMajor>(x, w, added, y, scratch, inputs, outputs, clip);
      continue;
    }
    // Rows without exceptions keep the inner loop's coarser unit, unless the bias needs the finer one.
    const int bias_shift = bias != 0 ? plan.bias_unit - plan.weight_unit - values.unit() : plan.fine_bits;
    const bool coarse = bias_shift >= plan.fine_bits;
    const int unit = plan.weight_unit + values.unit();
    const uint16_t* place = exceptions.places;
    const int32_t* exception = exceptions.values;
    const uint16_t* const end = place + 2 * exceptions.count;
    const typename W::Code* weights = w;
    for (int n = 0; n < outputs; ++n, weights += inputs) {
      const bool odd = place != end && static_cast<int>(flash_load(place)) == n;
      if (!odd && bias_shift == plan.fine_bits) {
        y[n] = clip(values.template whole_row<Out>(weights, bias != 0 ? bias + n : 0, inputs, table,
                                                   unit + plan.fine_bits));
        continue;
      }
      int64_t sum = values.row(weights, inputs, table);
      const int fine = odd || !coarse ? plan.fine_bits : 0;
      if (fine != 0) sum = static_cast<int64_t>(static_cast<uint64_t>(sum) << fine);
      if (bias != 0) {
        const uint64_t addend = static_cast<uint64_t>(flash_load(bias + n));
        const int shift = bias_shift - plan.fine_bits + fine;
        sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + avr::moved(addend, shift));
      }
      for (; place != end && static_cast<int>(flash_load(place)) == n; place += 2, ++exception) {
        sum += avr::product(values.value(flash_load(place + 1)), flash_load(exception));
      }
      y[n] = clip(encode64<Out>(sum, unit + plan.fine_bits - fine));
    }
  }
}

}  // namespace minun

#endif
