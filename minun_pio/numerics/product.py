# SPDX-License-Identifier: Apache-2.0
"""Sums of products with one rounding, at BLAS speed: y = round(b + sum(w * x)).

Three ways, the first that is proven right for a block of rows is taken:
1. a float32 GEMM, when |x||w| + |b| is at most 2^24 of the finest unit: then it is exact;
2. a float64 GEMM, when it is at most 2^53 units: exact;
3. a float64 GEMM with a bound E on its error: an entry is accepted where C - E and C + E round to the same
   code without zero between them (encoding is monotone); the few others are summed in Python integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.format import Codes
from minun_pio.numerics.operand import Exact, Operand
from minun_pio.numerics.posit import NO_UNIT, lowest_bit_exponents

_BLOCK_ENTRIES = 1 << 15  # outputs rounded at a time: their intermediates stay in the cache
_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True)
class Bias:
    """The exact values added to each column, NaR as 0 and marked."""

    values: NDArray[np.float64]
    unit: NDArray[np.float64]
    nar: NDArray[np.bool_] | None


def bias_row(codes: Codes | None, fmt: Exact | None, columns: int) -> Bias | None:
    """The bias of `columns` outputs; None stays None."""
    if codes is None or fmt is None:
        return None
    values = np.broadcast_to(fmt.decode(np.asarray(codes).ravel()), (columns,))
    nar = np.isnan(values)
    values = np.nan_to_num(values)
    return Bias(values, lowest_bit_exponents(values).astype(np.float64), nar if nar.any() else None)


def product(x: Operand, w: Operand, bias: Bias | None, out: Exact) -> Codes:
    """round(bias + x @ w.T) as codes of `out`, shape (x.rows, w.rows)."""
    result = np.empty((x.rows, w.rows), out.storage)
    if result.size == 0:
        return result
    step = max(1, _BLOCK_ENTRIES // w.rows)
    for start in range(0, x.rows, step):
        _block(x.block(start, start + step), w, bias, out, result[start : start + step])
    if out.nar is not None:
        if x.nar is not None:
            result[x.nar] = out.nar
        if w.nar is not None:
            result[:, w.nar] = out.nar
        if bias is not None and bias.nar is not None:
            result[:, bias.nar] = out.nar
    return result


def _block(x: Operand, w: Operand, bias: Bias | None, out: Exact, result: Codes) -> None:
    magnitude = float(x.norm.max() * w.norm.max())
    unit = float(x.unit.min() + w.unit.min())
    if bias is not None:
        magnitude += float(np.abs(bias.values).max())
        unit = min(unit, float(bias.unit.min()))
    if unit >= NO_UNIT:  # every product is zero
        result[...] = out.encode(np.zeros(()))
        return
    single = x.values.dtype == np.float32 and w.values.dtype == np.float32
    if single and magnitude <= 2.0 ** min(24 + unit, 1000.0) and unit > -126:
        total = x.values @ w.values.T
        if bias is not None:
            total += bias.values.astype(np.float32)
        result[...] = out.encode(total)
        return
    total = x.values.astype(np.float64, copy=False) @ w.values.astype(np.float64, copy=False).T
    if bias is not None:
        total += bias.values
    result[...] = out.encode(total)
    if magnitude > 2.0 ** min(53 + unit, 1000.0):
        _settle(x, w, bias, out, total, result)


def _settle(
    x: Operand, w: Operand, bias: Bias | None, out: Exact, total: NDArray[Any], result: Codes
) -> None:
    """Repair the entries of `result` whose float64 sum is not proven to round as the exact sum does."""
    rows, columns = _unproven(x, w, bias)
    if rows.size == 0:
        return
    depth = x.values.shape[1]
    bound = x.norm[rows] * w.norm[columns]
    if bias is not None:
        bound += np.abs(bias.values[columns])
    error = bound * ((depth + 4) * _UNIT_ROUNDOFF * (1 + 2.0**-20))
    centre = total[rows, columns]
    low, high = centre - error, centre + error
    doubtful = (out.encode(low) != out.encode(high)) | ((low <= 0) & (high >= 0))
    exact = _IntegerSum(x, w, bias)
    for row, column in zip(rows[doubtful].tolist(), columns[doubtful].tolist(), strict=True):
        numerator, exponent = exact(row, column)
        result[row, column] = out.encode_integer(numerator, exponent)


def _unproven(x: Operand, w: Operand, bias: Bias | None) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Entries whose sum may need more than 53 bits: |x||w| + |b| over 2^53 of the entry's own finest unit."""
    span_x = x.norm * np.exp2(-np.minimum(x.unit, 500.0))
    span_w = w.norm * np.exp2(-np.minimum(w.unit, 500.0))
    if bias is None:
        candidates = np.nonzero(span_x * span_w.max() > 2.0**53)[0]
        if candidates.size == 0:
            return candidates, candidates
        rows, columns = np.nonzero(span_x[candidates, None] * span_w > 2.0**53)
        return candidates[rows], columns
    magnitude = x.norm[:, None] * w.norm + np.abs(bias.values)
    unit = np.minimum(np.minimum(x.unit[:, None] + w.unit, bias.unit), 1000.0)
    rows, columns = np.nonzero(magnitude > np.exp2(np.minimum(unit + 53.0, 1000.0)))
    return rows, columns


class _IntegerSum:
    """Exact sums of single entries as (numerator, exponent), the rows' integers kept between calls."""

    def __init__(self, x: Operand, w: Operand, bias: Bias | None) -> None:
        self._x, self._w, self._bias = x, w, bias
        self._rows: dict[int, tuple[list[int], int]] = {}
        self._columns: dict[int, tuple[list[int], int]] = {}

    def __call__(self, row: int, column: int) -> tuple[int, int]:
        if row not in self._rows:
            self._rows[row] = _integers(self._x.values[row])
        if column not in self._columns:
            self._columns[column] = _integers(self._w.values[column])
        left, left_exponent = self._rows[row]
        right, right_exponent = self._columns[column]
        numerator = sum(map(int.__mul__, left, right))
        exponent = left_exponent + right_exponent
        if self._bias is None:
            return numerator, exponent
        (addend,), addend_exponent = _integers(self._bias.values[column : column + 1])
        shift = exponent - addend_exponent
        if shift >= 0:
            return (numerator << shift) + addend, addend_exponent
        return numerator + (addend << -shift), exponent


def _integers(values: NDArray[Any]) -> tuple[list[int], int]:
    """Integers m and one exponent e with values = m * 2^e exactly."""
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    shift = exponent.astype(np.int64) - 53
    live = mantissa != 0
    base = int(shift[live].min()) if live.any() else 0
    return [m << max(s - base, 0) for m, s in zip(mantissa.tolist(), shift.tolist(), strict=True)], base
