# SPDX-License-Identifier: Apache-2.0
"""gemmlowp's fixed-point arithmetic on int32, to the bit: TensorFlow Lite's reference kernels are made of it.

Source: gemmlowp's `fixedpoint/fixedpoint.h` and `tensorflow/lite/kernels/internal/common.h`. A number with k
integer bits is an int32 in units of 2^(k - 31); arrays hold them in int64. All roundings are to nearest,
halves away from zero, and results saturate unless a function says otherwise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_INT32 = np.iinfo(np.int32)
_ONE = np.int64(1)

_BARREL = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
"""exp(-2^i) with no integer bits."""


def wrapped(values: Integers) -> Integers:
    """What int32 arithmetic keeps of larger integers."""
    return values.astype(np.int32).astype(np.int64)


def saturated(values: Integers) -> Integers:
    return np.clip(values, _INT32.min, _INT32.max)


def high_mul(a: Integers, b: Integers | int) -> Integers:
    """SaturatingRoundingDoublingHighMul: (2ab + 2^31, toward zero) / 2^32; INT32_MIN squared saturates."""
    left, right = np.broadcast_arrays(np.asarray(a, np.int64), np.asarray(b, np.int64))
    wide = left * right
    nudged = wide + np.where(wide >= 0, 1 << 30, 1 - (1 << 30))
    high = np.where(nudged >= 0, nudged >> 31, -((-nudged) >> 31))  # C's division truncates
    both = (left == _INT32.min) & (right == _INT32.min)
    result: Integers = np.where(both, np.int64(_INT32.max), high)
    return result


def divide_by_power(x: Integers, exponent: Integers | int) -> Integers:
    """RoundingDivideByPOT: x / 2^exponent."""
    shift = np.asarray(exponent, np.int64)
    mask = np.left_shift(_ONE, shift) - 1
    remainder = x & mask
    threshold = (mask >> 1) + (x < 0)
    result: Integers = (x >> shift) + (remainder > threshold)
    return result


def times_power(x: Integers, exponent: Integers | int) -> Integers:
    """SaturatingRoundingMultiplyByPOT with an exponent of zero or more."""
    return saturated(np.left_shift(np.asarray(x, np.int64), np.asarray(exponent, np.int64)))


def bit_length(x: Integers) -> Integers:
    """Bits of non-negative integers below 2^53."""
    result: Integers = np.frexp(np.asarray(x).astype(np.float64))[1].astype(np.int64)
    return result


def exp_of_negative(a: Integers) -> Integers:
    """exp(a) without integer bits, for a <= 0 with five (exp_on_negative_values)."""
    quarter = np.int64(1 << 24)
    part = (a & (quarter - 1)) - quarter
    result = _exp_near_zero(part << 5)
    remainder = part - a
    for exponent, multiplier in _BARREL:
        bit = _ONE << (26 + exponent)
        result = np.where(remainder & bit, high_mul(result, multiplier), result)
    return np.where(a == 0, np.int64(_INT32.max), result)


def _exp_near_zero(a: Integers) -> Integers:
    """exp(a) for a in [-1/4, 0), no integer bits: a Taylor series about -1/8."""
    x = a + (1 << 28)
    square = high_mul(x, x)
    cube = high_mul(square, x)
    fourth = divide_by_power(high_mul(square, square), 2)
    tail = divide_by_power(high_mul(fourth + cube, 715827883) + square, 1)
    return 1895147668 + high_mul(x + tail, 1895147668)


def reciprocal_of_one_plus(x: Integers) -> Integers:
    """1 / (1 + x) for x in [0, 1], no integer bits (one_over_one_plus_x_for_x_in_0_1): Newton's method."""
    half = (np.asarray(x, np.int64) + _INT32.max + 1) >> 1  # of 1 + x; never negative: rounded half up
    y = 1515870810 + high_mul(half, -1010580540)
    for _ in range(3):
        rest = (1 << 29) - high_mul(half, y)
        y = y + times_power(high_mul(y, rest), 2)
    return times_power(y, 1)


def reciprocal(x: Integers, integer_bits: int) -> tuple[Integers, Integers]:
    """1 / x for x > 0 with `integer_bits` (GetReciprocal): a fraction in (1/2, 1], and the k of
    1 / x = fraction / 2^k."""
    zeros = 32 - bit_length(x)
    fraction = (np.asarray(x, np.int64) << zeros) - (_ONE << 31)
    return reciprocal_of_one_plus(fraction), integer_bits - zeros


def inverse_square_root(x: Integers) -> tuple[Integers, Integers]:
    """1 / sqrt(x) of integers: (fixed, shift) with 1 / sqrt(x) = fixed * 2^(shift - 31)
    (GetInvSqrtQuantizedMultiplierExp); up to 1 the result is one."""
    given = np.maximum(np.asarray(x, np.int64), 2)
    right = np.full(given.shape, 11, np.int64)
    while (large := given >= 1 << 29).any():
        given, right = np.where(large, given // 4, given), right + large
    pairs = (31 - bit_length(given)) // 2 - 1
    right, scaled = right - pairs, given << 2 * pairs
    half = divide_by_power(scaled >> 1, 1)
    y = np.full(given.shape, 1 << 28, np.int64)  # one, with three integer bits
    for _ in range(5):
        cube = times_power(high_mul(high_mul(y, y), y), 6)
        y = times_power(wrapped(high_mul(y, (1 << 28) + (1 << 27)) - high_mul(half, cube)), 3)
    fixed = high_mul(y, 1518500250) << np.maximum(-right, 0)
    small = np.asarray(x) <= 1
    return np.where(small, np.int64(_INT32.max), fixed), np.where(small, 0, -np.maximum(right, 0))


def log_of_at_least_one(x: Integers) -> Integers:
    """log(x) with five integer bits, for x >= 1 with twelve (log_x_for_x_greater_than_or_equal_to_1).

    x is split twice into r * 2^k, with k at and halfway between the integers, the larger k taken; log r is a
    rational function about 2^(-1/4).
    """
    bits = 12
    root, fourth_root = 1518500250, 1805811301  # of one half
    # 11/240 u, u/20, 2/u - u and u/4, with u = 2^(1/4)
    alpha_n, alpha_d, alpha_i, alpha_f = 117049297, 127690142, 1057819769, 638450708
    log_2 = 1488522236
    quarter = divide_by_power(np.asarray(1 << 29, np.int64), 6)
    zeros = 32 - bit_length(x)
    first = times_power(high_mul(times_power(x, zeros - 1), root), 1)
    first_power = saturated(times_power(bits - zeros, 25) + quarter)
    beside = 31 - bit_length(high_mul(x, root))
    second = times_power(x, beside)
    second_power = saturated(times_power(bits - beside, 25) - quarter)
    r, power = np.minimum(first, second), np.maximum(first_power, second_power)
    total = r + fourth_root
    p = (total + 1) >> 1
    q = wrapped(2 * (r - fourth_root))
    square = high_mul(q, q)
    above = wrapped(high_mul(q, r) + high_mul(high_mul(q, square), alpha_n))
    inner = wrapped(alpha_i + q + high_mul(square, alpha_d))
    below = wrapped(high_mul(p, inner) + high_mul(q, alpha_f))
    ratio = high_mul(divide_by_power(above, 6), reciprocal_of_one_plus(below))
    return times_power(wrapped(high_mul(power, log_2) + ratio), 1)
