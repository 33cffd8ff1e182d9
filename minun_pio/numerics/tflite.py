# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's reference integer arithmetic, to the bit.

Sources: `tensorflow/lite/kernels/internal/common.h` (MultiplyByQuantizedMultiplier, double rounding),
`quantization_util.cc` (QuantizeMultiplier) and `reference/integer_ops/*.h`. Scales are float32 in a model;
where the original multiplies them as float32 before it goes on in double, so do we.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes

Integers = NDArray[np.int64]

_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True)
class Multiplier:
    """A real factor as `fixed` * 2^(shift - 31), `fixed` in [2^30, 2^31) or zero."""

    fixed: int
    shift: int


def quantise_multiplier(factor: float) -> Multiplier:
    """QuantizeMultiplier: a 31-bit fixed-point fraction, rounded half away from zero, and a power of two."""
    if factor == 0.0:
        return Multiplier(0, 0)
    fraction, shift = math.frexp(factor)
    scaled = fraction * 2.0**31
    fixed = math.floor(abs(scaled) + 0.5) * (1 if scaled > 0 else -1)
    if fixed == 1 << 31:
        fixed //= 2
        shift += 1
    if shift < -31:
        return Multiplier(0, 0)
    if shift > 30:
        return Multiplier((1 << 31) - 1, 30)
    return Multiplier(fixed, shift)


def saturating_rounding_doubling_high_mul(a: Integers, b: Integers | int) -> Integers:
    """gemmlowp's SaturatingRoundingDoublingHighMul: (2ab + 2^31, toward zero) / 2^32, INT32_MIN squared
    saturates.
    """
    left, right = np.broadcast_arrays(np.asarray(a, np.int64), np.asarray(b, np.int64))
    wide = left * right
    nudged = wide + np.where(wide >= 0, 1 << 30, 1 - (1 << 30))
    high = np.where(nudged >= 0, nudged >> 31, -((-nudged) >> 31))  # C's division truncates
    both = (left == _INT32.min) & (right == _INT32.min)
    result: Integers = np.where(both, np.int64(_INT32.max), high)
    return result


def rounding_divide_by_pot(x: Integers, exponent: Integers | int) -> Integers:
    """gemmlowp's RoundingDivideByPOT: x / 2^exponent, rounded half away from zero."""
    shift = np.asarray(exponent, np.int64)
    mask = np.left_shift(np.int64(1), shift) - 1
    remainder = x & mask
    threshold = (mask >> 1) + (x < 0)
    result: Integers = (x >> shift) + (remainder > threshold)
    return result


def multiply_by_quantised_multiplier(x: Integers, fixed: Integers | int, shift: Integers | int) -> Integers:
    """MultiplyByQuantizedMultiplier for int32 accumulators (the version that rounds twice)."""
    shifts = np.asarray(shift, np.int64)
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    shifted = (np.asarray(x, np.int64) << left).astype(np.int32).astype(np.int64)
    return rounding_divide_by_pot(saturating_rounding_doubling_high_mul(shifted, fixed), right)


