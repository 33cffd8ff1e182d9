// SPDX-License-Identifier: Apache-2.0
// What AVR's convolutions read: the codes under the window in one row, in the order of the weights, and the order of the
// turns that do so.
#ifndef MINUN_GATHER_AVR_H
#define MINUN_GATHER_AVR_H

#include <stddef.h>
#include <string.h>

#include "minun/patch.h"

namespace minun {

static const int kAvrChannels = 8;

namespace avr {

// Copies up to 1020 bytes.
MINUN_INLINE uint8_t* copied(const uint8_t* from, int bytes, uint8_t* out) {
#if defined(MINUN_ASM_AVR)
  uint8_t fours = static_cast<uint8_t>(bytes >> 2);
  const uint8_t left = static_cast<uint8_t>(bytes);
  __asm__ volatile(
      "sbrs %[n], 0\n rjmp 1f\n ld r0, X+\n st Z+, r0\n"
      "1: sbrs %[n], 1\n rjmp 2f\n ld r0, X+\n st Z+, r0\n ld r0, X+\n st Z+, r0\n"
      "2: tst %[c]\n breq 4f\n"
      "3: ld r0, X+\n st Z+, r0\n ld r0, X+\n st Z+, r0\n ld r0, X+\n st Z+, r0\n ld r0, X+\n st Z+, r0\n"
      "dec %[c]\n brne 3b\n 4:\n"
      : "+x"(from), "+z"(out), [c] "+&r"(fours)
      : [n] "r"(left)
      : "r0", "memory");
  return out;
#else
  memcpy(out, from, static_cast<size_t>(bytes));
  return out + bytes;
#endif
}

static const int kMostCopied = 1020;

MINUN_NOINLINE inline uint8_t* long_copied(const uint8_t* from, int bytes, uint8_t* out) {
  for (; bytes > kMostCopied; bytes -= kMostCopied, from += kMostCopied) out = copied(from, kMostCopied, out);
  return copied(from, bytes, out);
}

// out[0], out[step], ... of `count` codes, 1 to 255.
template <class Code>
MINUN_INLINE void spread(const Code* from, uint8_t count, int step, Code* out) {
#if defined(MINUN_ASM_AVR)
  const int skip = (step - 1) * static_cast<int>(sizeof(Code));
  if (sizeof(Code) == 1) {
    __asm__ volatile("1: ld r0, X+\n st Z+, r0\n add r30, %A[s]\n adc r31, %B[s]\n dec %[c]\n brne 1b\n"
                     : "+x"(from), "+z"(out), [c] "+&r"(count)
                     : [s] "r"(skip)
                     : "r0", "memory");
  } else {
    __asm__ volatile(
        "1: ld r0, X+\n st Z+, r0\n ld r0, X+\n st Z+, r0\n add r30, %A[s]\n adc r31, %B[s]\n dec %[c]\n brne 1b\n"
        : "+x"(from), "+z"(out), [c] "+&r"(count)
        : [s] "r"(skip)
        : "r0", "memory");
  }
#else
  for (; count > 0; --count, out += step) *out = *from++;
#endif
}

// What is gathered of the input, in bytes: codes of all widths are copied alike. All bytes of a code outside are the same.
struct Window {
  const ConvShape* shape;
  int tap;       // of a turn's channels
  int pixel;     // of all channels
  size_t pitch;  // of a row of the input
  int run;       // of a kernel row whose taps lie side by side; otherwise 0
  uint8_t outside;

