// SPDX-License-Identifier: Apache-2.0
#include "minun_board.h"

int main() {
  setup();
  for (;;) loop();
}
