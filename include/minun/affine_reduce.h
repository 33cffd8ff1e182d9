// SPDX-License-Identifier: Apache-2.0
// MEAN and SUM of int8 or int16 codes with scale and zero point, as TensorFlow Lite's kernels compute them: SUM in
// float32.
#ifndef MINUN_AFFINE_REDUCE_H
#define MINUN_AFFINE_REDUCE_H

#include <stdint.h>

#include "minun/cursor.h"
#include "minun/quantised.h"

namespace minun {

namespace detail {

// Sums of codes, `finish`ed. kept and reduced: see `reduce_sum`.
template <class In, class Out, class Where, class Finish>
inline void affine_sums(const typename In::Code* in, typename Out::Code* out, int32_t kept_rank, const int32_t* kept,
                        int32_t reduced_rank, const int32_t* reduced, int32_t zero_out, const Finish& finish) {
  Cursor<1> to(kept, kept_rank, kept_rank);
  do {
    const typename In::Code* from = in + to.offset[0];
    Cursor<1> over(reduced, reduced_rank, reduced_rank);
    int32_t sum = 0;
    do {
      sum += Where::load(from + over.offset[0]);
    } while (over.next());
    const int32_t code = finish(sum) + zero_out;
    *out++ = static_cast<typename Out::Code>(code < Out::kMinCode ? Out::kMinCode : code > Out::kMaxCode ? Out::kMaxCode
                                                                                                         : code);
  } while (to.next());
}

}  // namespace detail

// zero_in: the input's zero point times minus the count of what goes into an output; the count is in `factor`.
template <class In, class Out, class Where>
void affine_mean(const typename In::Code* in, typename Out::Code* out, int32_t kept_rank, const int32_t* kept,
                 int32_t reduced_rank, const int32_t* reduced, int32_t zero_in, int32_t zero_out, int32_t factor,
                 int shift) {
  struct Finish {
    int32_t zero, factor;
    int shift;
    MINUN_INLINE int32_t operator()(int32_t sum) const { return scale_quantised(sum + zero, factor, shift); }
  };
  const Finish finish = {zero_in, factor, shift};
  detail::affine_sums<In, Out, Where>(in, out, kept_rank, kept, reduced_rank, reduced, zero_out, finish);
}

// In float32, as there: sum * scale + shift, half away from zero.
template <class In, class Out, class Where>
void affine_sum(const typename In::Code* in, typename Out::Code* out, int32_t kept_rank, const int32_t* kept,
                int32_t reduced_rank, const int32_t* reduced, int32_t zero_out, float scale, float shift) {
  struct Finish {
    float scale, shift;
    MINUN_INLINE int32_t operator()(int32_t sum) const {
      const float value = rounded(rounded(static_cast<float>(sum) * scale) + shift);
      if (value >= 1048576.0f) return INT32_C(1) << 20;
      if (value <= -1048576.0f) return -(INT32_C(1) << 20);
      const int32_t whole = static_cast<int32_t>(value);  // toward zero
      const float rest = value - static_cast<float>(whole);
      return rest >= 0.5f ? whole + 1 : rest <= -0.5f ? whole - 1
                                                      : whole;
    }
  };
  const Finish finish = {scale, shift};
  detail::affine_sums<In, Out, Where>(in, out, kept_rank, kept, reduced_rank, reduced, zero_out, finish);
}

}  // namespace minun

#endif  // MINUN_AFFINE_REDUCE_H
