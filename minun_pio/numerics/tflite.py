# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's reference integer arithmetic, to the bit.

Sources: `tensorflow/lite/kernels/internal/common.h` (MultiplyByQuantizedMultiplier, double rounding),
`quantization_util.cc` (QuantizeMultiplier) and `reference/integer_ops/*.h`. Scales are float32 in a model;
where the original multiplies them as float32 before it goes on in double, so do we.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes
from minun_pio.numerics.gemmlowp import Integers, bit_length, divide_by_power, high_mul, reciprocal, wrapped


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


def multiply_by_quantised_multiplier(x: Integers, fixed: Integers | int, shift: Integers | int) -> Integers:
    """MultiplyByQuantizedMultiplier for int32 accumulators (the version that rounds twice)."""
    shifts = np.asarray(shift, np.int64)
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    shifted = wrapped(np.asarray(x, np.int64) << left)
    return divide_by_power(high_mul(shifted, fixed), right)


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


class Product(Enum):
    """Which kernel a sum of products belongs to: they scale their accumulators in different ways."""

    DENSE = "dense"
    """FULLY_CONNECTED: in double, rounded half away from zero."""
    CONV = "conv"
    """Convolutions: a multiplier of 31 bits and two roundings, in int16 one of 16 bits."""
    CONV32 = "conv32"
    """Convolutions of int16 with int32 biases: the sums are int32 too, and scaled as those of int8."""
    MATMUL = "matmul"
    """BATCH_MATMUL: as convolutions, but the product of the inputs' scales is rounded to float32."""


def output_factors(x: Affine, w: Affine, out: Affine, product: Product) -> list[float]:
    """The factor scale_x * scale_w / scale_out of each output channel, or the one of all."""
    if product is Product.MATMUL:
        return [float(np.float32(x.scale) * np.float32(w.scale)) / out.scale]
    return [x.scale * scale / out.scale for scale in w.scales]


def requantise(accumulator: Integers, x: Affine, w: Affine, out: Affine, product: Product) -> Codes:
    """Accumulators (..., channels) to codes of `out`."""
    factors = output_factors(x, w, out, product)
    if product is Product.DENSE:
        return saturate(round_in_double(accumulator, np.asarray(factors)) + out.zero_point, out)
    multipliers = [quantise_multiplier(factor) for factor in factors]
    fixed = np.array([m.fixed for m in multipliers], np.int64)
    shift = np.array([m.shift for m in multipliers], np.int64)
    wide = x.width == 16 and product is not Product.CONV32
    scale = multiply_by_quantised_multiplier64 if wide else multiply_by_quantised_multiplier
    return saturate(scale(accumulator, fixed, shift) + out.zero_point, out)


def round_in_double(x: Integers, factor: NDArray[np.float64]) -> Integers:
    """x * factor in double, half away from zero, cut at 2^30; |x| < 2^42."""
    scaled = np.asarray(x).astype(np.float64) * factor
    magnitude = np.abs(scaled)
    whole = np.floor(magnitude)
    rounded = np.minimum(whole + (magnitude - whole >= 0.5), 2.0**30)
    result: Integers = np.copysign(rounded, scaled).astype(np.int64)
    return result


@dataclass(frozen=True)
class DoubleFactor:
    """A double as the board takes it: (high * 2^21 + low) / 2^(53 + drop), `high` of 32 bits, `low` of 21."""

    high: int
    low: int
    drop: int


def double_factor(factor: float) -> DoubleFactor:
    """Raises MinunError beyond 2^20, where nothing but saturation is left."""
    fraction, exponent = math.frexp(factor)
    if exponent > 20:
        raise MinunError(
            "format.affine", f"a factor of {factor:g} from sums to codes found; quantise the model again"
        )
    whole = int(fraction * 2.0**53)
    return DoubleFactor(whole >> 21, whole & 0x1FFFFF, min(-exponent, 127))


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


