# SPDX-License-Identifier: Apache-2.0
"""From model.yaml's formats to rungs, and searches on real networks, every family."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from minun_pio.build import import_network
from minun_pio.config import ModelConfig, read_model
from minun_pio.config.model import Formats, Search
from minun_pio.costs import Costs
from minun_pio.errors import MinunError
from minun_pio.ir import Graph, Node, Tensor
from minun_pio.numerics.affine import Affine, affine_bias
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.posit import Posit
from minun_pio.search.assignment_json import assignment_from_json, assignment_json
from minun_pio.search.choose import choose, classes_of, is_binary
from minun_pio.search.measure import agreement
from minun_pio.search.rungs import soft_limits, space_of
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.reference import Range, profile, reference
from minun_pio.simulate.run import encode_inputs, run_codes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelConfig, Graph]:
    folder = tmp_path_factory.mktemp("digits")
    for name in ("cnn", "data"):
        shutil.copytree(ROOT / "examples" / "digits" / name, folder / name)
    config = read_model(folder / "cnn" / "model.yaml")
    return replace(config, search=replace(config.search, samples=60)), import_network(config)


def two_layers() -> Graph:
    """x -> dense -> reshape, the reshape sharing the dense layer's format."""
    shapes = {"x": (1, 3), "w": (4, 3), "h": (1, 4), "y": (1, 2, 2)}
    nodes = (
        Node("fc", "dense", ("x", "w", ""), ("h",)),
        Node("view", "reshape", ("h",), ("y",), {"shape": (1, 2, 2)}),
    )
    tensors = {name: Tensor(name, shape) for name, shape in shapes.items()}
    weights = np.array([[1.0, -0.5, 0.25]] * 4)
    return Graph("two", tensors, nodes, ("x",), ("y",), {"w": weights})


RANGES = {"x": Range(-1.0, 0.7), "w": Range(-0.5, 1.0), "h": Range(-3.0, 0.5), "y": Range(-3.0, 5.0)}


def test_tensors_kept_high_are_high_in_every_candidate_with_those_of_their_group() -> None:
    space = space_of(two_layers(), Formats("posit", "posit<8,2>", "posit<16,2>", ("y",)), RANGES)
    assert [group.name for group in space.kept] == ["h"]
    assert "h" not in {group.name for group in space.groups}
    chosen = space.assign(space.low[0], space.high[0], frozenset())
    assert {name for name, fmt in chosen.items() if fmt == Posit(16, 2)} == {"h", "y"}
    by_pattern = space_of(two_layers(), Formats("posit", keep_high=("[wx]",)), RANGES)
    assert [group.name for group in by_pattern.kept] == ["x", "w"]


def test_a_tensor_to_keep_high_that_is_not_there_is_named_with_its_line(
    cnn: tuple[ModelConfig, Graph],
) -> None:
    config, graph = cnn
    text = config.path.read_text()
    before, _, after = text.partition("formats:\n")
    config.path.write_text(f"{before}formats:\n  keep_high: [scorse]\n{after}")
    wrong = read_model(config.path)
    config.path.write_text(text)
    with pytest.raises(MinunError) as found:
        choose(wrong, graph, None, None, Costs(graph, "m3", wrong.memory))
    line = len(before.splitlines()) + 2
    assert str(found.value).startswith(
        f"model.yaml:{line}: 'formats.keep_high' names no tensor 'scorse'; did you mean 'scores'?"
    )


@pytest.mark.parametrize("strategy", ["haunter", "shiftry", "accuracy-based"])
def test_every_strategy_leaves_a_kept_tensor_high(cnn: tuple[ModelConfig, Graph], strategy: str) -> None:
    config, graph = cnn
    wanted = replace(
        config,
        formats=Formats("posit", "posit<8,2>", "posit<16,2>", ("conv2.w",)),
        search=replace(config.search, strategy=strategy, ram=1500, samples=20),
    )
    outcome = choose(wanted, graph, None, None, Costs(graph, "m3", wanted.memory))
    assert outcome.assignment["conv2.w"] == Posit(16, 2)
    assert "conv2.w" in outcome.promoted


def test_tensors_that_share_a_format_are_one_group_with_one_range() -> None:
    space = space_of(two_layers(), Formats("fixed"), RANGES)
    groups = {group.name: group for group in space.groups}
    assert groups["h"].members == ("h", "y")
    assert groups["w"].constant
    assert not groups["x"].constant
    low = space.low[0].formats
    assert low["h"] == low["y"] == Fixed(8, math.ceil(math.log2(5.0)) - 7)


def test_fixed_scales_are_shiftrys_with_three_offsets_tried_in_the_low_width() -> None:
    space = space_of(two_layers(), Formats("fixed"), RANGES)
    assert [rung.formats["h"] for rung in space.low] == [Fixed(8, -4), Fixed(8, -5), Fixed(8, -6)]
    assert [rung.formats["h"] for rung in space.high] == [Fixed(16, -12)]
    assert space.low[0].formats["x"] == Fixed(8, 1 - 7)  # 1.0 is a power of two: one more
    assert len({rung.name for rung in space.low}) == 3


