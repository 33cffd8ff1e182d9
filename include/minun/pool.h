// SPDX-License-Identifier: Apache-2.0
// Maximum and average over windows of a channels-last tensor.
#ifndef MINUN_POOL_H
#define MINUN_POOL_H

#include <stdint.h>

#include "minun/raster.h"
#include "minun/total.h"
#include "minun/window.h"

namespace minun {

namespace detail {

inline Span rows_of(const Window& w, int32_t y) {
  return span_of(y, w.stride_height, w.top, w.bottom, w.kernel_height, w.dilation_height, w.height);
}
inline Span columns_of(const Window& w, int32_t x) {
  return span_of(x, w.stride_width, w.left, w.right, w.kernel_width, w.dilation_width, w.width);
}

}  // namespace detail

// in (height, width, channels) -> out (out_height, out_width, channels), in raster order or in reverse. Padding never
// wins; a window that lies wholly in it gives `empty`.
template <class F, bool kReverse = false>
void max_pool(const typename F::Code* in, typename F::Code* out, const Window& w, typename F::Code empty) {
  typedef typename F::Code Code;
  typedef Raster<kReverse> Turn;
  if (kReverse) out += w.out_height * w.out_width * w.channels - 1;
  for (int32_t y = Turn::first(w.out_height); Turn::within(y, w.out_height); y += Turn::kStep) {
    const Span rows = detail::rows_of(w, y);
    for (int32_t x = Turn::first(w.out_width); Turn::within(x, w.out_width); x += Turn::kStep) {
      const Span columns = detail::columns_of(w, x);
      const int32_t first = (rows.first * w.width + columns.first) * w.channels;
      for (int32_t c = Turn::first(w.channels); Turn::within(c, w.channels); c += Turn::kStep) {
        Code best = empty;
        bool found = false;
        const Code* row = in + first + c;
        for (int32_t i = 0; i < rows.count; ++i, row += w.dilation_height * w.width * w.channels) {
          const Code* at = row;
          for (int32_t j = 0; j < columns.count; ++j, at += w.dilation_width * w.channels) {
            if (!found || Order<F>::less(best, *at)) best = *at;
            found = true;
          }
        }
        *out = best;
        out += Turn::kStep;
      }
    }
  }
}

// The exact sum over what the window covers, divided by how many elements that are (padding among them where
// `count_include_pad`), rounded once and clamped.
template <class Out, class In, bool kReverse = false>
void average_pool(const typename In::Code* in, typename Out::Code* out, const Window& w, typename Out::Code low,
                  typename Out::Code high) {
  typedef Raster<kReverse> Turn;
  if (kReverse) out += w.out_height * w.out_width * w.channels - 1;
  Total<In> total;
  for (int32_t y = Turn::first(w.out_height); Turn::within(y, w.out_height); y += Turn::kStep) {
    const Span rows = detail::rows_of(w, y);
    for (int32_t x = Turn::first(w.out_width); Turn::within(x, w.out_width); x += Turn::kStep) {
      const Span columns = detail::columns_of(w, x);
      const int32_t first = (rows.first * w.width + columns.first) * w.channels;
      const int32_t divisor = w.count_include_pad ? rows.padded * columns.padded : rows.count * columns.count;
      for (int32_t c = Turn::first(w.channels); Turn::within(c, w.channels); c += Turn::kStep) {
        total.clear();
        const typename In::Code* row = in + first + c;
        for (int32_t i = 0; i < rows.count; ++i, row += w.dilation_height * w.width * w.channels) {
          const typename In::Code* at = row;
          for (int32_t j = 0; j < columns.count; ++j, at += w.dilation_width * w.channels) total.add(*at);
        }
        const typename Out::Code mean = total.template result<Out>(divisor > 0 ? static_cast<uint32_t>(divisor) : 1u);
        *out = clamp_code<Out>(mean, low, high);
        out += Turn::kStep;
      }
    }
  }
}

}  // namespace minun

#endif  // MINUN_POOL_H
