// SPDX-License-Identifier: Apache-2.0
// What every generated model shares: its status, and pointers into the arena.
#ifndef MINUN_MODEL_H
#define MINUN_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "minun/flash.h"
#include "minun/platform.h"

namespace minun {

enum class Status : uint8_t {
  kOk = 0,
  kArenaTooSmall = 1,    // fewer than kArenaBytes
  kArenaMisaligned = 2,  // its address is not a multiple of kArenaAlign
};

// The code of type T that lies `offset` bytes into the arena; the plan keeps offsets aligned for T.
template <class T>
MINUN_INLINE T* at(uint8_t* arena, size_t offset) {
  return reinterpret_cast<T*>(static_cast<void*>(arena + offset));
}

MINUN_INLINE Status check_arena(const uint8_t* arena, size_t arena_bytes, size_t needed, size_t align) {
  if (arena_bytes < needed) return Status::kArenaTooSmall;
  if (reinterpret_cast<uintptr_t>(arena) % align != 0) return Status::kArenaMisaligned;
  return Status::kOk;
}

}  // namespace minun

#endif