def test_posit_rungs_are_the_exponent_sizes_of_the_paper_or_the_format_named() -> None:
    space = space_of(two_layers(), Formats("posit"), RANGES)
    assert [rung.formats["x"] for rung in space.low] == [Posit(8, 0), Posit(8, 2)]
    assert [rung.formats["x"] for rung in space.high] == [Posit(16, 1), Posit(16, 2)]
    named = space_of(two_layers(), Formats("posit", "posit<10,2>", 12), RANGES)
    assert [rung.name for rung in (*named.low, *named.high)] == ["posit<10,2>", "posit<12,2>"]
    every = space_of(two_layers(), Formats("posit"), RANGES, bracketing=True)
    assert sorted({rung.bits for rung in (*every.low, *every.high)}) == [8, 9, 10, 12, 16]


def test_soft_limits_are_the_familys_unless_written() -> None:
    assert soft_limits(Formats("posit"), None) == (0.8, 0.9, 1.0, 1.1)
    assert soft_limits(Formats("fixed"), None) == (1.0, 1.1)
    assert soft_limits(Formats("fixed"), (0.5,)) == (0.5,)


def test_int8_weights_are_symmetric_and_activations_take_their_range() -> None:
    space = space_of(two_layers(), Formats("int8"), RANGES)
    formats = space.low[0].formats
    weights, x = formats["w"], formats["x"]
    assert isinstance(weights, Affine)
    assert isinstance(x, Affine)
    assert (weights.zero_point, weights.narrow) == (0, True)
    assert x.decode(x.encode(np.array([0.0])))[0] == 0.0


def test_int8_biases_have_32_bits_at_the_scale_of_their_product() -> None:
    bare = two_layers()
    dense = replace(bare.nodes[0], inputs=("x", "w", "b"))
    graph = replace(
        bare,
        tensors={**bare.tensors, "b": Tensor("b", (4,))},
        nodes=(dense, *bare.nodes[1:]),
        constants={**bare.constants, "b": np.array([40.0, 0.001, 0.0, -1.0])},
    )
    ranges = {**RANGES, "b": Range(-1.0, 40.0)}
    formats = space_of(graph, Formats("int8"), ranges).low[0].formats
    x, weights = formats["x"], formats["w"]
    assert isinstance(x, Affine)
    assert isinstance(weights, Affine)
    assert formats["b"] == affine_bias(x, weights)
    own = {"b": Affine(8, (0.25,), 3)}
    assert space_of(replace(graph, quantised=own), Formats("int8"), ranges).low[0].formats["b"] == own["b"]


def test_int8_averages_keep_their_inputs_scale_and_a_group_keeps_its_own() -> None:
    tensors = {"x": (1, 4, 4, 2), "a": (1, 2, 2, 2), "f": (1, 8), "p": (1, 8), "y": (8, 1)}
    pool = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0)}
    nodes = (
        Node("pool", "average_pool", ("x",), ("a",), pool),
        Node("flat", "reshape", ("a",), ("f",), {"shape": (1, 8)}),
        Node("soft", "softmax", ("f",), ("p",), {"axis": -1}),
        Node("turn", "reshape", ("p",), ("y",), {"shape": (8, 1)}),
    )
    graph = Graph("pooled", {n: Tensor(n, s) for n, s in tensors.items()}, nodes, ("x",), ("y",))
    x = np.random.default_rng(5).normal(size=(8, 1, 4, 4, 2))
    formats = space_of(graph, Formats("int8"), profile(graph, x)).low[0].formats
    assert formats["a"] == formats["f"] == formats["x"]
    assert formats["p"] == formats["y"] == Affine(8, (1 / 256,), -128)
    legal = legalise(graph, formats)
    found = run_codes(legal, encode_inputs(graph, legal.formats, x)).values("y")
    assert np.abs(found - reference(graph, x)["y"]).max() < 0.02


@pytest.mark.parametrize("family", ["posit", "fixed", "int8", "float32"])
def test_an_assignment_survives_json(family: str) -> None:
    formats = space_of(two_layers(), Formats(family), RANGES).low[0].formats
    assert assignment_from_json(assignment_json(formats)) == dict(formats)


def test_a_damaged_assignment_is_one_line() -> None:
    with pytest.raises(MinunError, match=r"lock\.damaged"):
        assignment_from_json({"formats": ["posit<8,2>"], "tensors": {"x": 4}})


