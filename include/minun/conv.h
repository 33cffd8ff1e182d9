// SPDX-License-Identifier: Apache-2.0
// Convolution and transposed convolution, NHWC, any groups (depthwise: groups == in_channels): weights
// (out_channels, kernel_height, kernel_width, in_channels / groups) in flash.
//
// Order of memory accesses: output positions in raster order, and of one position group after group; all of it in
// reverse where Taps::kReverse. What a group reads of x is in `scratch` before the group's first output is written.
#ifndef MINUN_CONV_H
#define MINUN_CONV_H

#include "minun/linear.h"
#include "minun/patch.h"

namespace minun {

namespace detail {

template <class X>
struct PutUnpacked {
  minun::Unpacked<X>* out;
  bool finite;
  MINUN_INLINE void run(int index, const typename X::Code* from, int count) {
    for (minun::Unpacked<X>* at = out + index; count > 0; --count, ++at, ++from) {
      if (X::is_nar(*from)) finite = false;
      at->set(*from);
    }
  }
  MINUN_INLINE void outside(int index, int count) {
    for (minun::Unpacked<X>* at = out + index; count > 0; --count, ++at) at->set(0);
  }
};

template <class X>
struct PutFloat {
  float* out;
  MINUN_INLINE void run(int index, const typename X::Code* from, int count) {
    for (float* at = out + index; count > 0; --count) *at++ = X::to_float(*from++);
  }
  MINUN_INLINE void outside(int index, int count) {
    for (float* at = out + index; count > 0; --count) *at++ = 0.0f;
  }
};

}  // namespace detail

// One output position (all channels) of any posit or fixed-point formats of one family; y points at the position.
// scratch: patch_elements() * sizeof(Unpacked<X>) bytes.
template <class Out, class X, class W, class Taps, class Bias>
MINUN_NOINLINE void conv_position(const typename X::Code* x, const typename W::Code* w, const Bias& bias,
                                  typename Out::Code* y, void* scratch, const ConvShape& shape, int row, int column,
                                  Clip<Out> clip) {
  const int count = shape.patch_elements();
  const int outputs = shape.group_outputs();
  typedef Raster<Taps::kReverse> Turn;
  int channel = Turn::first(shape.groups) * outputs;
  w += static_cast<size_t>(channel) * static_cast<size_t>(count);
  y += channel;
  for (int group = Turn::first(shape.groups); Turn::within(group, shape.groups); group += Turn::kStep) {
    detail::PutUnpacked<X> put = {static_cast<Unpacked<X>*>(scratch), true};
    for_patch<Taps>(x, shape, row, column, group, put);
    for (int n = 0; n < outputs; ++n, ++channel, w += count) {
      *y++ = !put.finite ? Out::nar()
                         : clip(exact_dot<Out, X, W>(put.out, w, 1, count, bias, channel));
    }
    if (Taps::kReverse) {
      channel -= 2 * outputs;
      w -= static_cast<size_t>(2 * outputs) * static_cast<size_t>(count);
      y -= 2 * outputs;
    }
  }
}

template <class Out, class X, class W, class Taps, class Bias>
inline void conv_exact(const typename X::Code* x, const typename W::Code* w, const Bias& bias,
                       typename Out::Code* y, void* scratch, const ConvShape& shape, Clip<Out> clip) {
  typedef Raster<Taps::kReverse> Turn;
  y += Turn::first(shape.positions()) * shape.out_channels;
  for (int row = Turn::first(shape.out_height); Turn::within(row, shape.out_height); row += Turn::kStep) {
    for (int column = Turn::first(shape.out_width); Turn::within(column, shape.out_width); column += Turn::kStep) {
      conv_position<Out, X, W, Taps>(x, w, bias, y, scratch, shape, row, column, clip);
      y += Turn::kStep * shape.out_channels;
    }
  }
}

// scratch as for conv_position.
template <class Out, class X, class W, class B, class Taps>
MINUN_NOINLINE void conv(const typename X::Code* x, const typename W::Code* w, const typename B::Code* bias,
                         typename Out::Code* y, void* scratch, const ConvShape& shape, Clip<Out> clip) {
  const CodeBias<B> added = {bias};
  conv_exact<Out, X, W, Taps>(x, w, added, y, scratch, shape, clip);
}

// float32 and its 16-bit storage formats. scratch: patch_elements() floats.
template <class Out, class X, class W, class B, class Taps>
MINUN_NOINLINE void conv_float(const typename X::Code* x, const typename W::Code* w, const typename B::Code* bias,
                               typename Out::Code* y, void* scratch, const ConvShape& shape, float low, float high) {
  float* const patch = static_cast<float*>(scratch);
  const int count = shape.patch_elements();
  const int outputs = shape.group_outputs();
  typedef Raster<Taps::kReverse> Turn;
  const int first = Turn::first(shape.groups) * outputs;  // channel
  w += static_cast<size_t>(first) * static_cast<size_t>(count);
  y += Turn::first(shape.positions()) * shape.out_channels + first;
  for (int row = Turn::first(shape.out_height); Turn::within(row, shape.out_height); row += Turn::kStep) {
    for (int column = Turn::first(shape.out_width); Turn::within(column, shape.out_width); column += Turn::kStep) {
      const typename W::Code* weight = w;
      int channel = first;
      for (int group = Turn::first(shape.groups); Turn::within(group, shape.groups); group += Turn::kStep) {
        detail::PutFloat<X> put = {patch};
        for_patch<Taps>(x, shape, row, column, group, put);
        for (int n = 0; n < outputs; ++n, ++channel) {
          float sum = bias ? B::to_float(flash_load(bias + channel)) : 0.0f;
          for (int k = 0; k < count; ++k) sum = multiply_add(sum, patch[k], W::to_float(flash_load(weight++)));
          *y++ = Out::from_float(sum < low ? low : sum > high ? high
                                                              : sum);
        }
        if (Taps::kReverse) {
          channel -= 2 * outputs;
          weight -= static_cast<size_t>(2 * outputs) * static_cast<size_t>(count);
          y -= 2 * outputs;
        }
      }
    }
  }
}

}  // namespace minun

#endif