def add_constants(x: Affine, y: Affine, out: Affine, general: bool = False) -> AddConstants:
    """int16 whose scales are powers of two, the larger input's the output's: the other input is shifted,
    unless `general` (SUB without the option pot_scale_int16)."""
    if x.width == 16 and not general:
        logs = [math.frexp(fmt.scale) for fmt in (x, y, out)]
        (_, first), (_, second), (_, result) = logs
        if all(fraction == 0.5 for fraction, _ in logs) and max(first, second) == result:
            one = 1 << 30
            shifted = (Multiplier(one, first - result), Multiplier(one, second - result))
            return AddConstants(1, *shifted, Multiplier(one, 1))
    left_shift = 15 if x.width == 16 else 20
    twice = 2.0 * max(x.scale, y.scale)
    return AddConstants(
        left_shift,
        quantise_multiplier(x.scale / twice),
        quantise_multiplier(y.scale / twice),
        quantise_multiplier(twice / ((1 << left_shift) * out.scale)),
    )


def add(
    x: Codes, fx: Affine, y: Codes, fy: Affine, out: Affine, *, subtract: bool = False, general: bool = False
) -> Codes:
    """ADD and SUB of int8 and int16."""
    constants = add_constants(fx, fy, out, general)

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


def div_constant(x: Affine, y: Affine, out: Affine) -> Multiplier:
    """The factor of DIV, computed in float32 as the original does."""
    return quantise_multiplier(float(np.float32(x.scale) / (np.float32(y.scale) * np.float32(out.scale))))


def div(x: Codes, fx: Affine, y: Codes, fy: Affine, out: Affine) -> Codes:
    """DIV of int8 and int16. Quotients that the original shifts by 32 bits or more, which C++ leaves
    undefined, round to zero; by zero: the outermost code of x's sign, and 0 / 0 is 0."""
    factor = div_constant(fx, fy, out)
    above, below = np.broadcast_arrays(
        np.asarray(x).astype(np.int64) - fx.zero_point, np.asarray(y).astype(np.int64) - fy.zero_point
    )
    above, below = np.where(below < 0, -above, above), np.abs(below)
    inverse, places = reciprocal(np.maximum(below, 1), 31)
    room = 31 - bit_length(np.where(above < 0, ~above, above))  # CountLeadingSignBits
    quotient = high_mul(high_mul(above << room, inverse), factor.fixed)
    scaled = divide_by_power(quotient, np.minimum(places + room - factor.shift, 32))
    scaled = np.where(below == 0, np.sign(above) << 20, np.where(above == 0, 0, scaled))
    return saturate(scaled + out.zero_point, out)


@dataclass(frozen=True)
class DifferenceConstants:
    """Of SQUARED_DIFFERENCE: both inputs are scaled to a common unit, the square to the output's."""

    first: Multiplier
    second: Multiplier
    result: Multiplier


DIFFERENCE_SHIFT = 7


def difference_constants(x: Affine, y: Affine, out: Affine) -> DifferenceConstants:
    """Raises MinunError for other widths than 8 bits, which TensorFlow Lite does not have."""
    if not x.width == y.width == out.width == 8:
        raise MinunError(
            "operator.family", f"squared_difference of {x.name} and {y.name} found, int8 is defined"
        )
    twice = 2.0 * max(x.scale, y.scale)
    square = twice * twice / ((1 << 2 * DIFFERENCE_SHIFT) * out.scale)
    factors = (quantise_multiplier(factor) for factor in (x.scale / twice, y.scale / twice, square))
    return DifferenceConstants(*factors)


def squared_difference(x: Codes, fx: Affine, y: Codes, fy: Affine, out: Affine) -> Codes:
    """SQUARED_DIFFERENCE of int8."""
    constants = difference_constants(fx, fy, out)

    def scaled(codes: Codes, fmt: Affine, factor: Multiplier) -> Integers:
        wide = (np.asarray(codes).astype(np.int64) - fmt.zero_point) << DIFFERENCE_SHIFT
        return multiply_by_quantised_multiplier(wide, factor.fixed, factor.shift)

    gap = scaled(x, fx, constants.first) - scaled(y, fy, constants.second)
    raw = multiply_by_quantised_multiplier(gap * gap, constants.result.fixed, constants.result.shift)
    return saturate(raw + out.zero_point, out)


