// SPDX-License-Identifier: Apache-2.0
// Non-linear functions of every format, in integer arithmetic on Real: no float, no libm. One rounding at the end.
//
//   unary<Sigmoid, Out, In>(in, out, count, Sigmoid());     // 16 and 32 bits, and all floats
//   unary_table<Out, In>(in, out, count, table);            // formats of up to 8 bits: a table over all codes
//
// A function is a type with `Real operator()(Real x, bool* inexact) const`; `*inexact` arrives false and is set
// where the true value is known to lie a little beyond the result. Host twin: minun_pio/numerics/real_functions.py.
#ifndef MINUN_FUNCTIONS_H
#define MINUN_FUNCTIONS_H

#include <stdint.h>

#include "minun/flash.h"
#include "minun/formats.h"
#include "minun/function_constants.h"
#include "minun/raster.h"
#include "minun/real.h"

namespace minun {

namespace real {

MINUN_INLINE Real one() { return make(UINT32_C(1) << 31, 0, false); }
MINUN_INLINE Real scaled_by_two(Real x, int power) {
  if (x.significand != 0) x.exponent = static_cast<int16_t>(x.exponent + power);
  return x;
}
MINUN_INLINE Real magnitude(Real x) {
  x.negative = false;
  return x;
}

// |x| < 1 in Q32, truncated.
MINUN_INLINE uint32_t fraction(Real x) {
  const int shift = -1 - x.exponent;
  return shift > 31 ? 0u : x.significand >> shift;
}

// a * w / 2^32, truncated toward zero.
MINUN_INLINE int32_t scale(int32_t a, uint32_t w) {
  return a < 0 ? -static_cast<int32_t>(high_product(0u - static_cast<uint32_t>(a), w))
               : static_cast<int32_t>(high_product(static_cast<uint32_t>(a), w));
}

// c[0] + c[1] w + c[2] w^2 ..., w in Q32, in the coefficients' own unit.
MINUN_NOINLINE inline int32_t polynomial(const int32_t* coefficients, uint8_t count, uint32_t w) {
  int32_t sum = flash_load(coefficients + count - 1);
  for (uint8_t i = static_cast<uint8_t>(count - 1); i-- > 0;) sum = scale(sum, w) + flash_load(coefficients + i);
  return sum;
}

// x * P(x^2) for |x| < 1/2, coefficients in Q30.
MINUN_NOINLINE inline Real odd_polynomial(Real x, const int32_t* coefficients, uint8_t count) {
  const int32_t sum = polynomial(coefficients, count, fraction(multiply(x, x)));
  return multiply(x, normalise(static_cast<uint32_t>(sum), 1, false));
}

// bits >> count, 0 to 31; whole bytes first, where there is no barrel shifter.
MINUN_INLINE uint32_t high_bits(uint32_t bits, uint8_t count) {
#if defined(__AVR__)
  for (; count >= 8; count = static_cast<uint8_t>(count - 8)) bits >>= 8;
#endif
  return bits >> count;
}

// e^x. Far out the exponent is +-kInfinite: beyond every format.
MINUN_NOINLINE inline Real exponential(Real x) {
  if (x.significand == 0) return is_undefined(x) ? x : one();
  if (x.exponent >= 8) return make(UINT32_C(1) << 31, x.negative ? -kInfinite : kInfinite, false);
  const int shift = 30 - x.exponent;
  uint32_t low;
  const uint32_t high = wide_product(x.significand, constants::kLog2E, &low);
  int whole = 0;  // |x| log2(e), whole and part in Q32
  uint32_t part = 0;
  if (shift < 32) {
    const uint8_t beyond = static_cast<uint8_t>(shift - 23);
    whole = static_cast<int>(static_cast<uint16_t>(high >> 16) >> (7 + beyond));
    part = (high << (32 - shift)) | (static_cast<uint16_t>(low >> 16) >> (7 + beyond));
  } else if (shift < 64) {
    part = high_bits(high, static_cast<uint8_t>(shift - 32));
  }
  if (x.negative) {
    whole = part == 0 ? -whole : -whole - 1;
    part = 0u - part;
  }
  const uint32_t u = part << 6;
  uint32_t growth = high_product(constants::kExp2Third, u) + constants::kExp2Second;
  growth = high_product(growth, u) + constants::kExp2First;
  growth = high_product(growth, u);
  const uint32_t base = flash_load(constants::kExp2 + (static_cast<uint8_t>(part >> 24) >> 2));
  return make(base + high_product(base, growth), whole, false);
}

// 1 / (1 + e) in Q31, for e in [0, 1].
MINUN_NOINLINE inline uint32_t logistic_bits(Real e) {
  const int shift = 1 - e.exponent;
  uint32_t sum = (UINT32_C(1) << 30) + (shift > 31 ? 0u : e.significand >> shift);
  if (sum >> 31) sum = 0x7FFFFFFFu;
  return reciprocal_bits(sum << 1);
}

MINUN_NOINLINE inline Real sigmoid(Real x) {
  if (x.significand == 0) return is_undefined(x) ? x : make(UINT32_C(1) << 31, -1, false);
  Real falling = x;
  falling.negative = true;
  const Real e = exponential(falling);
  const Real y = normalise(logistic_bits(e), 0, false);
  return x.negative ? multiply(e, y) : y;
}

// bits * 2^(exponent - 63), truncated to 32 significant bits.
MINUN_NOINLINE inline Real normalise64(uint64_t bits, int exponent, bool negative) {
  const uint32_t high = static_cast<uint32_t>(bits >> 32);
  if (high == 0) return normalise(static_cast<uint32_t>(bits), exponent - 32, negative);
  const int zeros = leading_zeros(high);
  return make(static_cast<uint32_t>((bits << zeros) >> 32), exponent - zeros, negative);
}

// Natural logarithm; of 0 a pole.
MINUN_NOINLINE inline Real logarithm(Real x) {
  if (x.significand == 0) return is_undefined(x) ? x : pole(true);
  if (x.negative) return undefined();
  if (x.exponent >= kInfinite) return x;
  if (x.significand == UINT32_C(1) << 31 && x.exponent == 0) return zero();
  const uint8_t part = static_cast<uint8_t>((x.significand >> 26) & 31u);
  const uint64_t product = static_cast<uint64_t>(x.significand) * flash_load(constants::kLogInverse + part);
  const bool below = (product >> 63) == 0;
  const uint64_t beyond = below ? (UINT64_C(1) << 63) - product : product - (UINT64_C(1) << 63);
  const uint32_t r = static_cast<uint32_t>(beyond >> 27);  // |m / c - 1|, Q36, below 2^-5
  int32_t h = 214748365;                                   // 1/5, Q30
  for (uint8_t i = 0; i < 4; ++i) {                        // 1 - r (1/2 - r (1/3 - r (1/4 - r / 5)))
    const int32_t next = i == 0 ? 268435456 : i == 1 ? 357913941
                                          : i == 2   ? 536870912
                                                     : 1073741824;
    const int32_t step = scale(h, r) / 16;
    h = below ? next + step : next - step;
  }
  const int64_t bend = static_cast<int64_t>(high_product(r, static_cast<uint32_t>(h))) * 2;  // |ln(m / c)|, Q35
  int64_t sum = static_cast<int64_t>(static_cast<uint64_t>(flash_load(constants::kLog + part)) << 3);
  sum += static_cast<int64_t>(x.exponent) * constants::kLn2 + (below ? -bend : bend);
  const bool negative = sum < 0;
  return normalise64(negative ? 0u - static_cast<uint64_t>(sum) : static_cast<uint64_t>(sum), 28, negative);
}

MINUN_NOINLINE inline Real hyperbolic_tangent(Real x) {
  if (x.significand == 0) return x;
  if (x.exponent < -2) return odd_polynomial(x, constants::kTanh, 5);
  Real falling = scaled_by_two(x, 1);
  falling.negative = true;
  const uint32_t twice = logistic_bits(exponential(falling)) * 2u;  // 2 / (1 + e), Q31; 2^32 wraps rightly
  return normalise(twice - (UINT32_C(1) << 31), 0, x.negative);
}

// e^x - 1 for x <= 0.
MINUN_NOINLINE inline Real exponential_less_one(Real x) {
  if (x.significand == 0) return x;
  if (x.exponent >= -4) return subtract(exponential(x), one());
  const uint32_t z = fraction(magnitude(x));
  int32_t h = 1073741824;  // 1 - z/2 (1 - z/3 (1 - z/4 (1 - z/5))), Q30
  for (uint8_t divisor = 5; divisor > 1; --divisor) h = 1073741824 - scale(h, z) / divisor;
  return multiply(x, normalise(static_cast<uint32_t>(h), 1, false));
}

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|)
MINUN_NOINLINE inline Real softplus(Real x) {
  if (is_undefined(x)) return x;
  Real falling = x;
  falling.negative = true;
  const Real y = exponential(falling);
  Real bend;
  if (y.exponent < -8) {  // y (1 - y/2 + y^2/3)
    const uint32_t w = fraction(y);
    const uint32_t h = (UINT32_C(1) << 31) - w / 4 + high_product(w, w) / 6;
    bend = multiply(y, normalise(h, 0, false));
  } else {
    bend = logarithm(add(one(), y));
  }
  return x.negative || x.significand == 0 ? bend : add(x, bend);
}

// erfc(z) for z >= 1/2, to a relative 2^-26.
MINUN_NOINLINE inline Real error_complement(Real z) {
  const Real t = divide(one(), add(one(), scaled_by_two(z, -1)));
  const int32_t sum = polynomial(constants::kErfc, 12, fraction(t));
  const bool negative = sum < 0;
  const Real bend = normalise(negative ? 0u - static_cast<uint32_t>(sum) : static_cast<uint32_t>(sum), 3, negative);
  return multiply(t, exponential(subtract(bend, multiply(z, z))));
}

MINUN_NOINLINE inline Real error_function(Real x) {
  if (x.significand == 0) return x;
  if (x.exponent < -1) return odd_polynomial(x, constants::kErf, 6);
  Real y = subtract(one(), error_complement(magnitude(x)));
  y.negative = x.negative;
  return y;
}

// Beyond 2^64 in magnitude: x where positive, else a negative number below every format's smallest.
MINUN_INLINE Real gate_far(Real x) { return x.negative ? make(UINT32_C(1) << 31, -kInfinite, true) : x; }

// x * Phi(x), Phi the normal distribution.
MINUN_NOINLINE inline Real gelu(Real x) {
  if (x.significand == 0) return x;
  if (x.exponent >= 64) return gate_far(x);
  const Real z = multiply(magnitude(x), make(constants::kInverseSqrt2, -1, false));
  Real tail;  // 2 Phi(-|x|)
  if (z.exponent < -1) {
    tail = subtract(one(), odd_polynomial(z, constants::kErf, 6));
  } else {
    tail = error_complement(z);
  }
  tail = scaled_by_two(tail, -1);
  return multiply(x, x.negative ? tail : subtract(one(), tail));
}

// x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)): GELU's tanh form.
MINUN_NOINLINE inline Real gelu_tanh(Real x) {
  if (x.significand == 0) return x;
  if (x.exponent >= 64) return gate_far(x);
  const Real cube = multiply(multiply(multiply(x, x), x), make(constants::kGeluCube, -5, false));
  return multiply(x, sigmoid(multiply(add(x, cube), make(constants::kGeluScale, 0, false))));
}

MINUN_NOINLINE inline Real silu(Real x) {
  if (x.significand == 0) return x;
  if (x.exponent >= 64) return gate_far(x);
  return multiply(x, sigmoid(x));
}

// x brought to [0, high]
MINUN_INLINE Real clipped(Real x, Real high) {
  if (is_undefined(x)) return x;
  if (x.negative || x.significand == 0) return zero();
  return x.exponent > high.exponent || (x.exponent == high.exponent && x.significand > high.significand) ? high : x;
}

}  // namespace real

