// SPDX-License-Identifier: Apache-2.0
// The inner loops of minun/sums.h for Cortex-M3 and up, sixteen products a turn. Arguments: r0 the four sums, r1 what
// is read one element a step, r2 what is read four elements a step, r3 the table, and on the stack the number of
// turns (four steps each). Naked functions: all fourteen registers are needed, at any optimisation level.
//
// A step loads one element into lr, and for each sum one interleaved element into r12, then multiplies and adds.
// Offsets: the first load of a turn moves the pointer to the turn's end, the others reach back.
#ifndef MINUN_SUMS_THUMB2_H
#define MINUN_SUMS_THUMB2_H

#include "minun/platform.h"

#if defined(__clang__)
#define MINUN_NAKED __attribute__((naked, noinline, used))
#else
#define MINUN_NAKED __attribute__((naked, noinline, noclone, used, noipa))
#endif

namespace minun {

// 32-bit sums in r4-r7, 64-bit sums in r4-r11 (low word first); r0 counts turns, its own value waits on the stack.
#define MINUN_ENTER32 "push {r0, r4-r7, lr}\n ldr r12, [sp, #24]\n ldm r0, {r4-r7}\n mov r0, r12\n 1:\n"
#define MINUN_LEAVE32 "subs r0, #1\n bne 1b\n pop {r0}\n stm r0, {r4-r7}\n pop {r4-r7, pc}\n"
#define MINUN_ENTER64 "push {r0, r4-r11, lr}\n ldr r12, [sp, #40]\n ldm r0, {r4-r11}\n mov r0, r12\n 1:\n"
#define MINUN_LEAVE64 "subs r0, #1\n bne 1b\n pop {r0}\n stm r0, {r4-r11}\n pop {r4-r11, pc}\n"

// What a code in r12 is worth. Piecewise: table points at entry 0 of -128..127, so r3 is moved by 512 on entry.
#define MINUN_PLAIN
#define MINUN_LOOK_UP32 "ldr r12, [r3, r12, lsl #2]\n"

#define MINUN_MAC32(LOAD, AT, VALUE, SUM) LOAD " r12, [r2" AT "\n" VALUE "mla " SUM ", lr, r12, " SUM "\n"
#define MINUN_MAC64(LOAD, AT, VALUE, LOW, HIGH) \
  LOAD " r12, [r2" AT "\n" VALUE "smlal " LOW ", " HIGH ", lr, r12\n"

#define MINUN_STEP32(ONE, ONE_AT, LOAD, VALUE, A0, A1, A2, A3)                                     \
  ONE " lr, [r1" ONE_AT "\n" MINUN_MAC32(LOAD, A0, VALUE, "r4") MINUN_MAC32(LOAD, A1, VALUE, "r5") \
      MINUN_MAC32(LOAD, A2, VALUE, "r6") MINUN_MAC32(LOAD, A3, VALUE, "r7")
#define MINUN_STEP64(ONE, ONE_AT, LOAD, VALUE, A0, A1, A2, A3)                                                 \
  ONE " lr, [r1" ONE_AT "\n" MINUN_MAC64(LOAD, A0, VALUE, "r4", "r5") MINUN_MAC64(LOAD, A1, VALUE, "r6", "r7") \
      MINUN_MAC64(LOAD, A2, VALUE, "r8", "r9") MINUN_MAC64(LOAD, A3, VALUE, "r10", "r11")

// One turn: four steps of STEP. P1..P4: where the single elements are; interleaved elements are S bytes.
#define MINUN_TURN_BYTES(STEP, ONE, P1, P2, P3, P4, LOAD, VALUE)        \
  STEP(ONE, P1, LOAD, VALUE, "], #16", ", #-15]", ", #-14]", ", #-13]") \
  STEP(ONE, P2, LOAD, VALUE, ", #-12]", ", #-11]", ", #-10]", ", #-9]") \
  STEP(ONE, P3, LOAD, VALUE, ", #-8]", ", #-7]", ", #-6]", ", #-5]")    \
  STEP(ONE, P4, LOAD, VALUE, ", #-4]", ", #-3]", ", #-2]", ", #-1]")
#define MINUN_TURN_HALVES(STEP, ONE, P1, P2, P3, P4, LOAD, VALUE)        \
  STEP(ONE, P1, LOAD, VALUE, "], #32", ", #-30]", ", #-28]", ", #-26]")  \
  STEP(ONE, P2, LOAD, VALUE, ", #-24]", ", #-22]", ", #-20]", ", #-18]") \
  STEP(ONE, P3, LOAD, VALUE, ", #-16]", ", #-14]", ", #-12]", ", #-10]") \
  STEP(ONE, P4, LOAD, VALUE, ", #-8]", ", #-6]", ", #-4]", ", #-2]")
#define MINUN_ONE_BYTES "], #4", ", #-3]", ", #-2]", ", #-1]"
#define MINUN_ONE_HALVES "], #8", ", #-6]", ", #-4]", ", #-2]"
#define MINUN_ONE_WORDS "], #16", ", #-12]", ", #-8]", ", #-4]"
#define MINUN_EXPAND(MACRO, ...) MACRO(__VA_ARGS__)

// Convolution with a weight that has to be decoded: the weight, decoded, in r12 (r0 is free for it); four patches in
// two pairs. r0 is needed, so where the weights end is kept on the stack, in the place of the turns: a turn reads
// 2^SHIFT bytes of weights.
#define MINUN_PAIRS                                                     \
  "ldm r1!, {r0, lr}\n smlal r4, r5, r0, r12\n smlal r6, r7, lr, r12\n" \
  "ldm r1!, {r0, lr}\n smlal r8, r9, r0, r12\n smlal r10, r11, lr, r12\n"
#define MINUN_ENTER_PAIRS(SHIFT)                                                               \
  "push {r0, r4-r11, lr}\n ldm r0, {r4-r11}\n ldr r0, [sp, #40]\n add r0, r2, r0, lsl #" SHIFT \
  "\n"                                                                                         \
  "str r0, [sp, #40]\n 1:\n"
#define MINUN_LEAVE_PAIRS \
  "ldr r0, [sp, #40]\n cmp r2, r0\n bne 1b\n pop {r0}\n stm r0, {r4-r11}\n pop {r4-r11, pc}\n"
#define MINUN_FOUR_TIMES(TEXT) TEXT TEXT TEXT TEXT
#define MINUN_EIGHT_TIMES(TEXT) MINUN_FOUR_TIMES(TEXT) MINUN_FOUR_TIMES(TEXT)

#define MINUN_ENTER_PAIRED "push {r0, r4-r11, lr}\n ldr r12, [sp, #40]\n ldm r0, {r4-r7}\n 1:\n"
#define MINUN_LEAVE_PAIRED "subs r12, #1\n bne 1b\n pop {r0}\n stm r0, {r4-r7}\n pop {r4-r11, pc}\n"
#define MINUN_PAIRED_ROW(AT, SUM)                  \
  "ldr r10, [r2" AT                                \
  "\n sxtb16 r11, r10\n sxtb16 r10, r10, ror #8\n" \
  "smlad " SUM ", r11, r8, " SUM "\n smlad " SUM ", r10, r9, " SUM "\n"
#define MINUN_PAIRED_ROWS           \
  MINUN_PAIRED_ROW("], #16", "r4")  \
  MINUN_PAIRED_ROW(", #-12]", "r5") \
  MINUN_PAIRED_ROW(", #-8]", "r6")  \
  MINUN_PAIRED_ROW(", #-4]", "r7")

// A template so that the linker keeps one copy for all models.
template <int Copy = 0>
struct Thumb2 {
  // 16-bit values, 8-bit weights
  static MINUN_NAKED void plain_16x8(int32_t*, const int16_t*, const int8_t*, const void*, int) {
    __asm__ volatile(MINUN_ENTER32 MINUN_EXPAND(MINUN_TURN_BYTES, MINUN_STEP32, "ldrsh", MINUN_ONE_HALVES, "ldrsb",
                                                MINUN_PLAIN) MINUN_LEAVE32);
  }
  // 8-bit weights one a step, 16-bit values interleaved
  static MINUN_NAKED void plain_8x16_body(int32_t*, const int8_t*, const int16_t*, const void*, int) {
    __asm__ volatile(MINUN_ENTER32 MINUN_EXPAND(MINUN_TURN_HALVES, MINUN_STEP32, "ldrsb", MINUN_ONE_BYTES, "ldrsh",
                                                MINUN_PLAIN) MINUN_LEAVE32);
  }
  static MINUN_NAKED void plain_8x8(int32_t*, const int8_t*, const int8_t*, const void*, int) {
    __asm__ volatile(MINUN_ENTER32 MINUN_EXPAND(MINUN_TURN_BYTES, MINUN_STEP32, "ldrsb", MINUN_ONE_BYTES, "ldrsb",
                                                MINUN_PLAIN) MINUN_LEAVE32);
  }
  static MINUN_NAKED void plain_16x16(int64_t*, const int16_t*, const int16_t*, const void*, int) {
    __asm__ volatile(MINUN_ENTER64 MINUN_EXPAND(MINUN_TURN_HALVES, MINUN_STEP64, "ldrsh", MINUN_ONE_HALVES, "ldrsh",
                                                MINUN_PLAIN) MINUN_LEAVE64);
  }
  static MINUN_NAKED void plain_16x16_short(int32_t*, const int16_t*, const int16_t*, const void*, int) {
    __asm__ volatile(MINUN_ENTER32 MINUN_EXPAND(MINUN_TURN_HALVES, MINUN_STEP32, "ldrsh", MINUN_ONE_HALVES, "ldrsh",
                                                MINUN_PLAIN) MINUN_LEAVE32);
  }
  static MINUN_NAKED void lookup_16(int32_t*, const int16_t*, const int8_t*, const int16_t*, int) {
    __asm__ volatile(MINUN_ENTER32 MINUN_EXPAND(MINUN_TURN_BYTES, MINUN_STEP32, "ldrsh", MINUN_ONE_HALVES, "ldrb",
                                                "ldrsh r12, [r3, r12, lsl #1]\n") MINUN_LEAVE32);
  }
  static MINUN_NAKED void lookup_32(int64_t*, const int32_t*, const int8_t*, const int32_t*, int) {
    __asm__ volatile(MINUN_ENTER64 MINUN_EXPAND(MINUN_TURN_BYTES, MINUN_STEP64, "ldr", MINUN_ONE_WORDS, "ldrb",
                                                MINUN_LOOK_UP32) MINUN_LEAVE64);
  }

#if defined(MINUN_ASM_DSP)
  // Paired: two products an instruction. r8, r9 four 16-bit values in pairs; a row's four weights become r11, r10.
  static MINUN_NAKED void paired_16x8(int32_t*, const int16_t*, const int8_t*, const void*, int) {
    __asm__ volatile(MINUN_ENTER_PAIRED "ldrd r8, r9, [r1], #8\n" MINUN_PAIRED_ROWS MINUN_LEAVE_PAIRED);
  }
  static MINUN_NAKED void paired_8x8(int32_t*, const int8_t*, const int8_t*, const void*, int) {
    __asm__ volatile(MINUN_ENTER_PAIRED
                     "ldr r10, [r1], #4\n sxtb16 r8, r10\n sxtb16 r9, r10, ror #8\n" MINUN_PAIRED_ROWS
                         MINUN_LEAVE_PAIRED);
  }
#endif

