// SPDX-License-Identifier: Apache-2.0
// Four exact sums of products at a time, in plain integers: the inner loops of dense and conv. Which of them is exact
// for a layer's weights is proven when the code is generated; these functions only compute.
//
//   dense_sums: sums[r] += values[k] * weight(w[4 * k + r])     four rows of interleaved weights, one input
//   conv_sums:  sums[p] += values[4 * k + p] * weight(w[k])     one row of weights, four interleaved patches
//
// A Method says what a weight's code is worth:
//   Plain       the code itself
//   Lookup      table[code as unsigned byte]
//   Piecewise   a 9 to 16 bit posit, left-aligned: with e = table[(code >> 8) + 128],
//               (code << (e & 255)) + (e >> 8); a shift of 32 or more gives 0 there (such weights are exceptions)
// The assembly is in minun/sums_thumb2.h; the loops here give the same bits.
#ifndef MINUN_SUMS_H
#define MINUN_SUMS_H

#include "minun/flash.h"

namespace minun {

template <class ValueType, class WeightType, class SumType>
struct Plain {
  typedef ValueType Value;
  typedef WeightType Weight;
  typedef SumType Sum;
  typedef int8_t Entry;
  static MINUN_INLINE int32_t weight(Weight code, const Entry*) { return code; }
};

// Plain for cores with DSP instructions: of four rows, the weights of inputs 4 b to 4 b + 3 lie row after row (16 bytes a
// block); with 16-bit values the middle two are exchanged. Inputs that are left over are interleaved as for Plain.
template <class ValueType>
struct Paired {
  typedef ValueType Value;
  typedef int8_t Weight;
  typedef int32_t Sum;
  typedef int8_t Entry;
  static MINUN_INLINE int32_t weight(Weight code, const Entry*) { return code; }
  static MINUN_INLINE int place(int k) { return sizeof(Value) == 1 || k == 0 || k == 3 ? k : 3 - k; }
};

template <class ValueType, class EntryType, class SumType>
struct Lookup {
  typedef ValueType Value;
  typedef int8_t Weight;
  typedef SumType Sum;
  typedef EntryType Entry;
  static MINUN_INLINE int32_t weight(Weight code, const Entry* table) {
    return flash_load(table + static_cast<uint8_t>(code));
  }
};

struct Piecewise {
  typedef int32_t Value;
  typedef int16_t Weight;
  typedef int64_t Sum;
  typedef int32_t Entry;
  static MINUN_INLINE int32_t weight(Weight code, const Entry* table) {
    const int32_t entry = flash_load(table + (code >> 8) + 128);
    const unsigned shift = static_cast<unsigned>(entry & 255);
    const uint32_t scaled = shift > 31 ? 0u : static_cast<uint32_t>(static_cast<int32_t>(code)) << shift;
    return static_cast<int32_t>(scaled) + (entry >> 8);
  }
};

}  // namespace minun

#if defined(MINUN_ASM_THUMB2)
#include "minun/sums_thumb2.h"
#endif

namespace minun {

namespace detail {

// How many leading steps an assembly kernel has done; specialised for each that exists.
template <class Method>
struct Assembly {
  static MINUN_INLINE int dense(typename Method::Sum*, const typename Method::Value*, const typename Method::Weight*,
                                int, const typename Method::Entry*) {
    return 0;
  }
  static MINUN_INLINE int conv(typename Method::Sum*, const typename Method::Value*, const typename Method::Weight*,
                               int, const typename Method::Entry*) {
    return 0;
  }
};

#if defined(MINUN_ASM_THUMB2)
#define MINUN_ASSEMBLY(METHOD, DENSE, DENSE_STEPS, CONV, CONV_STEPS)                              \
  template <>                                                                                     \
  struct Assembly<METHOD> {                                                                       \
    typedef METHOD M;                                                                             \
    static MINUN_INLINE int dense(M::Sum* sums, const M::Value* x, const M::Weight* w, int count, \
                                  const M::Entry* table) {                                        \
      const int turns = count / DENSE_STEPS;                                                      \
      if (turns > 0) DENSE(sums, x, w, table, turns);                                             \
      return turns * DENSE_STEPS;                                                                 \
    }                                                                                             \
    static MINUN_INLINE int conv(M::Sum* sums, const M::Value* x, const M::Weight* w, int count,  \
                                 const M::Entry* table) {                                         \
      const int turns = count / CONV_STEPS;                                                       \
      if (turns > 0) CONV(sums, x, w, table, turns);                                              \
      return turns * CONV_STEPS;                                                                  \
    }                                                                                             \
  }
typedef Plain<int16_t, int8_t, int32_t> Plain16x8;
typedef Plain<int8_t, int8_t, int32_t> Plain8x8;
typedef Plain<int16_t, int16_t, int64_t> Plain16x16;
typedef Plain<int16_t, int16_t, int32_t> Plain16x16Short;
typedef Lookup<int16_t, int16_t, int32_t> Lookup16;
typedef Lookup<int32_t, int32_t, int64_t> Lookup32;
MINUN_ASSEMBLY(Plain16x8, Thumb2<>::plain_16x8, 4, Thumb2<>::plain_8x16, 4);
MINUN_ASSEMBLY(Plain8x8, Thumb2<>::plain_8x8, 4, Thumb2<>::plain_8x8_swapped, 4);
MINUN_ASSEMBLY(Plain16x16, Thumb2<>::plain_16x16, 4, Thumb2<>::plain_16x16_swapped, 4);
MINUN_ASSEMBLY(Plain16x16Short, Thumb2<>::plain_16x16_short, 4, Thumb2<>::plain_16x16_short_swapped, 4);
MINUN_ASSEMBLY(Lookup16, Thumb2<>::lookup_16, 4, Thumb2<>::lookup_16_conv, 4);
MINUN_ASSEMBLY(Lookup32, Thumb2<>::lookup_32, 4, Thumb2<>::lookup_32_conv, 8);
MINUN_ASSEMBLY(Piecewise, Thumb2<>::piecewise, 8, Thumb2<>::piecewise_conv, 8);
#undef MINUN_ASSEMBLY
#endif

template <class Value>
struct Assembly<Paired<Value> > {
  static MINUN_INLINE int dense(int32_t* sums, const Value* x, const int8_t* w, int count, const int8_t* table) {
    if (count >= 4) turns(sums, x, w, table, count / 4);
    return count / 4 * 4;
  }

