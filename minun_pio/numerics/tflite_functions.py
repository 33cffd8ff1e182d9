# SPDX-License-Identifier: Apache-2.0
"""Functions of one number on int8 and int16 codes, to the bit of TensorFlow Lite's reference kernels.

Sources: `tensorflow/lite/kernels/elementwise.cc`, `activations.cc`, `internal/common.h` (LUTPopulate,
LUTLookup), `internal/reference/hard_swish.h`, `leaky_relu.h` and `integer_ops/logistic.h`, `tanh.h`.
Functions of int8 that are not here are correctly rounded tables there too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Values
from minun_pio.numerics.gemmlowp import Integers, divide_by_power, inverse_square_root
from minun_pio.numerics.tflite import (
    Multiplier,
    multiply_by_quantised_multiplier,
    quantise_multiplier,
    saturate,
)

Singles = NDArray[np.float32]
Function = Callable[[Values], Values]


def _steps(codes: Codes, fmt: Affine) -> Integers:
    result: Integers = np.asarray(codes).astype(np.int64) - fmt.zero_point
    return result


def _scaled(x: Integers, factor: Multiplier) -> Integers:
    return multiply_by_quantised_multiplier(x, factor.fixed, factor.shift)


def leaky_constants(fin: Affine, fout: Affine, alpha: float) -> tuple[Multiplier, Multiplier]:
    """The factors of LEAKY_RELU from zero up and below, computed in float32 as the original does."""
    scale, out = np.float32(fin.scale), np.float32(fout.scale)
    below = float(scale * np.float32(alpha) / out)
    return quantise_multiplier(float(scale / out)), quantise_multiplier(below)


def leaky_relu(codes: Codes, fin: Affine, fout: Affine, alpha: float) -> Codes:
    """LEAKY_RELU of int8 and int16."""
    up, down = leaky_constants(fin, fout, alpha)
    x = _steps(codes, fin)
    return saturate(np.where(x >= 0, _scaled(x, up), _scaled(x, down)) + fout.zero_point, fout)


def hard_swish(codes: Codes, fin: Affine, fout: Affine) -> Codes:
    """HARD_SWISH of int8: x * relu6(x + 3) / 6 in int16 fixed-point."""
    fine = np.float32(1 / 128) * np.float32(fin.scale)  # the scale of x * 128
    to_out = quantise_multiplier(float(fine / np.float32(fout.scale)))
    to_gate = quantise_multiplier(float(fine / np.float32(3 / 32768)))
    x = _steps(codes, fin) << 7
    gate = x
    if to_gate.shift > 0:
        gate = _saturated16(gate << (to_gate.shift - 1))
    gate = _high_mul16(gate, _halfword(to_gate))
    if to_gate.shift > 0:
        gate = _saturated16(gate << 1)
    elif to_gate.shift < 0:
        gate = _divided16(gate, -to_gate.shift)
    gate = (gate + 32768) >> 1
    product = gate * _high_mul16(x, _halfword(to_out))
    truncated = np.where(product >= 0, product >> 15, -((-product) >> 15))
    return saturate(_divided16(truncated, -to_out.shift) + fout.zero_point, fout)


def _halfword(factor: Multiplier) -> int:
    return min((factor.fixed + (1 << 15)) >> 16, 32767)


def _divided16(x: Integers, exponent: int) -> Integers:
    """RoundingDivideByPOT of int16: by 16 bits and more, its mask of int16 leaves the sign."""
    return divide_by_power(x, exponent) if exponent < 16 else np.where(x >= 0, 1, -1)


def _saturated16(x: Integers) -> Integers:
    return np.clip(x, -32768, 32767)


def _high_mul16(a: Integers, b: int) -> Integers:
    """SaturatingRoundingDoublingHighMul of int16, b positive."""
    wide = a * b
    nudged = wide + np.where(wide >= 0, 1 << 14, 1 - (1 << 14))
    result: Integers = np.where(nudged >= 0, nudged >> 15, -((-nudged) >> 15))
    return result


_ROOT_SHIFT = 20


def reciprocal_sqrt(codes: Codes, fin: Affine, fout: Affine) -> Codes:
    """RSQRT of int8; at zero the highest code. The interpreter stops at a negative number; here it counts as
    zero."""
    scale = float(np.sqrt(np.float32(fin.scale)) * np.float32(fout.scale))
    factor = quantise_multiplier(1.0 / scale)
    x = np.maximum(_steps(codes, fin), 0)
    fixed, shift = inverse_square_root(x)
    root = multiply_by_quantised_multiplier(np.ones_like(x), fixed, shift + _ROOT_SHIFT)
    y = multiply_by_quantised_multiplier(root, factor.fixed, factor.shift - _ROOT_SHIFT)
    return saturate(np.where(x == 0, fout.max_code, y + fout.zero_point), fout)


def sqrt(codes: Codes, fin: Affine, fout: Affine) -> Codes:
    """SQRT of int8 and int16: float32, the quotient cut off. Negative numbers count as zero."""
    x = np.maximum(_steps(codes, fin), 0).astype(np.float32) * np.float32(fin.scale)
    return saturate(np.trunc(np.sqrt(x) / np.float32(fout.scale)).astype(np.int64) + fout.zero_point, fout)


def _single(function: Function) -> Callable[[Singles], Singles]:
    """A function of float32 numbers, its result rounded to float32."""

    def single(x: Singles) -> Singles:
        result: Singles = function(x.astype(np.float64)).astype(np.float32)
        return result

    return single


_HALF, _ROOT_HALF = np.float32(0.5), np.float32(math.sqrt(0.5))
_erfc = _single(np.vectorize(math.erfc, otypes=[np.float64]))
_exp, _expm1, _tanh = _single(np.exp), _single(np.expm1), _single(np.tanh)


def _gelu(x: Singles) -> Singles:
    result: Singles = x * _HALF * _erfc(-x * _ROOT_HALF)
    return result


def _gelu_tanh(x: Singles) -> Singles:
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    result: Singles = _HALF * x * (np.float32(1) + _tanh(inner))
    return result


SINGLE: Mapping[str, Callable[[Singles], Singles]] = {
    "sigmoid": lambda x: np.float32(1) / (np.float32(1) + _exp(-x)),
    "tanh": _tanh,
    "exp": _exp,
    "log": _single(np.log),
    "elu": lambda x: np.where(x < 0, _expm1(x), x),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "reciprocal_sqrt": lambda x: np.float32(1) / np.sqrt(x),
}
"""Functions whose tables TensorFlow Lite computes in float32, with its steps. Its C library's erfc and tanh
are not correctly rounded, as these are: of 513 entries in int16, one may differ by one."""


def single_table(function: str, codes: Codes, fin: Affine, fout: Affine) -> Codes:
    """LUTPopulate for int8: the function at `codes` in float32; of what is not positive the logarithm is the
    lowest code."""
    x = _steps(codes, fin).astype(np.float32) * np.float32(fin.scale)
    with np.errstate(all="ignore"):
        y = SINGLE[function](x) * (np.float32(1) / np.float32(fout.scale))
        y = np.nan_to_num(y, posinf=1e9, neginf=-1e9).clip(-1e9, 1e9)
    rounded = np.copysign(np.floor(np.abs(y) + np.float32(0.5)), y).astype(np.int64)
    if function == "log":
        rounded = np.where(x > 0, rounded, fout.min_code - fout.zero_point)
    return saturate(rounded + fout.zero_point, fout)


def narrow(function: str, codes: Codes, fin: Affine, fout: Affine, **attrs: float) -> Codes | None:
    """A function of int8 at `codes`; None where it is correctly rounded."""
    if function in _INTEGER:
        return _INTEGER[function](codes, fin, fout, **attrs)
    single = function in SINGLE and attrs.get("alpha", 1.0) == 1.0  # ELU has no other
    return single_table(function, codes, fin, fout) if single else None


_INTEGER: Mapping[str, Callable[..., Codes]] = {
    "leaky_relu": leaky_relu,
    "hard_swish": hard_swish,
    "reciprocal_sqrt": reciprocal_sqrt,
    "sqrt": sqrt,
}


# The interpreter's table of 65536 * sigmoid(i / 24): these entries are one above the rounded value, which
# lowers the error of lines between them. Told apart by the interpreter's outputs.
_RAISED = (
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44),
    *(45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
)


@functools.cache
def sigmoid_table() -> tuple[int, ...]:
    """256 entries in units of 2^-16, for x from 0 in steps of 1/24."""
    values = 65536.0 / (1.0 + np.exp(-np.arange(256) / 24.0))
    table = np.floor(values + 0.5).astype(np.int64)
    table[list(_RAISED)] += 1
    return tuple(table.tolist())


@dataclass(frozen=True)
class Step24:
    """x in units of 1/24 with nine bits more: code * multiplier / 2^shift, rounded."""

    multiplier: int
    shift: int


def step24(fin: Affine, tanh: bool) -> Step24:
    """A scale next to 2^-12, for tanh to 2^-11 too, counts as that power of two (CheckedLog2)."""
    log = float(np.log(np.float32(fin.scale)) * np.float32(1 / math.log(2.0)))
    power = round(log) + 12
    if abs(log - round(log)) < 1e-3 and power in ((0, 1) if tanh else (0,)):
        return Step24(3 << power, 0)
    multiplier, shift = fin.scale * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2.0, shift + 1
    return Step24(int(multiplier), shift)


UNIT16 = Affine(16, (2.0**-15,))
"""The format that sigmoid and tanh of int16 have."""


def has_sigmoid_table(function: str, fin: Affine, fout: Affine) -> bool:
    """Whether int16 `function` is a line between the sigmoid's entries. Beyond a scale of 5.3 TensorFlow
    Lite's int32 products overflow."""
    return function in ("sigmoid", "tanh") and fin.zero_point == 0 and fin.scale <= 5.3 and fout == UNIT16


