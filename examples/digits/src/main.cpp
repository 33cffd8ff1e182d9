// SPDX-License-Identifier: Apache-2.0
// Serves this environment's models over the serial port. They share one arena, one inference at a time.
#include <minun/serve.h>
#include <minun_models.h>  // generated: every model that platformio.ini names for this environment

alignas(minun_models::kSharedArenaAlign) static uint8_t arena[minun_models::kSharedArenaBytes];
static const minun::Model models[] MINUN_FLASH = MINUN_MODELS;
static minun::BoardLink<minun_models::kMaxInputBytes, minun_models::kMaxOutputBytes> board(
    models, minun_models::kCount, arena, sizeof arena);

void setup() {
  minun::BoardPort::begin();
  board.begin();
}

void loop() { board.poll(); }
