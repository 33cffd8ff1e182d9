# SPDX-License-Identifier: Apache-2.0
"""The planners on problems of buffers: optimal where proven, valid always, honest about what is not known."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minun_pio.errors import MinunError
from minun_pio.planner import (
    PLANNERS,
    Alias,
    Buffer,
    Plan,
    Problem,
    Region,
    Separation,
    one_after_the_other,
    plan,
    violations,
)

# MinUn's example, intervals closed: (size, first, last); bound 6, optimum 7
GAP = [
    (4, 1, 1),
    (3, 6, 7),
    (3, 2, 2),
    (2, 1, 5),
    (2, 3, 5),
    (2, 7, 7),
    (1, 2, 6),
    (1, 5, 7),
    (1, 3, 3),
    (1, 4, 4),
    (1, 6, 6),
]
SELF_CONTAINED = [name for name in PLANNERS if name != "cp-sat"]


def gap_problem() -> Problem:
    return Problem(tuple(Buffer(f"b{i}", a, b + 1, s) for i, (s, a, b) in enumerate(GAP)))


@st.composite
def problems(draw: st.DrawFn, most: int = 8) -> Problem:
    n = draw(st.integers(1, most))
    buffers = []
    for i in range(n):
        start = draw(st.integers(0, 5))
        buffers.append(Buffer(f"b{i}", start, start + draw(st.integers(1, 5)), draw(st.integers(1, 6))))
    return Problem(tuple(buffers))


def brute_force_height(problem: Problem, limit: int = 14) -> int:
    """The least height by trying every offset of every buffer, one after the other."""
    buffers = sorted(problem.buffers, key=lambda b: -b.size)

    def fits(height: int) -> bool:
        def rec(k: int, placed: list[tuple[Buffer, int]]) -> bool:
            if k == len(buffers):
                return True
            b = buffers[k]
            for at in range(0, height - b.size + 1, b.align):
                free = all(
                    b.end <= o.start or o.end <= b.start or at + b.size <= p or p + o.size <= at
                    for o, p in placed
                )
                if free and rec(k + 1, [*placed, (b, at)]):
                    return True
            return False

        return rec(0, [])

    return next(h for h in range(1, limit * len(buffers)) if fits(h))


def test_an_optimum_above_the_lower_bound_is_found_and_proven() -> None:
    answer = plan(gap_problem())
    assert (answer.height, answer.lower_bound, answer.proven, answer.status) == (7, 6, 7, "optimal")


def test_the_certificate_names_a_step_whose_live_buffers_need_the_lower_bound() -> None:
    problem = gap_problem()
    certificate = plan(problem).certificate
    live = {b.id: b.size for b in problem.buffers if b.start <= certificate.step < b.end}
    assert set(certificate.live) == set(live)
    assert sum(live.values()) == certificate.bytes == 6


@settings(max_examples=60, deadline=None)
@given(problems(most=5))
def test_exact_equals_brute_force_on_small_problems(problem: Problem) -> None:
    answer = plan(problem)
    assert answer.status == "optimal"
    assert answer.height == brute_force_height(problem)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_no_planner_beats_exact_and_dancing_links_equals_it(problem: Problem) -> None:
    best = plan(problem).height
    for name in SELF_CONTAINED:
        answer = plan(problem, name)
        assert answer.height >= best
        assert violations(problem, answer) == []
        if name == "dancing-links":
            assert answer.height == best


@settings(max_examples=60, deadline=None)
@given(problems(), st.lists(st.sampled_from([1, 2, 4, 8]), min_size=8, max_size=8))
def test_alignment_is_kept_by_every_planner_that_takes_it(problem: Problem, aligns: list[int]) -> None:
    buffers = tuple(
        Buffer(b.id, b.start, b.end, b.size, align=a) for b, a in zip(problem.buffers, aligns, strict=False)
    )
    for name in SELF_CONTAINED:
        if name == "dancing-links":
            continue
        answer = plan(Problem(buffers), name)
        assert all(answer.offsets[b.id] % b.align == 0 for b in buffers)


def test_a_pinned_buffer_stays_and_others_go_around_it() -> None:
    problem = Problem((Buffer("a", 0, 3, 4), Buffer("pin", 1, 2, 4, offset=2), Buffer("c", 0, 3, 2)))
    answer = plan(problem)
    assert answer.offsets["pin"] == 2
    assert violations(problem, answer) == []
    assert answer.height == 10


def test_sizes_up_to_two_to_the_forty_are_planned_exactly() -> None:
    big = 1 << 40
    answer = plan(Problem((Buffer("a", 0, 2, big), Buffer("b", 1, 3, big - 1), Buffer("c", 2, 4, 1))))
    assert answer.height == 2 * big - 1
    assert answer.status == "optimal"


def test_ten_thousand_buffers_get_an_answer_with_its_gap() -> None:
    buffers = tuple(Buffer(f"b{i}", i, i + 2 + i % 7, 1 + (i * 37) % 101) for i in range(10_000))
    answer = plan(Problem(buffers), timeout=0.5)
    assert answer.status in ("optimal", "best-known")
    assert answer.height >= answer.lower_bound
    assert answer.gap < 0.5


def test_ten_thousand_buffers_all_live_together_are_stacked_and_proven() -> None:
    answer = plan(Problem(tuple(Buffer(f"b{i}", 0, 5, 1 + i % 9) for i in range(10_000))), timeout=1)
    assert answer.status == "optimal"


def test_a_time_out_is_never_called_infeasible() -> None:
    buffers = gap_problem().buffers
    answer = plan(Problem(buffers, capacity=6), timeout=0.0)
    assert answer.status == "best-known"


def test_a_capacity_below_the_proven_height_is_infeasible_and_says_need_and_have() -> None:
    answer = plan(Problem(gap_problem().buffers, capacity=6))
    assert answer.status == "infeasible"
    assert answer.notes == ("needs 7 bytes, 6 are there",)


def test_a_good_enough_target_stops_the_search_early() -> None:
    answer = plan(gap_problem(), target=9)
    assert answer.height <= 9
    assert plan(gap_problem(), target=7).height == 7


def test_the_answer_is_the_same_on_every_run() -> None:
    first = plan(gap_problem())
    assert all(plan(gap_problem()).offsets == first.offsets for _ in range(3))


def test_dancing_links_refuses_a_matrix_that_would_not_fit_in_memory() -> None:
    problem = Problem(tuple(Buffer(f"b{i}", 0, 9, 1_000_003 + i) for i in range(6)))
    with pytest.raises(MinunError, match=r"matrix of \d+ cells.*use 'exact'") as caught:
        plan(problem, "dancing-links")
    assert caught.value.code == "plan.matrix-too-large"


def test_an_unknown_planner_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(MinunError, match="there is no planner 'best'; there are: exact, dancing-links"):
        plan(gap_problem(), "best")


@pytest.mark.parametrize(
    ("buffers", "code"),
    [
        ((Buffer("a", 0, 1, 1), Buffer("a", 0, 1, 1)), "plan.duplicate-buffer"),
        ((Buffer("a", 1, 1, 1),), "plan.bad-buffer"),
        ((Buffer("a", 0, 1, -1),), "plan.bad-buffer"),
        ((Buffer("a", 0, 1, 1, align=2, offset=3),), "plan.bad-pin"),
        ((Buffer("a", 0, 1, 1, region="dtcm"),), "plan.unknown-region"),
    ],
)
def test_a_problem_without_meaning_is_refused(buffers: tuple[Buffer, ...], code: str) -> None:
    with pytest.raises(MinunError) as caught:
        plan(Problem(buffers))
    assert caught.value.code == code


def test_a_separation_lets_two_buffers_share_bytes_at_its_distance() -> None:
    pair = (Buffer("in", 0, 2, 100), Buffer("out", 1, 3, 80))
    problem = Problem(pair, separations=(Separation("out", "in", 10),))
    answer = plan(problem)
    assert answer.height == 110
    assert answer.offsets["in"] - answer.offsets["out"] == 10
    assert answer.status == "optimal"


def test_an_aliased_buffer_lies_inside_its_outer_one_and_costs_nothing_more() -> None:
    buffers = (Buffer("a", 0, 3, 30), Buffer("b", 1, 3, 20), Buffer("ab", 2, 4, 50))
    problem = Problem(buffers, aliases=(Alias("a", "ab", 0), Alias("b", "ab", 30)))
    answer = plan(problem)
    assert answer.height == 50
    assert answer.offsets["b"] == answer.offsets["ab"] + 30


def test_a_part_of_a_compound_is_free_until_its_own_birth() -> None:
    buffers = (
        Buffer("a", 0, 3, 10),
        Buffer("b", 2, 3, 90),
        Buffer("ab", 2, 4, 100),
        Buffer("early", 0, 2, 90),
    )
    problem = Problem(buffers, aliases=(Alias("a", "ab", 0), Alias("b", "ab", 10)))
    assert plan(problem).height == 100


def test_regions_are_filled_cheapest_first_and_whole_buffers_are_spilled() -> None:
    regions = (Region("sram", 1000, cost=2.0), Region("dtcm", 64, cost=1.0))
    problem = Problem(
        (Buffer("hot", 0, 4, 48), Buffer("big", 0, 4, 500), Buffer("own", 0, 2, 8, region="sram")),
        regions=regions,
    )
    answer = plan(problem)
    assert answer.regions == {"hot": "dtcm", "big": "sram", "own": "sram"}
    assert answer.heights["dtcm"] <= 64
    assert violations(problem, answer) == []


def test_regions_that_cannot_hold_a_step_together_are_infeasible() -> None:
    regions = (Region("a", 10), Region("b", 10, cost=1.0))
    answer = plan(Problem(tuple(Buffer(f"b{i}", 0, 1, 8) for i in range(3)), regions=regions))
    assert answer.status == "infeasible"
    assert "needs 24 bytes" in answer.notes[0]


def test_the_validator_sees_each_kind_of_wrong_plan() -> None:
    problem = Problem((Buffer("a", 0, 2, 8, align=4), Buffer("b", 1, 3, 8)), capacity=16)
    good = plan(problem)

    def wrong(**offsets: int) -> list[str]:
        moved = {**good.offsets, **offsets}
        tops = max(moved[b.id] + b.size for b in problem.buffers)
        bad = Plan(
            moved,
            good.regions,
            {"arena": tops},
            tops,
            good.lower_bound,
            good.proven,
            good.certificate,
            "optimal",
            "x",
        )
        return violations(problem, bad)

    assert violations(problem, good) == []
    assert "share bytes" in wrong(a=0, b=4)[0]
    assert "multiple of 4" in wrong(a=2, b=10)[0]
    assert "and has 16" in wrong(a=0, b=12)[0]


@pytest.mark.parametrize(("planner", "seed"), list(product(["exact", "hill-climb"], [0, 1, 2])))
def test_every_seed_gives_a_valid_plan(planner: str, seed: int) -> None:
    assert violations(gap_problem(), plan(gap_problem(), planner, seed=seed)) == []


def test_cp_sat_agrees_where_ortools_is_installed() -> None:
    pytest.importorskip("ortools", reason="the optional extra 'ortools' is not installed")
    answer = plan(gap_problem(), "cp-sat")
    assert (answer.height, answer.status) == (7, "optimal")


def test_models_of_one_arena_share_all_bytes_but_their_state() -> None:
    a = Problem((Buffer("x", 0, 2, 100), Buffer("state", 0, 2, 10)))
    b = Problem((Buffer("x", 0, 3, 80), Buffer("y", 1, 3, 30)))
    problem = one_after_the_other({"a": a, "b": b}, {"a": ("state",)})
    answer = plan(problem)
    assert answer.height == 120
    state = answer.offsets["a/state"]
    for name in ("b/x", "b/y"):
        size = next(x.size for x in problem.buffers if x.id == name)
        assert answer.offsets[name] >= state + 10 or answer.offsets[name] + size <= state


def test_models_with_different_capacities_are_refused() -> None:
    with pytest.raises(MinunError, match="different capacities"):
        one_after_the_other({"a": Problem((), capacity=1), "b": Problem((), capacity=2)}, {})
