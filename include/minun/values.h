// SPDX-License-Identifier: Apache-2.0
// Activations made ready for the inner loops: integers at one power-of-two unit. Each decoder has
//   prepare(codes, count, plan)   looks at the codes and chooses the unit: kFast, kSlow (use the exact sums) or kNaR
//   unit()                        values count 2^unit
//   operator()(code)              the value
//   fill(codes, count, plan, out) both at once, for one row
#ifndef MINUN_VALUES_H
#define MINUN_VALUES_H

#include "minun/linear.h"
#include "minun/sums.h"

namespace minun {

enum Readiness { kFast,
                 kSlow,
                 kNaR };

// What the constants of a layer allow, worked out when the code is generated.
struct SumPlan {
  int16_t weight_unit;  // weights count 2^weight_unit in the sum
  int16_t fine_bits;    // the inner loop's weights count 2^(weight_unit + fine_bits)
  int16_t bias_unit;    // bias integers count 2^bias_unit
  int16_t span_bits;    // sums cannot overflow while |value| < 2^span_bits; at most 31
  int16_t unit_limit;   // the values' unit is at most this, so that the bias is a whole number of the sum's units
  int16_t unit_floor;   // and at least this, so that the bias does not overflow
};

// posit<8,0> and narrower without exponent bits: multiples of 2^(2 - N) that fit 16 bits.
template <class X>
struct NarrowValues {
  static const int kOne = 1 << (X::kBits - 2);
  typedef int16_t Value;
  typedef typename X::Code Code;
  static MINUN_INLINE int unit() { return 2 - X::kBits; }

  MINUN_INLINE Readiness prepare(const Code* codes, int32_t count, const SumPlan&) {
    for (int32_t i = 0; i < count; ++i) {
      if (X::is_nar(codes[i])) return kNaR;
    }
    return kFast;
  }
  Readiness fill(const Code* codes, int count, const SumPlan&, Value* out) {
    for (int i = 0; i < count; ++i) {
      const int code = codes[i];
      if (code <= kOne && code >= -kOne) {
        out[i] = static_cast<Value>(code);
      } else {
        if (X::is_nar(codes[i])) return kNaR;
        out[i] = (*this)(codes[i]);
      }
    }
    return kFast;
  }
  // Up to one the code is the value.
  MINUN_INLINE Value operator()(Code code) const {
    if (code <= kOne && code >= -kOne) return code;
    // Above, a run of ones, a zero, and the fraction: (1 + fraction) * 2^(length of the run - 1).
    uint8_t bits = static_cast<uint8_t>((code < 0 ? -code : code) << (10 - X::kBits));
    uint8_t scale = 0;
    for (; bits & 0x80u; bits = static_cast<uint8_t>(bits << 1)) ++scale;
    bits = static_cast<uint8_t>(bits << 1);
    const uint16_t magnitude = static_cast<uint16_t>(((0x100u | bits) << scale) >> (10 - X::kBits));  // scale <= 6
    return static_cast<Value>(code < 0 ? -static_cast<int>(magnitude) : static_cast<int>(magnitude));
  }
};

// 8-bit posits through the table that also decodes the weights; only magnitudes below code Limit fit it.
template <class X, int Unit, int Limit>
struct TableValues {
  typedef int32_t Value;
  typedef typename X::Code Code;
  const int32_t* table;
  static MINUN_INLINE int unit() { return Unit; }

  MINUN_INLINE Readiness prepare(const Code* codes, int32_t count, const SumPlan&) {
    Readiness ready = kFast;
    for (int32_t i = 0; i < count; ++i) {
      const Code code = codes[i];
      if (code >= Limit || code <= -Limit) {
        if (X::is_nar(code)) return kNaR;
        ready = kSlow;
      }
    }
    return ready;
  }
  MINUN_INLINE Value operator()(Code code) const { return flash_load(table + static_cast<uint8_t>(code)); }

