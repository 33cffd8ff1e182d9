# SPDX-License-Identifier: Apache-2.0
"""Haunter and its rivals on networks small enough to know the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minun_pio.numerics.posit import Posit
from minun_pio.search import STRATEGIES, Group, Limits, Rung, Space
from minun_pio.search.bracket import bracketing
from minun_pio.search.haunter import deviation, score
from minun_pio.search.promotion import fill
from minun_pio.search.space import Assignment, Packed
from minun_pio.search.trail import Trail

LOW, LOW2 = Posit(8, 0), Posit(8, 2)
HIGH, HIGH2 = Posit(16, 1), Posit(16, 2)


def rung(fmt: Posit, names: tuple[str, ...]) -> Rung:
    return Rung(fmt.name, fmt.bits, dict.fromkeys(names, fmt))


def space(
    sizes: Mapping[str, int], low: tuple[Posit, ...] = (LOW,), high: tuple[Posit, ...] = (HIGH,)
) -> Space:
    names = tuple(sizes)
    groups = tuple(Group(name, (name,), size) for name, size in sizes.items())
    return Space(
        groups,
        tuple(rung(f, names) for f in low),
        tuple(rung(f, names) for f in high),
        rung(Posit(32, 2), names),
    )


class Toy:
    """A network whose every tensor is live all the time; accuracy is a function of who is high."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        accuracy: Callable[[frozenset[str]], float],
        damage: Mapping[str, float] | None = None,
        float_accuracy: float = 1.0,
        packing_loss: int = 0,
        count: Callable[[frozenset[str]], float] = lambda high: 1000.0,
    ) -> None:
        self.count_of = count
        self.sizes, self.accuracy_of, self.damage = sizes, accuracy, damage or {}
        self.float_accuracy, self.packing_loss = float_accuracy, packing_loss
        self.runs: list[Assignment] = []

    def high(self, assignment: Assignment) -> frozenset[str]:
        return frozenset(name for name, fmt in assignment.items() if fmt.bits > 8)

    def accuracy(self, assignment: Assignment) -> float:
        self.runs.append(assignment)
        return self.accuracy_of(self.high(assignment))

    def values(self, assignment: Assignment) -> Mapping[str, Any]:
        high = self.high(assignment)
        return {
            name: np.full((10, size), 1.0 if name in high else 1.0 + self.damage.get(name, 0.0))
            for name, size in self.sizes.items()
        }

    def ram(self, assignment: Assignment) -> int:
        return sum(size * (assignment[name].bits // 8) for name, size in self.sizes.items())

    def packed(self, assignment: Assignment) -> Packed:
        ram = self.ram(assignment) + self.packing_loss
        return Packed(ram, self.flash(assignment), self.count_of(self.high(assignment)))

    def flash(self, assignment: Assignment) -> int:
        return 0


@pytest.mark.parametrize("count", [1, 2, 3, 19, 20, 21, 100, 1000])
def test_the_deviation_is_the_stated_order_statistic_without_interpolation(count: int) -> None:
    values = np.random.default_rng(count).random(count)
    assert deviation(values) == sorted(values)[max(0, int(0.95 * count - 1))]


def test_a_difference_that_is_not_a_number_counts_as_the_worst() -> None:
    assert deviation(np.array([0.0, np.nan])) == 0.0
    assert deviation(np.full(40, np.nan)) == np.inf


def test_the_score_is_divided_by_the_static_size_not_by_the_logged_values() -> None:
    group = Group("t", ("t",), 4)
    assert score(group, {"t": np.zeros((50, 4))}, {"t": np.full((50, 4), 2.0)}) == 0.5


def test_a_group_that_lands_exactly_on_the_limit_stays_high_and_is_listed() -> None:
    sizes = {"a": 10, "b": 10, "c": 10}
    trail = Trail(space(sizes), Toy(sizes, lambda high: 0.0), Limits(ram=50))
    low, high = trail.space.low[0], trail.space.high[0]
    found = fill(trail, low, high, ["a", "b", "c"], frozenset(), 50)
    assert found.promoted == {"a", "b"}
    assert found.overshooting == ("b", "c")  # b reaches 50 B, c would need 60 B
    assert fill(trail, low, high, ["c"], frozenset(), 39.5).promoted == frozenset()


def test_a_group_that_lands_exactly_on_a_soft_limit_of_eleven_tenths_is_listed() -> None:
    sizes = {"a": 25, "b": 5}  # all low: 30 B; 'a' high: 55 B, which is 1.1 * 50 B but not in binary
    toy = Toy(sizes, lambda high: 0.0, damage={"a": 9.0, "b": 0.1})
    found = STRATEGIES["haunter"](space(sizes), toy, Limits(ram=50, soft=(1.1,)))
    assert "overshooting a" in [candidate.origin for candidate in found.candidates]


def test_filling_gives_a_new_map_and_goes_on_after_a_group_that_does_not_fit() -> None:
    sizes = {"big": 100, "small": 5}
    trail = Trail(space(sizes), Toy(sizes, lambda high: 0.0), Limits(ram=120))
    start: frozenset[str] = frozenset()
    found = fill(trail, trail.space.low[0], trail.space.high[0], ["big", "small"], start, 120)
    assert (found.promoted, found.overshooting, start) == ({"small"}, ("big",), frozenset())


def test_haunter_promotes_the_most_damaged_tensors_first() -> None:
    sizes = {"a": 10, "b": 10, "c": 10}
    toy = Toy(sizes, lambda high: 0.5 + 0.1 * ("c" in high), damage={"a": 0.1, "b": 0.2, "c": 0.9})
    found = STRATEGIES["haunter"](space(sizes), toy, Limits(ram=45))
    assert [name for name, _ in found.heat] == ["c", "b", "a"]
    assert found.promoted == ("c",)
    assert found.accuracy == pytest.approx(0.6)
    assert found.candidates[0].origin == "base"


def test_an_overshooting_tensor_gets_a_candidate_of_its_own() -> None:
    # 'big' matters most for accuracy, but its score is low and the others fill the RAM before it.
    sizes = {"x": 10, "y": 10, "big": 30}
    toy = Toy(sizes, lambda high: 0.9 if "big" in high else 0.5, damage={"x": 5.0, "y": 4.0, "big": 0.1})
    found = STRATEGIES["haunter"](space(sizes), toy, Limits(ram=85))
    assert found.promoted == ("big",)
    assert "overshooting big" in [candidate.origin for candidate in found.candidates]


def test_of_equally_accurate_candidates_haunter_takes_the_quicker_one_then_the_smaller() -> None:
    sizes = {"a": 10, "b": 20}

    def found(count: Callable[[frozenset[str]], float]) -> tuple[str, ...]:
        toy = Toy(sizes, lambda high: 0.7, damage={"a": 1.0, "b": 0.1}, count=count)
        return STRATEGIES["haunter"](space(sizes), toy, Limits(ram=60, soft=(0.8, 1.0))).promoted

    assert found(lambda high: 1000.0 - 100 * len(high)) == ("a", "b")
    assert found(lambda high: 1000.0 + 100 * ("b" in high) - 100 * ("a" in high)) == ("a",)
    assert found(lambda high: 1000.0) == ()  # the smallest
    assert found(lambda high: 1000.0 - 10 * len(high)) == ()  # 2 % are within the estimate's error


def test_a_more_accurate_candidate_wins_however_slow() -> None:
    sizes = {"a": 10, "b": 20}
    toy = Toy(sizes, lambda high: 0.7 + 0.001 * len(high), count=lambda high: 1000.0 ** len(high))
    assert STRATEGIES["haunter"](space(sizes), toy, Limits(ram=60)).promoted == ("a", "b")


def test_in_the_papers_haunter_ties_go_to_the_earliest_visited_candidate() -> None:
    sizes = {"a": 10, "b": 20}
    toy = Toy(sizes, lambda high: 0.7, damage={"a": 1.0, "b": 1.0}, count=lambda high: float(len(high)))
    found = STRATEGIES["haunter-paper"](space(sizes), toy, Limits(ram=60, soft=(0.8, 1.1)))
    assert (found.strategy, found.promoted) == ("haunter-paper", found.candidates[0].promoted)
    assert found.promoted == ("a",)
    first = found.candidates[0]
    assert (found.promoted, first.origin, first.soft_limit) == (first.promoted, "base", 0.8)


def test_a_candidate_over_the_real_limit_is_dropped_however_accurate() -> None:
    sizes = {"a": 10, "b": 10}
    toy = Toy(sizes, lambda high: float(len(high)), damage={"a": 2.0, "b": 1.0}, packing_loss=5)
    found = STRATEGIES["haunter"](space(sizes), toy, Limits(ram=35, soft=(1.0, 1.2)))
    assert found.fits
    assert found.ram_bytes <= 35
    dropped = [candidate for candidate in found.candidates if not candidate.fits]
    assert dropped
    assert all(candidate.ram_bytes > 35 for candidate in dropped)


def test_a_candidate_that_the_core_cannot_read_is_dropped_however_small() -> None:
    sizes = {"a": 10, "b": 10}

    class Unreadable(Toy):
        def packed(self, assignment: Assignment) -> Packed:
            return replace(super().packed(assignment), readable="a" not in self.high(assignment))

    found = STRATEGIES["haunter"](
        space(sizes), Unreadable(sizes, lambda high: 0.5 + 0.1 * len(high)), Limits()
    )
    assert (found.promoted, found.fits) == ((), True)


def test_when_nothing_fits_the_smallest_is_given_and_said_not_to_fit() -> None:
    sizes = {"a": 10, "b": 10}
    found = STRATEGIES["haunter"](space(sizes), Toy(sizes, lambda high: 1.0), Limits(ram=5))
    assert not found.fits
    assert found.promoted == ()


def test_stage_one_takes_the_exponent_size_that_measures_best_and_the_first_of_equals() -> None:
    sizes = {"a": 4}

    class ByExponent(Toy):
        def accuracy(self, assignment: Assignment) -> float:
            return {LOW: 0.4, LOW2: 0.8, HIGH: 0.9, HIGH2: 0.9}[assignment["a"]]  # type: ignore[index]

    toy = ByExponent(sizes, lambda high: 0.0)
    found = STRATEGIES["haunter"](space(sizes, (LOW, LOW2), (HIGH, HIGH2)), toy, Limits())
    assert (found.low, found.high) == ("posit<8,2>", "posit<16,1>")


def test_each_distinct_choice_is_simulated_once() -> None:
    sizes = {"a": 10, "b": 10, "c": 10}
    toy = Toy(sizes, lambda high: 0.5, damage={"a": 3.0, "b": 2.0, "c": 1.0})
    STRATEGIES["haunter"](space(sizes), toy, Limits(ram=50, soft=(0.8, 0.9, 1.0, 1.1)))
    choices = [tuple(sorted((name, fmt.name) for name, fmt in run.items())) for run in toy.runs]
    assert len(choices) == len(set(choices))


def test_the_flash_limit_holds_constants_low() -> None:
    sizes = {"w": 100, "x": 10}

    class InFlash(Toy):
        def ram(self, assignment: Assignment) -> int:
            return 10 * (assignment["x"].bits // 8)

        def flash(self, assignment: Assignment) -> int:
            return 100 * (assignment["w"].bits // 8)

    toy = InFlash(sizes, lambda high: float(len(high)), damage={"w": 900.0, "x": 1.0})
    found = STRATEGIES["haunter"](space(sizes), toy, Limits(ram=40, flash=150))
    assert found.promoted == ("x",)
    assert found.flash_bytes == 100


def test_shiftry_demotes_best_first_and_stops_at_the_first_step_over_the_tolerance() -> None:
    sizes = {"a": 10, "b": 10, "c": 10}
    cost = {"a": 0.03, "b": 0.01, "c": 0.005}
    toy = Toy(sizes, lambda high: 1.0 - sum(c for name, c in cost.items() if name not in high))
    found = STRATEGIES["shiftry"](space(sizes), toy, Limits(tolerated_drop=0.02))
    assert [name for name, _ in found.heat] == ["c", "b", "a"]
    assert found.promoted == ("a",)


def test_shiftry_demotes_large_tensors_first() -> None:
    sizes = {"small": 10, "large": 50_000}
    toy = Toy(sizes, lambda high: 1.0 - 0.01 * ("large" not in high))
    found = STRATEGIES["shiftry"](space(sizes), toy, Limits(tolerated_drop=0.5))
    assert [name for name, _ in found.heat] == ["large", "small"]


def test_the_rivals_rank_by_accuracy_alone_and_by_size_and_fill_the_same_ram() -> None:
    sizes = {"a": 30, "b": 10, "c": 20}
    toy = Toy(sizes, lambda high: 0.5 + {"a": 0.2, "b": 0.0, "c": 0.1}.get(min(high, default=""), 0.0))
    by_accuracy = STRATEGIES["accuracy-based"](space(sizes), toy, Limits(ram=90))
    by_size = STRATEGIES["size-based"](space(sizes), toy, Limits(ram=90))
    assert by_accuracy.promoted == ("a",)
    assert by_size.promoted == ("b", "c")


def test_uniform_strategies_take_one_rung_for_everything() -> None:
    sizes = {"a": 10, "b": 10}
    toy = Toy(sizes, lambda high: float(len(high)))
    for name, bits in (("uniform-low", 8), ("uniform-high", 16), ("float32", 32)):
        found = STRATEGIES[name](space(sizes), toy, Limits())
        assert {fmt.bits for fmt in found.assignment.values()} == {bits}


def rungs(*bits: int) -> list[Rung]:
    return [Rung(f"posit<{n},2>", n, {}) for n in bits]


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ([0.5, 0.6, 0.7, 0.8, 0.9], (10, 12)),  # float32's 0.75 lies between 10 and 12 bits
        ([0.5, 0.6, 0.75, 0.8, 0.9], (9, 10)),
        ([0.8, 0.81, 0.82, 0.83, 0.84], (8, 9)),
        ([0.1, 0.2, 0.3, 0.4, 0.5], (12, 16)),
        ([0.7, 0.7, 0.7, 0.8, 0.8], (8, 12)),  # ties go to the narrower width
        ([0.8, 0.6, 0.7, 0.9, 0.9], (8, 10)),
        ([0.6, 0.6, 0.6, 0.6, 0.6], (8, 8)),
    ],
)
def test_the_bracket_is_the_two_neighbours_of_float32_in_order_of_accuracy(
    accuracies: list[float], expected: tuple[int, int]
) -> None:
    low, high = bracketing(list(zip(accuracies, rungs(8, 9, 10, 12, 16), strict=True)), 0.75)
    assert (low.bits, high.bits) == expected


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.floats(0, 9)), min_size=1, max_size=5),
    st.integers(10, 300),
    st.integers(0, 1 << 30),
)
def test_haunter_never_exceeds_the_limit_and_is_never_worse_than_uniform_low(
    tensors: list[tuple[int, float]], limit: int, seed: int
) -> None:
    sizes = {f"t{k}": size for k, (size, _) in enumerate(tensors)}
    damage = {f"t{k}": d for k, (_, d) in enumerate(tensors)}
    table = np.random.default_rng(seed).random(1 << len(sizes))
    subsets = {
        frozenset(chosen): float(table[k])
        for k, chosen in enumerate(c for n in range(len(sizes) + 1) for c in combinations(sizes, n))
    }
    toy = Toy(sizes, subsets.__getitem__, damage)
    found = STRATEGIES["haunter"](space(sizes), toy, Limits(ram=limit, soft=(0.8, 0.9, 1.0, 1.1)))
    assert found.fits == (sum(sizes.values()) <= limit)
    if found.fits:
        assert found.ram_bytes <= limit
        assert found.accuracy >= subsets[frozenset()]
        best = max(c.accuracy for c in found.candidates if c.fits and c.accuracy is not None)
        assert found.accuracy == best
