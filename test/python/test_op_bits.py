# SPDX-License-Identifier: Apache-2.0
"""Every kernel gives the simulation's bits, in every format, wherever the planner may put its tensors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from op_cases import BUILDERS, FORMAT_SETS, cases
from op_harness import Case, device_mismatches, reference_gap

from minun_pio.numerics.format import Codes
from minun_pio.numerics.posit import Posit
from minun_pio.ops import REGISTRY

_ELSEWHERE = {"scan"}


@pytest.mark.parametrize("op", sorted(BUILDERS))
def test_the_kernel_gives_the_simulations_bits(op: str, tmp_path: Path) -> None:
    every = [case for formats in FORMAT_SETS for case in cases(op, formats)]
    assert every
    assert device_mismatches(every, tmp_path) == []


def test_every_operator_has_cases() -> None:
    assert set(REGISTRY) - set(BUILDERS) <= _ELSEWHERE


def test_a_single_wrong_code_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    relu = type(REGISTRY["relu"])
    right = relu.simulate

    def wrong(self: object, *arguments: object) -> list[Codes]:
        codes = np.array(right(self, *arguments)[0])  # type: ignore[arg-type]
        codes.flat[5] += 1
        return [codes]

    monkeypatch.setattr(relu, "simulate", wrong)
    problems = device_mismatches([Case("relu", ((9,),), (Posit(8, 2),), (Posit(8, 2),))], tmp_path)
    assert len(problems) == 3  # apart, in place, overlapping
    assert "sample 0 output 0 at (5,)" in problems[0]


_LOOSE = {  # relative to the largest value of the output
    "posit<16,2>": 2e-3,
    "posit<32,2>": 2e-5,
    "float32": 1e-5,
}
_NARROW_RANGE = {"div", "reciprocal", "exp", "convert", "log", "squared_distance", "layer_norm"}


@pytest.mark.parametrize("op", sorted(set(BUILDERS) - _NARROW_RANGE))
@pytest.mark.parametrize("name", ["posit<16,2>", "posit<32,2>", "float32"])
def test_the_simulation_is_close_to_the_reference(op: str, name: str) -> None:
    (formats,) = (f for f in FORMAT_SETS if f.name == name)
    for case in cases(op, formats):
        assert reference_gap(replace(case, tame=True)) <= _LOOSE[name], case.label
