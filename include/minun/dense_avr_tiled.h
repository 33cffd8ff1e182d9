// SPDX-License-Identifier: Apache-2.0
// The dense layers of minun/dense_avr.h with little scratch: inputs are decoded a tile at a time, for eight rows together.
#ifndef MINUN_DENSE_AVR_TILED_H
#define MINUN_DENSE_AVR_TILED_H

#include "minun/dense_avr.h"
#include "minun/dense_tiled.h"

namespace minun {

static const int kAvrTileRows = 8;

namespace avr {

// posit<8,0> in 16 bits, with the interface of WordInputs and PieceInputs.
template <class X, bool Tabled>
struct ShortTile {
  static const int kBits = 0;  // no value is too wide
  int16_t* values;

  static int unit() { return NarrowValues<X>::unit(); }
  Readiness prepare(const typename X::Code* codes, int count, const SumPlan& plan, const uint8_t*) {
    return NarrowValues<X>().prepare(codes, count, plan);
  }
  int32_t decode(typename X::Code code, const uint8_t*) const { return NarrowValues<X>()(code); }
  void put(int k, int32_t value) { values[k] = static_cast<int16_t>(value); }
  int64_t row(const int8_t* w, int count, const uint8_t* table) const {
    typedef ShortInputs<X, Tabled> Rows;
    return Rows::row(values, Rows::kind(count, false), false, w, count, table);
  }
};

}  // namespace avr

// posit: as dense_avr_short and dense_avr_long. scratch: kAvrTileRows int64, kTileInputs values: of
// two planes one after the other. A group of rows reads all
// of the row's inputs before it writes its outputs.
template <class Out, class X, class W, class B, class Bias, class Inputs>
MINUN_NOINLINE void dense_avr_tiled(const typename X::Code* x, const typename W::Code* w, const Bias* bias,
                                    typename Out::Code* y, void* scratch, const uint8_t* table, int rows, int inputs,
                                    int outputs, Clip<Out> clip, const SumPlan& plan, const Exceptions& exceptions,
                                    Inputs values, int8_t wide_span) {
  int64_t* const sums = static_cast<int64_t*>(scratch);
  values.values = static_cast<decltype(values.values)>(static_cast<void*>(sums + kAvrTileRows));
  for (int row = 0; row < rows; ++row, x += inputs, y += outputs) {
    Readiness ready = values.prepare(x, inputs, plan, table);
    uint8_t planes = 1;
    if (Inputs::kBits != 0 && ready == kSlow) {
      SumPlan wide = plan;
      wide.span_bits = wide_span;
      ready = values.prepare(x, inputs, wide, table);
      planes = 2;
    }
    if (ready == kNaR) {
      for (int n = 0; n < outputs; ++n) y[n] = Out::nar();
      continue;
    }
    if (ready == kSlow) MINUN_SLOW_PATH();
    const int unit = plan.weight_unit + values.unit();
    const int bias_shift = plan.bias_unit - unit;
    const uint16_t* place = exceptions.places;
    const int32_t* exception = exceptions.values;
    const uint16_t* const end = place + 2 * exceptions.count;
    for (int n = 0; n < outputs; n += kAvrTileRows) {
      const int count = outputs - n < kAvrTileRows ? outputs - n : kAvrTileRows;
      if (ready == kSlow) {
        typename Out::Code* const codes = static_cast<typename Out::Code*>(scratch);
        detail::exact_rows<Out, X, W, RowMajor>(x, w, detail::bias_at<B>(bias, plan.bias_unit), codes, inputs, outputs,
                                                n, count, clip);
        for (int i = 0; i < count; ++i) y[n + i] = codes[i];
        continue;
      }
      for (int i = 0; i < count; ++i) sums[i] = 0;
      for (int k = 0; k < inputs; k += kTileInputs) {
        const int taken = inputs - k < kTileInputs ? inputs - k : kTileInputs;
        for (uint8_t plane = 0; plane < planes; ++plane) {
          for (int i = 0; i < taken; ++i) {
            const int32_t value = values.decode(x[k + i], table);
            values.put(i, planes == 1 ? value : avr::plane_of<Inputs>(value, plane));
          }
          const typename W::Code* weights = w + static_cast<size_t>(n) * static_cast<size_t>(inputs) + k;
          for (int i = 0; i < count; ++i, weights += inputs) {
            const uint64_t sum = static_cast<uint64_t>(values.row(weights, taken, table));
            sums[i] += static_cast<int64_t>(plane == 0 ? sum : sum << Inputs::kBits);
          }
        }
      }
      for (int i = 0; i < count; ++i) {
        uint64_t sum = static_cast<uint64_t>(sums[i]);
        if (plan.fine_bits != 0) sum <<= plan.fine_bits;
        if (bias != 0) {
          sum += avr::moved(static_cast<uint64_t>(static_cast<int64_t>(flash_load(bias + n + i))), bias_shift);
        }
        for (; place != end && static_cast<int>(flash_load(place)) == n + i; place += 2, ++exception) {
          const int32_t value = values.decode(x[flash_load(place + 1)], table);
          sum += static_cast<uint64_t>(avr::product(value, flash_load(exception)));
        }
        sums[i] = static_cast<int64_t>(sum);
      }
      for (int i = 0; i < count; ++i) y[n + i] = clip(encode64<Out>(sums[i], unit));
    }
  }
}

}  // namespace minun

#endif
