// SPDX-License-Identifier: Apache-2.0
// Sums of products for AVR, of any number of steps from 1 up: minun/sums_avr.h does whole turns of eight, which a row
// under a convolution's window seldom is. In C++ the same bits (all other cores, and MINUN_PORTABLE).
#ifndef MINUN_ROW_SUMS_AVR_H
#define MINUN_ROW_SUMS_AVR_H

#include "minun/sums_avr.h"

namespace minun {
namespace avr {

#if defined(MINUN_ASM_AVR)
#define MINUN_STEP_8X8                                                                           \
  "lpm r20, Z+\n ld r21, X+\n muls r20, r21\n sbc %[a2], %[z]\n add %[a0], r0\n adc %[a1], r1\n" \
  "adc %[a2], %[z]\n"
#define MINUN_MULTIPLY_8X8 "lpm r20, Z+\n ld r21, X+\n muls r20, r21\n"
// Four products of 8 and 7 bits fit a word.
#define MINUN_FOUR_8X7                                                                                                                                     \
  MINUN_MULTIPLY_8X8 "movw r18, r0\n" MINUN_MULTIPLY_8X8 "add r18, r0\n adc r19, r1\n" MINUN_MULTIPLY_8X8 "add r18, r0\n adc r19, r1\n" MINUN_MULTIPLY_8X8 \
                     "add r18, r0\n adc r19, r1\n"                                                                                                         \
                     "add %[a0], r18\n adc %[a1], r19\n adc %[a2], %[z]\n sbrc r19, 7\n dec %[a2]\n"
#define MINUN_FOUR_8X8 MINUN_STEP_8X8 MINUN_STEP_8X8 MINUN_STEP_8X8 MINUN_STEP_8X8
#define MINUN_STEP_16X8                                                                        \
  "lpm r20, Z+\n ld r21, X+\n ld r22, X+\n mulsu r20, r21\n sbc %[a2], %[z]\n add %[a0], r0\n" \
  "adc %[a1], r1\n adc %[a2], %[z]\n muls r20, r22\n add %[a1], r0\n adc %[a2], r1\n"
#define MINUN_FOUR_16X8 MINUN_STEP_16X8 MINUN_STEP_16X8 MINUN_STEP_16X8 MINUN_STEP_16X8
// Single steps first, then fours.
#define MINUN_SHORT_ROW(STEP, FOUR)                                                                                    \
  uint8_t a0 = 0, a1 = 0, a2 = 0, z = 0, left = static_cast<uint8_t>(steps), fours = static_cast<uint8_t>(steps >> 2); \
  __asm__ volatile("sbrs %[n], 0\n rjmp 1f\n" STEP                                                                     \
                   "1: sbrs %[n], 1\n rjmp 2f\n" STEP STEP                                                             \
                   "2: tst %[c]\n breq 4f\n"                                                                           \
                   "3:\n" FOUR                                                                                         \
                   "dec %[c]\n brne 3b\n"                                                                              \
                   "4: clr r1\n"                                                                                       \
                   : [a0] "+&r"(a0), [a1] "+&r"(a1), [a2] "+&r"(a2), "+z"(w), "+x"(x), [c] "+&r"(fours)                \
                   : [z] "r"(z), [n] "r"(left)                                                                         \
                   : "r18", "r19", "r20", "r21", "r22", "r0", "memory");                                               \
  return joined(a0, a1, a2, static_cast<uint8_t>((a2 & 0x80u) ? 0xFF : 0))
#endif

// Steps that one call can do. 508 products of 8 bits fit 24 bits.
static const int kMostRowSteps = 4 * 127;

// 8-bit values, 7-bit weights (at most 64), 24-bit sum.
MINUN_NOINLINE inline int32_t row_8x7(const int8_t* x, const int8_t* w, int steps) {
#if defined(MINUN_ASM_AVR)
  MINUN_SHORT_ROW(MINUN_STEP_8X8, MINUN_FOUR_8X7);
#else
  int32_t sum = 0;
  for (int k = 0; k < steps; ++k) sum += static_cast<int32_t>(x[k]) * flash_load(w + k);
  return sum;
#endif
}

// 8-bit values and weights, 24-bit sum.
MINUN_NOINLINE inline int32_t row_8x8(const int8_t* x, const int8_t* w, int steps) {
#if defined(MINUN_ASM_AVR)
  MINUN_SHORT_ROW(MINUN_STEP_8X8, MINUN_FOUR_8X8);
#else
  return row_8x7(x, w, steps);
#endif
}

// 16-bit values, 8-bit weights, 24-bit sum.
MINUN_NOINLINE inline int32_t row_16x8(const int16_t* x, const int8_t* w, int steps) {
#if defined(MINUN_ASM_AVR)
  MINUN_SHORT_ROW(MINUN_STEP_16X8, MINUN_FOUR_16X8);
#else
  int32_t sum = 0;
  for (int k = 0; k < steps; ++k) sum += static_cast<int32_t>(x[k]) * flash_load(w + k);
  return sum;
#endif
}

#if defined(MINUN_ASM_AVR)
#undef MINUN_STEP_8X8
#undef MINUN_MULTIPLY_8X8
#undef MINUN_FOUR_8X7
#undef MINUN_FOUR_8X8
#undef MINUN_STEP_16X8
#undef MINUN_FOUR_16X8
#undef MINUN_SHORT_ROW

// The weight that code *w stands for into r21:r20, the next value into r23:r22.
#define MINUN_FETCH_16                                                                             \
  "movw r30, %[w]\n lpm r16, Z+\n movw %[w], r30\n mov r30, r16\n mov r31, %[page]\n lpm r20, Z\n" \
  "inc r31\n lpm r21, Z\n ld r22, X+\n ld r23, X+\n"
#define MINUN_STEP_TABLE_32                                                                \
  MINUN_FETCH_16                                                                           \
  "muls r21, r23\n add %[a2], r0\n adc %[a3], r1\n mul r20, r22\n add %[a0], r0\n"         \
  "adc %[a1], r1\n adc %[a2], %[z]\n adc %[a3], %[z]\n mulsu r21, r22\n sbc %[a3], %[z]\n" \
  "add %[a1], r0\n adc %[a2], r1\n adc %[a3], %[z]\n mulsu r23, r20\n sbc %[a3], %[z]\n"   \
  "add %[a1], r0\n adc %[a2], r1\n adc %[a3], %[z]\n"
// The four partial products are joined in r18, r19 (low) and r24, r25 (high) first, so that one add of five bytes does.
#define MINUN_MULTIPLY_40                                                                          \
  "muls r21, r23\n movw r24, r0\n mul r20, r22\n movw r18, r0\n mulsu r21, r22\n"                  \
  "sbc r25, %[z]\n add r19, r0\n adc r24, r1\n adc r25, %[z]\n mulsu r23, r20\n sbc r25, %[z]\n"   \
  "add r19, r0\n adc r24, r1\n adc r25, %[z]\n add %[a0], r18\n adc %[a1], r19\n adc %[a2], r24\n" \
  "adc %[a3], r25\n adc %[a4], %[z]\n sbrc r25, 7\n dec %[a4]\n"
#define MINUN_STEP_TABLE_40 MINUN_FETCH_16 MINUN_MULTIPLY_40
#define MINUN_STEP_16X16 "lpm r20, Z+\n lpm r21, Z+\n ld r22, X+\n ld r23, X+\n" MINUN_MULTIPLY_40
// An odd number of steps begins in the middle of a pair.
#define MINUN_PAIRS(STEP) "sbrc %[n], 0\n rjmp 2f\n 1:\n" STEP "2:\n" STEP "dec %[c]\n brne 1b\n clr r1\n"
#endif

// 16-bit values, weights by a table of two pages, 32-bit sum.
MINUN_NOINLINE inline int32_t row_table_32(const int16_t* x, const int8_t* w, const uint8_t* table, int steps) {
#if defined(MINUN_ASM_AVR)
  uint8_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, z = 0;
  uint8_t left = static_cast<uint8_t>(steps), pairs = static_cast<uint8_t>((steps + 1) >> 1);
  const uint8_t page = static_cast<uint8_t>(reinterpret_cast<uint16_t>(table) >> 8);
  __asm__ volatile(MINUN_PAIRS(MINUN_STEP_TABLE_32)
                   : [a0] "+&r"(a0), [a1] "+&r"(a1), [a2] "+&r"(a2), [a3] "+&r"(a3), [w] "+&r"(w), "+x"(x), [c] "+&r"(pairs)
                   : [z] "r"(z), [page] "r"(page), [n] "r"(left)
                   : "r16", "r20", "r21", "r22", "r23", "r30", "r31", "r0", "memory");
  return joined(a0, a1, a2, a3);
#else
  int32_t sum = 0;
  for (int k = 0; k < steps; ++k) {
    const uint8_t* entry = table + static_cast<uint8_t>(flash_load(w + k));
    const uint16_t low = flash_load(entry), high = flash_load(entry + 256);
    sum += static_cast<int32_t>(x[k]) * static_cast<int16_t>(low | (high << 8));
  }
  return sum;
#endif
}

// The same with a 40-bit sum.
MINUN_NOINLINE inline Sum40 row_table_40(const int16_t* x, const int8_t* w, const uint8_t* table, int steps) {
#if defined(MINUN_ASM_AVR)
  uint8_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, a4 = 0, z = 0;
  uint8_t left = static_cast<uint8_t>(steps), pairs = static_cast<uint8_t>((steps + 1) >> 1);
  const uint8_t page = static_cast<uint8_t>(reinterpret_cast<uint16_t>(table) >> 8);
  __asm__ volatile(MINUN_PAIRS(MINUN_STEP_TABLE_40)
                   : [a0] "+&r"(a0), [a1] "+&r"(a1), [a2] "+&r"(a2), [a3] "+&r"(a3), [a4] "+&r"(a4), [w] "+&r"(w), "+x"(x),
                     [c] "+&r"(pairs)
                   : [z] "r"(z), [page] "r"(page), [n] "r"(left)
                   : "r16", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r30", "r31", "r0", "memory");
  const Sum40 sum = {static_cast<uint32_t>(joined(a0, a1, a2, a3)), static_cast<int8_t>(a4)};
  return sum;
#else
  int64_t sum = 0;
  for (int k = 0; k < steps; ++k) {
    const uint8_t* entry = table + static_cast<uint8_t>(flash_load(w + k));
    const uint16_t low = flash_load(entry), high = flash_load(entry + 256);
    sum += static_cast<int32_t>(x[k]) * static_cast<int16_t>(low | (high << 8));
  }
  const Sum40 narrow = {static_cast<uint32_t>(sum), static_cast<int8_t>(sum >> 32)};
  return narrow;
#endif
}

// 16-bit values and weights, 40-bit sum.
MINUN_NOINLINE inline Sum40 row_16x16(const int16_t* x, const int16_t* w, int steps) {
#if defined(MINUN_ASM_AVR)
  uint8_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, a4 = 0, z = 0;
  uint8_t left = static_cast<uint8_t>(steps), pairs = static_cast<uint8_t>((steps + 1) >> 1);
  __asm__ volatile(MINUN_PAIRS(MINUN_STEP_16X16)
                   : [a0] "+&r"(a0), [a1] "+&r"(a1), [a2] "+&r"(a2), [a3] "+&r"(a3), [a4] "+&r"(a4), "+z"(w), "+x"(x),
                     [c] "+&r"(pairs)
                   : [z] "r"(z), [n] "r"(left)
                   : "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r0", "memory");
  const Sum40 sum = {static_cast<uint32_t>(joined(a0, a1, a2, a3)), static_cast<int8_t>(a4)};
  return sum;
#else
  int64_t sum = 0;
  for (int k = 0; k < steps; ++k) sum += static_cast<int32_t>(x[k]) * flash_load(w + k);
  const Sum40 narrow = {static_cast<uint32_t>(sum), static_cast<int8_t>(sum >> 32)};
  return narrow;
#endif
}
#if defined(MINUN_ASM_AVR)
#undef MINUN_FETCH_16
#undef MINUN_STEP_TABLE_32
#undef MINUN_MULTIPLY_40
#undef MINUN_STEP_TABLE_40
#undef MINUN_STEP_16X16
#undef MINUN_PAIRS
#endif

}  // namespace avr
}  // namespace minun

#endif
