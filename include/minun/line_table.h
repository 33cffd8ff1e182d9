// SPDX-License-Identifier: Apache-2.0
// Functions of int16 codes by a table of 513 entries, linear between them (TensorFlow Lite's LUTLookup).
#ifndef MINUN_LINE_TABLE_H
#define MINUN_LINE_TABLE_H

#include <stdint.h>

#include "minun/flash.h"
#include "minun/raster.h"

namespace minun {

// table, in flash: the function at every 128th code from the lowest on (minun_pio/numerics/tflite_functions.py).
inline int16_t line_of(const int16_t* table, int16_t code) {
  const int16_t* entry = table + (256 + (code >> 7));
  const int32_t left = flash_load(entry);
  const int32_t rise = flash_load(entry + 1) - left;
  return static_cast<int16_t>(left + ((rise * (code & 127) + 64) >> 7));
}

template <bool kReverse>
void line_table(const int16_t* in, int16_t* out, int32_t count, const int16_t* table) {
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) out[i] = line_of(table, in[i]);
}

}  // namespace minun

#endif  // MINUN_LINE_TABLE_H
