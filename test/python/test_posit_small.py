# SPDX-License-Identifier: Apache-2.0
"""Sums, differences and products of posits of up to 16 bits on the board are the exact ones, rounded once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from op_harness import BOARD_FLAGS, HOST_FLAGS, Case, device_mismatches

from minun_pio.board.bare import missing_tools
from minun_pio.numerics.posit import Posit

OPERATIONS = ("add", "sub", "mul")


def _check(cases: list[Case], folder: Path, core: str) -> None:
    if missing := missing_tools(core):
        pytest.skip(f"{core} needs {', '.join(missing)}")
    flags = HOST_FLAGS if core == "host" else BOARD_FLAGS
    assert device_mismatches(cases, folder, core, flags, "atmega1284p" if core == "avr" else None) == []


@pytest.mark.parametrize("core", ["host", "avr", "m3"])
def test_every_pair_of_8_bit_codes(core: str, tmp_path: Path) -> None:
    every = np.arange(-128, 128).astype(np.int8)
    pairs = {0: np.repeat(every, 256).reshape(256, 256), 1: np.tile(every, (256, 1))}
    shapes = ((256,), (256,))
    cases = [
        Case(op, shapes, (Posit(8, es),) * 2, (Posit(*out),), samples=256, codes=pairs)
        for op, es, out in (("add", 0, (8, 0)), ("sub", 2, (8, 2)), ("mul", 1, (8, 1)), ("add", 2, (16, 1)))
    ]
    _check(cases, tmp_path, core)


def _edges(fmt: Posit, rng: np.random.Generator, count: int) -> NDArray[Any]:
    """Codes whose significands are few ones or nearly all ones, at all scales: ties and their neighbours."""
    ones = 1 << rng.integers(0, fmt.n - 1, (2, count))
    codes = ones[0] + rng.choice([-1, 0, 1], count) * ones[1]
    codes = np.where(rng.random(count) < 0.3, rng.integers(fmt.min_code, fmt.max_code + 1, count), codes)
    codes = np.where(rng.random(count) < 0.5, -codes, codes)
    return np.clip(codes, fmt.min_code, fmt.max_code).astype(fmt.storage)


MIXED = (
    ((16, 1), (16, 1), (16, 1)),
    ((16, 2), (16, 2), (16, 2)),
    ((16, 0), (16, 3), (16, 2)),
    ((16, 2), (8, 0), (9, 2)),
    ((8, 2), (12, 2), (16, 1)),
    ((16, 1), (10, 2), (8, 2)),
)


@pytest.mark.parametrize("core", ["host", "avr", "m3"])
def test_ties_cancellation_and_the_ends_of_16_bits(core: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    count, samples = 200, 12
    cases = []
    for formats in MIXED:
        a, b, out = (Posit(*fmt) for fmt in formats)
        left, right = (np.stack([_edges(f, rng, count) for _ in range(samples)]) for f in (a, b))
        if a == b:  # neighbours cancel
            right[:4] = np.clip(left[:4] + rng.integers(-2, 3, (4, count)), a.min_code, a.max_code)
        for op in OPERATIONS:
            codes = {0: left, 1: right}
            cases.append(Case(op, ((count,), (count,)), (a, b), (out,), samples=samples, codes=codes))
    _check(cases, tmp_path, core)
