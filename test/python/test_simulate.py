# SPDX-License-Identifier: Apache-2.0
"""Simulation: formats by one rule, exact results, batches in parts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from small_networks import branches, nested_loops, recurrent, two_layers

from minun_pio.errors import MinunError
from minun_pio.numerics.affine import affine_for_range, affine_for_weights
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.index import Index32
from minun_pio.numerics.posit import Posit
from minun_pio.simulate.assign import format_groups, index_tensors, real_tensors, uniform, unify
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.reference import profile, reference
from minun_pio.simulate.run import run

P8, P16 = Posit(8, 2), Posit(16, 2)


def batch(graph, count: int = 7) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {n: rng.normal(size=(count, *graph.tensors[n].shape)) for n in graph.inputs}


def test_a_dense_layer_is_the_exact_sum_rounded_once():
    graph = two_layers()
    done = run(graph, uniform(graph, P8), batch(graph), keep=["x", "w", "b", "h"])
    x, w, b = done.values("x")[:, 0], done.values("w")[0], done.values("b")[0]
    for sample in range(7):
        for row in range(8):
            exact = Fraction(b[row])
            for k in range(6):
                exact += Fraction(x[sample, k]) * Fraction(w[row, k])
            assert float(exact) == exact  # fits a double, so encoding it is one rounding
            assert P8.encode(np.array([float(exact)]))[0] == done.codes["h"][sample, 0, row]


def test_a_batch_in_parts_gives_the_same_codes():
    graph = recurrent()
    whole = run(graph, uniform(graph, P16), batch(graph))
    parts = run(graph, uniform(graph, P16), batch(graph), chunk_bytes=400)
    for name in graph.outputs:
        assert np.array_equal(whole.codes[name], parts.codes[name])


def test_a_kept_constant_comes_once_with_a_scale_for_each_of_its_channels():
    graph = two_layers()
    w = graph.constants["w"]
    formats = {**uniform(graph, affine_for_range(-4.0, 4.0)), "w": affine_for_weights(w, axis=0)}
    done = run(graph, formats, batch(graph), keep=["w"], chunk_bytes=100)
    assert done.codes["w"].shape == (1, *w.shape)
    assert np.array_equal(done.values("w")[0], formats["w"].decode(formats["w"].encode(w)))


def test_constants_are_encoded_once_per_format():
    graph, cache = two_layers(), {}
    run(graph, uniform(graph, P8), batch(graph), cache=cache)
    first = dict(cache)
    run(graph, uniform(graph, P8), batch(graph), cache=cache)
    assert all(cache[key] is codes for key, codes in first.items())
    assert set(cache) == {("w", P8), ("b", P8), ("w2", P8)}


def test_tensors_that_share_codes_share_the_widest_format():
    graph = branches()
    wide = unify(graph, {**uniform(graph, P8), "a2": P16})
    assert {wide[n] for n in ("a", "a2", "a3", "b", "c", "o")} == {P16}
    assert wide["x"] == wide["w"] == P8


def test_a_loop_keeps_one_format_for_a_state_inside_and_outside():
    graph = recurrent()
    groups = {name: group for group in format_groups(graph) for name in group}
    assert set(groups["h0"]) == {"h0", "loop/h", "loop/s", "loop/hn", "hT", "y"}
    assert set(groups["x"]) == {"x", "loop/xt"}
    wide = unify(graph, {**uniform(graph, P8), "loop/hn": P16})
    assert wide["h0"] == wide["y"] == P16


def test_the_wider_scale_wins_among_fixed_point_tensors_of_a_group():
    graph = branches()
    given = {**uniform(graph, Fixed(8, -6)), "b": Fixed(8, -3)}
    assert unify(graph, given)["c"] == Fixed(8, -3)


def test_a_tensor_without_a_format_is_named():
    graph = two_layers()
    given = uniform(graph, P8)
    del given["h"]
    with pytest.raises(MinunError, match="'h' has no number format"):
        run(graph, given, batch(graph))


def test_an_operand_of_another_family_is_converted():
    graph = two_layers()
    given = {**uniform(graph, P8), "x": Float32()}
    legal = legalise(graph, given)
    assert legal.graph.nodes[0].op == "convert"
    assert legal.formats["x"] == Float32()
    assert legal.formats[legal.graph.nodes[1].inputs[0]] == P8


def test_indices_are_no_choice_of_the_search():
    graph = two_layers()
    node = graph.nodes[2]
    from dataclasses import replace

    from minun_pio.ir import Node, Tensor

    graph = replace(
        graph,
        tensors={**graph.tensors, "k": Tensor("k", (1,))},
        nodes=(
            *graph.nodes,
            Node("best", "argmax", (node.outputs[0],), ("k",), {"axis": 1, "keepdims": False}),
        ),
        outputs=("k",),
    )
    assert index_tensors(graph) == {"k"}
    assert "k" not in {s.name for s in real_tensors(graph)}
    done = run(graph, uniform(graph, P16), batch(graph), keep=["y"])
    assert done.formats["k"] == Index32()
    assert np.array_equal(done.codes["k"].reshape(-1), done.codes["y"][:, 0].argmax(axis=1))


def test_logged_tensors_of_a_loop_come_with_time():
    graph = recurrent(steps=5)
    done = run(graph, uniform(graph, P16), batch(graph), keep=["loop/hn", "y", "w2"])
    assert done.codes["loop/hn"].shape == (7, 5, 1, 4)
    assert np.array_equal(done.codes["loop/hn"], done.codes["y"])
    assert done.codes["w2"].shape == (1, 2, 4)


def test_the_profile_holds_every_tensor_of_every_loop():
    graph = nested_loops()
    found = profile(graph, batch(graph), chunk_bytes=300)
    assert set(found) == {s.name for s in real_tensors(graph)}
    values = reference(graph, batch(graph), keep=["rows/m"])["rows/m"]
    assert (found["rows/m"].low, found["rows/m"].high) == (values.min(), values.max())


def test_the_float_run_of_a_loop_is_the_recurrence():
    graph = recurrent(steps=4)
    x = batch(graph)["x"]
    body = graph.nodes[0].body
    h = np.broadcast_to(graph.constants["h0"], (7, 1, 4))
    for t in range(4):
        h = np.maximum(x[:, t] @ body.constants["w"].T + h @ body.constants["u"].T, 0)
    assert np.allclose(reference(graph, x)["o"], h @ graph.constants["w2"].T)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((4, 5)), "expects"),
        ({"z": np.zeros((4, 6))}, "no data for input 'x'"),
    ],
)
def test_data_that_do_not_fit_are_one_clear_line(data, message):
    graph = two_layers()
    with pytest.raises(MinunError, match=message):
        run(graph, uniform(graph, P8), data)
