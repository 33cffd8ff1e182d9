// SPDX-License-Identifier: Apache-2.0
// The order in which a kernel writes its outputs: from the first to the last, or in reverse. In reverse an output may
// lie over the end of a smaller input (minun_pio/planner/raster.py has the distances).
#ifndef MINUN_RASTER_H
#define MINUN_RASTER_H

#include <stdint.h>

namespace minun {

// typedef Raster<kReverse> Turn;
// for (int32_t i = Turn::first(n); Turn::within(i, n); i += Turn::kStep)
template <bool kReverse>
struct Raster {
  static const int kStep = kReverse ? -1 : 1;
  template <class Count>
  static inline Count first(Count count) {
    return static_cast<Count>(kReverse ? count - 1 : 0);
  }
  template <class Index, class Count>
  static inline bool within(Index i, Count count) {
    return kReverse ? i >= 0 : i < count;
  }
};

}  // namespace minun

#endif  // MINUN_RASTER_H
