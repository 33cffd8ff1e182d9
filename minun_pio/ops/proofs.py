# SPDX-License-Identifier: Apache-2.0
"""What constant weights prove: integers at a unit, bounds of sums, the tables that decode codes on the board.

All arithmetic here is in Python or int64 integers; a sum that is declared safe cannot overflow for any input
that passes the kernel's run-time guard (include/minun/values.h).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Codes
from minun_pio.numerics.posit import NO_UNIT, Posit, value_table
from minun_pio.ops.operator import Table

Exact = Posit | Fixed
Integers = NDArray[Any]  # int64, or Python integers (dtype object) where those are too narrow

_SUM_BITS = 62  # the weighted sum and the bias are each kept below 2^62, their sum below 2^63
_ROOMY_UNIT = -22  # activations of up to 2^9 still fit 31 bits of a table at this unit
_LEAST_SPAN = 12  # a kernel whose values may not span so many bits would take its slow path too often


def finest_unit(codes: Codes, fmt: Exact) -> int:
    """The exponent of the lowest set bit over all codes; NO_UNIT when all are zero."""
    return int(np.min(fmt.unit_exponents(codes), initial=NO_UNIT))


def integers_at(codes: Codes, fmt: Exact, unit: int) -> Integers:
    """The codes' values in units of 2^unit, which they must be multiples of."""
    values = np.asarray(fmt.decode(codes)).ravel()
    scaled = values * 2.0**-unit if abs(unit) < 512 else np.full(values.shape, np.inf)
    if fmt.bits <= 16 and np.abs(scaled).max(initial=0.0) < 2.0**62:  # few significant bits: exact in float64
        whole64 = scaled.astype(np.int64)
        assert (whole64 == scaled).all()
        return whole64.reshape(np.shape(codes))
    whole = [_integer(float(value), unit) for value in values]
    return np.asarray(whole, dtype=object).reshape(np.shape(codes))


