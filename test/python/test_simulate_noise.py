# SPDX-License-Identifier: Apache-2.0
"""The noise of a tensor's format: alone, with all before it, clipped, lost to zero, in loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from small_networks import recurrent, two_layers

from minun_pio.numerics.affine import affine_for_range
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.posit import Posit
from minun_pio.simulate import noise as noise_module
from minun_pio.simulate.assign import uniform
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.noise import Noise, noise
from minun_pio.simulate.reference import reference


def rows_of(graph, assignment, x) -> dict[str, Noise]:
    return {row.tensor: row for row in noise(legalise(graph, assignment), x)}


def samples(graph, count: int = 50) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(count, *graph.tensors[graph.inputs[0]].shape))


def test_the_one_bad_format_has_the_least_ratio_of_its_own_and_later_tensors_keep_theirs():
    graph = two_layers()
    good = uniform(graph, Posit(16, 1))
    rows = rows_of(graph, {**good, "h": Posit(8, 2), "r": Posit(8, 2)}, samples(graph))
    own = {name: row.own_db for name, row in rows.items() if row.own_db is not None}
    assert min(own, key=own.__getitem__) == "h"  # relu's answer is exact
    out = rows[graph.outputs[0]]
    assert out.own_db > 60
    assert out.total_db < 40


def test_total_is_the_ratio_of_the_answer_against_real_numbers():
    graph = two_layers()
    x = samples(graph)
    legal = legalise(graph, uniform(graph, Posit(8, 2)))
    name = graph.outputs[0]
    from minun_pio.simulate.run import run

    real = reference(graph, x)[name]
    error = run(graph, uniform(graph, Posit(8, 2)), x).values(name) - real
    expected = 10 * math.log10(np.sum(real**2) / np.sum(error**2))
    found = {row.tensor: row for row in noise(legal, x)}[name]
    assert found.total_db == pytest.approx(expected)


def test_values_beyond_a_fixed_formats_last_are_clipped_and_small_ones_lost_to_zero():
    graph = two_layers()
    wide = uniform(graph, Fixed(16, -8))
    rows = rows_of(
        graph, {**wide, "x": Fixed(8, -7), "h": Fixed(8, 2), "r": Fixed(8, 2)}, samples(graph, 400)
    )
    assert 0.25 < rows["x"].clipped < 0.4  # beyond one standard deviation
    assert rows["x"].zeroed < 0.01
    assert rows["h"].zeroed > 0.2  # below two
    assert rows["h"].clipped == 0


def test_formats_of_every_family_have_rows_for_every_tensor_and_float32_loses_almost_nothing():
    graph = two_layers()
    x = samples(graph)
    least = {}
    for fmt in (Posit(8, 0), Fixed(8, -4), affine_for_range(-8, 8), Float32()):
        rows = rows_of(graph, uniform(graph, fmt), x)
        assert set(graph.tensors) <= {name.split("@")[0] for name in rows}
        least[fmt.family] = min(row.total_db for row in rows.values() if row.total_db is not None)
    assert least["float"] > 120 > 50 > max(least["posit"], least["fixed"], least["affine"])


def test_tensors_in_a_loop_count_every_step():
    graph = recurrent(steps=5)
    rows = rows_of(graph, uniform(graph, Posit(8, 2)), samples(graph))
    inside = [row for row in rows.values() if "/" in row.tensor and row.role == "computed"]
    assert inside
    assert all(row.own_db > 20 for row in inside)
    assert all(row.total_db <= row.own_db + 6 for row in inside if row.total_db is not None)


def test_parts_of_a_batch_give_what_the_whole_gives(monkeypatch):
    graph = recurrent(steps=3)
    legal, x = legalise(graph, uniform(graph, Posit(8, 2))), samples(graph, 9)
    whole = noise(legal, x)
    monkeypatch.setattr(noise_module, "BATCH_BYTES", 1)
    for a, b in zip(whole, noise(legal, x), strict=True):
        assert (b.low, b.high, b.clipped, b.zeroed) == (a.low, a.high, a.clipped, a.zeroed)
        assert b.own_db == pytest.approx(a.own_db)
        assert b.total_db == pytest.approx(a.total_db)


def test_nar_is_counted_and_does_not_hide_the_other_values():
    graph = two_layers()
    x = samples(graph)
    x[0] = np.nan
    row = rows_of(graph, uniform(graph, Posit(16, 1)), x)["h"]
    assert row.nar == pytest.approx(1 / len(x))
    assert row.own_db > 60


def test_an_infinite_ratio_is_a_word_in_json():
    row = Noise("x", "posit<8,0>", "input", 0, 1, math.inf, math.inf, 0, 0, 0)
    assert row.to_json()["own_db"] == "exact"
    assert replace(row, own_db=None).to_json()["own_db"] is None
