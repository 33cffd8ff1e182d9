# SPDX-License-Identifier: Apache-2.0
"""Below placement: sharing decided by the planner, orders searched, and every write checked."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import planner_networks as nets

from minun_pio.errors import MinunError
from minun_pio.planner.arena import Arena, Sharings, arrange
from minun_pio.planner.layout import Sharing, lay_out
from minun_pio.planner.memory_graph import GraphStep, MemoryGraph, Overlap, TensorBuffer, View
from minun_pio.planner.reorder import best_order
from minun_pio.planner.safety import Placed, hazards


def step(name: str, inputs: str, outputs: str, **traits: object) -> GraphStep:
    return GraphStep(name, tuple(inputs.split()), tuple(outputs.split()), **traits)  # type: ignore[arg-type]


def tensors(**sizes: int) -> tuple[TensorBuffer, ...]:
    """Local tensors; a name that begins with `in_` or `out_` is an input or output."""
    return tuple(
        TensorBuffer(
            n, s, kind="input" if n.startswith("in_") else "output" if n.startswith("out_") else "local"
        )
        for n, s in sizes.items()
    )


def placed(arena: Arena) -> Placed:
    return Placed(
        arena.order,
        arena.offsets,
        {**arena.regions, **arena.plan.regions},
        arena.scratch,
        arena.reverse,
        arena.aliases,
        arena.interleaved,
    )


def peaks(arena: Arena) -> dict[str, int]:
    return {s.name: s.peak for s in arena.stages}


def test_the_named_networks_reach_the_peaks_asked_for() -> None:
    for (_, graph), limit in (
        (nets.squeezenet("1.0", 224, False, True), 1_144_629),
        (nets.mobilenet_v1(96, 0.25, 2, False, True), 36_880),
        (nets.resnet8(False, True), 33_312),
        (nets.ds_cnn(False, True), 8_448),
    ):
        assert arrange(graph).height <= limit


def test_every_stage_is_reported_and_none_is_higher_than_the_one_before() -> None:
    _, graph = nets.randwire(0, True)
    arena = arrange(graph)
    names = ["first-fit", "by size", "optimal", "+ in-place", "+ concat", "+ overlap", "+ reorder"]
    assert [s.name for s in arena.stages] == names
    below = [s.peak for s in arena.stages[2:]]
    assert below == sorted(below, reverse=True)
    assert all(s.live and s.step for s in arena.stages)


@pytest.mark.parametrize("off", ["in_place", "concat", "overlap", "reorder"])
def test_each_kind_of_sharing_can_be_switched_off(off: str) -> None:
    _, graph = nets.densenet(16, 3, 4, 2, True)
    arena = arrange(graph, replace(Sharings(), **{off: False}))
    assert f"+ {off.replace('_', '-')}" not in peaks(arena)
    assert hazards(graph, placed(arena)) == []
    if off == "reorder":
        assert arena.order == tuple(s.name for s in graph.steps)
    if off == "overlap":
        assert not arena.reverse


def test_an_input_used_later_is_not_overwritten_in_place() -> None:
    graph = MemoryGraph(
        tensors(in_x=10, a=10, b=10, out_c=10),
        (
            step("f", "in_x", "a"),
            step("g", "a", "b", in_place=((0, 0),)),
            step("h", "a b", "out_c", in_place=((0, 0), (1, 0))),
        ),
    )
    arena = arrange(graph)
    assert "a" not in arena.aliases or arena.aliases["a"][0] != "b"
    assert arena.height == 20


def test_overlap_distances_are_kept_and_the_direction_is_told() -> None:
    graph = MemoryGraph(
        tensors(in_x=100, out_y=150),
        (step("conv", "in_x", "out_y", overlaps=(Overlap(0, 0, 140, 20),)),),
    )
    arena = arrange(graph)
    assert arena.height == 170
    assert arena.offsets["out_y"] - arena.offsets["in_x"] == 20
    assert arena.reverse == {"conv"}


def test_steps_run_in_reverse_only_where_that_lowers_the_peak() -> None:
    free = MemoryGraph(
        tensors(in_x=10, t0=20, t1=20, out_y=10),
        (
            step("first", "in_x", "t0", overlaps=(Overlap(0, 0, 10, 0),)),
            step("second", "t0", "t1", overlaps=(Overlap(0, 0, 5, 5),)),
            step("last", "t1", "out_y", overlaps=(Overlap(0, 0, 0, 10),)),
        ),
    )
    assert arrange(free).height == 25
    assert not arrange(free).reverse
    pinned = replace(free, tensors=(TensorBuffer("in_x", 10, kind="input", offset=0), *free.tensors[1:]))
    assert arrange(pinned).height == 25
    assert arrange(pinned).reverse == {"first"}


def test_two_inputs_of_one_step_never_ask_for_two_directions() -> None:
    both = (Overlap(0, 0, 0, 0), Overlap(1, 0, 0, 0))
    graph = MemoryGraph(
        tensors(in_a=10, in_b=10, out_c=10), (step("add", "in_a in_b", "out_c", overlaps=both),)
    )
    arena = arrange(graph)
    assert arena.height == 20
    assert not arena.reverse
    assert hazards(graph, placed(arena)) == []


def test_a_concat_along_the_first_axis_costs_nothing() -> None:
    views = (View(0, 0, 0), View(1, 0, 30))
    graph = MemoryGraph(
        tensors(in_x=5, a=30, b=40, out_y=70),
        (step("f", "in_x", "a"), step("g", "in_x", "b"), step("concat", "a b", "out_y", views=views)),
    )
    arena = arrange(graph)
    assert arena.height == 75
    assert arena.offsets["b"] == arena.offsets["out_y"] + 30


def test_slices_live_inside_what_they_are_cut_from() -> None:
    cut = View(0, 0, 8, output_inside=True)
    graph = MemoryGraph(
        tensors(in_x=16, a=8, out_b=8), (step("slice", "in_x", "a", views=(cut,)), step("f", "a", "out_b"))
    )
    arena = arrange(graph)
    assert arena.offsets["a"] == arena.offsets["in_x"] + 8
    assert arena.height == 16  # the half that the slice leaves free takes the output


def test_an_interleaved_concat_needs_kernels_that_can_stride() -> None:
    def graph(strided: bool) -> MemoryGraph:
        views = (View(0, 0, 0, interleaved=True), View(1, 0, 1, interleaved=True))
        f, g = (step(n, "in_x", o, writes_strided=strided) for n, o in (("f", "a"), ("g", "b")))
        return MemoryGraph(
            tensors(in_x=5, a=30, b=30, out_y=60), (f, g, step("concat", "a b", "out_y", views=views))
        )

    assert arrange(graph(True)).height == 65
    assert arrange(graph(True)).interleaved == {"a", "b"}
    assert arrange(graph(False)).height == 120


def test_a_buffer_from_outside_a_loop_lives_through_all_of_it() -> None:
    graph = MemoryGraph(
        (*tensors(in_x=8, w=16, t=16, out_y=8), TensorBuffer("h", 8, carried=True)),
        (
            step("make", "in_x", "w"),
            step("read", "w h", "t", loop=("L",), in_place=((0, 0),)),
            step("write", "t", "h", loop=("L",)),
            step("end", "h", "out_y"),
        ),
    )
    arena = arrange(graph)
    assert arena.offsets["w"] != arena.offsets["t"]
    assert hazards(graph, placed(arena)) == []
    assert arena.height == 8 + 16 + 16


def test_what_the_next_iteration_reads_again_is_not_overwritten_by_a_loops_last_step() -> None:
    graph = MemoryGraph(
        tensors(in_x=8, w=16, t=16, out_y=8),
        (
            step("make", "in_x", "w"),
            step("read", "w", "t", loop=("L",), in_place=((0, 0),), overlaps=(Overlap(0, 0, 0),)),
            step("end", "t", "out_y"),
        ),
    )
    arena = arrange(graph)
    assert hazards(graph, placed(arena)) == []
    assert arena.height == 16 + 16
    same = {**arena.offsets, "w": arena.offsets["t"]}
    found = hazards(graph, replace(placed(arena), offsets=same))
    assert "step 'read' writes 't' over 'w', which is needed" in found


def test_a_persistent_buffer_shares_bytes_with_nothing() -> None:
    graph = MemoryGraph(
        (*tensors(in_x=8, a=8, out_y=8), TensorBuffer("state", 8, kind="persistent")),
        (step("f", "in_x state", "a state"), step("g", "a", "out_y", in_place=((0, 0),))),
    )
    arena = arrange(graph)
    low, high = arena.offsets["state"], arena.offsets["state"] + 8
    assert all(o >= high or o + 8 <= low for n, o in arena.offsets.items() if n != "state")


def test_scratch_is_apart_from_everything_live_at_its_step() -> None:
    graph = MemoryGraph(tensors(in_x=8, out_y=8), (step("f", "in_x", "out_y", scratch=4, scratch_align=4),))
    arena = arrange(graph)
    assert arena.height == 20
    assert arena.scratch["f"] % 4 == 0


def small_dag(seed: int) -> MemoryGraph:
    chance = random.Random(seed)
    sizes = {"in_x": 4}
    steps = []
    for k in range(6):
        sources = sorted(set(chance.choices(list(sizes), k=2)))
        sizes[f"t{k}"] = chance.randint(1, 20)
        steps.append(step(f"s{k}", " ".join(sources), f"t{k}"))
    return MemoryGraph(tensors(**sizes), tuple(steps))


@pytest.mark.parametrize("seed", range(12))
def test_reordering_reaches_the_lowest_peak_of_all_orders(seed: int) -> None:
    graph = small_dag(seed)
    sharing = Sharing(graph, ())

    def peak(order: tuple[int, ...]) -> int:
        problem = lay_out(sharing, order, in_place=False, overlap=False).problem
        times = range(len(order))
        return max(sum(b.size for b in problem.buffers if b.start <= t < b.end) for t in times)

    def runs(order: tuple[int, ...]) -> bool:
        made = {"in_x"}
        for k in order:
            if not set(graph.steps[k].inputs) <= made:
                return False
            made.update(graph.steps[k].outputs)
        return True

    order, exact = best_order(sharing, in_place=False, overlap=False)
    assert exact
    assert runs(tuple(order))
    assert peak(tuple(order)) == min(peak(o) for o in permutations(range(6)) if runs(o))


@pytest.mark.parametrize("seed", range(25))
def test_random_networks_are_safe_with_everything_on(seed: int) -> None:
    graph = nets.random_network(seed)
    arena = arrange(graph, timeout=1)
    assert hazards(graph, placed(arena)) == []
    assert peaks(arena)["+ reorder"] <= peaks(arena)["optimal"]


def test_an_input_is_not_overrun_while_a_part_of_it_is_read_under_another_name() -> None:
    inside = (View(0, 0, 0, interleaved=True), View(1, 0, 1, interleaved=True))
    f, g = (step(n, "in_x", o, writes_strided=True) for n, o in (("f", "a"), ("g", "b")))
    join = step("join", "a b", "ab", views=inside)
    use = step("use", "ab a", "out_y", overlaps=(Overlap(0, 0, 0, None),), reads_strided=True)
    arena = arrange(MemoryGraph(tensors(in_x=5, a=30, b=30, ab=60, out_y=60), (f, g, join, use)))
    assert arena.interleaved == {"a", "b"}
    assert abs(arena.offsets["out_y"] - arena.offsets["ab"]) >= 60


def test_a_tensor_that_a_step_reads_twice_is_overrun_only_where_both_inputs_may_be() -> None:
    once = (Overlap(0, 0, 10, None),)
    join = step("join", "in_x in_x", "out_y", overlaps=once)
    graph = MemoryGraph(tensors(in_x=50, out_y=100), (join,))
    assert arrange(graph).height == 150
    overrun = Placed(
        ("join",),
        {"in_x": 50, "out_y": 0},
        {"in_x": "arena", "out_y": "arena"},
        {},
        frozenset(),
        {},
        frozenset(),
    )
    assert hazards(graph, overrun)
    both = replace(join, overlaps=(*once, Overlap(1, 0, 20, None)))
    arena = arrange(MemoryGraph(graph.tensors, (both,)))
    assert arena.offsets["in_x"] - arena.offsets["out_y"] >= 20
    assert arena.height == 100


def test_the_check_sees_a_write_over_what_is_still_needed() -> None:
    _, graph = nets.resnet8(False, True)
    arena = arrange(graph)
    moved = {name: 0 for name in arena.offsets}
    wrong = hazards(graph, replace(placed(arena), offsets=moved))
    assert any("which is needed" in sentence for sentence in wrong)


def test_the_check_sees_a_direction_that_is_wrong() -> None:
    graph = MemoryGraph(
        tensors(in_x=100, out_y=150),
        (step("conv", "in_x", "out_y", overlaps=(Overlap(0, 0, 140, 20),)),),
    )
    arena = arrange(graph)
    assert hazards(graph, replace(placed(arena), reverse=frozenset()))


def test_a_step_that_reads_what_nobody_wrote_is_refused() -> None:
    graph = MemoryGraph(tensors(a=1, out_b=1), (step("f", "a", "out_b"),))
    with pytest.raises(MinunError, match="step 'f' reads 'a', which no earlier step writes"):
        arrange(graph)