@pytest.mark.parametrize("family", ["posit", "fixed", "int8", "float32"])
def test_every_family_is_searched_on_the_quickstarts_network(
    cnn: tuple[ModelConfig, Graph], family: str
) -> None:
    config, graph = cnn
    wanted = replace(config, formats=Formats(family), search=replace(config.search, ram=None))
    costs = Costs(graph, "m3", config.memory)
    found = choose(wanted, graph, 98_304, 524_288, costs)
    assert found.fits
    assert found.accuracy >= 0.93
    assert found.ram_bytes == costs.packed(found.assignment).ram
    legalise(graph, found.assignment)


def test_haunter_under_a_tight_limit_is_between_low_and_high_and_packs_within_it(
    cnn: tuple[ModelConfig, Graph],
) -> None:
    config, graph = cnn
    costs = Costs(graph, "m3", config.memory)
    space = space_of(graph, config.formats, profile(graph, np.zeros((1, 64))))
    low, high = costs.packed(space.low[0].formats).ram, costs.packed(space.high[0].formats).ram
    limit = (low + high) // 2
    search = Search("haunter", samples=60, ram=limit)
    found = choose(replace(config, search=search), graph, None, None, costs)
    assert found.fits
    assert found.ram_bytes <= limit
    assert costs.ram(found.assignment) <= found.ram_bytes
    assert len({candidate.origin for candidate in found.candidates}) > 2


def test_the_same_search_twice_gives_the_same_outcome(cnn: tuple[ModelConfig, Graph]) -> None:
    config, graph = cnn
    outcomes = [
        choose(config, graph, 2_000, 20_000, Costs(graph, "m3", config.memory)).to_json() for _ in range(2)
    ]
    assert outcomes[0] == outcomes[1]


def test_without_calibration_data_posits_are_judged_by_float32_and_scales_are_refused(
    cnn: tuple[ModelConfig, Graph],
) -> None:
    config, graph = cnn
    bare = replace(config, data=replace(config.data, calibration=None))
    costs = Costs(graph, "m3", config.memory)
    found = choose(bare, graph, None, None, costs)
    assert "no calibration data" in found.notes[-1]
    with pytest.raises(MinunError, match=r"family 'fixed' needs 'data.calibration'"):
        choose(replace(bare, formats=Formats("fixed")), graph, None, None, costs)


def test_a_network_that_came_quantised_brings_its_own_scales_and_needs_no_calibration_data(
    cnn: tuple[ModelConfig, Graph],
) -> None:
    config, graph = cnn
    costs = Costs(graph, "m3", config.memory)
    wide = replace(config, formats=Formats("int8"), search=replace(config.search, ram=None))
    own = choose(wide, graph, None, None, costs).assignment
    bare = replace(wide, data=replace(config.data, calibration=None))
    found = choose(bare, replace(graph, quantised=dict(own)), None, None, costs)
    assert found.assignment == own
    with pytest.raises(MinunError, match=r"family 'int8' needs 'data.calibration'"):
        choose(bare, replace(graph, quantised=dict(list(own.items())[1:])), None, None, costs)


def test_classes_are_those_of_the_scores_behind_an_argmax(cnn: tuple[ModelConfig, Graph]) -> None:
    assert classes_of(cnn[1]) == 10
    assert classes_of(two_layers()) is None


def test_agreement_counts_correct_classes_and_never_takes_nar_for_the_best() -> None:
    scores = np.array([[[0.1, 0.9]], [[0.8, 0.2]], [[np.nan, 0.1]]])
    labels = np.array([1, 1, 1])
    assert agreement(scores, labels, scores) == pytest.approx(2 / 3)
    classes = np.array([[1], [0]], dtype=np.int64)
    assert agreement(classes, np.array([1, 1]), classes) == 0.5


def test_one_sigmoid_tells_two_classes_apart_at_one_half() -> None:
    y = Tensor("y", (1, 1))
    for op, binary in (("sigmoid", True), ("tanh", False)):
        graph = Graph(
            "g", {"x": Tensor("x", (1, 1)), "y": y}, (Node("n", op, ("x",), ("y",)),), ("x",), ("y",)
        )
        assert is_binary(graph) == binary
    scores = np.array([0.9, 0.5, 0.1, np.nan]).reshape(4, 1, 1)
    assert agreement(scores, np.array([1, 0, 0, 0]), scores) == 0.75  # what is not a number is wrong


@pytest.mark.parametrize("shape", [(3,), (1, 3), (1, 1, 3)])
def test_without_labels_scores_agree_where_their_best_class_does(shape: tuple[int, ...]) -> None:
    wanted = np.array([[0.1, 0.9, 0.0], [0.8, 0.2, 0.0]]).reshape(2, *shape)
    near = np.array([[0.3, 0.4, 0.0], [0.1, 0.2, 0.0]]).reshape(2, *shape)
    assert agreement(wanted, None, wanted) == 1.0
    assert agreement(near, None, wanted) == 0.5


def test_without_labels_anything_else_agrees_by_its_relative_error() -> None:
    values = np.linspace(0, 1, 12).reshape(3, 2, 2)
    assert agreement(values, None, values) == 1.0
    assert agreement(values + 10, None, values) == 0.0
