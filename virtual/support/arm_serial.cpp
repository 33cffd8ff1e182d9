// SPDX-License-Identifier: Apache-2.0
// UART0 of QEMU's mps2 machines (ARM CMSDK). Timer 1 wakes an idle board every 10 ms; the dual timer is
// left to minun/timer.h.
#include "minun_board.h"

namespace {

struct Uart {
  volatile uint32_t data, state, control, interrupt, baud_divider;
};
struct Timer {
  volatile uint32_t control, value, reload, interrupt;
};
Uart* const uart = reinterpret_cast<Uart*>(0x40004000);
Timer* const wake = reinterpret_cast<Timer*>(0x40001000);
volatile uint32_t* const nvic_enable = reinterpret_cast<volatile uint32_t*>(0xE000E100);

const uint32_t kUartReceiveIrq = 0, kTimer1Irq = 9;
const uint32_t kTransmitFull = 1, kReceiveFull = 2;
const uint32_t kReceiveInterrupt = 2;
const uint32_t kTransmitEnable = 1, kReceiveEnable = 2, kReceiveInterruptEnable = 8;
const uint32_t kTenMilliseconds = 250000;  // at 25 MHz

}  // namespace

extern "C" void Uart_Handler() { uart->interrupt = kReceiveInterrupt; }
extern "C" void Wake_Handler() { wake->interrupt = 1; }

namespace minun_board {

void serial_begin() {
  uart->baud_divider = 217;  // 115200; QEMU only wants one that is valid
  uart->control = kTransmitEnable | kReceiveEnable | kReceiveInterruptEnable;
  wake->reload = kTenMilliseconds;
  wake->control = 1 | 8;
  *nvic_enable = 1u << kUartReceiveIrq | 1u << kTimer1Irq;
}

int serial_read() {
  if ((uart->state & kReceiveFull) == 0) {
    // Masked, so that a byte between the check and the sleep still wakes: wfi returns on a pending interrupt.
    __asm__ volatile("cpsid i" ::
                         : "memory");
    if ((uart->state & kReceiveFull) == 0) __asm__ volatile("wfi");
    __asm__ volatile("cpsie i" ::
                         : "memory");
    if ((uart->state & kReceiveFull) == 0) return -1;
  }
  return static_cast<int>(uart->data & 0xff);
}

void serial_write(uint8_t byte) {
  while (uart->state & kTransmitFull) {
  }
  uart->data = byte;
}

}  // namespace minun_board
