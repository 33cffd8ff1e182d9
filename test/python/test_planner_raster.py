# SPDX-License-Identifier: Apache-2.0
"""Overlap distances: safe and exact, by following every byte of random operators."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from planner_overlap import Case, check, random_case, survives, window_turns

from minun_pio.planner.raster import (
    Distances,
    Window,
    concat_first_distance,
    dense_distances,
    elementwise_distances,
    window_distances,
)


@pytest.mark.parametrize("seed", range(8))
def test_no_distance_is_unsafe_and_none_could_be_a_byte_closer(seed: int) -> None:
    chance = random.Random(1000 + seed)
    for _ in range(150):
        case = random_case(chance)
        overlapping, unsafe, loose = check(case)
        assert (unsafe, loose) == (0, 0), case.what
        assert overlapping <= 2


def test_the_simulation_sees_a_distance_that_is_too_small() -> None:
    w = Window(8, 8, 4, 8, 8, 8, (3, 3), padding=(1, 1))
    forward, _ = window_distances(w)
    turns = list(window_turns(w))
    assert survives(turns, forward, 0)
    assert not survives(turns, forward - 1, 0)
    assert check(Case("", turns, w.input_size, w.output_size, Distances(forward - 1, w.input_size)))[1] == 1


def test_a_pointwise_convolution_that_halves_channels_needs_no_distance_forward() -> None:
    w = Window(16, 16, 8, 16, 16, 4, (1, 1))
    assert window_distances(w).forward == 0


def test_a_pooling_runs_over_all_of_its_input() -> None:
    w = Window(16, 16, 8, 8, 8, 8, (2, 2), stride=(2, 2), groups=8)
    assert window_distances(w).forward == 0


def test_an_elementwise_operator_that_widens_needs_the_room_of_all_but_one_element() -> None:
    assert elementwise_distances(10, 1, 2) == Distances(9, 0)
    assert elementwise_distances(10, 2, 2) == Distances(0, 0)


def test_a_dense_layer_that_reads_its_input_first_may_overlap_wholly() -> None:
    assert dense_distances(1, 100, 30) == Distances(0, 0)
    assert dense_distances(1, 100, 30, gathered=False) == Distances(29, 99)


def test_a_concat_of_channels_saves_its_first_input() -> None:
    rows, run, stride = 64, 3, 8
    assert rows * stride - concat_first_distance(rows, run, stride) >= rows * run