struct Sigmoid {
  MINUN_INLINE Real operator()(Real x, bool*) const { return real::sigmoid(x); }
};
struct Tanh {
  MINUN_INLINE Real operator()(Real x, bool*) const { return real::hyperbolic_tangent(x); }
};
struct Exp {
  MINUN_INLINE Real operator()(Real x, bool*) const { return real::exponential(x); }
};
struct Log {
  MINUN_INLINE Real operator()(Real x, bool*) const { return real::logarithm(x); }
};
struct Erf {
  MINUN_INLINE Real operator()(Real x, bool*) const { return real::error_function(x); }
};
struct Gelu {
  MINUN_INLINE Real operator()(Real x, bool*) const { return real::gelu(x); }
};
struct GeluTanh {
  MINUN_INLINE Real operator()(Real x, bool*) const { return real::gelu_tanh(x); }
};
struct Silu {
  MINUN_INLINE Real operator()(Real x, bool*) const { return real::silu(x); }
};
struct Softplus {
  MINUN_INLINE Real operator()(Real x, bool*) const { return real::softplus(x); }
};
struct Sqrt {
  MINUN_INLINE Real operator()(Real x, bool* inexact) const { return real::square_root(x, inexact); }
};
// 1 / sqrt(x); of 0 a pole.
struct ReciprocalSqrt {
  MINUN_INLINE Real operator()(Real x, bool*) const {
    bool inexact;
    if (!x.significand) return real::is_undefined(x) ? x : real::pole(false);
    return real::divide(real::one(), real::square_root(x, &inexact));
  }
};
struct Reciprocal {
  MINUN_INLINE Real operator()(Real x, bool* inexact) const { return real::divide(real::one(), x, inexact); }
};
// x, or alpha * x where x is negative.
struct LeakyRelu {
  Real alpha;
  MINUN_INLINE Real operator()(Real x, bool*) const { return x.negative ? real::multiply(alpha, x) : x; }
};
// x, or alpha * (e^x - 1) where x is negative.
struct Elu {
  Real alpha;
  MINUN_INLINE Real operator()(Real x, bool*) const {
    return x.negative ? real::multiply(alpha, real::exponential_less_one(x)) : x;
  }
};
// alpha * x + beta, brought to [0, 1].
struct HardSigmoid {
  Real alpha;
  Real beta;
  MINUN_INLINE Real operator()(Real x, bool*) const {
    return real::clipped(real::add(real::multiply(alpha, x), beta), real::one());
  }
};
// x * clip(x + 3, 0, 6) / 6
struct HardSwish {
  MINUN_INLINE Real operator()(Real x, bool*) const {
    const Real six = real::make(UINT32_C(0xC0000000), 2, false);
    const Real three = real::make(UINT32_C(0xC0000000), 1, false);
    const Real gate = real::clipped(real::add(x, three), six);
    if (gate.significand == six.significand && gate.exponent == six.exponent) return x;
    return real::divide(real::multiply(x, gate), six);
  }
};

