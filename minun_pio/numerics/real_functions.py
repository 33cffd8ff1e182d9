# SPDX-License-Identifier: Apache-2.0
"""Non-linear functions on Reals: the twin of include/minun/functions.h, step for step and bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics import function_constants as constants
from minun_pio.numerics import real
from minun_pio.numerics.real import INFINITE, NAN, ONE, POLE, ZERO, Bits, Real, choose

_HALF = real.constant(1 << 31, -1)
_MASK = np.uint64(0xFFFFFFFF)
_U32 = np.uint64(32)


def _high(a: Bits, b: Bits | np.uint64) -> Bits:
    product: Bits = (a * b) >> _U32
    return product


def _fraction(x: Real) -> Bits:
    """|x| < 1 in Q32, truncated."""
    shift = -1 - x.exponent
    bits: Bits = np.where(shift > 31, np.uint64(0), x.significand >> np.clip(shift, 0, 31).astype(np.uint64))
    return bits


def _scale(a: NDArray[np.int64], w: Bits) -> NDArray[np.int64]:
    """a * w / 2^32, truncated toward zero."""
    size = _high(np.abs(a).astype(np.uint64), w).astype(np.int64)
    return np.where(a < 0, -size, size)


def _polynomial(coefficients: tuple[int, ...], w: Bits) -> NDArray[np.int64]:
    total = np.full(w.shape, coefficients[-1], np.int64)
    for coefficient in coefficients[-2::-1]:
        total = _scale(total, w) + coefficient
    return total


def _odd_polynomial(x: Real, coefficients: tuple[int, ...]) -> Real:
    total = _polynomial(coefficients, _fraction(real.multiply(x, x)))
    return real.multiply(x, real.normalise(total.astype(np.uint64), 1, np.zeros_like(x.negative)))


def _falling(x: Real) -> Real:
    """-|x|"""
    return Real(x.significand, x.exponent, np.ones_like(x.negative))


def exponential(x: Real) -> Real:
    shift = 30 - x.exponent
    product = x.significand * np.uint64(constants.LOG2_E)
    bits = np.where(shift < 64, product >> np.clip(shift, 0, 63).astype(np.uint64), np.uint64(0))
    whole = (bits >> _U32).astype(np.int64)
    part = bits & _MASK
    whole = np.where(x.negative, np.where(part == 0, -whole, -whole - 1), whole)
    part = np.where(x.negative, (np.uint64(1 << 32) - part) & _MASK, part)
    u = (part << np.uint64(6)) & _MASK
    first, second, third = (np.uint64(c) for c in constants.EXP2_COEFFICIENTS)
    growth = _high(u, third) + second
    growth = _high(growth, u) + first
    growth = _high(growth, u)
    base = np.take(np.array(constants.EXP2_TABLE, np.uint64), (part >> np.uint64(26)).astype(np.int64))
    positive = np.zeros_like(x.negative)
    near = Real(base + _high(base, growth), whole, positive)
    far = Real(np.full_like(base, 1 << 31), np.where(x.negative, -INFINITE, INFINITE), positive)
    return choose(x.significand == 0, choose(x.undefined, x, ONE), choose(x.exponent >= 8, far, near))


def _logistic_bits(e: Real) -> Bits:
    """1 / (1 + e) in Q31, for e in [0, 1]."""
    shift = 1 - e.exponent
    small = np.where(shift > 31, np.uint64(0), e.significand >> np.clip(shift, 0, 31).astype(np.uint64))
    total = np.minimum(small + np.uint64(1 << 30), np.uint64(0x7FFFFFFF))
    return real.reciprocal_bits(total << np.uint64(1))


def sigmoid(x: Real) -> Real:
    e = exponential(_falling(x))
    y = real.normalise(_logistic_bits(e), 0, np.zeros_like(x.negative))
    return choose(
        x.significand == 0, choose(x.undefined, x, _HALF), choose(x.negative, real.multiply(e, y), y)
    )


def logarithm(x: Real) -> Real:
    part = ((x.significand >> np.uint64(26)) & np.uint64(31)).astype(np.int64)
    product = x.significand * np.take(np.array(constants.LOG_INVERSE, np.uint64), part)
    top = np.uint64(1 << 63)
    below = product < top
    r = np.where(below, top - product, product - top) >> np.uint64(27)
    h = np.full(r.shape, 214748365, np.int64)
    for following in (268435456, 357913941, 536870912, 1073741824):
        step = _scale(h, r) // 16
        h = np.where(below, following + step, following - step)
    bend = _high(r, h.astype(np.uint64)).astype(np.int64) * 2
    total = np.take(np.array(constants.LOG_TABLE, np.int64), part) << 3
    exponent = np.where((x.significand == 0) | (x.exponent >= INFINITE), 0, x.exponent)
    total = total + exponent * constants.LN2_Q35 + np.where(below, -bend, bend)
    out = real.normalise64(np.abs(total).astype(np.uint64), 28, total < 0)
    out = choose((x.significand == 1 << 31) & (x.exponent == 0), ZERO, out)
    out = choose(x.exponent >= INFINITE, x, out)
    out = choose(x.negative & (x.significand != 0), NAN, out)
    return choose(x.significand == 0, choose(x.undefined, x, real.constant(1 << 31, POLE, True)), out)


def hyperbolic_tangent(x: Real) -> Real:
    near = _odd_polynomial(x, constants.TANH_COEFFICIENTS)
    twice = _logistic_bits(exponential(_falling(x.times_power(1)))) * np.uint64(2)
    far = real.normalise((twice - np.uint64(1 << 31)) & _MASK, 0, x.negative)
    return choose(x.significand == 0, x, choose(x.exponent < -2, near, far))


def exponential_less_one(x: Real) -> Real:
    """e^x - 1 for x <= 0."""
    z = _fraction(abs(x))
    h = np.full(z.shape, 1 << 30, np.int64)
    for divisor in (5, 4, 3, 2):
        h = (1 << 30) - _scale(h, z) // divisor
    near = real.multiply(x, real.normalise(h.astype(np.uint64), 1, np.zeros_like(x.negative)))
    far = real.subtract(exponential(x), ONE)
    return choose(x.significand == 0, x, choose(x.exponent >= -4, far, near))


def softplus(x: Real) -> Real:
    y = exponential(_falling(x))
    w = _fraction(y)
    h = np.uint64(1 << 31) - w // np.uint64(4) + _high(w, w) // np.uint64(6)
    small = real.multiply(y, real.normalise(h, 0, np.zeros_like(x.negative)))
    bend = choose(y.exponent < -8, small, logarithm(real.add(ONE, y)))
    out = choose(x.negative | (x.significand == 0), bend, real.add(x, bend))
    return choose(x.undefined, x, out)


def error_complement(z: Real) -> Real:
    """erfc(z) for z >= 1/2."""
    t = real.divide(ONE, real.add(ONE, z.times_power(-1)))
    t = Real(t.significand, t.exponent, t.negative)
    total = _polynomial(constants.ERFC_COEFFICIENTS, _fraction(t))
    bend = real.normalise(np.abs(total).astype(np.uint64), 3, total < 0)
    return real.multiply(t, exponential(real.subtract(bend, real.multiply(z, z))))


def error_function(x: Real) -> Real:
    near = _odd_polynomial(x, constants.ERF_COEFFICIENTS)
    far = real.subtract(ONE, error_complement(abs(x)))
    far = Real(far.significand, far.exponent, x.negative)
    return choose(x.significand == 0, x, choose(x.exponent < -1, near, far))


def _gate_far(x: Real) -> Real:
    return choose(x.negative, real.constant(1 << 31, -INFINITE, True), x)


def gelu(x: Real) -> Real:
    z = real.multiply(abs(x), real.constant(constants.INVERSE_SQRT2, -1))
    near = real.subtract(ONE, _odd_polynomial(z, constants.ERF_COEFFICIENTS))
    tail = choose(z.exponent < -1, near, error_complement(z)).times_power(-1)
    out = real.multiply(x, choose(x.negative, tail, real.subtract(ONE, tail)))
    return choose(x.significand == 0, x, choose(x.exponent >= 64, _gate_far(x), out))


def gelu_tanh(x: Real) -> Real:
    cube = real.multiply(real.multiply(real.multiply(x, x), x), real.constant(constants.GELU_CUBE, -5))
    gate = sigmoid(real.multiply(real.add(x, cube), real.constant(constants.GELU_SCALE, 0)))
    return choose(x.significand == 0, x, choose(x.exponent >= 64, _gate_far(x), real.multiply(x, gate)))


def silu(x: Real) -> Real:
    out = real.multiply(x, sigmoid(x))
    return choose(x.significand == 0, x, choose(x.exponent >= 64, _gate_far(x), out))


def reciprocal(x: Real) -> Real:
    return real.divide(ONE, x)


def reciprocal_square_root(x: Real) -> Real:
    out = real.divide(ONE, real.square_root(x))
    out = Real(out.significand, out.exponent, out.negative)
    return choose(x.significand == 0, choose(x.undefined, x, real.constant(1 << 31, POLE)), out)


def leaky_relu(x: Real, alpha: float) -> Real:
    return choose(x.negative, real.multiply(real.real_constant(alpha), x), x)


def elu(x: Real, alpha: float = 1.0) -> Real:
    return choose(x.negative, real.multiply(real.real_constant(alpha), exponential_less_one(x)), x)


def clipped(x: Real, high: Real) -> Real:
    """x brought to [0, high]."""
    over = (x.exponent > high.exponent) | ((x.exponent == high.exponent) & (x.significand > high.significand))
    out = choose(x.negative | (x.significand == 0), ZERO, choose(over, high, x))
    return choose(x.undefined, x, out)


def hard_sigmoid(x: Real, alpha: float = 0.2, beta: float = 0.5) -> Real:
    return clipped(real.add(real.multiply(real.real_constant(alpha), x), real.real_constant(beta)), ONE)


def hard_swish(x: Real) -> Real:
    six, three = real.real_constant(6.0), real.real_constant(3.0)
    gate = clipped(real.add(x, three), six)
    out = real.divide(real.multiply(x, gate), six)
    out = Real(out.significand, out.exponent, out.negative)
    whole = (gate.significand == six.significand) & (gate.exponent == six.exponent)
    return choose(whole, x, out)


def identity(x: Real) -> Real:
    return x


REAL_FUNCTIONS: dict[str, Callable[..., Real]] = {
    "sigmoid": sigmoid,
    "tanh": hyperbolic_tangent,
    "exp": exponential,
    "log": logarithm,
    "erf": error_function,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "softplus": softplus,
    "sqrt": real.square_root,
    "reciprocal_sqrt": reciprocal_square_root,
    "reciprocal": reciprocal,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": hard_swish,
}
"""By name; all but the first parameter are keyword attributes."""
