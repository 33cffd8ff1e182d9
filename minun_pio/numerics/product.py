# SPDX-License-Identifier: Apache-2.0
"""Sums of products with one rounding, at BLAS speed: y = round(b + sum(w * x)).

1. float32 GEMM, when the largest codes of 8-bit formats prove it exact.
2. float64 GEMM, when |x||w| + |b| is at most 2^52 of the formats' finest unit: exact as well.
3. float64 GEMM with a bound on its error: an entry stands where no rounding boundary lies within the bound.
  The
   few others are examined one by one: exact after all by the units that really occur, or decided by a
   tighter look, or summed exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics import odd_rounding
from minun_pio.numerics.format import Codes
from minun_pio.numerics.operand import Columns, Exact, Rows, row_norms
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


def product(x: Rows, w: Columns, bias: Bias | None, out: Exact, align: int = 1) -> Codes:
    """round(bias + x @ w.T) as codes of `out`, (rows, columns). Blocks of rows are multiples of `align`."""
    width = len(w.values)
    result = np.empty((x.rows, width), out.storage)
    if result.size == 0:
        return result
    step = max(align, BLOCK_ENTRIES // width // align * align)
    columns = np.ascontiguousarray(w.values.T)
    buffer = np.empty((min(step, x.rows), width), columns.dtype)
    doubts: list[_Doubts] = []
    for start in range(0, x.rows, step):
        stop = min(start + step, x.rows)
        total = buffer[: stop - start]
        norms = x.multiply(start, stop, columns, total)
        doubt = _round_block(total, norms, w, x.unit + w.unit, bias, out, result[start:stop])
        if doubt is not None:
            doubts.append(_Doubts(doubt.rows + start, doubt.columns, doubt.totals))
    if doubts:
        _settle(x, w, bias, out, _Doubts.joined(doubts), result)
    if isinstance(out, Posit):
        if x.nar is not None:
            result[x.nar] = out.nar
        if w.nar is not None:
            result[:, w.nar] = out.nar
        if bias is not None and bias.nar is not None:
            result[:, bias.nar] = out.nar
    return result


@dataclass(frozen=True)
class _Doubts:
    """Entries whose rounding is not yet proven, with their float64 sums."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    totals: NDArray[np.float64]

    @staticmethod
    def joined(parts: list[_Doubts]) -> _Doubts:
        return _Doubts(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.totals for part in parts]),
        )


def _round_block(
    total: NDArray[Any],
    norms: NDArray[np.float64] | None,
    w: Columns,
    unit: int,
    bias: Bias | None,
    out: Exact,
    result: Codes,
) -> _Doubts | None:
    """Round sums (exact where `norms` is None) into `result`; what could not be proven is returned."""
    if bias is not None:
        unit = min(unit, bias.unit)
    if norms is None:
        if isinstance(out, Posit) and out.n <= 8 and _fits_single(total, unit, bias):
            if bias is not None:
                total += bias.values.astype(np.float32)
            result[...] = round_singles(total, out)
            return None
        total = total.astype(np.float64)
        largest = 2.0**24 * 2.0**unit
    else:
        largest = float(norms.max() * w.norm.max())
    if bias is not None:
        total += bias.values
        largest += bias.largest
    error = None
    bits = 53 if isinstance(out, Posit) else 52  # rounding half up adds half a unit
    if largest > 2.0 ** min(bits + unit, 1000):
        magnitude = largest if norms is None else norms[:, None] * w.norm
        if bias is not None:
            magnitude = magnitude + np.abs(bias.values)
        error = np.multiply(magnitude, ERROR_FACTOR * relative_error(w.values.shape[1]))
    codes, doubtful = round_sums(total, error, out)
    result[...] = codes
    if doubtful is None or not doubtful.any():
        return None
    rows, columns = np.nonzero(doubtful)
    totals = total[rows, columns]
    # The slow encoder has no false ties: where the sum is exact, and for most doubts it is, this is the end.
    result[rows, columns] = out.encode(totals)
    return None if error is None else _Doubts(rows, columns, totals)


def _fits_single(total: NDArray[Any], unit: int, bias: Bias | None) -> bool:
    """Whether float32 sums stay exact with the bias."""
    if unit < -100:
        return False
    if bias is None:
        return True
    return float(np.abs(total).max()) + bias.largest <= 2.0 ** (24 + unit)


def relative_error(depth: int) -> float:
    """The error of a float64 sum of `depth` products and a bias, relative to |x||w| + |b|, in any order."""
    return (depth + 4) * 2.0**-53 * (1 + 2.0**-20)


def _settle(x: Rows, w: Columns, bias: Bias | None, out: Exact, doubts: _Doubts, result: Codes) -> None:
    """Decide the doubtful entries of `result`, which hold the rounded float64 sums."""
    distinct, row = np.unique(doubts.rows, return_inverse=True)
    used, column = np.unique(doubts.columns, return_inverse=True)
    x_values, w_values = x.some(distinct), w.values[used].astype(np.float64, copy=False)
    units = lowest_bit_exponents(x_values).min(axis=1, initial=NO_UNIT)[row]
    units += lowest_bit_exponents(w_values).min(axis=1, initial=NO_UNIT)[column]
    magnitude = row_norms(x_values)[row] * w.norm[doubts.columns]
    if bias is not None:
        magnitude += np.abs(bias.values[doubts.columns])
        units = np.minimum(units, lowest_bit_exponents(bias.values[doubts.columns]))
    undecided = (magnitude > np.exp2(np.minimum(53.0 + units, 1000.0))) & (units < NO_UNIT)
    error = magnitude * relative_error(x_values.shape[1])
    low, high = doubts.totals - error, doubts.totals + error
    undecided &= (out.encode(low) != out.encode(high)) | ((low <= 0) & (high >= 0))
    entries = np.nonzero(undecided)[0]
    sums = np.empty((2, len(entries)))
    for place, entry in enumerate(entries.tolist()):
        left, right = x_values[row[entry]], w_values[column[entry]]
        addend = 0.0 if bias is None else float(bias.values[doubts.columns[entry]])
        sums[:, place] = _exact_sum(left, right, addend)
    result[doubts.rows[entries], doubts.columns[entries]] = out.encode(odd_rounding.to_odd(*sums))


def _exact_sum(x: NDArray[np.float64], w: NDArray[np.float64], addend: float) -> tuple[float, float]:
    """The float64 nearest to addend + x @ w and what is missing from it, by Shewchuk's exact summation."""
    products, errors = odd_rounding.two_product(x, w)
    terms = [addend, *products.tolist(), *errors[errors != 0].tolist()]
    nearest = math.fsum(terms)
    terms.append(-nearest)
    return nearest, math.fsum(terms)


def code_of_sum(x: NDArray[np.float64], w: NDArray[np.float64], addend: float, out: Exact) -> int:
    """The code of addend + x @ w, summed exactly and rounded once."""
    nearest, rest = _exact_sum(x, w, addend)
    return int(out.encode(odd_rounding.to_odd(np.asarray([nearest]), np.asarray([rest])))[0])