def _integer(value: float, unit: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    scaled = numerator << max(-unit, 0)
    divisor = denominator << max(unit, 0)
    assert scaled % divisor == 0
    return scaled // divisor


def largest_row(weights: Integers) -> int:
    """The largest sum of magnitudes of a row (axis 0)."""
    flat = weights.reshape(weights.shape[0], -1)
    if flat.dtype != object and np.abs(flat).max(initial=0) < (1 << 62) // max(flat.shape[1], 1):
        return int(np.abs(flat).sum(axis=1).max(initial=0))
    return max((sum(abs(v) for v in row) for row in flat.tolist()), default=0)


@dataclass(frozen=True)
class LongPlan:
    """Mirror of `minun::SumPlan`, with the bias integers at `bias_unit`."""

    weight_unit: int
    fine_bits: int
    bias_unit: int
    span_bits: int
    unit_limit: int
    unit_floor: int
    bias: tuple[int, ...] | None

    @property
    def cpp(self) -> str:
        scales = (self.weight_unit, self.fine_bits, self.bias_unit)
        numbers = (*scales, self.span_bits, self.unit_limit, self.unit_floor)
        return f"minun::SumPlan{{{', '.join(str(number) for number in numbers)}}}"

    def bias_table(self) -> Table | None:
        return None if self.bias is None else Table("int64_t", self.bias, "bias64", align=8)

    def at_unit(self, unit: int) -> LongPlan:
        """With the bias in the inner loop's own units for values of this unit, so that sums begin with it."""
        total = self.weight_unit + self.fine_bits + unit
        if self.bias is None or total > self.bias_unit:
            return self
        shifted = tuple(v << (self.bias_unit - total) for v in self.bias)
        if max(abs(v) for v in shifted) >= 1 << _SUM_BITS:
            return self
        return replace(self, bias_unit=total, unit_limit=unit, bias=shifted)

    def stored_at(self, total: int) -> LongPlan:
        """With the bias in units of 2^total where that is finer, for kernels that shift it either way."""
        if self.bias is None or total > self.bias_unit:
            return self
        shifted = tuple(v << (self.bias_unit - total) for v in self.bias)
        if max(abs(v) for v in shifted) >= 1 << _SUM_BITS:
            return self
        return replace(self, bias_unit=total, bias=shifted)

    def holds(self, unit: int, value_bound: int, row: int) -> bool:
        """Whether values below `value_bound` at this unit can never overflow the sum."""
        if not self.unit_floor <= unit <= self.unit_limit:
            return False
        shift = self.bias_unit - self.weight_unit - unit
        most = max((abs(v) for v in self.bias), default=0) << shift if self.bias else 0
        return row * value_bound + most < 1 << 63


def long_plan(
    row: int,
    weight_unit: int,
    fine_bits: int,
    bias_codes: Codes | None,
    bias_format: Exact | None,
    span_most: int = 31,
) -> LongPlan | None:
    """The guard for 64-bit sums whose weights' magnitudes sum to at most `row` at `weight_unit`."""
    span = min(span_most, _SUM_BITS - row.bit_length())
    if span < _LEAST_SPAN:
        return None
    if bias_codes is None or bias_format is None or not np.any(bias_codes):
        return LongPlan(weight_unit, fine_bits, 0, span, 64, -1024, None)
    bias_unit = finest_unit(bias_codes, bias_format)
    bias = integers_at(bias_codes.ravel(), bias_format, bias_unit).tolist()
    most = max(abs(v) for v in bias)
    if most >= 1 << _SUM_BITS:
        return None
    floor = bias_unit + most.bit_length() - _SUM_BITS - weight_unit
    return LongPlan(weight_unit, fine_bits, bias_unit, span, bias_unit - weight_unit, floor, tuple(bias))


@dataclass(frozen=True)
class PiecewiseWeights:
    """16-bit posit weights as table entries and exceptions (include/minun/sums.h)."""

    table: Table
    table_unit: int
    fine_bits: int
    weight_unit: int
    row: int
    exceptions: tuple[tuple[int, int, int], ...]  # row, column, integer at weight_unit


def piecewise_weights(codes: Codes, es: int) -> PiecewiseWeights | None:
    """`codes` (rows, columns) of posit<16,es>; None when too many weights would be exceptions."""
    fmt = Posit(16, es)
    high = (codes.astype(np.int64) >> 8) & 255
    live = codes != 0
    candidates = []
    for unit in range(-4, -32, -1):
        entries, usable = _piecewise_entries(es, unit)
        candidates.append((int(np.sum(live & ~usable[high])), unit, entries, usable))
    # The coarsest unit with hardly more exceptions: activations share the table, and are larger.
    tolerated = min(count for count, *_ in candidates) + int(live.sum()) // 128
    count, unit, entries, usable = next(found for found in candidates if found[0] <= tolerated)
    if count * 8 > max(int(live.sum()), 8):
        return None
    fine = _unit_of(codes[live & ~usable[high]], fmt, unit)
    if _ROOMY_UNIT <= fine < unit:  # a table at the exceptions' unit spares the sums a shift
        finer = next(found for found in candidates if found[1] == fine)
        if finer[0] <= count and _unit_of(codes[live & ~finer[3][high]], fmt, fine) == fine:
            count, unit, entries, usable = finer
    places = np.argwhere(live & ~usable[high])
    if len(places) >= 1 << 15 or places.max(initial=0) >= 1 << 16:  # minun::Exceptions
        return None
    odd = integers_at(codes[live & ~usable[high]], fmt, fine).tolist()
    if any(abs(v) >= 1 << 31 for v in odd) or unit - fine > 31:
        return None
    magnitudes = (
        np.abs(fmt.decode(codes)).sum(axis=1).max()
    )  # float64: only an estimate, so one bit more below
    row = int(np.ceil(magnitudes * 2.0**-fine)) * 2 + 1
    ordered = np.r_[128:256, 0:128]
    table = Table("int32_t", tuple(int(v) for v in entries[ordered]), "pieces", align=4)
    exceptions = tuple((int(r), int(c), int(v)) for (r, c), v in zip(places.tolist(), odd, strict=True))
    return PiecewiseWeights(table, unit, unit - fine, fine, row, exceptions)


def _unit_of(odd: Codes, fmt: Posit, unit: int) -> int:
    """The unit of the exceptions, at most `unit`."""
    return min(unit, finest_unit(odd, fmt)) if odd.size else unit


@cache
def _piecewise_entries(es: int, unit: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each high byte (unsigned), (offset << 8) | shift where the 256 codes lie on one line, else 32."""
    values = value_table(Posit(16, es)).reshape(256, 256)
    with np.errstate(invalid="ignore"):
        scaled = values * 2.0**-unit
        steps = np.diff(scaled, axis=1)
        step = steps[:, 0]
        straight = (steps == step[:, None]).all(axis=1) & (step >= 1) & (np.abs(scaled).max(axis=1) < 2.0**31)
        straight &= (scaled == np.round(scaled)).all(axis=1)
    straight &= np.isfinite(values).all(axis=1)
    shift = np.log2(np.where(straight, step, 1.0)).astype(np.int64)
    first_code = np.where(np.arange(256) < 128, np.arange(256), np.arange(256) - 256).astype(np.int64) << 8
    offset = np.where(straight, scaled[:, 0], 0.0).astype(np.int64) - (first_code << shift)
    usable = straight & (shift < 24) & (offset >= -(1 << 23)) & (offset < 1 << 23)
    return np.where(usable, (offset << 8) | shift, 32), usable


def lookup_table(fmt: Posit, unit: int, ctype: str) -> tuple[Table, NDArray[np.bool_]]:
    """Values of all 8-bit codes (by unsigned byte) at 2^unit, 0 where they do not fit; and which do."""
    limit = 1 << (15 if ctype == "int16_t" else 31)
    codes = np.arange(256).astype(np.uint8).view(np.int8)
    inside = (codes >= fmt.min_code) & (codes <= fmt.max_code)
    values = np.nan_to_num(fmt.decode(np.where(inside, codes, 0).astype(np.int8)))
    fits = inside & (np.abs(values) * 2.0**-unit < limit) & (fmt.unit_exponents(codes) >= unit)
    entries = np.where(fits, values * 2.0**-unit, 0.0)
    return Table(ctype, tuple(int(v) for v in entries), "values", align=4), fits
