// SPDX-License-Identifier: Apache-2.0
// Rows of posits on AVR whose sums need more than 32 bits: decoded inputs, and the outputs of a row. For minun/dense_avr.h
// and minun/conv_avr.h.
#ifndef MINUN_LONG_ROWS_AVR_H
#define MINUN_LONG_ROWS_AVR_H

#include "minun/dense_fast.h"
#include "minun/posit_small.h"
#include "minun/row_sums_avr.h"

namespace minun {
namespace avr {

// A weight of a table of two pages.
inline int16_t entry_16(const uint8_t* table, uint8_t code) {
  return static_cast<int16_t>(flash_load(table + code) | (static_cast<uint16_t>(flash_load(table + 256 + code)) << 8));
}

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

// Decoded inputs in scratch, and the sum of a row. WordInputs and PieceInputs have
//   unit()                          values count 2^unit
//   fill(codes, count, plan, table) false: use the exact sums
//   row(w, count, table)            sum of products
//   value(k)                        one value, for the exceptions

// 8-bit posits as 16-bit integers, weights by two pages at table_unit.
template <class X, bool Shared>
struct WordInputs {
  static const int kBits = 15;  // of a value's magnitude
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
    return entry_16(table, static_cast<uint8_t>(code));
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
  static const int kBits = 23;  // of a value's magnitude
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
    const uint16_t high = static_cast<uint16_t>(static_cast<uint16_t>(flash_load(entry + 256)) |
                                                (static_cast<uint16_t>(flash_load(entry + 512)) << 8));
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

MINUN_INLINE int16_t* moved_by(int16_t* values, int count) { return values + count; }
MINUN_INLINE uint8_t* moved_by(uint8_t* values, int count) { return values + 3 * count; }

// value = plane 0 + plane 1 * 2^kBits
template <class Inputs>
MINUN_INLINE int32_t plane_of(int32_t value, uint8_t plane) {
  return plane == 0 ? value & ((INT32_C(1) << Inputs::kBits) - 1) : value >> Inputs::kBits;
}

// Inputs: WordInputs or PieceInputs. Rows whose values need more bits than those have
// are two planes of them, and so are the sums.
template <class Out, class X, class W, class B, class Inputs>
struct LongLayer {
  static const int kBits = Inputs::kBits;
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
      const typename W::Code* const rows = w + static_cast<size_t>(channel) * static_cast<size_t>(count);
      dense_row<Out, X, W, RowMajor>(codes, rows, added, y, scratch, count, outputs, clip);
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
      inputs.put(k, plane_of<Inputs>(value, 0));
      high.put(k, plane_of<Inputs>(value, 1));
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
    const typename W::Code* weights = w + static_cast<size_t>(channel) * static_cast<size_t>(count);
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
          const int at = static_cast<int>(flash_load(place + 1));
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
}  // namespace minun

#endif
