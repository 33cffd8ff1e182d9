# SPDX-License-Identifier: Apache-2.0
"""Real: numbers with a 32-bit significand, the twin of include/minun/real.h on whole arrays, bit for bit.

value = significand * 2^(exponent - 31); the significand's top bit is set, or it is zero for zero and, with
the exponent UNDEFINED, for NaN. Every operation truncates toward zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.format import Codes, Format, Values
from minun_pio.numerics.posit import Posit

INFINITE = 4096
POLE = 0x7FFE
UNDEFINED = 0x7FFF

Bits = NDArray[np.uint64]
Flags = NDArray[np.bool_]

_TOP = np.uint64(1 << 31)


@dataclass(frozen=True)
class Real:
    """Arrays of one shape. `inexact`: the true value lies a little beyond in magnitude."""

    significand: Bits
    exponent: NDArray[np.int64]
    negative: Flags
    inexact: Flags | None = None

    @property
    def undefined(self) -> Flags:
        result: Flags = (self.significand == 0) & (self.exponent == UNDEFINED)
        return result

    @property
    def is_zero(self) -> Flags:
        result: Flags = (self.significand == 0) & (self.exponent != UNDEFINED)
        return result

    def __neg__(self) -> Real:
        return Real(self.significand, self.exponent, ~self.negative)

    def __abs__(self) -> Real:
        return Real(self.significand, self.exponent, np.zeros_like(self.negative))

    def times_power(self, power: int) -> Real:
        """Times 2^power."""
        live = self.significand != 0
        return Real(self.significand, self.exponent + np.where(live, power, 0), self.negative)

    def __getitem__(self, index: Any) -> Real:
        return Real(self.significand[index], self.exponent[index], self.negative[index])


def constant(significand: int, exponent: int, negative: bool = False) -> Real:
    return Real(np.array(significand, np.uint64), np.array(exponent, np.int64), np.array(negative))


ZERO = constant(0, 0)
ONE = constant(1 << 31, 0)
NAN = constant(0, UNDEFINED)


def real_constant(value: float) -> Real:
    """A Python number as a Real, cut to 32 bits: the parameters of functions (alpha, epsilon)."""
    return from_values(np.asarray(value, dtype=np.float64))


def real_literal(value: float) -> str:
    """The same as a C++ expression."""
    x = real_constant(value)
    sign = "true" if bool(x.negative) else "false"
    return f"minun::real::make({int(x.significand)}u, {int(x.exponent)}, {sign})"


def choose(condition: Flags, yes: Real, no: Real) -> Real:
    """np.where on Reals."""
    inexact = None
    if yes.inexact is not None or no.inexact is not None:
        false = np.zeros((), bool)
        inexact = np.where(
            condition,
            false if yes.inexact is None else yes.inexact,
            false if no.inexact is None else no.inexact,
        )
    return Real(
        np.where(condition, yes.significand, no.significand),
        np.where(condition, yes.exponent, no.exponent),
        np.where(condition, yes.negative, no.negative),
        inexact,
    )


def leading_zeros64(bits: Bits) -> NDArray[np.int64]:
    """Zeros above the highest set bit of 64; 64 for zero."""
    high, low = bits >> np.uint64(32), bits & np.uint64(0xFFFFFFFF)
    length = np.where(high != 0, 32 + _bit_length32(high), _bit_length32(low))
    return 64 - length


def _bit_length32(bits: Bits) -> NDArray[np.int64]:
    return np.frexp(bits.astype(np.float64))[1].astype(np.int64)


def normalise64(bits: Bits, exponent: NDArray[np.int64] | int, negative: Flags) -> Real:
    """bits * 2^(exponent - 63), cut to 32 significant bits."""
    bits = np.asarray(bits, np.uint64)
    zeros = np.minimum(leading_zeros64(bits), 63)
    live = bits != 0
    shifted = (bits << zeros.astype(np.uint64)) >> np.uint64(32)
    return Real(
        np.where(live, shifted, np.uint64(0)),
        np.where(live, exponent - zeros, 0),
        np.asarray(negative) & live,
    )


def normalise(bits: Bits, exponent: NDArray[np.int64] | int, negative: Flags) -> Real:
    """bits * 2^(exponent - 31) for bits of 32 bits."""
    return normalise64(np.asarray(bits, np.uint64) << np.uint64(32), exponent, negative)


def multiply(a: Real, b: Real) -> Real:
    dead = (a.significand == 0) | (b.significand == 0)
    product = a.significand * b.significand
    carry = (product >> np.uint64(63)) != 0
    top = product >> np.where(carry, np.uint64(32), np.uint64(31))
    exponent = a.exponent + b.exponent + carry
    undefined = a.undefined | b.undefined
    return Real(
        np.where(dead, np.uint64(0), top),
        np.where(dead, np.where(undefined, UNDEFINED, 0), exponent),
        np.where(dead, False, a.negative != b.negative),
    )


def add(a: Real, b: Real) -> Real:
    swap = (a.exponent < b.exponent) | ((a.exponent == b.exponent) & (a.significand < b.significand))
    large, small = choose(swap, b, a), choose(swap, a, b)
    apart = np.clip(large.exponent - small.exponent, 0, 63)
    high = large.significand << np.uint64(31)
    low = np.where(apart > 62, np.uint64(0), (small.significand << np.uint64(31)) >> apart.astype(np.uint64))
    total = np.where(large.negative == small.negative, high + low, high - low)
    both = normalise64(total, large.exponent + 1, large.negative)
    both = choose(b.significand == 0, choose(b.undefined, b, a), both)
    return choose(a.significand == 0, choose(a.undefined, a, b), both)


def subtract(a: Real, b: Real) -> Real:
    return add(a, -b)


def divide(a: Real, b: Real) -> Real:
    """a / b, truncated and marked inexact; a / 0 is a pole, 0 / 0 undefined."""
    less = a.significand < b.significand
    dividend = a.significand << np.where(less, np.uint64(32), np.uint64(31))
    divisor = np.maximum(b.significand, np.uint64(1))
    quotient = dividend // divisor
    negative = a.negative != b.negative
    out = Real(quotient, a.exponent - b.exponent - less, negative, quotient * divisor != dividend)
    out = choose(a.is_zero, ZERO, out)
    pole = Real(
        np.broadcast_to(_TOP, negative.shape),
        np.full(negative.shape, POLE),
        a.negative | np.zeros_like(negative),
    )
    out = choose(b.is_zero, choose(a.is_zero, NAN, pole), out)
    return choose(a.undefined | b.undefined, NAN, out)


def reciprocal_bits(d: Bits) -> Bits:
    """2^62 / d to about 30 bits, for d in [2^31, 2^32)."""
    guess = np.uint64(0xFFFFFFFF) // (d >> np.uint64(16))
    error = np.int64(1 << 48) - (d * guess).astype(np.int64)
    step = guess.astype(np.int64) * (error >> 16)
    result: Bits = ((guess << np.uint64(14)).astype(np.int64) + (step >> 18)).astype(np.uint64)
    return result


def square_root(x: Real) -> Real:
    """Truncated and marked inexact; negative x: undefined."""
    odd = (x.exponent & 1) != 0
    radicand = x.significand << np.where(odd, np.uint64(32), np.uint64(31))
    root = np.sqrt(radicand.astype(np.float64)).astype(np.uint64)
    root = np.minimum(root, np.uint64(0xFFFFFFFF))
    for _ in range(2):  # the float root may be one off
        root = np.where(root * root > radicand, root - np.uint64(1), root)
    following = root + np.uint64(1)
    fits = (following <= np.uint64(0xFFFFFFFF)) & (following * following <= radicand)
    root = np.where(fits, following, root)
    exponent = (x.exponent - odd) // 2
    out = Real(root, exponent, np.zeros_like(x.negative), root * root != radicand)
    out = choose(x.negative & (x.significand != 0), NAN, out)
    return choose(x.significand == 0, x, out)


def to_real(codes: Codes, fmt: Format) -> Real:
    """The exact values of posit, fixed-point or float codes."""
    return from_values(fmt.decode(codes))


def from_values(values: Values) -> Real:
    """float64 values cut to 32 bits; infinities get the exponent INFINITE."""
    given = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(given)
    fraction, exponent = np.frexp(np.where(finite, np.abs(given), 0.5))
    significand = np.ldexp(fraction, 32).astype(np.uint64)
    exponent = np.where(significand == 0, 0, exponent.astype(np.int64) - 1)
    exponent = np.where(np.isinf(given), INFINITE, exponent)
    nan = np.isnan(given)
    negative = np.signbit(given) & ~nan & (given != 0)
    return Real(np.where(nan, np.uint64(0), significand), np.where(nan, UNDEFINED, exponent), negative)


def from_real(x: Real, out: Format) -> Codes:
    """One rounding into `out`. A pole is NaR in posits, the largest code in fixed-point, infinity in
    floats.
    """
    inexact = np.zeros((), bool) if x.inexact is None else x.inexact
    significand = x.significand.astype(np.float64) + 0.25 * (inexact & (x.significand != 0))
    exponent = np.clip(x.exponent, -1100, 1100).astype(np.int32)
    with np.errstate(over="ignore", under="ignore"):
        values = np.ldexp(significand, np.clip(exponent - 31, -1060, 1100))
    if isinstance(out, Posit):
        values = np.clip(values, 0.0, 2.0**out.max_scale)
        values = np.where((x.exponent == POLE) & (x.significand != 0), np.nan, values)
    values = np.where(x.negative & (x.significand != 0), -values, values)  # a zero has no sign
    return out.encode(np.where(x.undefined, np.nan, values))
