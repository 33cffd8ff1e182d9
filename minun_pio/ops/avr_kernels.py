# SPDX-License-Identifier: Apache-2.0
"""The dense kernels of AVR: tables in pages of 256 bytes, weights row-major (include/minun/dense_avr.h)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.format import Codes
from minun_pio.numerics.posit import Posit, value_table
from minun_pio.ops.dense_kernels import (
    NO_EXCEPTIONS,
    Chosen,
    bias_codes,
    bias_type,
    exception_tables,
    extents,
    row_major,
    short_bias,
    short_plan,
    tiled,
)
from minun_pio.ops.guards import Guard
from minun_pio.ops.linear import clip_argument, encoded
from minun_pio.ops.operator import Binding, Table
from minun_pio.ops.proofs import LongPlan, finest_unit, integers_at, largest_row, long_plan

_WORD_SPAN, _PIECE_SPAN = 15, 23  # bits of a value's magnitude
_WIDE_WORD_SPAN = 30  # in two planes, of words
_WORD_SUM, _PIECE_SUM = 39, 55  # bits of a sum's magnitude


def choose_avr(binding: Binding, x: Posit, w: Posit, out: Posit) -> Chosen | None:
    """The cheapest AVR kernel whose sums are proven exact for these weights."""
    weights = encoded(np.asarray(binding.constants[1]), w)
    return _short(binding, x, w, out, weights) or _long(binding, x, w, out, weights)


def _short(binding: Binding, x: Posit, w: Posit, out: Posit, weights: Codes) -> Chosen | None:
    if x.es != 0 or w.es != 0 or max(x.n, w.n) > 8:
        return None
    unit = x.unit_exponent + w.unit_exponent
    integers = integers_at(weights, w, w.unit_exponent)
    bound, row = 1 << (2 * x.max_scale), largest_row(integers)
    safe, bias = short_bias(*bias_codes(binding), unit, row, bound, 32)
    if not safe:
        return None
    plain = bool(np.all(integers == weights.astype(np.int64))) and row * bound < 1 << 23
    codes = np.arange(256).astype(np.uint8).view(np.int8)
    values = _inside(w, codes) * 2.0**-w.unit_exponent
    tabled = "false" if plain else "true"
    chosen = Chosen(
        function=f"minun::dense_avr_short<{out.cpp}, {x.cpp}, {tabled}, {unit}>",
        arguments=(
            "nullptr" if plain else "{table0}",
            *map(str, extents(binding)),
            clip_argument(binding.node, out),
        ),
        weights=row_major(weights),
        bias=bias,
        tables=() if plain else (_pages(values.astype(np.int64), 2, "values"),),
        scratch_bytes=2 * extents(binding)[1],
        header="minun/dense_avr.h",
        variant="codes are values" if plain else "table",
    )
    if not binding.small_scratch:
        return chosen
    inputs = f"minun::avr::ShortTile<{x.cpp}, {tabled}>"
    types = f"{out.cpp}, {x.cpp}, {w.cpp}, {bias_type(binding)}, int32_t, {inputs}"
    tail = (short_plan(w.unit_exponent, unit), NO_EXCEPTIONS, f"{inputs}{{nullptr}}", "0")
    return tiled(chosen, binding, types, tail, sum_bytes=8)


def _inside(w: Posit, codes: Codes) -> NDArray[np.float64]:
    """Values by byte, 0 for bytes that are no finite code."""
    inside = (codes >= w.min_code) & (codes <= w.max_code)
    return np.nan_to_num(w.decode(np.where(inside, codes, 0).astype(np.int8)))


def _pages(values: NDArray[np.int64], pages: int, hint: str) -> Table:
    """Each page one byte of all 256 entries, low byte first."""
    data = [int(v) >> (8 * page) & 255 for page in range(pages) for v in values]
    return Table("uint8_t", tuple(data), hint, align=256)


def _long(binding: Binding, x: Posit, w: Posit, out: Posit, weights: Codes) -> Chosen | None:
    words = w.n <= 8
    codes = weights if words else (weights.astype(np.int32) << (16 - w.n)).astype(np.int16)
    kernel_format = w if words else Posit(16, w.es)
    found = _words(codes, w) if words else _pieces(codes, kernel_format)
    if found is None:
        return None
    table, unit, known = found
    odd = codes[~known]
    fine = min(unit, finest_unit(odd, kernel_format)) if odd.size else unit
    odd_values = integers_at(odd, kernel_format, fine).tolist()
    if unit - fine > 31 or any(abs(v) >= 1 << 31 for v in odd_values):
        return None
    coarse_row = largest_row(integers_at(np.where(known, codes, 0), kernel_format, unit))
    span, sum_bits = (_WORD_SPAN, _WORD_SUM) if words else (_PIECE_SPAN, _PIECE_SUM)
    if coarse_row << span >= 1 << (sum_bits - 1):
        return None
    row = largest_row(integers_at(codes, kernel_format, min(fine, finest_unit(codes, kernel_format))))
    widest = long_plan(row, fine, unit - fine, *bias_codes(binding))
    if widest is None:
        return None
    wide = min(widest.span_bits, _WIDE_WORD_SPAN if words else 31)  # of values in two planes
    plan = replace(widest, span_bits=min(span, widest.span_bits))
    plan = plan.stored_at(2 * unit)
    if plan.bias is not None and max(abs(v) for v in plan.bias) >= 1 << (sum_bits - 1):
        return None
    places = np.argwhere(~known).tolist()
    exceptions = tuple((int(r), int(c), int(v)) for (r, c), v in zip(places, odd_values, strict=True))
    odd_tables, odd_argument = exception_tables(exceptions, 1)
    shared = "true" if (x == w if words else x.es == w.es and x.n > 8) else "false"
    inputs = f"minun::avr::{'Word' if words else 'Piece'}Inputs<{x.cpp}, {shared}>"
    pointer = f"static_cast<{'int16_t' if words else 'uint8_t'}*>(static_cast<void*>({{scratch}}))"
    types = f"{out.cpp}, {x.cpp}, {kernel_format.cpp}, {bias_type(binding)}, {inputs}"
    tail = (plan.cpp, odd_argument, f"{inputs}{{{pointer}, {unit}, {unit}, false}}", str(wide))
    chosen = Chosen(
        function=f"minun::dense_avr_long<{types}>",
        arguments=("{table0}", *map(str, extents(binding)), clip_argument(binding.node, out), *tail),
        weights=row_major(codes),
        bias=plan.bias_table(),
        tables=(table, *odd_tables),
        scratch_bytes=(4 if words else 6) * extents(binding)[1],
        header="minun/dense_avr.h",
        variant=f"{'table' if words else 'piecewise'}, {len(exceptions)} exceptions",
        guard=Guard(
            *(x, replace(plan, span_bits=wide), codes.shape[1]),
            known=_known(table, plan, unit, x) if shared == "true" else None,
        ),
    )
    if not binding.small_scratch:
        return chosen
    types = f"{out.cpp}, {x.cpp}, {kernel_format.cpp}, {bias_type(binding)}, int64_t, {inputs}"
    return tiled(chosen, binding, types, tail, sum_bytes=8, value_bytes=2 if words else 3)


def _known(table: Table, plan: LongPlan, unit: int, x: Posit) -> NDArray[np.bool_] | None:
    """The inputs (by code, unsigned) that the weights' table decodes, if its unit suits the bias."""
    if not plan.unit_floor <= unit <= plan.unit_limit:
        return None
    pages = np.asarray(table.values).reshape(-1, 256)
    if x.n <= 8:
        known: NDArray[np.bool_] = np.asarray(pages.any(axis=0))
    else:
        codes = np.arange(1 << 16).astype(np.uint16).view(np.int16).astype(np.int64) << (16 - x.n)
        known = np.asarray(pages[0][(codes >> 8) & 255] != 0)
    known[0] = True
    return known


