// SPDX-License-Identifier: Apache-2.0
// What the runtime assumes of the compiler and the core, in one place. Freestanding C++11: g++, clang++, avr-g++
// and arm-none-eabi-g++.
#ifndef MINUN_PLATFORM_H
#define MINUN_PLATFORM_H

#if !defined(__GNUC__) && !defined(__clang__)
#error "minun needs g++ or clang++ (GNU attributes and assembly); on Windows: MinGW-w64 or clang, not MSVC"
#endif

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

// Generated code checks this number and stops the build with #error when it was made for another runtime.
#define MINUN_RUNTIME_VERSION 1

#define MINUN_NOINLINE __attribute__((noinline))
#define MINUN_INLINE inline __attribute__((always_inline))

// Kernels in assembly. MINUN_PORTABLE turns all of them off: the C++ twins give the same bits.
#if !defined(MINUN_PORTABLE)
#if defined(__AVR__) && defined(__AVR_HAVE_MUL__)
#define MINUN_ASM_AVR 1
#elif defined(__thumb2__)
#define MINUN_ASM_THUMB2 1
#if defined(__ARM_FEATURE_DSP)
#define MINUN_ASM_DSP 1
#endif
#endif
#endif

// Kernels whose fast path depends on the input call this when they must take the slow, always right one. A program
// that defines MINUN_COUNT_SLOW_PATH also defines `uint32_t minun_slow_path_count` and may read it at any time.
#if defined(MINUN_COUNT_SLOW_PATH)
extern "C" uint32_t minun_slow_path_count;
#define MINUN_SLOW_PATH() ((void)++minun_slow_path_count)
#else
#define MINUN_SLOW_PATH() ((void)0)
#endif

namespace minun {

// Zeros above the highest set bit of `bits`, which is not 0.
MINUN_INLINE int leading_zeros(uint32_t bits) {
#if UINT_MAX == 0xFFFFFFFFu
  return __builtin_clz(bits);
#else
  return __builtin_clzl(bits);
#endif
}

// The float as IEEE 754 rounds it: keeps the compiler from fusing a product with the sum that follows, so that
// every core gives the host's bits whatever its -ffp-contract.
MINUN_INLINE float rounded(float value) {
#if defined(__ARM_FP) && !defined(__SOFTFP__) && defined(__ARM_PCS_VFP)
  __asm__(""
          : "+t"(value));
#elif defined(__SSE__)
  __asm__(""
          : "+x"(value));
#elif defined(__aarch64__)
  __asm__(""
          : "+w"(value));
#elif defined(__AVR__) || defined(__arm__)
  __asm__(""
          : "+r"(value));
#else
  __asm__(""
          : "+m"(value));
#endif
  return value;
}

}  // namespace minun

#endif
