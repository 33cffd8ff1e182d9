// SPDX-License-Identifier: Apache-2.0
// The serial port of the virtual boards that have no Arduino core. A firmware defines setup() and loop(), as
// under Arduino, or a main() of its own.
#ifndef MINUN_BOARD_H
#define MINUN_BOARD_H

#include <stdint.h>

namespace minun_board {

void serial_begin();

// The next byte received, or -1; without one it first sleeps up to 10 ms, so that an idle board costs no time.
int serial_read();

void serial_write(uint8_t byte);

}  // namespace minun_board

void setup();
void loop();

#endif
