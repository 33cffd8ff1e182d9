# SPDX-License-Identifier: Apache-2.0
"""Elementwise arithmetic, reductions and conversions on codes: the exact result, one rounding.

In the float family the arithmetic is float32's, in the affine family TensorFlow Lite's. Arguments broadcast
as numpy's do; NaR (NaN) in gives NaR (NaN) out.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.numerics import odd_rounding as odd
from minun_pio.numerics import tflite
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Codes, Format, Values
from minun_pio.numerics.operand import Columns, ValueRows, row_norms
from minun_pio.numerics.posit import NO_UNIT, Posit, lowest_bit_exponents
from minun_pio.numerics.product import product
from minun_pio.numerics.rounding import ERROR_FACTOR, round_sums

Singles = NDArray[np.float32]


def add(x: Codes, fx: Format, y: Codes, fy: Format, out: Format) -> Codes:
    if isinstance(fx, Affine):
        return tflite.add(x, fx, y, _affine(fy), _affine(out))
    return _binary(x, fx, y, fy, out, np.add)


def sub(x: Codes, fx: Format, y: Codes, fy: Format, out: Format, *, general: bool = False) -> Codes:
    """`general` matters to int16 (`tflite.add_constants`)."""
    if isinstance(fx, Affine):
        return tflite.add(x, fx, y, _affine(fy), _affine(out), subtract=True, general=general)
    return _binary(x, fx, y, fy, out, np.subtract)


def mul(x: Codes, fx: Format, y: Codes, fy: Format, out: Format) -> Codes:
    if isinstance(fx, Affine):
        return tflite.mul(x, fx, y, _affine(fy), _affine(out))
    return _binary(x, fx, y, fy, out, np.multiply)


def div(x: Codes, fx: Format, y: Codes, fy: Format, out: Format) -> Codes:
    """x / y. By zero: NaR for posits; for fixed-point the outermost code of x's sign, and 0 / 0 is 0."""
    if isinstance(fx, Affine):
        return tflite.div(x, fx, y, _affine(fy), _affine(out))
    codes = _binary(x, fx, y, fy, out, np.divide)
    if isinstance(out, Fixed):
        sign = np.sign(np.asarray(x))
        limit = np.where(sign < 0, out.min_code, np.where(sign > 0, out.max_code, 0)).astype(out.storage)
        codes = np.where(np.asarray(y) == 0, limit, codes)
    return codes


def prelu(x: Codes, fx: Format, slope: Codes, fs: Format, out: Format) -> Codes:
    """x from zero up, x * slope below, rounded once."""
    if isinstance(fx, Affine):
        return tflite.prelu(x, fx, slope, _affine(fs), _affine(out))
    steep = _binary(x, fx, slope, fs, out, np.multiply)
    plain = np.broadcast_to(convert(x, fx, out), steep.shape)
    with np.errstate(invalid="ignore"):
        return np.where(np.asarray(fx.decode(x)) < 0, steep, plain)


def squared_difference(x: Codes, fx: Format, y: Codes, fy: Format, out: Format) -> Codes:
    """(x - y)^2, rounded once (float family: twice, difference then square)."""
    if isinstance(fx, Affine):
        return tflite.squared_difference(x, fx, y, _affine(fy), _affine(out))
    left, right = np.broadcast_arrays(x, y)
    return _squared_gaps(left[..., None], fx, right[..., None], fy, out)


def multiply_add(x: Codes, fx: Format, y: Codes, fy: Format, z: Codes, fz: Format, out: Format) -> Codes:
    """x * y + z with one rounding (float family: two, product then sum)."""
    if isinstance(fx, Affine):
        raise MinunError(
            "operator.family", "scale_shift has no affine arithmetic; fold it or convert its inputs"
        )
    if fx.family == "float":
        with np.errstate(all="ignore"):
            return out.encode(_single(x, fx) * _single(y, fy) + _single(z, fz))
    high, low = odd.two_product(fx.decode(x), fy.decode(y))
    total, rest = odd.two_sum(high, fz.decode(z))
    rest, last = odd.two_sum(rest, low)
    total, rest = odd.two_sum(total, rest)
    return out.encode(odd.to_odd(total, rest + last))


def maximum(x: Codes, fx: Format, y: Codes, fy: Format, out: Format) -> Codes:
    return _binary(x, fx, y, fy, out, np.maximum)


def minimum(x: Codes, fx: Format, y: Codes, fy: Format, out: Format) -> Codes:
    return _binary(x, fx, y, fy, out, np.minimum)


