// SPDX-License-Identifier: Apache-2.0
// What a small bare-metal program built by minun_pio.board.bare may call. The program defines `int main()`;
// its return value (0..255) is the run's exit code. The same source runs on AVR (simavr), Cortex-M (QEMU)
// and the host.
#ifndef MINUN_BARE_H
#define MINUN_BARE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace bare {

// Starts counting under `id` (0..250). Pairs do not nest. Everything between begin and end is counted: cycles on
// AVR, instructions on Cortex-M, nanoseconds on the host. The cost of an empty pair is subtracted.
void begin(uint8_t id);

// Ends what begin(id) started and reports its count and the stack the code between them used.
void end(uint8_t id);

// Appends `size` bytes to the run's output.
void write(const void* data, size_t size);

// Takes the next `size` bytes of the run's input; false when fewer are left (what there was is then consumed).
bool read(void* data, size_t size);

inline void print(const char* text) { write(text, strlen(text)); }

}  // namespace bare

#endif
