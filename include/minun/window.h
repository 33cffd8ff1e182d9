// SPDX-License-Identifier: Apache-2.0
// The windows of pooling operators over a channels-last tensor.
#ifndef MINUN_WINDOW_H
#define MINUN_WINDOW_H

#include <stdint.h>

namespace minun {

struct Window {
  int32_t height, width, channels;  // of the input
  int32_t out_height, out_width;
  int32_t kernel_height, kernel_width;
  int32_t stride_height, stride_width;
  int32_t top, left, bottom, right;  // padding
  int32_t dilation_height, dilation_width;
  bool count_include_pad;
};

inline Window window(int32_t height, int32_t width, int32_t channels, int32_t out_height, int32_t out_width,
                     int32_t kernel_height, int32_t kernel_width, int32_t stride_height, int32_t stride_width,
                     int32_t top, int32_t left, int32_t bottom, int32_t right, int32_t dilation_height,
                     int32_t dilation_width, bool count_include_pad) {
  const Window made = {height, width, channels, out_height, out_width, kernel_height,
                       kernel_width, stride_height, stride_width, top, left, bottom,
                       right, dilation_height, dilation_width, count_include_pad};
  return made;
}

// The kernel positions of one output along one axis that lie inside the input.
struct Span {
  int32_t first;   // input index of the first position inside
  int32_t count;   // positions inside
  int32_t padded;  // positions inside the padded input
};

inline Span span_of(int32_t out, int32_t stride, int32_t before, int32_t after, int32_t kernel, int32_t dilation,
                    int32_t extent) {
  Span span = {-1, 0, 0};
  int32_t at = out * stride - before;
  for (int32_t k = 0; k < kernel; ++k, at += dilation) {
    if (at < extent + after) ++span.padded;
    if (at < 0 || at >= extent) continue;
    if (span.count == 0) span.first = at;
    ++span.count;
  }
  return span;
}

}  // namespace minun

#endif  // MINUN_WINDOW_H
