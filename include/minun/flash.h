// SPDX-License-Identifier: Apache-2.0
// Constants that stay in flash. On AVR they are in program memory and must be read with `flash_load`; elsewhere
// flash is memory like any other. AVR: the lower 64 KB of program memory.
#ifndef MINUN_FLASH_H
#define MINUN_FLASH_H

#include <stdint.h>
#include <string.h>

#include "minun/platform.h"

#if defined(__AVR__)
#define MINUN_FLASH __attribute__((__progmem__))
#else
#define MINUN_FLASH
#endif

namespace minun {

// The element at `address`, which lies in an array declared MINUN_FLASH. T is 1, 2, 4 or 8 bytes.
template <class T>
MINUN_INLINE T flash_load(const T* address) {
#if defined(__AVR__)
  union {
    T value;
    uint8_t bytes[sizeof(T)];
  } read;
  const uint8_t* next = reinterpret_cast<const uint8_t*>(address);
  for (uint8_t i = 0; i < sizeof(T); ++i) __asm__("lpm %0, Z+"
                                                  : "=r"(read.bytes[i]), "+z"(next));
  return read.value;
#else
  return *address;
#endif
}

// memcpy from flash.
inline void flash_copy(void* to, const void* flash, size_t bytes) {
#if defined(__AVR__)
  uint8_t* out = static_cast<uint8_t*>(to);
  const uint8_t* next = static_cast<const uint8_t*>(flash);
  for (size_t i = 0; i < bytes; ++i) out[i] = flash_load(next + i);
#else
  memcpy(to, flash, bytes);
#endif
}

// Reads a constant from flash, or a computed tensor from RAM: the two kinds of operand a kernel meets.
struct InFlash {
  template <class T>
  static MINUN_INLINE T load(const T* address) { return flash_load(address); }
};
struct InRam {
  template <class T>
  static MINUN_INLINE T load(const T* address) { return *address; }
};

}  // namespace minun

#endif