// One value.
template <class F, class Out, class In>
MINUN_INLINE typename Out::Code evaluate(typename In::Code code, const F& function) {
  bool inexact = false;
  const Real y = function(to_real<In>(code), &inexact);
  return from_real<Out>(y, inexact);
}

// out[i] = function(in[i]), rounded once. In place if the codes have one size.
template <class F, class Out, class In, bool kReverse = false>
void unary(const typename In::Code* in, typename Out::Code* out, int32_t count, const F& function) {
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    out[i] = evaluate<F, Out, In>(in[i], function);
  }
}

// The same for formats of up to 8 bits: `table`, in flash, holds the function at every code, in the order of the
// codes' bits read as unsigned.
template <class Out, class In, bool kReverse = false>
void unary_table(const typename In::Code* in, typename Out::Code* out, int32_t count, const typename Out::Code* table) {
  const uint8_t mask = static_cast<uint8_t>((1u << In::kBits) - 1u);
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    out[i] = flash_load(table + (static_cast<uint8_t>(in[i]) & mask));
  }
}

// sigmoid and tanh between posit or fixed-point formats of 9 to 16 bits (the output: up to 16): linear between nodes
// in code space. `cells` and `nodes`, in flash, come from minun_pio/numerics/curves.py, whose integer steps these are.
template <class Out, class In, bool kReverse = false>
void curve(const typename In::Code* in, typename Out::Code* out, int32_t count, const uint16_t* cells,
           const int16_t* nodes) {
  const uint8_t in_shift = In::kBits - 8;
  const uint8_t extra = 16 - Out::kBits;
  const uint16_t half_range = static_cast<uint16_t>(1u << (In::kBits - 1));
  typedef Raster<kReverse> Turn;
  for (int32_t i = Turn::first(count); Turn::within(i, count); i += Turn::kStep) {
    const typename In::Code code = in[i];
    if (In::is_nar(code)) {
      out[i] = Out::nar();
      continue;
    }
    const uint16_t place = static_cast<uint16_t>(static_cast<uint16_t>(code) + half_range);
    const uint16_t cell = flash_load(cells + (place >> in_shift));
    const uint8_t shift = cell & 15u;
    const uint8_t part = static_cast<uint8_t>(place & ((1u << in_shift) - 1u));
    const int16_t* node = nodes + (cell >> 4) + (part >> shift);
    const int32_t left = flash_load(node);
    const int32_t rise = flash_load(node + 1) - left;
    const uint8_t within = static_cast<uint8_t>(part & ((1u << shift) - 1u));
    int32_t line = left + ((rise * within + ((1 << shift) >> 1)) >> shift);
    if (extra > 0) line = (line + (1 << (extra > 0 ? extra - 1 : 0))) >> extra;
    out[i] = static_cast<typename Out::Code>(line);
  }
}

}  // namespace minun

#endif  // MINUN_FUNCTIONS_H
