// SPDX-License-Identifier: Apache-2.0
// Counts timer 1's overflows for minun/timer.h. In assembly so that its cycles are known: 28, and minun/timer.h takes
// them (with 7 for getting here) off the count. Linked only into a firmware that uses minun::BoardClock.
#if defined(__AVR__)
#include "minun/timer.h"

#if defined(MINUN_AVR_TIMER1)

extern "C" {
volatile uint16_t minun_timer1_overflows;
uint8_t minun_timer0_mask;
}

ISR(TIMER1_OVF_vect, ISR_NAKED) {
  __asm__ volatile(
      "push r24\n\t"
      "in r24, __SREG__\n\t"
      "push r24\n\t"
      "push r25\n\t"
      "lds r24, minun_timer1_overflows\n\t"
      "lds r25, minun_timer1_overflows+1\n\t"
      "adiw r24, 1\n\t"
      "sts minun_timer1_overflows+1, r25\n\t"
      "sts minun_timer1_overflows, r24\n\t"
      "pop r25\n\t"
      "pop r24\n\t"
      "out __SREG__, r24\n\t"
      "pop r24\n\t"
      "reti\n\t");
}

#endif
#endif
