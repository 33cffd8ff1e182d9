// SPDX-License-Identifier: Apache-2.0
// How a board measures an inference. A clock counts between start() and stop(); the figure is the count times
// kScaleNumerator / kScaleDenominator. Instructions are not cycles: an emulated Cortex-M counts instructions.
#ifndef MINUN_TIMER_H
#define MINUN_TIMER_H

#include <stdint.h>

#include "minun/platform.h"

#if defined(__AVR__)
#include <avr/interrupt.h>
#include <avr/io.h>
// A timer 1 of 16 bits with these registers: not an ATmega8's (TIMSK), an ATtiny85's (8 bits) or a megaAVR-0's.
#if defined(TCNT1) && defined(TCCR1A) && defined(TCCR1B) && defined(TIFR1) && defined(TIMSK0) && defined(TIMSK1) && \
    defined(TIMER1_OVF_vect)
#define MINUN_AVR_TIMER1 1
#endif
#endif

#if defined(MINUN_NATIVE)
#include <time.h>
#elif defined(ARDUINO) && !defined(MINUN_AVR_TIMER1) && !defined(__ARM_ARCH_7M__) && !defined(__ARM_ARCH_7EM__)
#include <Arduino.h>
#endif

namespace minun {

// What a clock is; the host knows unit and source by this number (minun_pio/board/protocol.py).
enum ClockKind {
  kNoClock = 0,
  kAvrTimerCycles = 1,
  kSimulatedAvrTimerCycles = 2,
  kEmulatedInstructions = 3,
  kCortexCycles = 4,
  kHostNanoseconds = 5,
  kMicroseconds = 6
};

struct NoClock {
  enum { kKind = kNoClock,
         kScaleNumerator = 1,
         kScaleDenominator = 1 };
  static void start() {}
  static uint32_t stop() { return 0; }
};

#if defined(MINUN_AVR_TIMER1)

// Timer 1 at the CPU's clock; src/timer_avr.cpp counts its overflows, and what that costs is taken off again. Timer
// 0's interrupt (millis) is off meanwhile. A firmware that needs timer 1 for itself uses NoClock.
extern "C" volatile uint16_t minun_timer1_overflows;
extern "C" uint8_t minun_timer0_mask;

struct BoardClock {
#if defined(MINUN_VIRTUAL_UNO)
  enum { kKind = kSimulatedAvrTimerCycles };
  enum { kOverflowCycles = 31 };  // 3 for the vector's jmp, 28 for the handler; simavr enters in no time
#else
  enum { kKind = kAvrTimerCycles };
  enum { kOverflowCycles = 35 };  // and 4 to enter
#endif
  enum { kScaleNumerator = 1,
         kScaleDenominator = 1 };

  static void start() {
    minun_timer0_mask = TIMSK0;
    TIMSK0 = 0;
    TCCR1A = 0;
    TCCR1B = 0;
    TCNT1 = 0;
    TIFR1 = _BV(TOV1);
    minun_timer1_overflows = 0;
    TIMSK1 = _BV(TOIE1);
    TCCR1B = _BV(CS10);
  }

  static uint32_t stop() {
    const uint8_t interrupts = SREG;
    cli();
    const uint16_t low = TCNT1;
    const bool one_more = (TIFR1 & _BV(TOV1)) != 0 && low < 0x8000;  // overflowed, not yet counted
    const uint32_t handled = minun_timer1_overflows;
    TCCR1B = 0;
    TIMSK1 = 0;
    TIMSK0 = minun_timer0_mask;
    SREG = interrupts;
    return handled * (65536ul - kOverflowCycles) + low + (one_more ? 65536ul : 0);
  }
};

#elif defined(MINUN_VIRTUAL_ARM)

// The dual timer of QEMU's mps2 machines: 25 MHz through 16, and -icount shift=10 makes an instruction 1024 ns, so 1.6
// counts are one; wraps after 2,684 million. Interrupts are off meanwhile, their instructions would count.
struct BoardClock {
  enum { kKind = kEmulatedInstructions };
  enum { kScaleNumerator = 5,
         kScaleDenominator = 8 };

  static void start() {
    volatile uint32_t* const timer = reinterpret_cast<volatile uint32_t*>(0x40002000);
    __asm__ volatile("cpsid i" ::
                         : "memory");
    timer[2] = 0x86;         // control: run, 32 bits, through 16
    timer[0] = 0xFFFFFFFFu;  // load, counting down
  }

  static uint32_t stop() {
    const uint32_t value = reinterpret_cast<volatile uint32_t*>(0x40002000)[1];
    __asm__ volatile("cpsie i" ::
                         : "memory");
    return 0xFFFFFFFFu - value;
  }
};

#elif defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__)

// The cycle counter of a Cortex-M3, M4 or M7 (DWT). Interrupts stay on: what they take is in the figure.
struct BoardClock {
  enum { kKind = kCortexCycles,
         kScaleNumerator = 1,
         kScaleDenominator = 1 };

  static void start() {
    *reinterpret_cast<volatile uint32_t*>(0xE000EDFC) |= 1u << 24;    // DEMCR: trace on
    *reinterpret_cast<volatile uint32_t*>(0xE0001FB0) = 0xC5ACCE55u;  // the M7's lock
    *reinterpret_cast<volatile uint32_t*>(0xE0001004) = 0;            // CYCCNT
    *reinterpret_cast<volatile uint32_t*>(0xE0001000) |= 1;           // CTRL: count
  }

  static uint32_t stop() { return *reinterpret_cast<volatile uint32_t*>(0xE0001004); }
};

#elif defined(MINUN_NATIVE)

struct BoardClock {
  enum { kKind = kHostNanoseconds,
         kScaleNumerator = 1,
         kScaleDenominator = 1 };
  static timespec& began() {
    static timespec time;
    return time;
  }
  static void start() { clock_gettime(CLOCK_MONOTONIC, &began()); }
  static uint32_t stop() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint32_t>((now.tv_sec - began().tv_sec) * 1000000000ll + (now.tv_nsec - began().tv_nsec));
  }
};

#elif defined(ARDUINO)

struct BoardClock {
  enum { kKind = kMicroseconds,
         kScaleNumerator = 1,
         kScaleDenominator = 1 };
  static uint32_t& began() {
    static uint32_t time;
    return time;
  }
  static void start() { began() = micros(); }
  static uint32_t stop() { return micros() - began(); }
};

#else

typedef NoClock BoardClock;

#endif

}  // namespace minun

#endif
