// SPDX-License-Identifier: Apache-2.0
// The host as a board: its serial port is standard input and output (a pty, when uploaded).
#include "minun_board.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

namespace minun_board {

void serial_begin() {}

int serial_read() {
  pollfd waiting = {0, POLLIN, 0};
  if (poll(&waiting, 1, 10) <= 0) return -1;
  uint8_t byte;
  const ssize_t got = read(0, &byte, 1);
  if (got == 1) return byte;
  if (got == 0 || (errno != EINTR && errno != EAGAIN)) exit(0);  // the port is gone
  return -1;
}

void serial_write(uint8_t byte) {
  while (write(1, &byte, 1) != 1) {
    if (errno != EINTR && errno != EAGAIN) exit(0);
  }
}

}  // namespace minun_board