def convert(codes: Codes, source: Format, target: Format, *, single: bool = False) -> Codes:
    """The same values in another format or family, rounded once.

    Between affine formats: TensorFlow Lite's requantisation, QUANTIZE's or (`single`) RELU's. float to
    affine: float32 division by the scale, half away from zero (AffineQuantize). posit or fixed to affine: the
    exact quotient, half away from zero.
    """
    if source == target:
        return np.asarray(codes)
    if isinstance(source, Affine) and isinstance(target, Affine):
        return tflite.rescale(codes, source, target, single)
    if isinstance(target, Affine):
        if source.family == "float":
            with np.errstate(all="ignore"):
                scaled = (_single(codes, source) / np.float32(target.scale)).astype(np.float64)
        else:
            scaled = odd.divide_odd(source.decode(codes), np.float64(target.scale))
        return nearest_away(scaled, target)
    return target.encode(source.decode(codes))


def clamp_codes(fmt: Format, low: float | None, high: float | None) -> tuple[Any, Any]:
    """The codes of the bounds, in the type of a code; None is the format's own bound (never NaR)."""
    if fmt.family == "float":
        bounds = (-math.inf if low is None else low, math.inf if high is None else high)
        if fmt.storage.kind != "f":
            raise MinunError("operator.clip", f"clipping in {fmt.name} codes found; clip in float32")
        return np.float32(bounds[0]), np.float32(bounds[1])
    assert isinstance(fmt, Posit | Fixed | Affine)
    lowest, highest = fmt.min_code, fmt.max_code
    if low is not None:
        lowest = max(lowest, int(_bound(fmt, low)))
    if high is not None:
        highest = min(highest, int(_bound(fmt, high)))
    return lowest, highest


def clip_codes(codes: Codes, fmt: Format, low: float | None, high: float | None) -> Codes:
    """Codes between those of the bounds. NaR and NaN stay."""
    array = np.asarray(codes)
    if fmt.family == "float" and fmt.storage.kind != "f":
        values = fmt.decode(array)
        return fmt.encode(np.clip(values, low, high)) if (low, high) != (None, None) else array
    lowest, highest = clamp_codes(fmt, low, high)
    clipped = np.clip(array, lowest, highest).astype(fmt.storage)
    if isinstance(fmt, Posit):
        clipped = np.where(array == fmt.nar, array, clipped)
    result: Codes = clipped
    return result


def reduce_sum(x: Codes, fx: Format, axes: Sequence[int], out: Format, keepdims: bool = False) -> Codes:
    """The exact sum over `axes`, one rounding. float: float32, in raster order. affine: TensorFlow Lite's
    SUM.
    """
    rows, shape = _rows(x, axes, keepdims)
    if isinstance(fx, Affine):
        return tflite.reduce_sum(rows, fx, _affine(out)).reshape(shape)
    if fx.family == "float":
        return out.encode(_sequential_sum(_single(rows, fx))).reshape(shape)
    return sum_of_values(fx.decode(rows), out).reshape(shape)


def reduce_mean(x: Codes, fx: Format, axes: Sequence[int], out: Format, keepdims: bool = False) -> Codes:
    """The exact sum over `axes` divided by the count, one rounding. float: float32, the sum divided by the
    count. affine: TensorFlow Lite's MEAN."""
    rows, shape = _rows(x, axes, keepdims)
    return mean_rows(rows, fx, out).reshape(shape)


def mean_rows(rows: Codes, fx: Format, out: Format, count: NDArray[np.int64] | None = None) -> Codes:
    """The mean of each row of `rows` (..., K); `count` (...) divides instead of K (pools that leave out
    pads).
    """
    depth = rows.shape[-1]
    counts = (
        np.full(rows.shape[:-1], depth, np.int64)
        if count is None
        else np.broadcast_to(count, rows.shape[:-1])
    )
    if isinstance(fx, Affine):
        return tflite.reduce_mean(rows, fx, _affine(out))
    if fx.family == "float":
        with np.errstate(all="ignore"):
            return out.encode(_sequential_sum(_single(rows, fx)) / counts.astype(np.float32))
    values = fx.decode(rows)
    total = values.sum(axis=-1)
    codes = out.encode(odd.divide_odd(total, counts.astype(np.float64)))
    for place in zip(*np.nonzero(~_sum_is_exact(values)), strict=True):
        terms = values[place]
        if np.isnan(terms).any():
            continue
        wholes, unit = integers(terms)
        codes[place] = encode_ratio(out, sum(wholes), int(counts[place]), unit)
    return codes