Found = tuple[Table, int, NDArray[np.bool_]]  # the pages, their unit, which weights they know


def _words(codes: Codes, w: Posit) -> Found | None:
    """Two pages of 16-bit integers at a unit that knows most weights."""
    bytes_ = np.arange(256).astype(np.uint8).view(np.int8)
    values = _inside(w, bytes_)
    found: list[Found] = []
    for unit in range(0, max(-24, w.unit_exponent) - 1, -1):
        scaled = values * 2.0**-unit
        fits = (np.abs(scaled) < 1 << _WORD_SPAN) & (scaled == np.round(scaled))
        known = fits[codes.view(np.uint8)]
        found.append((_pages(np.where(fits, scaled, 0).astype(np.int64), 2, "words"), unit, known))
    return _coarsest(found, codes, 512)


def _pieces(codes: Codes, fmt: Posit) -> Found | None:
    """Three pages: slope, middle and high byte of the offset of a line for each high byte of a code."""
    high = (codes.astype(np.int64) >> 8) & 255
    found: list[Found] = []
    for unit in range(-4, -32, -1):
        table, straight = _piece_table(fmt, unit)
        found.append((table, unit, straight[high] | (codes == 0)))
    return _coarsest(found, codes, 128)


@cache
def _piece_table(fmt: Posit, unit: int) -> tuple[Table, NDArray[np.bool_]]:
    """The three pages at this unit, and the high bytes (unsigned) whose codes they decode."""
    values = value_table(fmt).reshape(256, 256)
    first_code = np.where(np.arange(256) < 128, np.arange(256), np.arange(256) - 256).astype(np.int64) << 8
    with np.errstate(invalid="ignore"):
        scaled = values * 2.0**-unit
        steps = np.diff(scaled, axis=1)
        slope = steps[:, 0]
        straight = (steps == slope[:, None]).all(axis=1) & (slope >= 1) & (slope <= 128)
        straight &= np.abs(scaled).max(axis=1) < 2.0**_PIECE_SPAN
        straight &= (scaled == np.round(scaled)).all(axis=1) & np.isfinite(values).all(axis=1)
    slopes = np.where(straight, slope, 0).astype(np.int64)
    offsets = np.where(straight, scaled[:, 0], 0).astype(np.int64) - first_code * slopes
    straight &= offsets % 256 == 0
    slopes, offsets = np.where(straight, slopes, 0), np.where(straight, offsets, 0)
    data = [int(v) for v in slopes]
    data += [int(v) >> shift & 255 for shift in (8, 16) for v in offsets]
    return Table("uint8_t", tuple(data), "pieces", align=256), straight


def _coarsest(found: list[Found], codes: Codes, tolerated: int) -> Found | None:
    """The coarsest unit that knows hardly fewer weights (one in `tolerated`) than the best one does.

    Inputs share the unit, and are larger than weights.

    None where more than an eighth of the weights would be exceptions.
    """
    enough = max(int(known.sum()) for *_, known in found) - codes.size // tolerated
    table, unit, known = next(one for one in found if int(one[2].sum()) >= enough)
    return (table, unit, known) if int((~known).sum()) * 8 <= max(codes.size, 8) else None
