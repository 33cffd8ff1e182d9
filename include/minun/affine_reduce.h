// SPDX-License-Identifier: Apache-2.0
// MEAN and SUM of int8 or int16 codes with scale and zero point, as TensorFlow Lite's kernels compute them.
#ifndef MINUN_AFFINE_REDUCE_H
#define MINUN_AFFINE_REDUCE_H

#include <stdint.h>

#include "minun/cursor.h"
#include "minun/quantised.h"

namespace minun {

namespace detail {

// Sums of codes less zero points, `finish`ed. kept and reduced: see `reduce_sum`; `count` elements go into each output.
template <class In, class Out, class Where, class Finish>
inline void affine_sums(const typename In::Code* in, typename Out::Code* out, int32_t kept_rank, const int32_t* kept,
                        int32_t reduced_rank, const int32_t* reduced, int32_t count, int32_t zero_in, int32_t zero_out,
                        const Finish& finish) {
  Cursor<1> to(kept, kept_rank, kept_rank);
  do {
    const typename In::Code* from = in + to.offset[0];
    Cursor<1> over(reduced, reduced_rank, reduced_rank);
    int32_t sum = -zero_in * count;
    do {
      sum += Where::load(from + over.offset[0]);
    } while (over.next());
    const int32_t code = finish(sum) + zero_out;
    *out++ = static_cast<typename Out::Code>(code < Out::kMinCode ? Out::kMinCode : code > Out::kMaxCode ? Out::kMaxCode
                                                                                                         : code);
  } while (to.next());
}

}  // namespace detail

template <class In, class Out, class Where>
void affine_mean(const typename In::Code* in, typename Out::Code* out, int32_t kept_rank, const int32_t* kept,
                 int32_t reduced_rank, const int32_t* reduced, int32_t count, int32_t zero_in, int32_t zero_out,
                 int32_t factor, int shift) {
  struct Finish {
    int32_t factor;
    int shift;
    MINUN_INLINE int32_t operator()(int32_t sum) const { return scale_quantised(sum, factor, shift); }
  };
  const Finish finish = {factor, shift};
  detail::affine_sums<In, Out, Where>(in, out, kept_rank, kept, reduced_rank, reduced, count, zero_in, zero_out, finish);
}

// high, low, drop: the factor's parts, see `detail::round_in_double`.
template <class In, class Out, class Where>
void affine_sum(const typename In::Code* in, typename Out::Code* out, int32_t kept_rank, const int32_t* kept,
                int32_t reduced_rank, const int32_t* reduced, int32_t count, int32_t zero_in, int32_t zero_out,
                uint32_t high, uint32_t low, int drop) {
  struct Finish {
    uint32_t high, low;
    int drop;
    MINUN_INLINE int32_t operator()(int32_t sum) const { return scale_in_double(sum, high, low, drop); }
  };
  const Finish finish = {high, low, drop};
  detail::affine_sums<In, Out, Where>(in, out, kept_rank, kept, reduced_rank, reduced, count, zero_in, zero_out, finish);
}

}  // namespace minun

#endif  // MINUN_AFFINE_REDUCE_H
