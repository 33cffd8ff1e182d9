// SPDX-License-Identifier: Apache-2.0
// The elements under a convolution's window, gathered into one row: a convolution is then a dense layer on every row.
#ifndef MINUN_PATCH_H
#define MINUN_PATCH_H

#include <stdint.h>

#include "minun/platform.h"
#include "minun/raster.h"

namespace minun {

// Shape of a convolution, NHWC, one sample. A transposed convolution is written as the convolution that it is: on the
// input with `stride - 1` zeros between its elements, kernel flipped, pads of that convolution (they may be negative).
// Heights and widths are as long as the core's int: no AVR has RAM for more than its 16 bits.
struct ConvShape {
  int in_height, in_width;
  int16_t in_channels;
  int out_height, out_width;
  int16_t out_channels;
  int16_t kernel_height, kernel_width;
  int16_t stride_height, stride_width;
  int16_t pad_top, pad_left;
  int16_t dilation_height, dilation_width;
  int16_t groups;

  MINUN_INLINE int group_inputs() const { return in_channels / groups; }
  MINUN_INLINE int group_outputs() const { return out_channels / groups; }
  MINUN_INLINE int patch_elements() const { return kernel_height * kernel_width * group_inputs(); }
  MINUN_INLINE int32_t positions() const { return static_cast<int32_t>(out_height) * out_width; }
};

// Which input row (or column) output `out` reads at kernel position `k`; negative: a zero.
struct Forward {
  static const bool kReverse = false;
  static const bool kSlides = true;  // neighbouring outputs read the same elements, a stride apart
  static MINUN_INLINE int source(int out, int k, int extent, int stride, int pad, int dilation) {
    const int at = out * stride - pad + k * dilation;
    return at < extent ? at : -1;
  }
};
struct Transposed {
  static const bool kReverse = false;
  static const bool kSlides = false;
  static MINUN_INLINE int source(int out, int k, int extent, int stride, int pad, int dilation) {
    const int at = out - pad + k * dilation;
    if (at < 0 || at % stride != 0) return -1;
    return at / stride < extent ? at / stride : -1;
  }
};

// The same taps; output positions, and of one position the groups, from the last to the first where kBackwards.
template <class Taps, bool kBackwards>
struct InOrder : Taps {
  static const bool kReverse = kBackwards;
};

// Calls put.run(index in the patch, codes, count) for the elements of each tap, in the order kernel row, kernel column,
// channel, and put.outside(index, count) where the tap is outside the input. Kernel columns before `from_column` are
// left out.
template <class Taps, class Code, class Put>
MINUN_INLINE void for_patch(const Code* x, const ConvShape& shape, int out_row, int out_column, int group, Put& put,
                            int from_column = 0) {
  const int channels = shape.group_inputs();
  for (int i = 0; i < shape.kernel_height; ++i) {
    const int row =
        Taps::source(out_row, i, shape.in_height, shape.stride_height, shape.pad_top, shape.dilation_height);
    int index = (i * shape.kernel_width + from_column) * channels;
    for (int j = from_column; j < shape.kernel_width; ++j, index += channels) {
      const int column =
          Taps::source(out_column, j, shape.in_width, shape.stride_width, shape.pad_left, shape.dilation_width);
      if (row < 0 || column < 0) {
        put.outside(index, channels);
      } else {
        const Code* from = x + (static_cast<int32_t>(row) * shape.in_width + column) * shape.in_channels;
        put.run(index, from + group * channels, channels);
      }
    }
  }
}

}  // namespace minun

#endif
