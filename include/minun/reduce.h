// SPDX-License-Identifier: Apache-2.0
// Sum, mean, maximum and minimum over axes.
#ifndef MINUN_REDUCE_H
#define MINUN_REDUCE_H

#include <stdint.h>

#include "minun/cursor.h"
#include "minun/total.h"

namespace minun {

// kept, in flash: extents and input strides of the `kept_rank` axes that stay; reduced: likewise, those that go.
// Each rank is 1 to 8. out: the sum over the reduced axes divided by `divisor` (1: the sum), rounded once.
template <class Out, class In, class Where>
void reduce_sum(const typename In::Code* in, typename Out::Code* out, int32_t kept_rank, const int32_t* kept,
                int32_t reduced_rank, const int32_t* reduced, uint32_t divisor) {
  Cursor<1> to(kept, kept_rank, kept_rank);
  Total<In> total;
  do {
    const typename In::Code* from = in + to.offset[0];
    Cursor<1> over(reduced, reduced_rank, reduced_rank);
    total.clear();
    do {
      total.add(Where::load(from + over.offset[0]));
    } while (over.next());
    *out++ = total.template result<Out>(divisor);
  } while (to.next());
}

// The largest (or smallest) code; the first one where a NaN stands.
template <class F, bool kLargest, class Where>
void reduce_extreme(const typename F::Code* in, typename F::Code* out, int32_t kept_rank, const int32_t* kept,
                    int32_t reduced_rank, const int32_t* reduced) {
  typedef typename F::Code Code;
  Cursor<1> to(kept, kept_rank, kept_rank);
  do {
    const Code* from = in + to.offset[0];
    Cursor<1> over(reduced, reduced_rank, reduced_rank);
    Code best = Where::load(from);
    while (over.next()) {
      const Code code = Where::load(from + over.offset[0]);
      if (kLargest ? Order<F>::less(best, code) : Order<F>::less(code, best)) best = code;
    }
    *out++ = best;
  } while (to.next());
}

}  // namespace minun

#endif  // MINUN_REDUCE_H