 private:
#if defined(MINUN_ASM_DSP)
  static MINUN_INLINE void turns(int32_t* sums, const int16_t* x, const int8_t* w, const int8_t* table, int blocks) {
    Thumb2<>::paired_16x8(sums, x, w, table, blocks);
  }
  static MINUN_INLINE void turns(int32_t* sums, const int8_t* x, const int8_t* w, const int8_t* table, int blocks) {
    Thumb2<>::paired_8x8(sums, x, w, table, blocks);
  }
#else
  static inline void turns(int32_t* sums, const Value* x, const int8_t* w, const int8_t*, int blocks) {
    for (; blocks > 0; --blocks, x += 4) {
      for (int r = 0; r < 4; ++r, w += 4) {
        for (int k = 0; k < 4; ++k) sums[r] += static_cast<int32_t>(x[k]) * flash_load(w + Paired<Value>::place(k));
      }
    }
  }
#endif
};

}  // namespace detail

// The loops themselves, for `count` steps.
template <class Method>
MINUN_NOINLINE void dense_steps(typename Method::Sum* sums, const typename Method::Value* values,
                                const typename Method::Weight* w, int count, const typename Method::Entry* table) {
  typedef typename Method::Sum Sum;
  Sum s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
  for (int k = 0; k < count; ++k, w += 4) {
    const Sum value = values[k];
    s0 += value * Method::weight(flash_load(w), table);
    s1 += value * Method::weight(flash_load(w + 1), table);
    s2 += value * Method::weight(flash_load(w + 2), table);
    s3 += value * Method::weight(flash_load(w + 3), table);
  }
  sums[0] = s0;
  sums[1] = s1;
  sums[2] = s2;
  sums[3] = s3;
}

template <class Method>
MINUN_NOINLINE void conv_steps(typename Method::Sum* sums, const typename Method::Value* values,
                               const typename Method::Weight* w, int count, const typename Method::Entry* table) {
  typedef typename Method::Sum Sum;
  Sum s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
  for (int k = 0; k < count; ++k, values += 4) {
    const Sum weight = Method::weight(flash_load(w + k), table);
    s0 += values[0] * weight;
    s1 += values[1] * weight;
    s2 += values[2] * weight;
    s3 += values[3] * weight;
  }
  sums[0] = s0;
  sums[1] = s1;
  sums[2] = s2;
  sums[3] = s3;
}

template <class Method>
MINUN_INLINE void dense_sums(typename Method::Sum* sums, const typename Method::Value* values,
                             const typename Method::Weight* w, int count, const typename Method::Entry* table) {
  const int done = detail::Assembly<Method>::dense(sums, values, w, count, table);
  if (done != count) dense_steps<Method>(sums, values + done, w + 4 * done, count - done, table);
}

template <class Method>
MINUN_INLINE void conv_sums(typename Method::Sum* sums, const typename Method::Value* values,
                            const typename Method::Weight* w, int count, const typename Method::Entry* table) {
  const int done = detail::Assembly<Method>::conv(sums, values, w, count, table);
  if (done != count) conv_steps<Method>(sums, values + 4 * done, w + done, count - done, table);
}

// One row of weights in their own order: the rows left over when their number is not a multiple of four.
template <class Method>
MINUN_NOINLINE typename Method::Sum row_sum(const typename Method::Value* values, const typename Method::Weight* w,
                                            int count, const typename Method::Entry* table) {
  typename Method::Sum sum = 0;
  for (int k = 0; k < count; ++k) {
    sum += static_cast<typename Method::Sum>(values[k]) * Method::weight(flash_load(w + k), table);
  }
  return sum;
}

}  // namespace minun

#endif