def round_sum(terms: Sequence[tuple[Codes, Format]], out: Format) -> Codes:
    """The exact sum of any number of posit or fixed terms, one rounding; terms broadcast."""
    values = np.stack(np.broadcast_arrays(*(fmt.decode(codes) for codes, fmt in terms)), axis=-1)
    return sum_of_values(values, out)


def squared_distance(x: Codes, fx: Format, b: Codes, fb: Format, out: Format) -> Codes:
    """sum((x - b)^2) exact, one rounding: x (..., d), b (m, d), result (..., m). float: float32, in
    order.
    """
    return _squared_gaps(np.asarray(x)[..., None, :], fx, np.asarray(b), fb, out)


def _squared_gaps(x: Codes, fx: Format, y: Codes, fy: Format, out: Format) -> Codes:
    """sum((x - y)^2) over the last axis; the others broadcast."""
    if fx.family == "float":
        minuend, subtrahend = _single(x, fx), _single(y, fy)
        sums = np.zeros(np.broadcast_shapes(minuend.shape, subtrahend.shape)[:-1], np.float32)
        with np.errstate(all="ignore"):
            for k in range(minuend.shape[-1]):
                step = minuend[..., k] - subtrahend[..., k]
                sums = sums + step * step
        return out.encode(sums)
    left, right = np.broadcast_arrays(fx.decode(x), fy.decode(y))
    gap = left - right
    total = (gap * gap).sum(axis=-1)
    # Every term is positive: a relative error of 2 roundings in the gap, 1 in the square, K in the sum.
    error = total * ((left.shape[-1] + 6) * 2.0**-53)
    codes = out.encode(total)
    doubtful = (out.encode(total - error) != out.encode(total + error)) & np.isfinite(total)
    for place in zip(*np.nonzero(doubtful), strict=True):
        wholes, unit = integers(np.concatenate([left[place], right[place]]))
        half = len(wholes) // 2
        exact = sum((p - q) ** 2 for p, q in zip(wholes[:half], wholes[half:], strict=True))
        codes[place] = encode_ratio(out, exact, 1, 2 * unit)
    return codes


def encode_ratio(out: Format, numerator: int, denominator: int, exponent: int) -> int:
    """The code of numerator / denominator * 2^exponent, exact before its one rounding."""
    assert isinstance(out, Posit | Fixed)
    sign = -1 if numerator < 0 else 1
    shift = max(0, 80 + denominator.bit_length() - abs(numerator).bit_length())
    quotient, rest = divmod(abs(numerator) << shift, denominator)
    return out.encode_integer(sign * (2 * quotient + (rest != 0)), exponent - shift - 1)


_PAIRS_WORTH_A_TABLE = 1 << 12

_TO_ODD: dict[Any, Callable[[Values, Values], Values]] = {
    np.add: odd.add_odd,
    np.subtract: lambda a, b: odd.add_odd(a, -b),
    np.multiply: odd.multiply_odd,
    np.divide: odd.divide_odd,
    np.maximum: np.maximum,
    np.minimum: np.minimum,
}
"""float64 operations and how their exact results are rounded to odd."""


def _binary(x: Codes, fx: Format, y: Codes, fy: Format, out: Format, operation: Any) -> Codes:
    if fx.family != fy.family:
        raise MinunError(
            "format.family", f"one operator has {fx.name} and {fy.name}; convert one of them first"
        )
    if fx.family == "float":
        with np.errstate(all="ignore"):
            return out.encode(operation(_single(x, fx), _single(y, fy)))
    shape = np.broadcast_shapes(np.shape(x), np.shape(y))
    if fx.bits <= 8 and fy.bits <= 8 and math.prod(shape) >= _PAIRS_WORTH_A_TABLE:
        pair = (np.asarray(x).view(np.uint8).astype(np.uint16) << np.uint16(8)) | np.asarray(y).view(np.uint8)
        return np.take(_pair_table(operation, fx, fy, out), pair)  # type: ignore[no-any-return,arg-type]
    left, right = np.broadcast_arrays(fx.decode(x), fy.decode(y))
    return _round_once(left, right, out, operation)


@functools.lru_cache(maxsize=64)
def _pair_table(operation: Any, fx: Format, fy: Format, out: Format) -> Codes:
    """The result of every pair of 8-bit codes, by their bits, the first operand's above the second's."""
    codes = np.arange(256, dtype=np.uint8).view(np.int8)
    left, right = np.broadcast_arrays(fx.decode(codes)[:, None], fy.decode(codes))
    return _round_once(left, right, out, operation).ravel()


