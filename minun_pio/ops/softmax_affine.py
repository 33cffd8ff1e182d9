# SPDX-License-Identifier: Apache-2.0
"""Softmax of int8 codes in TensorFlow Lite's reference arithmetic, to the bit.

Sources: `tensorflow/lite/kernels/internal/reference/softmax.h`, `quantization_util.cc`
(PreprocessSoftmaxScaling and CalculateInputRadius) and gemmlowp's `fixedpoint.h` (exp_on_negative_values and
one_over_one_plus_x_for_x_in_0_1). A fixed-point number with k integer bits is an int32 in units of
2^(k - 31).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes
from minun_pio.numerics.tflite import (
    Integers,
    quantise_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)

_DIFFERENCE_BITS = 5  # integer bits of the scaled difference to the row's maximum
_SUM_BITS = 12  # integer bits of the sum of exponentials
_INT32 = np.iinfo(np.int32)
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


@dataclass(frozen=True)
class SoftmaxConstants:
    """How differences of codes are scaled; those under `lowest` count as minus infinity."""

    multiplier: int
    left_shift: int
    lowest: int


def softmax_constants(fmt: Affine, beta: float = 1.0) -> SoftmaxConstants:
    unit = 1 << (31 - _DIFFERENCE_BITS)
    factor = quantise_multiplier(min(beta * fmt.scale * unit, 2.0**31 - 1.0))
    largest = ((1 << _DIFFERENCE_BITS) - 1) * unit / 2.0**factor.shift
    return SoftmaxConstants(factor.fixed, factor.shift, -math.floor(largest))


def _saturate(values: Integers) -> Integers:
    return np.clip(values, _INT32.min, _INT32.max)


def _times(a: Integers, b: Integers | int) -> Integers:
    return saturating_rounding_doubling_high_mul(a, b)


def _exp_near_zero(a: Integers) -> Integers:
    """exp(a) for a in [-1/4, 0), no integer bits."""
    x = a + (1 << 28)
    square = _times(x, x)
    cube = _times(square, x)
    fourth = rounding_divide_by_pot(_times(square, square), 2)
    tail = rounding_divide_by_pot(_times(fourth + cube, 715827883) + square, 1)
    return 1895147668 + _times(x + tail, 1895147668)


def exp_of_negative(a: Integers) -> Integers:
    """exp(a) without integer bits, for a <= 0 with five."""
    quarter = np.int64(1 << (31 - _DIFFERENCE_BITS - 2))
    part = (a & (quarter - 1)) - quarter
    result = _exp_near_zero(part << _DIFFERENCE_BITS)
    remainder = part - a
    for exponent, multiplier in _BARREL:
        bit = np.int64(1) << (31 - _DIFFERENCE_BITS + exponent)
        result = np.where(remainder & bit, _times(result, multiplier), result)
    return np.where(a == 0, np.int64(_INT32.max), result)


def reciprocal(total: Integers) -> tuple[Integers, Integers]:
    """1 / total for a sum with twelve integer bits: a number in (1/2, 1] without them, and a power of two."""
    zeros = 31 - (np.frexp(total.astype(np.float64))[1].astype(np.int64) - 1)
    fraction = (total << zeros) - (1 << 31)
    doubled = fraction + _INT32.max
    half = (doubled + 1) >> 1  # both are non-negative: rounded half up
    x = 1515870810 + _times(half, -1010580540)
    for _ in range(3):
        rest = (1 << 29) - _times(half, x)
        x = x + _saturate(_times(x, rest) << 2)
    return _saturate(x << 1), _SUM_BITS - zeros


def softmax_int8(x: Codes, fmt: Affine, out: Affine, beta: float = 1.0) -> Codes:
    """Softmax over the last axis."""
    constants = softmax_constants(fmt, beta)
    codes = np.asarray(x).astype(np.int64)
    difference = codes - codes.max(axis=-1, keepdims=True)
    counted = difference >= constants.lowest
    scaled = _times(np.where(counted, difference, 0) << constants.left_shift, constants.multiplier)
    powers = exp_of_negative(scaled)
    total = np.where(counted, rounding_divide_by_pot(powers, _SUM_BITS), 0).sum(axis=-1, keepdims=True)
    scale, over = reciprocal(total)
    shares = rounding_divide_by_pot(_times(powers, scale), over + 31 - out.width)
    placed: NDArray[np.int64] = np.clip(shares + out.min_code, out.min_code, out.max_code)
    return np.where(counted, placed, out.min_code).astype(out.storage)