  Readiness fill(const Code* codes, int count, const SumPlan& plan, Value* out) {
    for (int i = 0; i < count; ++i) {
      const int code = codes[i];
      if (code >= Limit || code <= -Limit) return prepare(codes, count, plan);
      out[i] = flash_load(table + (code & 255));
    }
    return kFast;
  }
};

// Any posit of up to 16 bits: the unit of the smallest value present, if the largest then fits the span.
template <class X>
struct SpanValues {
  typedef int32_t Value;
  typedef typename X::Code Code;
  int16_t unit_;
  MINUN_INLINE int unit() const { return unit_; }

  Readiness prepare(const Code* codes, int32_t count, const SumPlan& plan) {
    unsigned largest = 0;
    unsigned below_smallest = (1u << (X::kBits - 2)) - 1u;  // one less than the smallest that is not 0; at most one
    for (int32_t i = 0; i < count; ++i) {
      const int code = codes[i];
      const unsigned magnitude = code < 0 ? 0u - static_cast<unsigned>(code) : static_cast<unsigned>(code);
      if (magnitude > largest) largest = magnitude;
      if (magnitude - 1u < below_smallest) below_smallest = magnitude - 1u;
    }
    if (largest >> (X::kBits - 1)) return kNaR;
    unit_ = static_cast<int16_t>(lowest_unit(static_cast<uint16_t>(below_smallest + 1u)));
    if (unit_ > plan.unit_limit) unit_ = plan.unit_limit;
    if (unit_ < plan.unit_floor) return kSlow;
    return above(static_cast<uint16_t>(largest)) - unit_ <= plan.span_bits ? kFast : kSlow;
  }

  MINUN_INLINE Value operator()(Code code) const {
    const Decoded value = X::decode(code);
    const int shift = value.exponent - unit_;
    if (value.mantissa == 0) return 0;
    return shift >= 0 ? static_cast<Value>(static_cast<uint32_t>(value.mantissa) << shift) : value.mantissa >> -shift;
  }

  Readiness fill(const Code* codes, int count, const SumPlan& plan, Value* out) {
    const Readiness ready = prepare(codes, count, plan);
    if (ready == kFast) {
      for (int i = 0; i < count; ++i) out[i] = (*this)(codes[i]);
    }
    return ready;
  }

 private:
  // The exponent of the last place of a magnitude of at most one; places only get coarser above it.
  static int lowest_unit(uint16_t magnitude) {
    const uint32_t regime = static_cast<uint32_t>(magnitude) << (33 - X::kBits);
    if (regime >> 31) return -X::kFractionBits;
    const int run = leading_zeros(regime);
    const int fraction_bits = X::kBits - 2 - X::kExponentBits - run;
    return -run * (1 << X::kExponentBits) - (fraction_bits > 0 ? fraction_bits : 0);
  }
  // Every value of this magnitude's regime is below 2^above.
  static int above(uint16_t magnitude) {
    const uint32_t regime = static_cast<uint32_t>(magnitude) << (33 - X::kBits);
    if (regime == 0) return INT16_MIN / 2;
    const int k = (regime >> 31) ? leading_zeros(~regime) - 1 : -leading_zeros(regime);
    return (k + 1) * (1 << X::kExponentBits);
  }
};

// One rounding of sum * 2^unit, quick where the format allows it.
template <class Out>
struct RoundSum {
  static MINUN_INLINE typename Out::Code of(int32_t sum, int unit) { return encode32<Out>(sum, unit); }
  static MINUN_INLINE typename Out::Code of(int64_t sum, int unit) { return encode64_inline<Out>(sum, unit); }
};

// The same for 9 to 16 bit posits, most of them by the table of piecewise weights (minun/sums.h).
template <class X>
struct PieceValues {
  typedef int32_t Value;
  typedef typename X::Code Code;
  const int32_t* middle;  // entry 0 of -128..127
  int16_t table_unit;
  int16_t finer;  // table_unit - unit()
  SpanValues<X> span;

  PieceValues(const int32_t* pieces, int unit)
      : middle(pieces + 128), table_unit(static_cast<int16_t>(unit)), finer(0), span() {}

