// SPDX-License-Identifier: Apache-2.0
// Start-up of the Cortex-M boards on QEMU's mps2 machines: vectors, FPU, data and bss, constructors, main.
#include <stdint.h>

extern "C" {
extern uint32_t _sidata, _sdata, _edata, _sbss, _ebss, _estack;
extern void (*__preinit_array_start[])();
extern void (*__preinit_array_end[])();
extern void (*__init_array_start[])();
extern void (*__init_array_end[])();
int main();

void Reset_Handler();
void Uart_Handler();
void Wake_Handler();
__attribute__((weak)) void SysTick_Handler() {}

// Stops where a debugger can see it; the port falls silent and the host's time-out speaks.
__attribute__((weak)) void Fault_Handler() {
  for (;;) __asm__ volatile("wfi");
}
}

extern "C" void Reset_Handler() {
  *reinterpret_cast<volatile uint32_t*>(0xE000ED88) |= 0xFu << 20;  // CPACR: FPU on, where there is one
  __asm__ volatile("dsb\n\tisb");
  for (uint32_t *from = &_sidata, *to = &_sdata; to < &_edata;) *to++ = *from++;
  for (uint32_t* to = &_sbss; to < &_ebss;) *to++ = 0;
  for (void (**f)() = __preinit_array_start; f < __preinit_array_end; ++f) (*f)();
  for (void (**f)() = __init_array_start; f < __init_array_end; ++f) (*f)();
  main();
  Fault_Handler();
}

#define HANDLER(f) reinterpret_cast<void*>(f)
extern "C" __attribute__((section(".vectors"), used)) void* const minun_vectors[16 + 16] = {
    HANDLER(&_estack), HANDLER(Reset_Handler), HANDLER(Fault_Handler), HANDLER(Fault_Handler),
    HANDLER(Fault_Handler), HANDLER(Fault_Handler), HANDLER(Fault_Handler), 0,
    0, 0, 0, HANDLER(Fault_Handler),
    HANDLER(Fault_Handler), 0, HANDLER(Fault_Handler), HANDLER(SysTick_Handler),
    HANDLER(Uart_Handler), HANDLER(Fault_Handler), HANDLER(Fault_Handler), HANDLER(Fault_Handler),
    HANDLER(Fault_Handler), HANDLER(Fault_Handler), HANDLER(Fault_Handler), HANDLER(Fault_Handler),
    HANDLER(Fault_Handler), HANDLER(Wake_Handler), HANDLER(Fault_Handler), HANDLER(Fault_Handler),
    HANDLER(Fault_Handler), HANDLER(Fault_Handler), HANDLER(Fault_Handler), HANDLER(Fault_Handler)};