def prelu_constants(x: Affine, slope: Affine, out: Affine) -> tuple[Multiplier, Multiplier]:
    """The factors of PRELU from zero up and below, computed in float32 as the original does."""
    ratio = np.float32(x.scale) / np.float32(out.scale)
    below = np.float32(x.scale) * np.float32(slope.scale) / np.float32(out.scale)
    return quantise_multiplier(float(ratio)), quantise_multiplier(float(below))


def prelu(x: Codes, fx: Affine, slope: Codes, fs: Affine, out: Affine) -> Codes:
    """PRELU of int8: a slope of its own for each value below zero."""
    up, down = prelu_constants(fx, fs, out)
    wide = np.asarray(x).astype(np.int64) - fx.zero_point
    steep = wide * (np.asarray(slope).astype(np.int64) - fs.zero_point)
    above = multiply_by_quantised_multiplier(wide, up.fixed, up.shift)
    below = multiply_by_quantised_multiplier(steep, down.fixed, down.shift)
    return saturate(np.where(wide >= 0, above, below) + out.zero_point, out)


def rescale_constant(fx: Affine, out: Affine, single: bool = False) -> Multiplier:
    """The factor of QUANTIZE; with `single` that of RELU, whose quotient of scales is a float32."""
    ratio = float(np.float32(fx.scale) / np.float32(out.scale)) if single else fx.scale / out.scale
    return quantise_multiplier(ratio)


def rescale(x: Codes, fx: Affine, out: Affine, single: bool = False) -> Codes:
    """QUANTIZE from affine to affine (Requantize): one multiplier, no left shift. `single`: as RELU does."""
    factor = rescale_constant(fx, out, single)
    wide = np.asarray(x).astype(np.int64) - fx.zero_point
    return saturate(multiply_by_quantised_multiplier(wide, factor.fixed, factor.shift) + out.zero_point, out)


def average(total: Integers, count: Any, out: Affine) -> Codes:
    """AVERAGE_POOL_2D: a sum of codes over a count of codes, rounded half away from zero."""
    half = np.asarray(count, np.int64) // 2
    magnitude = (np.abs(total) + half) // np.asarray(count, np.int64)
    return saturate(np.where(total > 0, magnitude, -magnitude), out)


def reduce_mean(rows: Codes, fx: Affine, out: Affine) -> Codes:
    """MEAN over the last axis (QuantizedMeanOrSum): the count is folded into the multiplier."""
    total = (np.asarray(rows).astype(np.int64) - fx.zero_point).sum(axis=-1)
    factor = mean_constant(fx, out, rows.shape[-1])
    return saturate(multiply_by_quantised_multiplier(total, factor.fixed, factor.shift) + out.zero_point, out)


def sum_constants(fx: Affine, out: Affine, count: int) -> tuple[float, float]:
    """SUM's factor and what it adds, both float32."""
    scale = np.float32(fx.scale) / np.float32(out.scale)
    return float(scale), float(np.float32(-fx.zero_point) * scale * np.float32(count))


def reduce_sum(rows: Codes, fx: Affine, out: Affine) -> Codes:
    """SUM over the last axis, in float32, as the optimised kernel: the reference one leaves its outputs
    unwritten."""
    scale, shift = (np.float32(value) for value in sum_constants(fx, out, rows.shape[-1]))
    y = (np.asarray(rows).astype(np.int64).sum(axis=-1).astype(np.float32) * scale + shift).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(y) + 0.5), y).clip(-(2.0**20), 2.0**20)
    return saturate(rounded.astype(np.int64) + out.zero_point, out)


def mean_constant(fx: Affine, out: Affine, count: int) -> Multiplier:
    """The factor scale_x / (scale_out * count) as MEAN computes it."""
    factor = quantise_multiplier(fx.scale / out.scale)
    shift = min(count.bit_length() - 1, 32, 31 + factor.shift)
    return Multiplier((factor.fixed << shift) // count, factor.shift - shift)
