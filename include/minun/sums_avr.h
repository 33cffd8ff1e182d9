// SPDX-License-Identifier: Apache-2.0
// The inner loops of minun/dense_avr.h: sums of 24, 32, 40 or 56 bits in registers, weights row-major in flash, decode
// tables as 256-byte pages (aligned to 256 bytes, low bytes first). In C++ the same bits (all other cores, and
// MINUN_PORTABLE).
//
// Assembly: r0, r1 hold products (r1 is zero again at the end). After muls and mulsu the carry is the product's sign,
// so `sbc` on the bytes above extends it.
#ifndef MINUN_SUMS_AVR_H
#define MINUN_SUMS_AVR_H

#include "minun/flash.h"
#include "minun/formats.h"

namespace minun {
namespace avr {

// Steps in a turn of the assembly loops, and those that one call can do (the counter of turns has 8 bits).
static const int kTurn = 8;
static const int kMostSteps = 255 * kTurn;

#if defined(MINUN_ASM_AVR)
MINUN_INLINE int32_t joined(uint8_t a0, uint8_t a1, uint8_t a2, uint8_t a3) {
  union {
    uint8_t bytes[4];
    int32_t whole;
  } sum = {{a0, a1, a2, a3}};
  return sum.whole;
}
#define MINUN_MUL_8X8                                                                            \
  "lpm r20, Z+\n ld r22, X+\n muls r20, r22\n sbc %[a2], %[z]\n add %[a0], r0\n adc %[a1], r1\n" \
  "adc %[a2], %[z]\n"
// Four products of 8 and 7 bits fit a word.
#define MINUN_FETCH_8X7 "lpm r20, Z+\n ld r22, X+\n muls r20, r22\n"
#define MINUN_ADD_8X7 MINUN_FETCH_8X7 "add r24, r0\n adc r25, r1\n"
#define MINUN_MUL_8X7_4                                                      \
  MINUN_FETCH_8X7 "movw r24, r0\n" MINUN_ADD_8X7 MINUN_ADD_8X7 MINUN_ADD_8X7 \
                  "add %[a0], r24\n adc %[a1], r25\n adc %[a2], %[z]\n sbrc r25, 7\n dec %[a2]\n"
#define MINUN_MUL_16X8                                                                         \
  "lpm r20, Z+\n ld r22, X+\n ld r23, X+\n mulsu r20, r22\n sbc %[a2], %[z]\n add %[a0], r0\n" \
  "adc %[a1], r1\n adc %[a2], %[z]\n muls r20, r23\n add %[a1], r0\n adc %[a2], r1\n"
#define MINUN_EIGHT(STEP) STEP STEP STEP STEP STEP STEP STEP STEP
#define MINUN_SHORT_LOOP(TURN)                                                                          \
  uint8_t a0 = 0, a1 = 0, a2 = 0, z = 0, turns = static_cast<uint8_t>(steps / kTurn);                   \
  __asm__ volatile("1:\n" TURN                                                                          \
                   "dec %[c]\n breq 2f\n rjmp 1b\n"                                                     \
                   "2: clr r1\n"                                                                        \
                   : [a0] "+&r"(a0), [a1] "+&r"(a1), [a2] "+&r"(a2), "+z"(w), "+x"(x), [c] "+&r"(turns) \
                   : [z] "r"(z)                                                                         \
                   : "r20", "r22", "r23", "r24", "r25", "r0", "memory");                                \
  return joined(a0, a1, a2, static_cast<uint8_t>((a2 & 0x80u) ? 0xFF : 0))
#endif

// 8-bit values, 8-bit weights, 24-bit sum. `steps` is a multiple of kTurn, kTurn to kMostSteps, in all of these.
inline int32_t sum_8x8(const int8_t* x, const int8_t* w, int steps) {
#if defined(MINUN_ASM_AVR)
  MINUN_SHORT_LOOP(MINUN_EIGHT(MINUN_MUL_8X8));
#else
  int32_t sum = 0;
  for (int k = 0; k < steps; ++k) sum += static_cast<int32_t>(x[k]) * flash_load(w + k);
  return sum;
#endif
}

// The same for |value| <= 127 and |weight| <= 64.
inline int32_t sum_8x7(const int8_t* x, const int8_t* w, int steps) {
#if defined(MINUN_ASM_AVR)
  MINUN_SHORT_LOOP(MINUN_MUL_8X7_4 MINUN_MUL_8X7_4);
#else
  return sum_8x8(x, w, steps);
#endif
}

// Of pairs (weights to skip, value), 1 to 255 of them; 24-bit sum.
MINUN_NOINLINE inline int32_t sum_listed(const uint8_t* pairs, const int8_t* w, uint8_t count) {
#if defined(MINUN_ASM_AVR)
  uint8_t a0 = 0, a1 = 0, a2 = 0;
  const uint8_t z = 0;
  __asm__ volatile(
      "1: ld r20, X+\n add r30, r20\n adc r31, %[z]\n lpm r20, Z+\n ld r22, X+\n muls r20, r22\n sbc %[a2], %[z]\n"
      "add %[a0], r0\n adc %[a1], r1\n adc %[a2], %[z]\n dec %[c]\n brne 1b\n clr r1\n"
      : [a0] "+&r"(a0), [a1] "+&r"(a1), [a2] "+&r"(a2), "+z"(w), "+x"(pairs), [c] "+&r"(count)
      : [z] "r"(z)
      : "r20", "r22", "r0", "memory");
  return joined(a0, a1, a2, static_cast<uint8_t>((a2 & 0x80u) ? 0xFF : 0));
#else
  int32_t sum = 0;
  for (; count > 0; --count, pairs += 2) {
    w += pairs[0];
    sum += static_cast<int32_t>(static_cast<int8_t>(pairs[1])) * flash_load(w++);
  }
  return sum;
#endif
}

// 16-bit values, 8-bit weights, 24-bit sum.
inline int32_t sum_16x8(const int16_t* x, const int8_t* w, int steps) {
#if defined(MINUN_ASM_AVR)
  MINUN_SHORT_LOOP(MINUN_EIGHT(MINUN_MUL_16X8));
#else
  int32_t sum = 0;
  for (int k = 0; k < steps; ++k) sum += static_cast<int32_t>(x[k]) * flash_load(w + k);
  return sum;
#endif
}
#if defined(MINUN_ASM_AVR)
#undef MINUN_MUL_8X8
#undef MINUN_FETCH_8X7
#undef MINUN_ADD_8X7
#undef MINUN_MUL_8X7_4
#undef MINUN_MUL_16X8
#undef MINUN_EIGHT
#undef MINUN_SHORT_LOOP

// The weight that code *w stands for into r21:r20, the next value into r23:r22.
#define MINUN_FETCH_16                                                                             \
  "movw r30, %[w]\n lpm r16, Z+\n movw %[w], r30\n mov r30, r16\n mov r31, %[page]\n lpm r20, Z\n" \
  "inc r31\n lpm r21, Z\n ld r22, X+\n ld r23, X+\n"
#define MINUN_MUL_16X16_32                                                                 \
  MINUN_FETCH_16                                                                           \
  "muls r21, r23\n add %[a2], r0\n adc %[a3], r1\n mul r20, r22\n add %[a0], r0\n"         \
  "adc %[a1], r1\n adc %[a2], %[z]\n adc %[a3], %[z]\n mulsu r21, r22\n sbc %[a3], %[z]\n" \
  "add %[a1], r0\n adc %[a2], r1\n adc %[a3], %[z]\n mulsu r23, r20\n sbc %[a3], %[z]\n"   \
  "add %[a1], r0\n adc %[a2], r1\n adc %[a3], %[z]\n"
#endif

// 16-bit values, weights by a table of two pages, 32-bit sum.
inline int32_t sum_table_32(const int16_t* x, const int8_t* w, const uint8_t* table, int steps) {
#if defined(MINUN_ASM_AVR)
  uint8_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, z = 0, turns = static_cast<uint8_t>(steps / kTurn);
  const uint8_t page = static_cast<uint8_t>(reinterpret_cast<uint16_t>(table) >> 8);
  __asm__ volatile("1:\n" MINUN_MUL_16X16_32 MINUN_MUL_16X16_32 MINUN_MUL_16X16_32 MINUN_MUL_16X16_32
                       MINUN_MUL_16X16_32 MINUN_MUL_16X16_32 MINUN_MUL_16X16_32 MINUN_MUL_16X16_32
                   "dec %[c]\n breq 2f\n rjmp 1b\n 2: clr r1\n"
                   : [a0] "+&r"(a0), [a1] "+&r"(a1), [a2] "+&r"(a2), [a3] "+&r"(a3), [w] "+&r"(w), "+x"(x), [c] "+&r"(turns)
                   : [z] "r"(z), [page] "r"(page)
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

// A 40-bit integer.
struct Sum40 {
  uint32_t low;
  int8_t high;

  MINUN_INLINE int64_t whole() const {
    return static_cast<int64_t>((static_cast<uint64_t>(static_cast<uint32_t>(static_cast<int32_t>(high))) << 32) | low);
  }
  MINUN_INLINE void add(uint32_t other_low, int8_t other_high) {
    low += other_low;
    high = static_cast<int8_t>(high + other_high + (low < other_low ? 1 : 0));
  }
};

// One rounding of sum * 2^unit into a posit of up to 12 bits, without 64-bit arithmetic.
template <class Out>
MINUN_INLINE typename Out::Code encode40(Sum40 sum, int unit) {
  const bool negative = sum.high < 0;
  if (negative) {
    sum.low = 0u - sum.low;
    sum.high = static_cast<int8_t>(~sum.high + (sum.low == 0 ? 1 : 0));
  }
  union {
    uint32_t whole;
    uint8_t bytes[4];
  } low;
  low.whole = sum.low;
  uint8_t top, second, third;
  bool below = false;
  int place = unit;
  if (sum.high != 0) {
    top = static_cast<uint8_t>(sum.high);
    second = low.bytes[3];
    third = low.bytes[2];
    below = low.bytes[1] != 0 || low.bytes[0] != 0;
    place += 39;
  } else if (low.bytes[3] != 0) {
    top = low.bytes[3];
    second = low.bytes[2];
    third = low.bytes[1];
    below = low.bytes[0] != 0;
    place += 31;
  } else if (low.bytes[2] != 0) {
    top = low.bytes[2];
    second = low.bytes[1];
    third = low.bytes[0];
    place += 23;
  } else if (low.bytes[1] != 0) {
    top = low.bytes[1];
    second = low.bytes[0];
    third = 0;
    place += 15;
  } else {
    if (low.bytes[0] == 0) return 0;
    top = low.bytes[0];
    second = third = 0;
    place += 7;
  }
  while (!(top & 0x80u)) {
    top = static_cast<uint8_t>((top << 1) | (second >> 7));
    second = static_cast<uint8_t>((second << 1) | (third >> 7));
    third = static_cast<uint8_t>(third << 1);
    --place;
  }
  const uint16_t significand = static_cast<uint16_t>((static_cast<uint16_t>(top) << 8) | second);
  return Out::encode_16(negative, significand, place, below || third != 0);
}

#if defined(MINUN_ASM_AVR)
#undef MINUN_FETCH_16
#undef MINUN_MUL_16X16_32
#endif

// 24-bit values (three bytes each, low first), 16-bit posit weights: code * page0[h] + (page1[h] << 8) + (page2[h] << 16)
// with h the code's high byte, a 24-bit integer; 56-bit sum.
MINUN_NOINLINE inline int64_t sum_pieces_56(const uint8_t* x, const int16_t* w, const uint8_t* table, int steps) {
#if defined(MINUN_ASM_AVR)
  union {
    int64_t whole;
    uint8_t bytes[8];
  } sum;
  register uint8_t* out __asm__("r30") = sum.bytes;
  register const int16_t* next __asm__("r24") = w;
  register uint8_t turns __asm__("r19") = static_cast<uint8_t>(steps);
  register uint8_t page __asm__("r23") = static_cast<uint8_t>(reinterpret_cast<uint16_t>(table) >> 8);
  // r2 zero, r3:r15..r10 the sum, r9..r4 a product, r22..r20 the weight, r18..r16 the value
  __asm__ volatile(
      "push r2\n push r3\n push r4\n push r5\n push r6\n push r7\n push r8\n push r9\n"
      "push r10\n push r11\n push r12\n push r13\n push r14\n push r15\n push r30\n push r31\n"
      "clr r2\n clr r3\n clr r10\n clr r11\n clr r12\n clr r13\n clr r14\n"
      "clr r15\n"
      "1: movw r30, %[w]\n lpm r16, Z+\n lpm r17, Z+\n movw %[w], r30\n mov r30, r17\n mov r31, %[page]\n lpm r18, Z\n"
      "inc r31\n lpm r21, Z\n inc r31\n lpm r22, Z\n"
      "mul r16, r18\n mov r20, r0\n add r21, r1\n adc r22, r2\n mulsu r17, r18\n add r21, r0\n adc r22, r1\n"
      "ld r16, X+\n ld r17, X+\n ld r18, X+\n"
      "mul r20, r16\n movw r4, r0\n mul r21, r17\n movw r6, r0\n muls r22, r18\n movw r8, r0\n"
      "mul r20, r17\n add r5, r0\n adc r6, r1\n adc r7, r2\n adc r8, r2\n adc r9, r2\n"
      "mul r21, r16\n add r5, r0\n adc r6, r1\n adc r7, r2\n adc r8, r2\n adc r9, r2\n"
      "mulsu r22, r16\n sbc r8, r2\n sbc r9, r2\n add r6, r0\n adc r7, r1\n adc r8, r2\n adc r9, r2\n"
      "mulsu r18, r20\n sbc r8, r2\n sbc r9, r2\n add r6, r0\n adc r7, r1\n adc r8, r2\n adc r9, r2\n"
      "mulsu r22, r17\n sbc r9, r2\n add r7, r0\n adc r8, r1\n adc r9, r2\n"
      "mulsu r18, r21\n sbc r9, r2\n add r7, r0\n adc r8, r1\n adc r9, r2\n"
      "mov r0, r9\n lsl r0\n sbc r0, r0\n add r10, r4\n adc r11, r5\n adc r12, r6\n adc r13, r7\n adc r14, r8\n"
      "adc r15, r9\n adc r3, r0\n dec %[c]\n breq 2f\n rjmp 1b\n"
      "2: pop r31\n pop r30\n st Z+, r10\n st Z+, r11\n st Z+, r12\n st Z+, r13\n st Z+, r14\n st Z+, r15\n"
      "st Z+, r3\n lsl r3\n sbc r3, r3\n st Z, r3\n"
      "pop r15\n pop r14\n pop r13\n pop r12\n pop r11\n pop r10\n pop r9\n pop r8\n pop r7\n"
      "pop r6\n pop r5\n pop r4\n pop r3\n pop r2\n clr r1\n"
      : [w] "+&r"(next), "+x"(x), [c] "+&r"(turns), "+r"(out)
      : [page] "r"(page)
      : "r0", "r16", "r17", "r18", "r20", "r21", "r22", "memory");
  return sum.whole;
#else
  int64_t sum = 0;
  for (int k = 0; k < steps; ++k, x += 3) {
    const int16_t code = flash_load(w + k);
    const uint8_t* entry = table + static_cast<uint8_t>(code >> 8);
    const uint32_t offset = (static_cast<uint32_t>(flash_load(entry + 512)) << 16) |
                            (static_cast<uint32_t>(flash_load(entry + 256)) << 8);
    const uint32_t line = static_cast<uint32_t>(static_cast<int32_t>(code) * flash_load(entry)) + offset;
    const int32_t weight = static_cast<int32_t>(line << 8) >> 8;
    const uint32_t low = static_cast<uint32_t>(x[0]) | (static_cast<uint32_t>(x[1]) << 8);
    const int32_t value = static_cast<int32_t>((low | (static_cast<uint32_t>(x[2]) << 16)) << 8) >> 8;
    sum += static_cast<int64_t>(weight) * value;
  }
  return sum;
#endif
}

}  // namespace avr
}  // namespace minun

#endif
