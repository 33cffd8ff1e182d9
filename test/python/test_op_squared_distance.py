# SPDX-License-Identifier: Apache-2.0
"""The integer kernel of squared_distance: its guard is tight, and what fails it is summed exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_harness import BOARD_FLAGS, HOST_FLAGS, Case, device_mismatches, prepare

from minun_pio.board.bare import missing_tools
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.posit import Posit
from minun_pio.ops.distance_kernels import Chosen, choose

FORMATS: tuple[tuple[Any, Any, Any], ...] = (
    (Posit(8, 0), Posit(8, 0), Posit(16, 1)),
    (Posit(8, 2), Posit(8, 2), Posit(8, 2)),
    (Posit(12, 2), Posit(9, 2), Posit(16, 2)),
    (Posit(16, 1), Posit(8, 0), Posit(16, 1)),
    (Posit(16, 1), Posit(16, 1), Posit(8, 0)),
    (Posit(16, 2), Posit(16, 2), Posit(16, 2)),
    (Fixed(8, -4), Fixed(8, -5), Fixed(8, -2)),
    (Fixed(16, -11), Fixed(16, -12), Fixed(16, -9)),
)
ROWS, LENGTH = 5, 9


def _case(x: Any, b: Any, out: Any, **more: Any) -> Case:
    shapes = ((1, LENGTH), (ROWS, LENGTH))
    return Case("squared_distance", shapes, (x, b), (out,), {}, frozenset({1}), **more)


def _prototypes(b: Any) -> np.ndarray[Any, Any]:
    """Around one, with a row of the largest magnitude, a row of its negative, and a row of zeros."""
    codes = b.encode(np.random.default_rng(5).normal(0.0, 1.0, (ROWS, LENGTH)))
    codes[1], codes[2], codes[3] = np.abs(codes).max(), -np.abs(codes).max(), 0
    return np.asarray(codes)


def _chosen(x: Any, b: Any, out: Any, core: str) -> Chosen:
    chosen = choose(prepare(_case(x, b, out, codes={1: _prototypes(b)}), core).binding)
    assert chosen is not None
    return chosen


def _inputs(x: Any, chosen: Chosen) -> list[np.ndarray[Any, Any]]:
    """At the guard on both sides, one code beyond it, the smallest codes, NaR, and ordinary values."""
    edges = [chosen.limit, -chosen.limit, min(chosen.limit + 1, x.max_code), x.min_code, 1, -1, 0]
    rows = [np.full(LENGTH, edge) for edge in edges]
    rows += [np.where(np.arange(LENGTH) % 2, chosen.limit, -chosen.limit)]
    if isinstance(x, Posit):
        rows += [np.where(np.arange(LENGTH) == 4, x.nar, 3)]
    rng = np.random.default_rng(6)
    rows += [x.encode(rng.normal(0.0, spread, LENGTH)) for spread in (0.01, 1.0, 1.0, 30.0)]
    return [row.astype(x.storage) for row in rows]


@pytest.mark.parametrize("core", ["host", "avr", "m3"])
def test_inputs_at_and_beyond_the_guard_give_the_simulations_bits(core: str, tmp_path: Path) -> None:
    if missing := missing_tools(core):
        pytest.skip(f"{core} needs {', '.join(missing)}")
    cases = []
    for x, b, out in FORMATS:
        inputs = np.stack(_inputs(x, _chosen(x, b, out, core)))[:, None, :]
        cases.append(_case(x, b, out, samples=len(inputs), codes={0: inputs, 1: _prototypes(b)}))
    flags = HOST_FLAGS if core == "host" else BOARD_FLAGS
    mcu = "atmega1284p" if core == "avr" else None
    assert device_mismatches(cases, tmp_path, core, flags, mcu) == []


@pytest.mark.parametrize("core", ["avr", "m3"])
@pytest.mark.parametrize("formats", FORMATS, ids=str)
def test_no_sum_of_guarded_inputs_overflows(formats: tuple[Any, Any, Any], core: str) -> None:
    x, b, out = formats
    chosen = _chosen(x, b, out, core)
    largest = float(x.decode(np.asarray([chosen.limit], x.storage))[0]) * 2.0**-chosen.unit
    prototype = max(abs(int(v)) for v in chosen.prototypes.values) << chosen.shift
    assert largest + prototype < 1 << (chosen.bits - 1)
    assert LENGTH * (int(largest) + prototype) ** 2 < 1 << (2 * chosen.bits - 1)


def test_usual_inputs_take_the_fast_path() -> None:
    values = np.random.default_rng(7).normal(0.0, 1.0, 2000)
    for x, b, out in FORMATS:
        chosen = _chosen(x, b, out, "m3")
        codes = x.encode(values)
        units = np.asarray(x.decode(codes)) * 2.0**-chosen.unit
        passes = (np.abs(codes.astype(int)) <= chosen.limit) & (units == np.round(units))
        assert passes.mean() > 0.995, (x.name, b.name)