  // The convolutions swap the parts of values and weights.
  static MINUN_INLINE void plain_8x16(int32_t* sums, const int16_t* values, const int8_t* w, const void* table,
                                      int turns) {
    plain_8x16_body(sums, w, values, table, turns);
  }
  static MINUN_INLINE void plain_8x8_swapped(int32_t* sums, const int8_t* values, const int8_t* w, const void* table,
                                             int turns) {
    plain_8x8(sums, w, values, table, turns);
  }
  static MINUN_INLINE void plain_16x16_swapped(int64_t* sums, const int16_t* values, const int16_t* w,
                                               const void* table, int turns) {
    plain_16x16(sums, w, values, table, turns);
  }

  static MINUN_INLINE void plain_16x16_short_swapped(int32_t* sums, const int16_t* values, const int16_t* w,
                                                     const void* table, int turns) {
    plain_16x16_short(sums, w, values, table, turns);
  }

  // r1 the interleaved values, r2 the weights
  static MINUN_NAKED void lookup_16_conv(int32_t*, const int16_t*, const int8_t*, const int16_t*, int) {
    __asm__ volatile(MINUN_ENTER32 MINUN_FOUR_TIMES(
        "ldrb lr, [r2], #1\n ldrsh r12, [r1], #8\n ldrsh lr, [r3, lr, lsl #1]\n mla r4, lr, r12, r4\n"
        "ldrsh r12, [r1, #-6]\n mla r5, lr, r12, r5\n ldrsh r12, [r1, #-4]\n mla r6, lr, r12, r6\n"
        "ldrsh r12, [r1, #-2]\n mla r7, lr, r12, r7\n") MINUN_LEAVE32);
  }
  static MINUN_NAKED void lookup_32_conv(int64_t*, const int32_t*, const int8_t*, const int32_t*, int) {
    __asm__ volatile(MINUN_ENTER_PAIRS("3") MINUN_EIGHT_TIMES("ldrb r12, [r2], #1\n" MINUN_LOOK_UP32 MINUN_PAIRS)
                         MINUN_LEAVE_PAIRS);
  }
  static MINUN_NAKED void piecewise_conv(int64_t*, const int32_t*, const int16_t*, const int32_t*, int) {
    __asm__ volatile("add r3, r3, #512\n" MINUN_ENTER_PAIRS("4") MINUN_EIGHT_TIMES(
        "ldrsh r12, [r2], #2\n asr r0, r12, #8\n ldr r0, [r3, r0, lsl #2]\n lsl r12, r12, r0\n"
        "add r12, r12, r0, asr #8\n" MINUN_PAIRS) MINUN_LEAVE_PAIRS);
  }

// A piecewise weight needs a second register for its table entry; r0 is taken, as in the convolutions.
#define MINUN_PIECE(AT, LOW, HIGH)                                     \
  "ldrsh r12, [r2" AT                                                  \
  "\n asr r0, r12, #8\n ldr r0, [r3, r0, lsl #2]\n lsl r12, r12, r0\n" \
  "add r12, r12, r0, asr #8\n smlal " LOW ", " HIGH ", lr, r12\n"
#define MINUN_STEP_PIECES(ONE, ONE_AT, LOAD, VALUE, A0, A1, A2, A3)                  \
  ONE " lr, [r1" ONE_AT "\n" MINUN_PIECE(A0, "r4", "r5") MINUN_PIECE(A1, "r6", "r7") \
      MINUN_PIECE(A2, "r8", "r9") MINUN_PIECE(A3, "r10", "r11")
  static MINUN_NAKED void piecewise(int64_t*, const int32_t*, const int16_t*, const int32_t*, int) {
    __asm__ volatile("add r3, r3, #512\n" MINUN_ENTER_PAIRS("6") MINUN_EXPAND(
        MINUN_TURN_HALVES, MINUN_STEP_PIECES, "ldr", MINUN_ONE_WORDS, "", "") MINUN_EXPAND(MINUN_TURN_HALVES, MINUN_STEP_PIECES, "ldr", MINUN_ONE_WORDS, "", "") MINUN_LEAVE_PAIRS);
  }
#undef MINUN_PIECE
#undef MINUN_STEP_PIECES
};

#undef MINUN_ENTER32
#undef MINUN_LEAVE32
#undef MINUN_ENTER64
#undef MINUN_LEAVE64
#undef MINUN_PLAIN
#undef MINUN_LOOK_UP32
#undef MINUN_MAC32
#undef MINUN_MAC64
#undef MINUN_STEP32
#undef MINUN_STEP64
#undef MINUN_TURN_BYTES
#undef MINUN_TURN_HALVES
#undef MINUN_ONE_BYTES
#undef MINUN_ONE_HALVES
#undef MINUN_ONE_WORDS
#undef MINUN_EXPAND
#undef MINUN_PAIRS
#undef MINUN_ENTER_PAIRS
#undef MINUN_LEAVE_PAIRS
#undef MINUN_FOUR_TIMES
#undef MINUN_EIGHT_TIMES
#undef MINUN_ENTER_PAIRED
#undef MINUN_LEAVE_PAIRED
#undef MINUN_PAIRED_ROW
#undef MINUN_PAIRED_ROWS

}  // namespace minun

#endif
