// SPDX-License-Identifier: Apache-2.0
// Negation and absolute value of codes.
#ifndef MINUN_SIGN_H
#define MINUN_SIGN_H

#include <stdint.h>

#include "minun/arithmetic.h"

namespace minun {

namespace detail {

template <class F>
struct Negated {  // integer codes about a zero point, saturated; NaR stays
  static inline typename F::Code of(typename F::Code code, int32_t zero) {
    if (Nar<F>::is(code)) return code;
    const int64_t turned = 2 * static_cast<int64_t>(zero) - code;
    return static_cast<typename F::Code>(turned > F::kMaxCode ? F::kMaxCode : turned < F::kMinCode ? F::kMinCode
                                                                                                   : turned);
  }
  static inline bool below(typename F::Code code, int32_t zero) { return code < zero; }
};
template <>
struct Negated<Float32> {
  static inline float of(float code, int32_t) { return -code; }
  static inline bool below(float code, int32_t) { return (bits_of(code) >> 31) != 0; }
};
template <>
struct Negated<Float16> {
  static inline uint16_t of(uint16_t code, int32_t) { return code ^ 0x8000u; }
  static inline bool below(uint16_t code, int32_t) { return (code & 0x8000u) != 0; }
};
template <>
struct Negated<BFloat16> : Negated<Float16> {};

template <class F, bool kWrap>
struct StaysLowest {
  static inline bool is(typename F::Code) { return false; }
};
template <class F>
struct StaysLowest<F, true> {
  static inline bool is(typename F::Code code) { return code == F::kMinCode; }
};

}  // namespace detail

// kWrap: the lowest code stays as it is, as in TensorFlow Lite.
template <class F, class Where, bool kWrap>
void negate(const typename F::Code* in, typename F::Code* out, int32_t count, int32_t zero) {
  for (int32_t i = 0; i < count; ++i) {
    const typename F::Code code = Where::load(in + i);
    out[i] = detail::StaysLowest<F, kWrap>::is(code) ? code : detail::Negated<F>::of(code, zero);
  }
}

template <class F, class Where>
void absolute(const typename F::Code* in, typename F::Code* out, int32_t count, int32_t zero) {
  for (int32_t i = 0; i < count; ++i) {
    const typename F::Code code = Where::load(in + i);
    out[i] = detail::Negated<F>::below(code, zero) ? detail::Negated<F>::of(code, zero) : code;
  }
}

}  // namespace minun

#endif  // MINUN_SIGN_H
