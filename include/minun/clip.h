// SPDX-License-Identifier: Apache-2.0
// ReLU, ReLU6, clip: codes brought between two codes of their format.
#ifndef MINUN_CLIP_H
#define MINUN_CLIP_H

#include <stdint.h>

#include "minun/arithmetic.h"

namespace minun {

template <class F, class Where>
void clip(const typename F::Code* in, typename F::Code* out, int32_t count, typename F::Code low,
          typename F::Code high) {
  for (int32_t i = 0; i < count; ++i) out[i] = clamp_code<F>(Where::load(in + i), low, high);
}

}  // namespace minun

#endif  // MINUN_CLIP_H
