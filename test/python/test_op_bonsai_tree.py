# SPDX-License-Identifier: Apache-2.0
"""The integer rows of bonsai_tree: z at its guard and beyond it gives the simulation's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_harness import BOARD_FLAGS, HOST_FLAGS, Case, device_mismatches, prepare

from minun_pio.board.bare import missing_tools
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.posit import Posit
from minun_pio.ops.bonsai_kernels import Chosen, choose

FORMATS: tuple[tuple[Any, Any, Any], ...] = (
    (Posit(8, 0), Posit(8, 0), Posit(8, 0)),
    (Posit(8, 2), Posit(8, 2), Posit(16, 1)),
    (Posit(16, 1), Posit(8, 0), Posit(16, 1)),
    (Posit(16, 2), Posit(16, 2), Posit(16, 2)),
    (Fixed(16, -11), Fixed(16, -12), Fixed(16, -9)),
)
LENGTH = 6


def _case(z: Any, weights: Any, out: Any, **more: Any) -> Case:
    shapes = ((1, LENGTH), (21, LENGTH), (21, LENGTH), (3, LENGTH))
    attrs = {"depth": 2, "classes": 3, "gate": "clip", "sigma": 0.75}
    rng = np.random.default_rng(8)
    codes = {i: weights.encode(rng.normal(0.0, 0.5, shapes[i])) for i in (1, 2, 3)}
    codes[2][4], codes[2][5] = np.abs(codes[2]).max(), 0
    codes.update(more.pop("codes", {}))
    formats = (z, weights, weights, weights)
    return Case("bonsai_tree", shapes, formats, (out,), attrs, frozenset({1, 2, 3}), codes=codes, **more)


def _chosen(formats: tuple[Any, Any, Any], core: str) -> Chosen:
    chosen = choose(prepare(_case(*formats), core).binding)
    assert chosen is not None
    return chosen


@pytest.mark.parametrize("core", ["host", "avr", "m3"])
def test_z_at_and_beyond_the_guard_gives_the_simulations_bits(core: str, tmp_path: Path) -> None:
    if missing := missing_tools(core):
        pytest.skip(f"{core} needs {', '.join(missing)}")
    cases = []
    for formats in FORMATS:
        z, limit = formats[0], _chosen(formats, core).limit
        edges = [limit, -limit, min(limit + 1, z.max_code), z.min_code, 1, -1, 0]
        rows = [np.full(LENGTH, edge) for edge in edges]
        rows += [np.where(np.arange(LENGTH) % 2, limit, -limit)]
        if isinstance(z, Posit):
            rows += [np.where(np.arange(LENGTH) == 4, z.nar, 3)]
        rng = np.random.default_rng(9)
        rows += [z.encode(rng.normal(0.0, spread, LENGTH)) for spread in (0.01, 1.0, 1.0, 30.0)]
        inputs = np.stack([row.astype(z.storage) for row in rows])[:, None, :]
        cases.append(_case(*formats, samples=len(inputs), codes={0: inputs}))
    flags = HOST_FLAGS if core == "host" else BOARD_FLAGS
    assert device_mismatches(cases, tmp_path, core, flags, "atmega1284p" if core == "avr" else None) == []


@pytest.mark.parametrize("formats", FORMATS, ids=str)
def test_no_row_of_guarded_z_overflows(formats: tuple[Any, Any, Any]) -> None:
    chosen = _chosen(formats, "m3")
    largest = float(formats[0].decode(np.asarray([chosen.limit], formats[0].storage))[0]) * 2.0**-chosen.unit
    assert largest < 1 << 31
    for table in chosen.tables.values():
        rows = np.abs(np.array(table.values, object)).reshape(-1, LENGTH).sum(axis=1)
        assert int(rows.max()) * int(largest) < 1 << 63
