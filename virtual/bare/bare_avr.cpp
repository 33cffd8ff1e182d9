// SPDX-License-Identifier: Apache-2.0
// AVR half of bare.h. virtual/simavr/avr_bare.c listens to three registers that do nothing on a real chip:
// a write to GPIOR0 begins a mark, to GPIOR1 ends it, GPIOR2 carries output (write) and input (read).
#include <avr/io.h>

#include "bare.h"

namespace {
// GPIOR0 values above 250 are orders to the simulator: is there input left?
const uint8_t kAskInput = 251;
const uint8_t kCalibrationId = 255;
}  // namespace

namespace bare {

__attribute__((noinline)) void begin(uint8_t id) { GPIOR0 = id; }
__attribute__((noinline)) void end(uint8_t id) { GPIOR1 = id; }

void write(const void* data, size_t size) {
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  while (size-- != 0) GPIOR2 = *bytes++;
}

bool read(void* data, size_t size) {
  uint8_t* bytes = static_cast<uint8_t*>(data);
  while (size-- != 0) {
    GPIOR0 = kAskInput;
    if (GPIOR1 == 0) return false;
    *bytes++ = GPIOR2;
  }
  return true;
}

}  // namespace bare

namespace {
__attribute__((constructor, used)) void calibrate() {
  bare::begin(kCalibrationId);
  bare::end(kCalibrationId);
}
}  // namespace

// exit() falls through the .fini sections with main's value in r24: asleep with interrupts off, simavr is done.
extern "C" __attribute__((naked, used, section(".fini1"))) void bare_halt() {
  __asm__ volatile("cli\n\tldi r25, 5\n\tout 0x33, r25\n\tsleep\n\trjmp .-2");
}
