# SPDX-License-Identifier: Apache-2.0
"""Sigmoid and tanh of 9 to 16 bit codes: linear interpolation in code space, at most 2 KB of tables.

Posit codes grow roughly with the logarithm of their values, so functions are smooth between codes, but bend
where either code's regime changes. The input's codes are cut into 256 cells; each cell is cut into as many
equal segments (a power of two) as it needs, so that results stay within one code of the correctly rounded.
Nodes are codes of the output with 16 - n more bits; the integer interpolation below is the definition, on the
host and on the board (`minun::curve` in include/minun/functions.h).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Codes, Values
from minun_pio.numerics.posit import Posit
from minun_pio.numerics.rounding import positions

TABLE_BYTES = 2048
CELLS = 256
_MAX_NODES = (TABLE_BYTES - 2 * CELLS) // 2

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Curve:
    """`cells[i]` = first node of the cell * 16 + log2 of the codes in one of its segments."""

    cells: tuple[int, ...]
    nodes: tuple[int, ...]

    @property
    def table_bytes(self) -> int:
        return 2 * (len(self.cells) + len(self.nodes))


def has_curve(fin: Any, fout: Any) -> bool:
    """Whether both are posit or fixed-point, the input of 9 to 16 bits and the output of up to 16."""
    exact = isinstance(fin, Posit | Fixed) and isinstance(fout, Posit | Fixed)
    return exact and 8 < fin.bits <= 16 and fout.bits <= 16


def make_curve(real: Callable[[Values], Values], fin: Posit | Fixed, fout: Posit | Fixed) -> Curve:
    """The curve of the function `real`.

    Every cell begins as one segment; then, as long as there is room, the cell where more segments mend most
    codes a node is cut further.
    """
    shift = fin.bits - 8
    codes = np.arange(-(1 << (fin.bits - 1)), (1 << (fin.bits - 1)) + 1)
    codes = np.clip(codes, fin.min_code, fin.max_code)
    values = fin.decode(codes.astype(fin.storage))
    exact = positions(real(values), fout)
    wanted = np.floor(exact + 0.5).astype(np.int64)
    nodes = np.clip(np.rint(exact * (1 << (16 - fout.bits))), -32768, 32767).astype(np.int64)
    size = 1 << shift

    def mistakes(cell: int, level: int) -> int:
        span = nodes[cell * size : (cell + 1) * size + 1]
        got = _between(span[:: size >> level], np.arange(size), shift - level, 16 - fout.bits)
        return int((np.abs(got - wanted[cell * size : (cell + 1) * size]) > 1).sum())

    table = [[mistakes(cell, level) for level in range(shift + 1)] for cell in range(CELLS)]
    levels = [0] * CELLS
    used = CELLS + 1
    while True:
        best: tuple[float, int, int, int] | None = None
        for cell, row in enumerate(table):
            for level in range(levels[cell] + 1, shift + 1):
                more = (1 << level) - (1 << levels[cell])
                mended = row[levels[cell]] - row[level]
                if mended > 0 and used + more <= _MAX_NODES and (best is None or mended / more > best[0]):
                    best = (mended / more, cell, level, more)
        if best is None:
            break
        levels[best[1]] = best[2]
        used += best[3]
    chosen: list[int] = []
    cells = []
    for cell, level in enumerate(levels):
        cells.append(len(chosen) * 16 + shift - level)
        chosen += nodes[cell * size : (cell + 1) * size : size >> level].tolist()
    chosen.append(int(nodes[-1]))
    return Curve(tuple(cells), tuple(chosen))


def evaluate(curve: Curve, codes: Codes, fin: Posit | Fixed, fout: Posit | Fixed) -> Codes:
    """The function of `codes`, as the board computes it. NaR stays NaR."""
    array = np.asarray(codes).astype(np.int64)
    place = array + (1 << (fin.bits - 1))
    entry = np.take(np.array(curve.cells, np.int64), place >> (fin.bits - 8))
    shift = entry & 15
    part = place & ((1 << (fin.bits - 8)) - 1)
    first = (entry >> 4) + (part >> shift)
    nodes = np.array(curve.nodes, np.int64)
    left, right = np.take(nodes, first), np.take(nodes, first + 1)
    result = _round(_line(left, right, part & ((1 << shift) - 1), shift), 16 - fout.bits).astype(fout.storage)
    if isinstance(fin, Posit) and isinstance(fout, Posit):
        result = np.where(array == fin.nar, fout.storage.type(fout.nar), result)
    return result


def _between(nodes: Integers, parts: Integers, shift: int, extra: int) -> Integers:
    segment = parts >> shift
    return _round(_line(nodes[segment], nodes[segment + 1], parts & ((1 << shift) - 1), shift), extra)


def _line(left: Integers, right: Integers, part: Integers, shift: Any) -> Integers:
    line: Integers = left + (((right - left) * part + ((1 << shift) >> 1)) >> shift)
    return line


def _round(value: Integers, extra: int) -> Integers:
    return (value + ((1 << extra) >> 1)) >> extra


cached_curve = functools.lru_cache(maxsize=64)(make_curve)
