// SPDX-License-Identifier: Apache-2.0
// Cortex-M half of bare.h for QEMU's mps2 machines: start-up, semihosting files, the dual timer as the counter.
// QEMU runs with -icount shift=10: an instruction takes 1024 ns, 1.6 ticks of the timer (25 MHz through 16).
#include "bare.h"

extern "C" {
extern uint32_t bare_data_load, bare_data_start, bare_data_end, bare_bss_start, bare_bss_end, bare_stack_top, bare_end;
extern void (*__init_array_start[])();
extern void (*__init_array_end[])();
int main();
void bare_reset();
}

namespace {

struct Timer {
  volatile uint32_t load, value, control;
};
Timer* const timer = reinterpret_cast<Timer*>(0x40002000);

const uint32_t kPaint = 0xC5C5C5C5u;
const uint32_t kPaintWindowBytes = 65536;
const uint8_t kCalibrationId = 255;

int output_file, input_file, marks_file;
uint32_t* paint_low;
uint32_t* paint_high;
uint32_t callers_sp;
uint32_t started;

__attribute__((noinline)) int semihost(int operation, const void* argument) {
  register int r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab"
                   : "+r"(r0)
                   : "r"(r1)
                   : "memory");
  return r0;
}

int open_file(const char* name, int mode) {
  const uint32_t arguments[3] = {reinterpret_cast<uint32_t>(name), static_cast<uint32_t>(mode), strlen(name)};
  return semihost(0x01, arguments);
}

void write_file(int handle, const void* data, size_t size) {
  const uint32_t arguments[3] = {static_cast<uint32_t>(handle), reinterpret_cast<uint32_t>(data), size};
  semihost(0x05, arguments);
}

__attribute__((noreturn)) void leave(int code) {
  const uint32_t arguments[2] = {0x20026, static_cast<uint32_t>(code & 0xff)};
  semihost(0x20, arguments);
  for (;;) {
  }
}

// A fault prints as exit code 124: a bare program has no one else to tell.
void fault() { leave(124); }

}  // namespace

namespace bare {

__attribute__((noinline)) void begin(uint8_t id) {
  (void)id;
  uint32_t here;
  __asm__ volatile("mov %0, sp"
                   : "=r"(here));
  callers_sp = reinterpret_cast<uint32_t>(__builtin_dwarf_cfa());
  paint_high = reinterpret_cast<uint32_t*>(here & ~3u);
  uint32_t low = reinterpret_cast<uint32_t>(&bare_end);
  if (here - low > kPaintWindowBytes) low = here - kPaintWindowBytes;
  paint_low = reinterpret_cast<uint32_t*>((low + 3u) & ~3u);
  for (volatile uint32_t* p = paint_low; p < paint_high; ++p) *p = kPaint;
  started = timer->value;
}

__attribute__((noinline)) void end(uint8_t id) {
  const uint32_t now = timer->value;
  const uint32_t* touched = paint_low;
  while (touched < paint_high && *touched == kPaint) ++touched;
  const uint32_t record[3] = {id, started - now, callers_sp - reinterpret_cast<uint32_t>(touched)};
  write_file(marks_file, record, sizeof record);
}

void write(const void* data, size_t size) { write_file(output_file, data, size); }

bool read(void* data, size_t size) {
  const uint32_t arguments[3] = {static_cast<uint32_t>(input_file), reinterpret_cast<uint32_t>(data), size};
  return semihost(0x06, arguments) == 0;
}

}  // namespace bare

extern "C" void bare_reset() {
  *reinterpret_cast<volatile uint32_t*>(0xE000ED88) |= 0xFu << 20;  // CPACR: the FPU where there is one
  __asm__ volatile("dsb\n\tisb");
  for (uint32_t *from = &bare_data_load, *to = &bare_data_start; to < &bare_data_end;) *to++ = *from++;
  for (uint32_t* to = &bare_bss_start; to < &bare_bss_end;) *to++ = 0;
  timer->control = 0x86;  // run, 32 bits, through 16
  timer->load = 0xFFFFFFFFu;
  output_file = open_file("output.bin", 5);
  marks_file = open_file("marks.bin", 5);
  input_file = open_file("input.bin", 1);
  bare::begin(kCalibrationId);
  bare::end(kCalibrationId);
  for (void (**f)() = __init_array_start; f < __init_array_end; ++f) (*f)();
  leave(main());
}

extern "C" __attribute__((section(".vectors"), used)) void* const bare_vectors[16] = {
    reinterpret_cast<void*>(&bare_stack_top), reinterpret_cast<void*>(bare_reset), reinterpret_cast<void*>(fault),
    reinterpret_cast<void*>(fault), reinterpret_cast<void*>(fault), reinterpret_cast<void*>(fault),
    reinterpret_cast<void*>(fault)};