def multiply_by_quantised_multiplier64(x: Integers, fixed: Integers | int, shift: Integers | int) -> Integers:
    """MultiplyByQuantizedMultiplier for int64 accumulators (int16 activations): a 16-bit multiplier."""
    multiplier = np.asarray(fixed, np.int64)
    reduced = np.where(multiplier < 0x7FFF0000, (multiplier + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - np.asarray(shift, np.int64)
    result: Integers = (np.asarray(x, np.int64) * reduced + np.left_shift(np.int64(1), total - 1)) >> total
    return result


def accumulate(x: Codes, x_format: Affine, w: Codes, w_format: Affine, bias: Codes | None) -> Integers:
    """sum((x - zero_x) * (w - zero_w)) + bias, exact: x (M, K), w (N, K), result (M, N)."""
    left = np.asarray(x).astype(np.float32) - np.float32(x_format.zero_point)
    right = np.asarray(w).astype(np.float32) - np.float32(w_format.zero_point)
    bound = float(np.abs(left).max(initial=0)) * float(np.abs(right).sum(axis=1).max(initial=0))
    if bound > 2.0**24:  # float32 sums would not be exact; float64 ones are, up to 2^53
        left, right = left.astype(np.float64), right.astype(np.float64)
    total = np.rint(left @ right.T).astype(np.int64)
    result: Integers = total if bias is None else total + np.asarray(bias).ravel().astype(np.int64)
    return result


def scale_once(x: Integers, fixed: Integers | int, shift: Integers | int) -> Integers:
    """x * fixed * 2^(shift - 31) with one rounding, half up: how the interpreter's matrix product (not its
    reference function of the same name) scales a fully connected layer that has one scale. |x| < 2^31."""
    total = 31 - np.asarray(shift, np.int64)
    result: Integers = (np.asarray(x, np.int64) * fixed + (np.int64(1) << (total - 1))) >> total
    return result


def rounds_once(x: Affine, w: Affine) -> bool:
    """Whether a product is a fully connected layer of one scale on int8 (see `output_multipliers`)."""
    return x.width == 8 and len(w.scales) == 1 and w.axis is None


def output_multipliers(x: Affine, w: Affine, out: Affine, channels: int) -> list[Multiplier]:
    """The factor scale_x * scale_w / scale_out of each output channel.

    A weight tensor with a single scale and no axis is a fully connected layer's: there the product of the
    two input scales is rounded to float32 first. Convolutions always give their weights an axis.
    """
    if len(w.scales) == 1 and w.axis is None:
        product = float(np.float32(x.scale) * np.float32(w.scales[0]))
        return [quantise_multiplier(product / out.scale)] * channels
    scales = w.scales if len(w.scales) > 1 else w.scales * channels
    return [quantise_multiplier(x.scale * scale / out.scale) for scale in scales]


def requantise(accumulator: Integers, x: Affine, w: Affine, out: Affine) -> Codes:
    """Accumulators (..., channels) to codes of `out`."""
    multipliers = output_multipliers(x, w, out, accumulator.shape[-1])
    fixed = np.array([m.fixed for m in multipliers], np.int64)
    shift = np.array([m.shift for m in multipliers], np.int64)
    scale = multiply_by_quantised_multiplier64 if x.width == 16 else multiply_by_quantised_multiplier
    if rounds_once(x, w):
        scale = scale_once
    return saturate(scale(accumulator, fixed, shift) + out.zero_point, out)


def saturate(values: Integers, out: Affine) -> Codes:
    return np.clip(values, out.min_code, out.max_code).astype(out.storage)


def channels(fmt: Affine, chosen: slice) -> Affine:
    """The format of some of the output channels; keeps its axis, so that convolutions stay convolutions."""
    return fmt if len(fmt.scales) == 1 else replace(fmt, scales=fmt.scales[chosen])


@dataclass(frozen=True)
class AddConstants:
    """What the board needs for an addition: both inputs are scaled to a common unit, the sum to the
    output's.
    """

    left_shift: int
    first: Multiplier
    second: Multiplier
    result: Multiplier


def add_constants(x: Affine, y: Affine, out: Affine) -> AddConstants:
    left_shift = 15 if x.width == 16 else 20
    twice = 2.0 * max(x.scale, y.scale)
    return AddConstants(
        left_shift,
        quantise_multiplier(x.scale / twice),
        quantise_multiplier(y.scale / twice),
        quantise_multiplier(twice / ((1 << left_shift) * out.scale)),
    )


def add(x: Codes, fx: Affine, y: Codes, fy: Affine, out: Affine, subtract: bool = False) -> Codes:
    """ADD and SUB of int8 and int16."""
    constants = add_constants(fx, fy, out)

    def scaled(codes: Codes, fmt: Affine, factor: Multiplier) -> Integers:
        wide = (np.asarray(codes).astype(np.int64) - fmt.zero_point) << constants.left_shift
        return multiply_by_quantised_multiplier(wide, factor.fixed, factor.shift)

    first, second = scaled(x, fx, constants.first), scaled(y, fy, constants.second)
    total = first - second if subtract else first + second
    raw = multiply_by_quantised_multiplier(total, constants.result.fixed, constants.result.shift)
    return saturate(raw + out.zero_point, out)


def mul_constant(x: Affine, y: Affine, out: Affine) -> Multiplier:
    """The factor of MUL, computed in float32 as the original does."""
    return quantise_multiplier(float(np.float32(x.scale) * np.float32(y.scale) / np.float32(out.scale)))


def mul(x: Codes, fx: Affine, y: Codes, fy: Affine, out: Affine) -> Codes:
    """MUL of int8 and int16."""
    factor = mul_constant(fx, fy, out)
    product = (np.asarray(x).astype(np.int64) - fx.zero_point) * (
        np.asarray(y).astype(np.int64) - fy.zero_point
    )
    return saturate(
        multiply_by_quantised_multiplier(product, factor.fixed, factor.shift) + out.zero_point, out
    )


def rescale(x: Codes, fx: Affine, out: Affine) -> Codes:
    """QUANTIZE from affine to affine (Requantize): one multiplier, no left shift."""
    factor = quantise_multiplier(fx.scale / out.scale)
    wide = np.asarray(x).astype(np.int64) - fx.zero_point
    return saturate(multiply_by_quantised_multiplier(wide, factor.fixed, factor.shift) + out.zero_point, out)


def average(total: Integers, count: Any, out: Affine) -> Codes:
    """AVERAGE_POOL_2D: a sum of codes over a count of codes, rounded half away from zero."""
    half = np.asarray(count, np.int64) // 2
    magnitude = (np.abs(total) + half) // np.asarray(count, np.int64)
    return saturate(np.where(total > 0, magnitude, -magnitude), out)


def reduce_mean(rows: Codes, fx: Affine, out: Affine) -> Codes:
    """MEAN over the last axis (QuantizedMeanOrSum): the count is folded into the multiplier."""
    return _reduce(rows, fx, out, rows.shape[-1])


def reduce_sum(rows: Codes, fx: Affine, out: Affine) -> Codes:
    """SUM over the last axis, with MEAN's arithmetic and a count of one."""
    return _reduce(rows, fx, out, 1)


def mean_constant(fx: Affine, out: Affine, count: int) -> Multiplier:
    """The factor scale_x / (scale_out * count) as MEAN computes it."""
    factor = quantise_multiplier(fx.scale / out.scale)
    shift = min(count.bit_length() - 1, 32, 31 + factor.shift)
    return Multiplier((factor.fixed << shift) // count, factor.shift - shift)


def _reduce(rows: Codes, fx: Affine, out: Affine, count: int) -> Codes:
    total = (np.asarray(rows).astype(np.int64) - fx.zero_point).sum(axis=-1)
    factor = mean_constant(fx, out, count)
    return saturate(multiply_by_quantised_multiplier(total, factor.fixed, factor.shift) + out.zero_point, out)
