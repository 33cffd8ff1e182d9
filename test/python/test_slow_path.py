# SPDX-License-Identifier: Apache-2.0
"""The host's guards say of the very inputs that take the exact sums on the board that they do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_program import Case, run
from small_networks import recurrent
from test_kernel_linear import tame_cases, tiled_cases

from minun_pio.numerics.posit import Posit
from minun_pio.schedule.layout import lay_out
from minun_pio.simulate.assign import uniform
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.run import encode_inputs
from minun_pio.slow_path import slow_paths


def cases_without_nar() -> list[Case]:
    cases = []
    for case in tame_cases() + tiled_cases():
        fmt, codes = case.formats[0], case.inputs[0].copy()
        if isinstance(fmt, Posit):
            codes[codes == fmt.nar] = 0
            cases.append(replace(case, inputs={0: codes}))
    return cases


@pytest.mark.parametrize("core", ["m3", "avr"])
def test_guards_trip_as_often_on_the_host_as_in_the_kernels(core: str, tmp_path: Path) -> None:
    cases = cases_without_nar()
    _, calls, result = run("host", cases, chosen_for=core, count_slow=True, folder=tmp_path)
    counted = np.diff(np.frombuffer(result.output[-4 * len(cases) :], np.uint32), prepend=0)
    decisions = [
        np.zeros(0, bool) if call.guard is None else call.guard.trips(case.inputs[0])
        for case, call in zip(cases, calls, strict=True)
    ]
    assert counted.tolist() == [int(made.sum()) for made in decisions]
    assert 0 < int(counted.sum()) < sum(made.size for made in decisions)


def test_layers_inside_loops_are_counted_step_by_step() -> None:
    graph = recurrent(steps=5)
    legal = legalise(graph, uniform(graph, Posit(16, 1)))
    x = np.random.default_rng(0).normal(size=(7, *graph.tensors[graph.inputs[0]].shape))
    rows = slow_paths(lay_out(legal, "m3"), legal, encode_inputs(graph, legal.formats, x))
    assert rows
    assert max(row.decisions for row in rows) >= 7 * 5
    assert all(row.slow == 0 and row.rate == 0.0 for row in rows if not row.always)


def test_every_operator_without_a_fast_kernel_is_named_as_always_exact() -> None:
    graph = recurrent(steps=2)
    legal = legalise(graph, uniform(graph, Posit(32, 2)))
    x = np.zeros((1, *graph.tensors[graph.inputs[0]].shape))
    rows = slow_paths(lay_out(legal, "m3"), legal, encode_inputs(graph, legal.formats, x))
    assert {row.always for row in rows} == {True}