def _round_once(left: Values, right: Values, out: Format, operation: Any) -> Codes:
    """The float64 result decides; where it lies too near a tie, the one rounded to odd does."""
    assert isinstance(out, Posit | Fixed)
    with np.errstate(all="ignore"):
        total = np.ascontiguousarray(operation(left, right))
    undefined = ~np.isfinite(total)
    if undefined.any():
        total = np.where(undefined, 0.0, total)
    error = None if isinstance(out, Posit) else np.abs(total) * (ERROR_FACTOR * 2.0**-53)
    codes, doubtful = round_sums(total, error, out)
    codes = np.asarray(codes)
    if doubtful is not None and np.any(doubtful):
        codes[doubtful] = out.encode(_TO_ODD[operation](left[doubtful], right[doubtful]))
    if undefined.any():
        codes[undefined] = out.encode(np.asarray(np.nan))
    return codes


def _single(codes: Codes, fmt: Format) -> Singles:
    return np.asarray(codes) if fmt.storage.kind == "f" else fmt.decode(codes).astype(np.float32)


def _affine(fmt: Format) -> Affine:
    if isinstance(fmt, Affine):
        return fmt
    raise MinunError("format.family", f"{fmt.name} found among affine operands; convert it first")


def _bound(fmt: Posit | Fixed | Affine, value: float) -> int:
    if isinstance(fmt, Affine):  # CalculateActivationRangeQuantized divides in float32
        return int(nearest_away((np.float32(value) / np.float32(fmt.scale)).astype(np.float64), fmt))
    return int(fmt.encode(np.asarray(value, dtype=np.float64)))


def nearest_away(scaled: Values, fmt: Affine) -> Codes:
    """Half away from zero, zero point added, saturated; NaN to zero."""
    magnitude = np.abs(scaled)
    whole = np.floor(magnitude)
    with np.errstate(invalid="ignore"):  # an infinity has no fraction
        whole = np.copysign(whole + (magnitude - whole >= 0.5), scaled) + fmt.zero_point
    clipped = np.clip(whole, fmt.min_code, fmt.max_code)
    codes: Codes = np.where(np.isnan(clipped), fmt.zero_point, clipped).astype(fmt.storage)
    return codes


def _rows(x: Codes, axes: Sequence[int], keepdims: bool) -> tuple[Codes, tuple[int, ...]]:
    """`x` with `axes` moved last and flattened, in raster order, and the reduced shape."""
    array = np.asarray(x)
    reduced = sorted(axis % array.ndim for axis in axes)
    kept = [axis for axis in range(array.ndim) if axis not in reduced]
    moved = array.transpose(*kept, *reduced)
    lead = moved.shape[: len(kept)]
    shape = tuple(1 if i in reduced else n for i, n in enumerate(array.shape)) if keepdims else lead
    return np.ascontiguousarray(moved).reshape(*lead, -1), shape


def _sequential_sum(values: Singles) -> Singles:
    total = np.zeros(values.shape[:-1], np.float32)
    with np.errstate(all="ignore"):
        for k in range(values.shape[-1]):
            total = total + values[..., k]
    return total


def sum_of_values(values: Values, out: Format) -> Codes:
    """Sums over the last axis of exact float64 values (NaN is NaR), one rounding: shape (..., K) to
    (...).
    """
    assert isinstance(out, Posit | Fixed)
    flat = values.reshape(-1, values.shape[-1])
    nar = np.asarray(np.isnan(flat).any(axis=1))
    flat = np.nan_to_num(flat)
    unit = int(lowest_bit_exponents(flat).min(initial=NO_UNIT))
    ones = np.ones((1, flat.shape[1]))
    column = Columns(ones, row_norms(ones), 0, None)
    return product(ValueRows(flat, unit, nar), column, None, out).reshape(values.shape[:-1])


def _sum_is_exact(values: Values) -> NDArray[np.bool_]:
    magnitude = np.abs(values).sum(axis=-1) * (1 + 2.0**-20)
    unit = lowest_bit_exponents(values).min(axis=-1).astype(np.float64)
    exact: NDArray[np.bool_] = magnitude <= np.exp2(np.minimum(unit + 53.0, 1000.0))
    return exact


def integers(values: NDArray[Any]) -> tuple[list[int], int]:
    """Integers m and one exponent e with values = m * 2^e exactly."""
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    shift = exponent.astype(np.int64) - 53
    live = mantissa != 0
    base = int(shift[live].min()) if live.any() else 0
    return [m << max(s - base, 0) for m, s in zip(mantissa.tolist(), shift.tolist(), strict=True)], base