def sigmoid16(codes: Codes, fin: Affine, tanh: bool) -> Codes:
    """LOGISTIC and TANH of int16; tanh(x) = 2 sigmoid(2x) - 1."""
    step, table = step24(fin, tanh), np.asarray(sigmoid_table(), np.int64)
    half = 1 << (step.shift - 1) if step.shift > 0 else 0
    x = (np.asarray(codes).astype(np.int64) * step.multiplier + half) >> step.shift
    bits = 8 if tanh else 9
    place, part = np.abs(x) >> bits, np.abs(x) & ((1 << bits) - 1)
    left, right = table[np.minimum(place, 254)], table[np.minimum(place, 254) + 1]
    end = np.int64((0xFFFF if tanh else 0x7FFF) << (8 if tanh else 10))
    line = np.where(place >= 255, end, (left << bits) + part * (right - left))
    if tanh:
        y = np.where(x >= 0, line - (1 << 23) + (1 << 7), (1 << 23) - line + (1 << 7) - 1) >> 8
    else:
        y = np.where(x >= 0, line + (1 << 9), (1 << 25) - line + (1 << 9) - 1) >> 10
    result: Codes = y.astype(np.int16)
    return result


def lookup_table(
    function: Callable[[NDArray[Any]], NDArray[Any]], fin: Affine, fout: Affine, *, single: bool = True
) -> tuple[int, ...]:
    """LUTPopulate: 513 codes of `fout` at every 128th code of `fin`, moved so that the line between two of
    them is right in the middle. `single`: in float32, as what `function` is given."""
    real = np.float32 if single else np.float64
    lowest, highest = (real(fin.scale) * real(code - fin.zero_point) for code in (fin.min_code, fin.max_code))
    least, most = (real(fout.scale) * real(code - fout.zero_point) for code in (fout.min_code, fout.max_code))
    step = real((highest - lowest) / real(512))
    scale = real(real(65536) / (most - least))

    def codes(x: Values) -> Values:
        y = np.asarray(function(x))
        scaled: Values = np.nan_to_num(y, posinf=1e30, neginf=-1e30).astype(real) * scale
        return scaled

    def rounded(y: Values) -> Values:
        whole: Values = np.copysign(np.floor(np.abs(y) + real(0.5)), y).astype(real)
        return whole

    starts = (lowest + np.arange(512).astype(real) * step).astype(real)
    ends = (lowest + np.arange(1, 513).astype(real) * step).astype(real)
    left = rounded(codes(starts))
    middle = rounded(codes((starts + real(step / real(2))).astype(real)))
    line = rounded(((codes(ends) + left) / real(2)).astype(real))
    table = np.append(
        left - rounded(((line - middle) / real(2)).astype(real)), rounded(codes(np.array([highest])))
    )
    return tuple(np.clip(table, fout.min_code, fout.max_code).astype(np.int64).tolist())


def lookup(codes: Codes, table: tuple[int, ...]) -> Codes:
    """LUTLookup: the line between two of the 513 entries."""
    entries = np.asarray(table, np.int64)
    x = np.asarray(codes).astype(np.int64)
    place, part = 256 + (x >> 7), x & 127
    rise = entries[place + 1] - entries[place]
    result: Codes = (entries[place] + ((rise * part + 64) >> 7)).astype(np.int16)
    return result
