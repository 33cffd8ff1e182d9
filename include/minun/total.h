// SPDX-License-Identifier: Apache-2.0
// Sums over elements as the operators define them: exact with one rounding, or float32 one term after the other.
#ifndef MINUN_TOTAL_H
#define MINUN_TOTAL_H

#include <stdint.h>

#include "minun/arithmetic.h"
#include "minun/exact_sum.h"

namespace minun {

// clear(), add(code) for every element, then result<Out>(n): the sum divided by n, rounded once. NaR in gives NaR.
template <class In, bool Floating = detail::IsFloat<In>::kValue>
class Total {
 public:
  inline void clear() {
    sum_.clear();
    nar_ = false;
  }
  inline void add(typename In::Code code) {
    nar_ = nar_ || In::is_nar(code);
    sum_.add(detail::decode<In>(code));
  }
  template <class Out>
  inline typename Out::Code result(uint32_t divisor) {
    if (nar_) return Out::nar();
    return divisor == 1 ? sum_.template round<Out>() : sum_.template round_divided<Out>(divisor);
  }

 private:
  ExactSum<In::kMinExponent, In::kMaxExponent> sum_;
  bool nar_;
};

template <class In>
class Total<In, true> {
 public:
  inline void clear() { sum_ = 0.0f; }
  inline void add(typename In::Code code) { sum_ = rounded(sum_ + In::to_float(code)); }
  template <class Out>
  inline typename Out::Code result(uint32_t divisor) {
    return Out::from_float(divisor == 1 ? sum_ : rounded(sum_ / static_cast<float>(divisor)));
  }

 private:
  float sum_;
};

// Integer codes of one scale and zero point: the mean of codes, halves away from zero (TensorFlow Lite).
template <int Bits>
class Total<Affine<Bits>, false> {
 public:
  inline void clear() { sum_ = 0; }
  inline void add(typename Affine<Bits>::Code code) { sum_ += code; }
  template <class Out>
  inline typename Out::Code result(uint32_t divisor) {
    const int32_t n = static_cast<int32_t>(divisor);
    const int32_t mean = sum_ > 0 ? (sum_ + n / 2) / n : (sum_ - n / 2) / n;
    return static_cast<typename Out::Code>(mean < Out::kMinCode ? Out::kMinCode : mean > Out::kMaxCode ? Out::kMaxCode
                                                                                                       : mean);
  }

 private:
  int32_t sum_;
};

}  // namespace minun

#endif  // MINUN_TOTAL_H