  MINUN_INLINE int unit() const { return span.unit_; }

  Readiness prepare(const Code* codes, int32_t count, const SumPlan& plan) {
    SumPlan own = plan;
    if (own.unit_limit > table_unit) own.unit_limit = table_unit;
    const Readiness ready = span.prepare(codes, count, own);
    finer = static_cast<int16_t>(table_unit - span.unit_);
    return ready;
  }

  MINUN_INLINE Value operator()(Code code) const {
    if (code == 0) return 0;
    const int32_t aligned = static_cast<int32_t>(code) * (1 << (16 - X::kBits));
    const int32_t entry = flash_load(middle + (aligned >> 8));
    if (entry != 32) {
      const int32_t piece = static_cast<int32_t>(static_cast<uint32_t>(aligned) << (entry & 31)) + (entry >> 8);
      return static_cast<Value>(static_cast<uint32_t>(piece) << finer);
    }
    return other(code);
  }

  Readiness fill(const Code* codes, int count, const SumPlan& plan, Value* out) {
    const Readiness ready = prepare(codes, count, plan);
    if (ready == kFast) {
      for (int i = 0; i < count; ++i) out[i] = (*this)(codes[i]);
    }
    return ready;
  }

 private:
  MINUN_NOINLINE Value other(Code code) const { return span(code); }
};

// Fixed-point with the unit known: shift, round half up, clip.
template <class Out, int Unit>
struct RoundFixed {
  static const int kDrop = Out::kExponent - Unit;

  template <class Sum>
  static MINUN_INLINE typename Out::Code of(Sum sum, Clip<Out> clip) {
    const int width = static_cast<int>(8 * sizeof(Sum));
    if (kDrop <= 0 || kDrop >= width) return clip(slow(sum));
    const int drop = kDrop > 0 && kDrop < width ? kDrop : 1;
    const Sum value = (sum >> drop) + ((sum >> (drop - 1)) & 1);
    return value > clip.high ? clip.high : value < clip.low ? clip.low
                                                            : static_cast<typename Out::Code>(value);
  }

 private:
  static typename Out::Code slow(int32_t sum) { return encode32<Out>(sum, Unit); }
  static typename Out::Code slow(int64_t sum) { return encode64<Out>(sum, Unit); }
};

// Without exponent bits, the code of a magnitude of at most one is the value in units of 2^(2 - N).
template <int N>
struct RoundSum<Posit<N, 0> > {
  typedef Posit<N, 0> Out;
  static MINUN_INLINE typename Out::Code of(int32_t sum, int unit) {
    const int drop = 2 - N - unit;
    if (drop > 0 && drop < 30) {
      const int32_t one = INT32_C(1) << (N - 2 + drop);
      if (sum >= -one && sum <= one && drop + N - 2 < 31) {
        return one <= 8192 ? nearest<int>(static_cast<int>(sum), drop) : nearest<int32_t>(sum, drop);
      }
    }
    return encode32<Out>(sum, unit);
  }
  static MINUN_INLINE typename Out::Code of(int64_t sum, int unit) { return encode64_inline<Out>(sum, unit); }

 private:
  template <class Int>
  static MINUN_INLINE typename Out::Code nearest(Int sum, int drop) {
    const Int half = static_cast<Int>((static_cast<Int>(1) << (drop - 1)) - 1);
    const Int magnitude = sum < 0 ? -sum : sum;
    Int code = (magnitude + half + ((magnitude >> drop) & 1)) >> drop;
    if (code == 0 && magnitude != 0) code = 1;
    return static_cast<typename Out::Code>(sum < 0 ? -code : code);
  }
};

// Rounds up to four sums.
template <class Out, class Sum>
MINUN_NOINLINE void round_sums(const Sum* sums, int count, int unit, Clip<Out> clip, typename Out::Code* y) {
  for (int i = 0; i < count; ++i) y[i] = clip(RoundSum<Out>::of(sums[i], unit));
}

}  // namespace minun

#endif
