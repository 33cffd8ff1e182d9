// SPDX-License-Identifier: Apache-2.0
// Operations on two tensors with numpy's broadcasting.
#ifndef MINUN_ELEMENTWISE_BINARY_H
#define MINUN_ELEMENTWISE_BINARY_H

#include <stdint.h>

#include "minun/arithmetic.h"
#include "minun/convert.h"
#include "minun/cursor.h"
#include "minun/raster.h"
#include "minun/squared_distance.h"

namespace minun {

struct Add {
  template <class Out, class A, class B>
  static inline typename Out::Code apply(typename A::Code a, typename B::Code b) {
    return Arithmetic<Out, A, B>::add(a, b);
  }
};
struct Subtract {
  template <class Out, class A, class B>
  static inline typename Out::Code apply(typename A::Code a, typename B::Code b) {
    return Arithmetic<Out, A, B>::subtract(a, b);
  }
};
struct Multiply {
  template <class Out, class A, class B>
  static inline typename Out::Code apply(typename A::Code a, typename B::Code b) {
    return Arithmetic<Out, A, B>::multiply(a, b);
  }
};
struct Divide {
  template <class Out, class A, class B>
  static inline typename Out::Code apply(typename A::Code a, typename B::Code b) {
    return Arithmetic<Out, A, B>::divide(a, b);
  }
};
// (a - b)^2.
struct SquaredDifference {
  template <class Out, class A, class B>
  static inline typename Out::Code apply(typename A::Code a, typename B::Code b) {
    detail::Distance<Out, A, B> distance;
    distance.clear();
    distance.add(a, b);
    return distance.result();
  }
};
// a, times b where it is negative.
struct Prelu {
  template <class Out, class A, class B>
  static inline typename Out::Code apply(typename A::Code a, typename B::Code b) {
    if (Order<A>::less(a, 0) && !detail::Nar<A>::is(a)) return Arithmetic<Out, A, B>::multiply(a, b);
    return detail::Conversion<Out, A>::apply(a);
  }
};
// On codes of one format; where a NaN is in play, b.
struct Maximum {
  template <class Out, class A, class B>
  static inline typename Out::Code apply(typename Out::Code a, typename Out::Code b) {
    return Order<Out>::less(b, a) ? a : b;
  }
};
struct Minimum {
  template <class Out, class A, class B>
  static inline typename Out::Code apply(typename Out::Code a, typename Out::Code b) {
    return Order<Out>::less(a, b) ? a : b;
  }
};

// out = clamp(op(a, b)), in raster order or in reverse. walk, in flash: the output's `rank` extents, then a's and b's steps in
// elements along them (0 where broadcast). 1 <= rank <= 8.
template <class Op, class Out, class A, class B, class WhereA, class WhereB, bool kReverse = false>
void binary(const typename A::Code* a, const typename B::Code* b, typename Out::Code* out, int32_t rank,
            const int32_t* walk, typename Out::Code low, typename Out::Code high) {
  const int32_t inner = flash_load(walk + rank - 1);
  const int32_t last = kReverse ? inner - 1 : 0;
  const int32_t step_a = (kReverse ? -1 : 1) * flash_load(walk + 2 * rank - 1);
  const int32_t step_b = (kReverse ? -1 : 1) * flash_load(walk + 3 * rank - 1);
  if (kReverse) {
    int32_t count = 1;
    for (int32_t axis = 0; axis < rank; ++axis) count *= flash_load(walk + axis);
    out += count - 1;
  }
  Cursor<2, kReverse> rows(walk, rank, rank - 1);
  do {
    const typename A::Code* from_a = a + rows.offset[0] - last * step_a;
    const typename B::Code* from_b = b + rows.offset[1] - last * step_b;
    for (int32_t i = 0; i < inner; ++i, from_a += step_a, from_b += step_b) {
      const typename Out::Code result =
          Op::template apply<Out, A, B>(WhereA::load(from_a), WhereB::load(from_b));
      *out = clamp_code<Out>(result, low, high);
      out += Raster<kReverse>::kStep;
    }
  } while (rows.next());
}

}  // namespace minun

#endif  // MINUN_ELEMENTWISE_BINARY_H
