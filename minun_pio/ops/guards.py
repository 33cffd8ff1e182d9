# SPDX-License-Identifier: Apache-2.0
"""The run-time guards of the fast kernels, as the board has them: which inputs take the exact sums instead.

The board's half is include/minun/values.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.format import Codes
from minun_pio.numerics.operand import Window, patches
from minun_pio.numerics.posit import Posit
from minun_pio.ops.proofs import LongPlan

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Guard:
    """A kernel decides anew for every `elements` inputs.

    `limit`: TableValues, all magnitudes must be below this code. Otherwise SpanValues at a unit of at most
    `unit_limit`; with `known` (by code as an unsigned integer) inputs that are all known pass at once.
    """

    fmt: Posit
    plan: LongPlan
    elements: int
    unit_limit: int = 64
    limit: int | None = None
    known: Bools | None = None

    def trips(self, codes: Codes) -> Bools:
        """`codes` in any shape of whole decisions; one answer for each."""
        rows = codes.reshape(-1, self.elements)
        magnitudes = np.abs(rows.astype(np.int32))
        if self.limit is not None:
            return np.asarray((magnitudes >= self.limit).any(axis=1))
        units, tops = _scales(self.fmt)
        one = 1 << (self.fmt.n - 2)
        smallest = np.where(magnitudes > 0, magnitudes, one).min(axis=1, initial=one)
        largest = magnitudes.max(axis=1, initial=0)
        unit = np.minimum(units[smallest], min(self.unit_limit, self.plan.unit_limit))
        slow = (unit < self.plan.unit_floor) | (tops[largest] - unit > self.plan.span_bits)
        slow |= largest >> (self.fmt.n - 1) != 0
        if self.known is not None:
            index = rows.astype(np.int64) & ((1 << (8 * rows.dtype.itemsize)) - 1)
            slow &= ~self.known[index].all(axis=1)
        return np.asarray(slow)


@dataclass(frozen=True)
class GuardOfPatches:
    """A convolution that decides anew for each output position and group; `codes` (samples, 1, H, W, C)."""

    guard: Guard  # of a patch
    window: Window
    groups: int

    def trips(self, codes: Codes) -> Bools:
        images = np.split(codes[:, 0], self.groups, axis=-1)
        found = [
            self.guard.trips(patches(image[sample], self.window))
            for image in images
            for sample in np.arange(len(codes))[:, None]
        ]
        return np.concatenate(found)


@lru_cache(maxsize=16)
def _scales(fmt: Posit) -> tuple[NDArray[Any], NDArray[Any]]:
    """By magnitude of the code: SpanValues' lowest_unit and above."""
    units, tops = [], []
    one, step = 1 << (fmt.n - 2), 1 << fmt.es
    for magnitude in range((1 << (fmt.n - 1)) + 1):
        bits = f"{magnitude & ((1 << (fmt.n - 1)) - 1):0{fmt.n - 1}b}"
        if magnitude >= one:
            units.append(-max(fmt.n - 3 - fmt.es, 0))
            run = len(bits) - len(bits.lstrip("1"))
            tops.append(run * step)
        else:
            run = len(bits) - len(bits.lstrip("0"))
            units.append(-run * step - max(fmt.n - 2 - fmt.es - run, 0))
            tops.append((1 - run) * step if magnitude else -(1 << 14))
    return np.asarray(units), np.asarray(tops)
