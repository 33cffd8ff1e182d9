# SPDX-License-Identifier: Apache-2.0
"""What a search counts of an assignment is what a build counts of it; the estimate of time orders kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_networks import recurrent, two_layers, wide

from minun_pio.build import compile_model, import_network
from minun_pio.config import read_model
from minun_pio.config.model import Formats, Memory
from minun_pio.costs import Costs
from minun_pio.emit.lower import lower
from minun_pio.ir import Graph, Tensor
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Format
from minun_pio.numerics.posit import Posit
from minun_pio.ops.operator import Binding
from minun_pio.schedule.arena import place
from minun_pio.schedule.layout import lay_out
from minun_pio.search.rungs import space_of
from minun_pio.search.speed import estimated_count
from minun_pio.simulate.assign import operator_of, real_tensors
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.reference import profile

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


def uniform(graph: Graph, fmt: Format) -> dict[str, Format]:
    return {scoped.name: fmt for scoped in real_tensors(graph)}


def built(graph: Graph, assignment: Mapping[str, Format], core: str) -> int:
    """The flash of the program that a build makes, by its own count."""
    return lower(place(lay_out(legalise(graph, assignment), core)), "tiny").flash.total


@pytest.mark.parametrize("core", ["avr", "m3", "m7", "host"])
@pytest.mark.parametrize("fmt", [Posit(8, 0), Posit(8, 2), Posit(16, 1), Fixed(8, -5), Fixed(16, -11)])
@pytest.mark.parametrize("graph", [two_layers(), wide(), recurrent()], ids=["two layers", "wide", "loop"])
def test_the_flash_of_a_search_is_the_flash_of_the_build(graph: Graph, fmt: Format, core: str) -> None:
    assignment = uniform(graph, fmt)
    costs = Costs(graph, core, Memory())
    assert costs.packed(assignment).flash == built(graph, assignment, core)


@pytest.mark.parametrize("name", ["cnn", "protonn"])
@pytest.mark.parametrize("family", ["posit", "fixed", "int8"])
def test_mixed_formats_on_the_quickstarts_networks_are_counted_like_the_build(name: str, family: str) -> None:
    config = read_model(DIGITS / name / "model.yaml")
    graph = import_network(config)
    shape = graph.tensors[graph.inputs[0]].shape
    data = {graph.inputs[0]: np.random.default_rng(5).random((8, *shape))}
    space = space_of(graph, Formats(family), profile(graph, data))
    costs = Costs(graph, "avr", config.memory)
    for start in (0, 1, 2):
        high = frozenset(group.name for group in space.groups[start::3])
        assignment = space.assign(space.low[0], space.high[0], high)
        assert costs.packed(assignment).flash == built(graph, assignment, "avr")
        assert costs.flash(assignment) <= costs.packed(assignment).flash + 200  # before it is placed
        assert costs.ram(assignment) <= costs.packed(assignment).ram


def test_what_a_search_says_fits_is_what_the_build_makes_of_it() -> None:
    from minun_pio.board.target import Target

    config = read_model(DIGITS / "protonn" / "model.yaml")
    summary = compile_model(config, Target("uno", "avr", 2048, 32256)).summary
    assert summary["search"]["fits"]
    assert summary["search"]["flash_bytes"] == summary["flash"]["total"]
    assert summary["search"]["ram_bytes"] == summary["arena"]["bytes"]


def test_constants_that_avr_cannot_take_do_not_fit_and_are_not_promoted() -> None:
    rng = np.random.default_rng(2)
    graph = two_layers()
    shapes = {"x": (1, 128), "w": (150, 128), "b": (150,), "h": (1, 150), "r": (1, 150), "w2": (3, 150)}
    large = replace(
        graph,
        tensors={**graph.tensors, **{name: Tensor(name, shape) for name, shape in shapes.items()}},
        constants={name: rng.normal(size=shapes[name]) / 8 for name in ("w", "b", "w2")},
    )
    low, high = uniform(large, Posit(8, 0)), uniform(large, Posit(16, 1))  # 19,200 and 38,400 B in one array
    costs = Costs(large, "avr", Memory())
    assert costs.packed(low).readable
    assert not costs.packed(high).readable
    assert costs.flash(low) < 256 * 1024 < costs.flash(high)
    assert Costs(large, "m3", Memory()).packed(high).readable


def count(graph: Graph, fmt: Format, core: str) -> float:
    return Costs(graph, core, Memory()).packed(uniform(graph, fmt)).count


@pytest.mark.parametrize("core", ["avr", "m3"])
def test_wider_and_slower_kernels_are_estimated_slower(core: str) -> None:
    narrow, table, wide_table = (
        count(two_layers(), f, core) for f in (Posit(8, 0), Posit(8, 2), Posit(16, 1))
    )
    assert narrow <= table < wide_table < count(two_layers(), Posit(32, 2), core)
    assert count(two_layers(), Fixed(8, -5), core) <= count(two_layers(), Fixed(16, -11), core)
    assert count(two_layers(), Fixed(16, -11), core) < count(two_layers(), Posit(16, 1), core)


def test_a_layer_in_tiles_is_estimated_slower_than_the_same_layer_whole() -> None:
    graph = wide()
    schedule = lay_out(legalise(graph, uniform(graph, Posit(8, 0))), "avr")
    binding: Binding = schedule.calls()[0].binding
    whole, tiled = (
        estimated_count(b, operator_of(b.node).emit(b))
        for b in (binding, replace(binding, small_scratch=True))
    )
    assert whole < tiled


def test_a_loops_calls_are_estimated_as_often_as_they_run() -> None:
    one, ten = (count(recurrent(steps=steps), Posit(8, 0), "m3") for steps in (1, 10))
    assert 6 * one < ten < 10 * one
