# SPDX-License-Identifier: Apache-2.0
"""Schedules: live ranges are half-open, loops keep what they carry, views cost nothing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from emitted_model import emit
from small_networks import branches, nested_loops, recurrent, shift_register, tensors, two_layers

from minun_pio.ir import Graph, Node
from minun_pio.numerics.posit import Posit
from minun_pio.schedule.arena import DEFAULT_MEMORY, PLAIN, estimate_bytes, place
from minun_pio.schedule.layout import lay_out
from minun_pio.schedule.model import CopyStep, LoopStep
from minun_pio.simulate.assign import uniform
from minun_pio.simulate.legalise import legalise

NETWORKS = [two_layers(), recurrent(), recurrent(axis=1), shift_register(), nested_loops(), branches()]


def scheduled(graph, fmt=None, **options):
    return lay_out(legalise(graph, uniform(graph, fmt or Posit(8, 2))), **options)


def ranges(schedule):
    return {b.id: (b.start, b.end) for b in schedule.buffers if "#" not in b.id}


def test_a_buffer_lives_from_its_writer_to_its_last_reader():
    schedule = scheduled(two_layers())
    assert ranges(schedule) == {"h": (0, 2), "r": (1, 3)}  # dense 0, relu 1, dense 2


def test_an_input_in_the_arena_lives_from_the_start_to_its_last_reader():
    schedule = scheduled(two_layers(), input_memory="arena")
    assert ranges(schedule)["x"] == (0, 2)  # copied in at 0, read by the dense at 1


def test_what_a_loop_carries_lives_through_all_of_it():
    schedule = scheduled(recurrent())
    loop = next(s for s in schedule.steps if isinstance(s, LoopStep))
    indices = [s.index for s in loop.body]
    start, end = ranges(schedule)["loop/h"]
    assert start < min(indices)
    assert end > max(indices)
    assert ranges(schedule)["loop/a"] == (indices[0], indices[2] + 1)


def test_a_next_state_is_written_over_the_old_one_where_nobody_reads_it_any_more():
    schedule = scheduled(recurrent(sequence=False))
    loop = next(s for s in schedule.steps if isinstance(s, LoopStep))
    assert not any(isinstance(s, CopyStep) for s in loop.body)
    assert schedule.places["loop/hn"] == schedule.places["loop/h"]


def test_a_state_that_is_read_late_keeps_its_own_bytes():
    schedule = scheduled(shift_register())
    loop = next(s for s in schedule.steps if isinstance(s, LoopStep))
    assert sum(isinstance(s, CopyStep) for s in loop.body) == 6  # y, two kept, three handed over
    assert schedule.places["loop/acc2"] == schedule.places["loop/acc"]


@pytest.mark.parametrize("memory", ["caller", "arena"])
def test_a_loop_that_only_hands_its_state_through_is_no_step(memory, tmp_path):
    body = Graph("body", tensors(s=(1, 2)), (), ("s",), ("s",), {})
    graph = Graph(
        "idle",
        tensors(x=(1, 2), r=(1, 2), last=(1, 2)),
        (
            Node("positive", "relu", ("x",), ("r",)),
            Node("loop", "scan", ("r",), ("last",), {"steps": 3}, body),
        ),
        ("x",),
        ("last",),
        {},
    )
    x = np.random.default_rng(0).normal(size=(4, 1, 2))
    answered, expected = emit(
        graph, uniform(graph, Posit(8, 2)), x, tmp_path, input_memory=memory
    ).self_test()
    assert answered == expected


def test_a_state_that_stays_as_it_is_outlives_the_loops_last_step(tmp_path):
    nodes = (Node("sum", "add", ("h", "c"), ("next",)), Node("last", "relu", ("c",), ("unused",)))
    shapes = tensors(h=(1, 2), c=(1, 2), next=(1, 2), unused=(1, 2))
    body = Graph("body", shapes, nodes, ("h", "c"), ("next", "c", "unused"), {})
    graph = Graph(
        "context",
        tensors(x=(1, 2), t=(1, 2), u=(1, 2), end=(1, 2), same=(1, 2), all=(3, 1, 2)),
        (
            Node("first", "tanh", ("x",), ("t",)),
            Node("second", "neg", ("t",), ("u",)),
            Node("loop", "scan", ("u", "t"), ("end", "same", "all"), {"steps": 3}, body),
        ),
        ("x",),
        ("end",),
        {},
    )
    x = np.random.default_rng(0).normal(size=(4, 1, 2))
    answered, expected = emit(graph, uniform(graph, Posit(8, 2)), x, tmp_path).self_test()
    assert answered == expected


def test_a_reshape_needs_no_call_and_no_bytes():
    schedule = scheduled(branches())
    assert set(schedule.skipped) == {"fold", "unfold", "view"}
    assert schedule.places["a"] == schedule.places["a2"] == schedule.places["a3"]
    assert schedule.places["c"].kind == "output"


@pytest.mark.parametrize("graph", NETWORKS, ids=lambda g: g.name)
@pytest.mark.parametrize("memory", ["caller", "arena"])
def test_no_two_live_buffers_share_a_byte_and_all_are_aligned(graph, memory):
    placement = place(scheduled(graph, Posit(16, 1), input_memory=memory), PLAIN)
    where = placement.offsets
    for a, b in combinations(placement.schedule.buffers, 2):
        if a.start < b.end and b.start < a.end:
            assert where[a.id] + a.size <= where[b.id] or where[b.id] + b.size <= where[a.id], (a, b)
    for b in placement.schedule.buffers:
        assert where[b.id] % b.align == 0
        assert where[b.id] + b.size <= placement.bytes


@pytest.mark.parametrize("graph", NETWORKS, ids=lambda g: g.name)
def test_the_quick_estimate_is_the_planners_lower_bound(graph):
    schedule = scheduled(graph)
    assert estimate_bytes(schedule) == place(schedule, PLAIN).plan.lower_bound


def test_scratch_that_sets_the_peak_gives_way_to_tiles_and_other_scratch_does_not():
    rng = np.random.default_rng(3)
    graph = Graph(
        "wide",
        tensors(x=(1, 256), w=(10, 256), h=(1, 10), w2=(60, 10), y=(1, 60), w3=(4, 60), z=(1, 4)),
        (
            Node("fc1", "dense", ("x", "w", ""), ("h",)),
            Node("fc2", "dense", ("h", "w2", ""), ("y",)),
            Node("fc3", "dense", ("y", "w3", ""), ("z",)),
        ),
        ("x",),
        ("z",),
        {
            name: rng.normal(0, 0.1, shape)
            for name, shape in (("w", (10, 256)), ("w2", (60, 10)), ("w3", (4, 60)))
        },
    )
    placement = place(scheduled(graph, core="m3"))
    small = [call.name for call in placement.schedule.calls() if call.binding.small_scratch]
    assert small == ["fc1"]
    assert placement.bytes == 60 + 240  # fc3's input and scratch: tiles of it would not be smaller


def test_no_placement_is_below_the_bound_for_searches():
    for graph in NETWORKS:
        bound = estimate_bytes(scheduled(graph, core="m3", least_scratch=True), DEFAULT_MEMORY)
        assert bound <= place(scheduled(graph, core="m3")).bytes
