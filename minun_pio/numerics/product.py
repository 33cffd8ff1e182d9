# SPDX-License-Identifier: Apache-2.0
"""Sums of products with one rounding, at BLAS speed: y = round(b + sum(w * x)).

1. float32 GEMM, when the largest codes of 8-bit formats prove it exact.
2. float64 GEMM, when |x||w| + |b| is at most 2^52 of the formats' finest unit: exact as well.
3. float64 GEMM with a bound on its error: an entry stands where no rounding boundary lies within the bound.
  The
   few others are examined one by one: exact after all by the units that really occur, or decided by a
   tighter look, or summed in Python integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.format import Codes
from minun_pio.numerics.operand import Exact, Operand
from minun_pio.numerics.posit import NO_UNIT, Posit, lowest_bit_exponents
from minun_pio.numerics.rounding import ERROR_FACTOR, round_singles, round_sums

BLOCK_ENTRIES = 1 << 15
"""Outputs rounded at a time: their intermediates stay in the cache."""


@dataclass(frozen=True)
class Bias:
    """The exact values added to each column, NaR as 0 and marked; all are multiples of 2^unit."""

    values: NDArray[np.float64]
    unit: int
    nar: NDArray[np.bool_] | None

    @property
    def largest(self) -> float:
        return float(np.abs(self.values).max(initial=0.0))


def bias_row(codes: Codes | None, fmt: Exact | None, columns: int) -> Bias | None:
    """The bias of `columns` outputs; None stays None."""
    if codes is None or fmt is None:
        return None
    values = np.broadcast_to(fmt.decode(np.asarray(codes).ravel()), (columns,))
    nar = np.isnan(values)
    return Bias(np.nan_to_num(values), fmt.unit_exponent, nar if nar.any() else None)


def product(x: Operand, w: Operand, bias: Bias | None, out: Exact, result: Codes) -> None:
    """round(bias + x @ w.T) as codes of `out` into `result`, shape (x.rows, w.rows)."""
    if result.size == 0:
        return
    step = max(1, BLOCK_ENTRIES // w.rows)
    for start in range(0, x.rows, step):
        _block(x.block(start, start + step), w, bias, out, result[start : start + step])
    if isinstance(out, Posit):
        if x.nar is not None:
            result[x.nar] = out.nar
        if w.nar is not None:
            result[:, w.nar] = out.nar
        if bias is not None and bias.nar is not None:
            result[:, bias.nar] = out.nar


def _block(x: Operand, w: Operand, bias: Bias | None, out: Exact, result: Codes) -> None:
    largest = float(x.norm.max() * w.norm.max())
    unit = x.unit + w.unit
    if bias is not None:
        largest += bias.largest
        unit = min(unit, bias.unit)
    total = x.values @ w.values.T
    if total.dtype == np.float32:  # exact by its making; the bias may need more bits
        if isinstance(out, Posit) and out.n <= 8 and unit > -100 and largest <= 2.0 ** (24 + unit):
            if bias is not None:
                total += bias.values.astype(np.float32)
            result[...] = round_singles(total, out)
            return
        total = total.astype(np.float64)
    if bias is not None:
        total += bias.values
    error = None
    if largest > 2.0 ** min(52 + unit, 1000):
        relative = ERROR_FACTOR * _relative_error(x.values.shape[1])
        if bias is None:
            error = (x.norm * relative)[:, None] * w.norm
        else:
            error = x.norm[:, None] * w.norm
            error += np.abs(bias.values)
            error *= relative
    codes, doubtful = round_sums(total, error, out)
    result[...] = codes
    if doubtful is not None and doubtful.any():
        rows, columns = np.nonzero(doubtful)
        _settle(x, w, bias, out, total, rows, columns, error is None, result)


def _relative_error(depth: int) -> float:
    """The error of a float64 sum of `depth` products and a bias, relative to |x||w| + |b|, in any order."""
    return (depth + 4) * 2.0**-53 * (1 + 2.0**-20)


def _settle(
    x: Operand,
    w: Operand,
    bias: Bias | None,
    out: Exact,
    total: NDArray[Any],
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    exact: bool,
    result: Codes,
) -> None:
    """Decide the doubtful entries of `result`."""
    centre = total[rows, columns]
    result[rows, columns] = out.encode(centre)  # right where the sum is exact, which is so for most ties
    if exact:
        return
    magnitude = x.norms(rows) * w.norms(columns)
    unit = x.finest_units(rows) + w.finest_units(columns)
    if bias is not None:
        magnitude += np.abs(bias.values[columns])
        unit = np.minimum(unit, lowest_bit_exponents(bias.values)[columns])
    open_ = magnitude > np.exp2(np.minimum(53.0 + unit, 1000.0))
    open_ &= unit < NO_UNIT
    error = magnitude * _relative_error(x.values.shape[1])
    low, high = centre - error, centre + error
    open_ &= (out.encode(low) != out.encode(high)) | ((low <= 0) & (high >= 0))
    sums = _IntegerSum(x, w, bias)
    for row, column in zip(rows[open_].tolist(), columns[open_].tolist(), strict=True):
        result[row, column] = out.encode_integer(*sums(row, column))


class _IntegerSum:
    """Exact sums of single entries as (numerator, exponent); the rows' integers are kept between calls."""

    def __init__(self, x: Operand, w: Operand, bias: Bias | None) -> None:
        self._x, self._w, self._bias = x, w, bias
        self._rows: dict[int, tuple[list[int], int]] = {}
        self._columns: dict[int, tuple[list[int], int]] = {}

    def __call__(self, row: int, column: int) -> tuple[int, int]:
        if row not in self._rows:
            self._rows[row] = integers(self._x.values[row])
        if column not in self._columns:
            self._columns[column] = integers(self._w.values[column])
        left, left_exponent = self._rows[row]
        right, right_exponent = self._columns[column]
        numerator = sum(map(int.__mul__, left, right))
        exponent = left_exponent + right_exponent
        if self._bias is None:
            return numerator, exponent
        (addend,), addend_exponent = integers(self._bias.values[column : column + 1])
        shift = exponent - addend_exponent
        if shift >= 0:
            return (numerator << shift) + addend, addend_exponent
        return numerator + (addend << -shift), exponent


def integers(values: NDArray[Any]) -> tuple[list[int], int]:
    """Integers m and one exponent e with values = m * 2^e exactly."""
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    shift = exponent.astype(np.int64) - 53
    live = mantissa != 0
    base = int(shift[live].min()) if live.any() else 0
    return [m << max(s - base, 0) for m, s in zip(mantissa.tolist(), shift.tolist(), strict=True)], base