  MINUN_INLINE bool holds(int row, int left) const {
    return row >= 0 && left >= 0 && row + (shape->kernel_height - 1) * shape->dilation_height < shape->in_height &&
           left + (shape->kernel_width - 1) * shape->dilation_width < shape->in_width;
  }
};

// Windows that reach over the input's edge, and taps that are apart.
MINUN_NOINLINE inline void gather_taps(const Window& window, const uint8_t* x, int row, int left, uint8_t* out) {
  const ConvShape& shape = *window.shape;
  int taps = shape.kernel_width, from = 0, bytes = window.tap;
  if (window.run != 0) {  // a kernel row is one run, `from` bytes behind its begin
    const int begin = left < 0 ? -left : 0;
    const int room = shape.in_width - left;
    const int end = room < taps ? room : taps;
    taps = 1;
    from = begin * window.tap;
    bytes = end > begin ? (end - begin) * window.tap : 0;
    left += begin;
  }
  const int whole = window.run != 0 ? window.run : window.tap;
  const uint8_t* line = x + static_cast<ptrdiff_t>(window.pitch) * row + left * window.pixel;
  const ptrdiff_t pitch = static_cast<ptrdiff_t>(window.pitch) * shape.dilation_height;
  for (int i = shape.kernel_height; i > 0; --i, row += shape.dilation_height, line += pitch) {
    const bool within = row >= 0 && row < shape.in_height;
    int column = left;
    const uint8_t* tap = line;
    for (int j = taps; j > 0; --j, column += shape.dilation_width, tap += window.pixel * shape.dilation_width) {
      const bool read = within && column >= 0 && column < shape.in_width;
      if (!read || bytes != whole) memset(out, window.outside, static_cast<size_t>(whole));
      if (read) long_copied(tap, bytes, out + from);
      out += whole;
    }
  }
}

// One group's codes under the window whose first tap is at (row, left), in the order of its weights.
MINUN_NOINLINE inline void gather_row(const Window& window, const uint8_t* x, int row, int left, uint8_t* out) {
  if (window.run == 0 || !window.holds(row, left)) {
    gather_taps(window, x, row, left, out);
    return;
  }
  x += window.pitch * static_cast<size_t>(row) + static_cast<size_t>(left) * static_cast<size_t>(window.pixel);
  const size_t pitch = window.pitch * static_cast<size_t>(window.shape->dilation_height);
  for (int i = window.shape->kernel_height; i > 0; --i, x += pitch) out = copied(x, window.run, out);
}

// The codes of `channels` channels, all of one channel together.
template <class Code>
MINUN_NOINLINE void gather_channels(const Window& window, const Code* x, int row, int left, uint8_t channels, Code* out) {
  const ConvShape& shape = *window.shape;
  const int width = shape.kernel_width, taps = shape.kernel_height * width;
  const int step = shape.in_channels * shape.dilation_width;
  const ptrdiff_t pitch = static_cast<ptrdiff_t>(shape.in_width) * shape.in_channels;
  x += pitch * row + static_cast<ptrdiff_t>(left) * shape.in_channels;
  const bool whole = window.holds(row, left);
  for (int i = shape.kernel_height; i > 0; --i, row += shape.dilation_height, x += pitch * shape.dilation_height) {
    const Code* tap = x;
    Code* const end = out + width;
    if (whole) {
      for (; out != end; ++out, tap += step) spread(tap, channels, taps, out);
      continue;
    }
    const bool within = row >= 0 && row < shape.in_height;
    int column = left;
    for (; out != end; ++out, tap += step, column += shape.dilation_width) {
      if (within && column >= 0 && column < shape.in_width) {
        spread(tap, channels, taps, out);
      } else {
        Code* to = out;
        for (uint8_t c = channels; c > 0; --c, to += taps) *to = static_cast<Code>(static_cast<int8_t>(window.outside));
      }
    }
  }
}

// Elements that a turn gathers at most.
template <bool Depthwise>
MINUN_INLINE int gathered(const ConvShape& shape) {
  const int channels = shape.in_channels < kAvrChannels ? shape.in_channels : kAvrChannels;
  return shape.patch_elements() * (Depthwise ? channels : 1);
}

// The order of the turns: output positions, and of one position the groups; all in reverse if so asked. A Layer has
//   turn(codes, count, y, channel, outputs, step)
// for so many outputs from `channel` on, each a sum over a row of `count`; the rows are `step` apart, which is 0 (all
// outputs have the same row) or count.
template <bool Depthwise, class Code, class OutCode, class Layer>
MINUN_INLINE void conv_turns(const Code* x, OutCode* y, Code* codes, const ConvShape& shape, int8_t outside, bool reverse,
                             Layer& layer) {
  const int count = shape.patch_elements();
  const int outputs = Depthwise ? kAvrChannels : shape.group_outputs();  // of a turn
  const int inputs = Depthwise ? kAvrChannels : shape.group_inputs();
  const int turns = Depthwise ? (shape.in_channels + kAvrChannels - 1) / kAvrChannels : shape.groups;
  const int step = reverse ? -1 : 1;
  const int pixel = shape.in_channels * static_cast<int>(sizeof(Code));
  const int tap = inputs * static_cast<int>(sizeof(Code));
  const int run = shape.kernel_width * tap;
  const bool side_by_side = !Depthwise && shape.groups == 1 && shape.dilation_width == 1 && run <= kMostCopied;
  const Window window = {&shape, tap, pixel, static_cast<size_t>(shape.in_width) * static_cast<size_t>(pixel),
                         side_by_side ? run : 0, static_cast<uint8_t>(outside)};
  if (reverse) y += (static_cast<size_t>(shape.out_height) * static_cast<size_t>(shape.out_width) - 1) *
                    static_cast<size_t>(shape.out_channels);
  int row = reverse ? shape.out_height - 1 : 0;
  for (int rows = shape.out_height; rows > 0; --rows, row += step) {
    const int top = row * shape.stride_height - shape.pad_top;
    int column = reverse ? shape.out_width - 1 : 0;
    for (int columns = shape.out_width; columns > 0; --columns, column += step, y += step * shape.out_channels) {
      const int left = column * shape.stride_width - shape.pad_left;
      int turn = reverse ? turns - 1 : 0;
      for (int todo = turns; todo > 0; --todo, turn += step) {
        const int channel = turn * outputs;
        if (Depthwise) {
          const int rest = shape.in_channels - channel;
          const int channels = rest < kAvrChannels ? rest : kAvrChannels;
          gather_channels(window, x + channel, top, left, static_cast<uint8_t>(channels), codes);
          layer.turn(codes, count, y + channel, channel, channels, count);
        } else {
          gather_row(window, reinterpret_cast<const uint8_t*>(x + turn * inputs), top, left,
                     reinterpret_cast<uint8_t*>(codes));
          layer.turn(codes, count, y + channel, channel, outputs, 0);
        }
      }
    }
  }
}

}  // namespace avr
}  // namespace minun

#endif
