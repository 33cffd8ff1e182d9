// SPDX-License-Identifier: Apache-2.0
// The stack's high-water mark: the free RAM between the heap and the stack pointer is painted, and later searched for
// the lowest byte that changed. What is on the heap by then is left alone. Where it is not known how a board lays out
// its stack, all of this says 0.
#ifndef MINUN_STACK_H
#define MINUN_STACK_H

#include <stddef.h>
#include <stdint.h>

#include "minun/platform.h"

#if defined(__AVR__)
#include <avr/io.h>
extern "C" {
extern char __heap_start;
extern char* __brkval __attribute__((weak));  // there only in a firmware that has a heap
}
#elif defined(MINUN_VIRTUAL_ARM) || defined(ARDUINO_ARCH_STM32) || defined(ARDUINO_ARCH_SAM)
#define MINUN_NEWLIB_STACK 1  // the heap grows from _end up to the break, the stack from _estack down
extern "C" {
extern char _end;
extern char _estack;
#if defined(ARDUINO_ARCH_SAM)
extern char _sstack;
#endif
// newlib's _sbrk by a name of its own, so that no other declaration is in its way; there only in a firmware with a heap.
char* minun_break(ptrdiff_t more) __asm__("_sbrk") __attribute__((weak));
}
#endif

namespace minun {

const uint8_t kStackPaint = 0xC5;

// The lowest byte the stack may reach, and the end (one past the highest); equal where they are not known.
inline uint8_t* stack_end() {
#if defined(__AVR__)
  return reinterpret_cast<uint8_t*>(RAMEND + 1);
#elif defined(MINUN_NEWLIB_STACK)
  return reinterpret_cast<uint8_t*>(&_estack);
#else
  return 0;
#endif
}

inline uint8_t* stack_low() {
#if defined(__AVR__)
  char* low = &__heap_start;
  if (&__brkval != 0 && __brkval != 0) low = __brkval;
  return reinterpret_cast<uint8_t*>(low);
#elif defined(MINUN_NEWLIB_STACK)
  const uintptr_t end = reinterpret_cast<uintptr_t>(&_estack);
  uintptr_t low = reinterpret_cast<uintptr_t>(&_end);
#if defined(ARDUINO_ARCH_SAM)
  if (low >= end) return reinterpret_cast<uint8_t*>(&_sstack);  // a core that puts the heap above the stack
#endif
  if (&minun_break != 0) {
    const uintptr_t heap_end = reinterpret_cast<uintptr_t>(minun_break(0));
    if (heap_end > low && heap_end <= end) low = heap_end;  // else there is no heap, or not here
  }
  return reinterpret_cast<uint8_t*>(low);
#else
  return 0;
#endif
}

inline size_t stack_room() { return static_cast<size_t>(stack_end() - stack_low()); }

MINUN_NOINLINE inline void paint_stack() {
#if defined(__AVR__)
  volatile uint8_t* const stop = reinterpret_cast<uint8_t*>(SP - 8);
#elif defined(__arm__)
  uint8_t* here;
  __asm__ volatile("mov %0, sp"
                   : "=r"(here));
  volatile uint8_t* const stop = here - 32;
#else
  volatile uint8_t* const stop = 0;
#endif
  if (stack_room() == 0) return;
  for (volatile uint8_t* p = stack_low(); p < stop; ++p) *p = kStackPaint;
}

// Bytes between the stack's end and the deepest byte it has touched since paint_stack().
inline size_t stack_used() {
  const volatile uint8_t* p = stack_low();
  const volatile uint8_t* const end = stack_end();
  while (p < end && *p == kStackPaint) ++p;
  return static_cast<size_t>(end - p);
}

}  // namespace minun

#endif
