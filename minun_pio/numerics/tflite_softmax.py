# SPDX-License-Identifier: Apache-2.0
"""SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION on int8 codes, SOFTMAX on int16 ones, over the last axis, to the
bit of TensorFlow Lite's reference kernels.

Sources: `tensorflow/lite/kernels/internal/reference/softmax.h`, `integer_ops/log_softmax.h`,
`integer_ops/l2normalization.h` and `quantization_util.cc` (PreprocessSoftmaxScaling, CalculateInputRadius).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes
from minun_pio.numerics.gemmlowp import (
    Integers,
    bit_length,
    divide_by_power,
    exp_of_negative,
    high_mul,
    inverse_square_root,
    log_of_at_least_one,
    reciprocal,
)
from minun_pio.numerics.tflite import (
    Multiplier,
    multiply_by_quantised_multiplier,
    quantise_multiplier,
    saturate,
)
from minun_pio.numerics.tflite_functions import lookup, lookup_table

_DIFFERENCE_BITS = 5  # integer bits of the scaled difference to the row's maximum
_SUM_BITS = 12  # integer bits of the sum of exponentials
_LOG_BITS = 4  # integer bits of a logarithm's code

SHARES = {8: Affine(8, (1 / 256,), -128), 16: Affine(16, (1 / 32768,))}
"""The output formats of SOFTMAX by width."""

LOG_SHARES = Affine(8, (16 / 256,), 127)
"""The output format of LOG_SOFTMAX."""

UNIT_VECTOR = Affine(8, (1 / 128,))
"""The output format of L2_NORMALIZATION."""


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


def _differences(x: Codes) -> Integers:
    codes = np.asarray(x).astype(np.int64)
    result: Integers = codes - codes.max(axis=-1, keepdims=True)
    return result


def _sum_of_powers(powers: Integers, counted: NDArray[np.bool_]) -> Integers:
    total: Integers = np.where(counted, divide_by_power(powers, _SUM_BITS), 0).sum(axis=-1, keepdims=True)
    return total


def softmax_int8(x: Codes, fmt: Affine, out: Affine, beta: float = 1.0) -> Codes:
    constants = softmax_constants(fmt, beta)
    difference = _differences(x)
    counted = difference >= constants.lowest
    scaled = high_mul(np.where(counted, difference, 0) << constants.left_shift, constants.multiplier)
    powers = exp_of_negative(scaled)
    scale, over = reciprocal(_sum_of_powers(powers, counted), _SUM_BITS)
    shares = divide_by_power(high_mul(powers, scale), over + 31 - out.width)
    return saturate(np.where(counted, shares + out.min_code, out.min_code), out)


def softmax16_constant(fmt: Affine, beta: float) -> Multiplier:
    """The factor from differences of codes to the exponential's table: 65,535 steps for 10."""
    return quantise_multiplier(float(np.float32(beta) * np.float32(fmt.scale)) / (10.0 / 65535.0))


@functools.cache
def softmax16_tables() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """exp on [-10, 0] and 1 / (1 + x) on [0, 1], 513 entries each in units of 2^-15."""
    unit = Affine(16, (2.0 / 65535.0,))
    powers = lookup_table(np.exp, Affine(16, (10.0 / 65535.0,), 32767), unit, single=False)
    reciprocals = lookup_table(
        lambda x: 1.0 / (1.0 + x), Affine(16, (1.0 / 65535.0,), -32768), unit, single=False
    )
    return powers, reciprocals


def softmax_int16(x: Codes, fmt: Affine, beta: float = 1.0) -> Codes:
    factor = softmax16_constant(fmt, beta)
    power_table, reciprocal_table = softmax16_tables()
    scaled = multiply_by_quantised_multiplier(_differences(x), factor.fixed, factor.shift) + 32767
    powers = lookup(np.clip(scaled, -32768, 32767), power_table).astype(np.int64)
    total = powers.sum(axis=-1, keepdims=True)
    bits = bit_length(total)
    fraction = ((total << (31 - bits)) + (1 << 13)) >> 14
    place = np.clip(fraction - (1 << 15) - (1 << 16), -32768, 32767)
    shares = (powers * lookup(place, reciprocal_table) + (np.int64(1) << (bits - 2))) >> (bits - 1)
    result: Codes = np.clip(shares, 0, 32767).astype(np.int16)
    return result


@dataclass(frozen=True)
class LogSoftmaxConstants:
    """As `SoftmaxConstants`, and the factor from a logarithm back to a difference of codes."""

    factor: Multiplier
    lowest: int
    back: Multiplier


def log_softmax_constants(fmt: Affine) -> LogSoftmaxConstants:
    found = softmax_constants(fmt)
    back = quantise_multiplier((1 << (31 - found.left_shift)) / found.multiplier)
    return LogSoftmaxConstants(Multiplier(found.multiplier, found.left_shift), found.lowest, back)


def log_softmax_int8(x: Codes, fmt: Affine) -> Codes:
    constants = log_softmax_constants(fmt)
    factor, back = constants.factor, constants.back
    difference = _differences(x)
    counted = difference >= constants.lowest
    scaled = multiply_by_quantised_multiplier(np.where(counted, difference, 0), factor.fixed, factor.shift)
    log = log_of_at_least_one(_sum_of_powers(exp_of_negative(scaled), counted))
    reach = multiply_by_quantised_multiplier(log - (1 << 31), back.fixed, back.shift)
    shown = difference > np.maximum(constants.lowest - 1, reach)
    codes = divide_by_power(scaled - log, 31 - _DIFFERENCE_BITS - _LOG_BITS) + LOG_SHARES.zero_point
    return saturate(np.where(shown, codes, LOG_SHARES.min_code), LOG_SHARES)


def l2_norm_int8(x: Codes, fmt: Affine) -> Codes:
    steps = np.asarray(x).astype(np.int64) - fmt.zero_point
    fixed, shift = inverse_square_root((steps * steps).sum(axis=-1, keepdims=True))
    return saturate(multiply_by_quantised_multiplier(steps, fixed, shift + 7), UNIT_VECTOR)
