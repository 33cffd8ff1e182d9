# SPDX-License-Identifier: Apache-2.0
"""Layer lists: each classic model computes its formula, and every mistake names its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minun_pio.config import read_model
from minun_pio.config.model import Layer
from minun_pio.errors import MinunError
from minun_pio.importers import check_integers, import_graph
from minun_pio.importers.layers import load_layers
from minun_pio.ir import Graph
from minun_pio.passes import optimise
from minun_pio.simulate.reference import reference

RNG = np.random.default_rng(11)


def floats(*shape: int, scale: float = 0.5) -> np.ndarray:
    return RNG.standard_normal(shape) * scale


def network(
    folder: Path, layers: Sequence[tuple[str, Mapping[str, Any]]], shape: tuple[int, ...], **arrays: Any
) -> Graph:
    path = folder / "w.npz"
    np.savez(path, **arrays)
    entries = [Layer(kind, attrs, line + 5) for line, (kind, attrs) in enumerate(layers)]
    return optimise(load_layers(entries, path, shape))


def answer(graph: Graph, x: np.ndarray) -> np.ndarray:
    return np.asarray(reference(graph, x)[graph.outputs[0]])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_protonn_is_its_formula(tmp_path: Path) -> None:
    w, b, z, gamma = floats(6, 3), floats(3, 5), floats(4, 5), 0.8
    names = {"w": "W", "b": "B", "z": "Z", "gamma": "g"}
    graph = network(tmp_path, [("protonn", names)], (1, 6), W=w, B=b, Z=z, g=gamma)
    x = floats(7, 6)
    distance = (((x @ w)[:, :, None] - b[None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(answer(graph, x)[:, 0], np.exp(-(gamma**2) * distance) @ z.T, rtol=1e-12)


def test_bonsai_adds_the_nodes_on_its_path(tmp_path: Path) -> None:
    d, classes, depth = 4, 3, 2
    z, w, v, t = floats(d, 7), floats(7 * classes, d), floats(7 * classes, d), floats(3, d)
    options = {"z": "Z", "w": "W", "v": "V", "t": "T", "depth": depth, "sigma": 1.5, "divide": True}
    graph = network(tmp_path, [("bonsai", options)], (1, 6), Z=z, W=w, V=v, T=t)
    x = floats(9, 6, scale=2.0)
    wanted = []
    for row in x:
        p = z @ np.append(row, 1.0) / d
        score, n = np.zeros(classes), 0
        for level in range(depth + 1):
            rows = slice(n * classes, (n + 1) * classes)
            score += (w[rows] @ p) * np.tanh(1.5 * (v[rows] @ p))
            if level < depth:
                n = 2 * n + 1 if t[n] @ p > 0 else 2 * n + 2
        wanted.append(score)
    np.testing.assert_allclose(answer(graph, x)[:, 0], np.array(wanted), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("low_rank", [False, True])
def test_fastgrnn_is_its_formula_dense_and_of_low_rank(tmp_path: Path, low_rank: bool) -> None:
    features, hidden, steps = 3, 5, 4
    wa, wb, ua, ub = floats(features, 2), floats(2, hidden), floats(hidden, 2), floats(2, hidden)
    w, u, bg, bh = wa @ wb, ua @ ub, floats(hidden), floats(hidden)
    mean, std, zeta, nu = floats(features), np.abs(floats(features)) + 0.5, 0.7, -2.0
    weights = {"w_a": "wa", "w_b": "wb", "u_a": "ua", "u_b": "ub"} if low_rank else {"w": "w", "u": "u"}
    cell = {"bg": "bg", "bh": "bh", "zeta": zeta, "nu": nu, "mean": "mean", "std": "std"}
    arrays = {
        "wa": wa,
        "wb": wb,
        "ua": ua,
        "ub": ub,
        "w": w,
        "u": u,
        "bg": bg,
        "bh": bh,
        "mean": mean,
        "std": std,
    }
    graph = network(tmp_path, [("fastgrnn", weights | cell)], (1, steps, features), **arrays)
    x = floats(6, steps, features)
    h = np.zeros((6, hidden))
    for t in range(steps):
        p = ((x[:, t] - mean) / std) @ w + h @ u
        z = sigmoid(p + bg)
        h = (sigmoid(np.array(zeta)) * (1 - z) + sigmoid(np.array(nu))) * np.tanh(p + bh) + z * h
    np.testing.assert_allclose(answer(graph, x)[:, 0], h, rtol=1e-10)


def test_rnnpool_sweeps_rows_and_columns_of_every_patch(tmp_path: Path) -> None:
    def cell(features: int, hidden: int) -> dict[str, Any]:
        return {"w": floats(features, hidden), "u": floats(hidden, hidden), "bg": floats(hidden),
                "bh": floats(hidden), "zeta": 0.3, "nu": -1.0}  # fmt: skip

    def last(c: dict[str, Any], sequence: np.ndarray) -> np.ndarray:
        h = np.zeros(c["bg"].size)
        for row in sequence:
            p = row @ c["w"] + h @ c["u"]
            z = sigmoid(p + c["bg"])
            h = (sigmoid(np.array(c["zeta"])) * (1 - z) + sigmoid(np.array(c["nu"]))) * np.tanh(
                p + c["bh"]
            ) + z * h
        return h

    one, two = cell(2, 3), cell(3, 4)
    arrays = {f"{k}{n}": v for n, c in (("1", one), ("2", two)) for k, v in c.items()}
    options = {k: k for k in arrays} | {"patch": [4, 3], "strides": [2, 1], "pads": [1, 0, 1, 0]}
    graph = network(tmp_path, [("rnnpool", options)], (1, 6, 5, 2), **arrays)
    x = floats(1, 6, 5, 2)
    image = np.pad(x[0], ((1, 1), (0, 0), (0, 0)))
    wanted = np.zeros((3, 3, 16))
    for i in range(3):
        for j in range(3):
            patch = image[2 * i : 2 * i + 4, j : j + 3]
            rows = np.stack([last(one, patch[r]) for r in range(4)])
            columns = np.stack([last(one, patch[:, c]) for c in range(3)])
            wanted[i, j] = np.concatenate(
                [last(two, rows), last(two, rows[::-1]), last(two, columns), last(two, columns[::-1])]
            )
    np.testing.assert_allclose(answer(graph, x)[0, 0], wanted, rtol=1e-9, atol=1e-12)


def test_pad_repeats_the_edge_mirrors_or_fills_with_a_value(tmp_path: Path) -> None:
    x = floats(1, 2, 3, 2)
    edge = network(tmp_path, [("pad", {"pads": [0, 1, 2, 0], "mode": "edge"})], (1, 2, 3, 2))
    np.testing.assert_array_equal(answer(edge, x)[0, 0], np.pad(x[0], ((0, 2), (1, 0), (0, 0)), mode="edge"))
    twice = network(tmp_path, [("pad", {"pads": [2, 1, 0, 3], "mode": "symmetric"})], (1, 2, 3, 2))
    wanted = np.pad(x[0], ((2, 0), (1, 3), (0, 0)), mode="symmetric")
    np.testing.assert_array_equal(answer(twice, x)[0, 0], wanted)
    filled = network(tmp_path, [("pad", {"pads": 1, "value": 2.5})], (1, 2, 3, 2))
    wanted = np.pad(x[0], ((1, 1), (1, 1), (0, 0)), constant_values=2.5)
    np.testing.assert_array_equal(answer(filled, x)[0, 0], wanted)


def test_prelu_leaky_relu_and_log_softmax_are_their_formulas(tmp_path: Path) -> None:
    slope = np.array([0.5, -0.25, 2.0])
    x = floats(4, 1, 3, scale=2.0)
    layers = [("prelu", {"slope": "s"}), ("leaky_relu", {"alpha": 0.1}), ("log_softmax", {"axis": -1})]
    y = np.where(x < 0, slope * x, x)
    y = np.where(y < 0, 0.1 * y, y)
    wanted = y - np.log(np.exp(y).sum(axis=-1, keepdims=True))
    graph = network(tmp_path, layers, (1, 3), s=slope)
    np.testing.assert_allclose(answer(graph, x), wanted, rtol=1e-12)


def test_mbconv_is_three_convolutions_with_a_residual(tmp_path: Path) -> None:
    arrays = {"f1": floats(3, 6), "f2": floats(6, 3, 3), "f3": floats(6, 3)}
    for stage, size in ((1, 6), (2, 6), (3, 3)):
        arrays |= {f"w{stage}": floats(size) + 1, f"b{stage}": floats(size)}
    graph = network(
        tmp_path, [("mbconv", {k: k for k in arrays} | {"residual": True})], (1, 4, 4, 3), **arrays
    )
    x = floats(1, 4, 4, 3)
    a = np.clip((x[0] @ arrays["f1"] + arrays["b1"]) * arrays["w1"], 0, 6)
    padded = np.pad(a, ((1, 1), (1, 1), (0, 0)))
    b = sum(padded[i : i + 4, j : j + 4] * arrays["f2"][:, i, j] for i in range(3) for j in range(3))
    b = np.clip((b + arrays["b2"]) * arrays["w2"], 0, 6)
    c = (b @ arrays["f3"] + arrays["b3"]) * arrays["w3"] + x[0]
    np.testing.assert_allclose(answer(graph, x)[0, 0], c, rtol=1e-9, atol=1e-12)
    assert [node.op for node in graph.nodes] == ["conv", "conv", "conv", "add"]


def test_a_sparse_matrix_of_seedot_is_read_column_by_column(tmp_path: Path) -> None:
    w = np.array([[0.0, 2.0, 0.0], [1.5, 0.0, 0.0]])
    sparse = {"values": "v", "indices": "i", "shape": [2, 3]}
    graph = network(
        tmp_path,
        [("dense", {"weights": sparse})],
        (1, 3),
        v=np.array([1.5, 2.0]),
        i=np.array([2, 0, 1, 0, 0]),
    )
    x = floats(4, 3)
    np.testing.assert_allclose(answer(graph, x)[:, 0], x @ w.T)


def test_attention_and_feed_forward_with_residuals(tmp_path: Path) -> None:
    arrays = {k: floats(6, 6) for k in ("wq", "wk", "wv", "wo")} | {"w1": floats(9, 6), "w2": floats(6, 9)}
    layers = [
        ("positional_encoding", {}),
        (
            "attention",
            {k: k for k in ("wq", "wk", "wv", "wo")} | {"heads": 2, "causal": True, "residual": True},
        ),
        ("layer_norm", {}),
        ("feed_forward", {"w1": "w1", "w2": "w2", "activation": "relu", "residual": True}),
    ]
    graph = network(tmp_path, layers, (1, 4, 6), **arrays)
    x = floats(1, 4, 6)
    position = np.arange(4)[:, None] * np.exp(np.arange(0, 6, 2) * (-np.log(10000.0) / 6))
    e = x[0].copy()
    e[:, 0::2] += np.sin(position)
    e[:, 1::2] += np.cos(position)
    heads = []
    for h in range(2):
        part = slice(3 * h, 3 * h + 3)
        q, k, v = ((e @ arrays[name].T)[:, part] for name in ("wq", "wk", "wv"))
        scores = np.where(np.tri(4, dtype=bool), q @ k.T / np.sqrt(3), -1e9)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        heads.append(weights / weights.sum(axis=1, keepdims=True) @ v)
    e = e + np.concatenate(heads, axis=1) @ arrays["wo"].T
    e = (e - e.mean(axis=1, keepdims=True)) / np.sqrt(e.var(axis=1, keepdims=True) + 1e-5)
    e = e + np.maximum(e @ arrays["w1"].T, 0) @ arrays["w2"].T
    np.testing.assert_allclose(answer(graph, x)[0, 0], e, rtol=1e-7, atol=1e-9)


def test_a_later_layer_may_read_an_earlier_ones_output(tmp_path: Path) -> None:
    layers = [("dense", {"weights": "w", "name": "first"}), ("tanh", {}), ("add", {"with": "first"})]
    graph = network(tmp_path, layers, (1, 3), w=np.eye(3))
    x = floats(2, 3)
    np.testing.assert_allclose(answer(graph, x)[:, 0], np.tanh(x) + x)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (("dens", {}), "unknown layer 'dens'; did you mean 'dense'?"),
        (("dense", {"weights": "ww"}), "no array 'ww' in w.npz; did you mean 'w'?"),
        (("dense", {}), "the option 'weights' is missing"),
        (("dense", {"weights": "w", "biass": "b"}), "unknown option 'biass'; did you mean 'bias'?"),
        (("dense", {"weights": "w", "bias": "b"}), "'bias' has 5 numbers, 3 expected"),
        (("dense", {"weights": "bad"}), "empty or has NaN or infinity"),
        (("dense", {"weights": "wide"}), "dense"),
        (("conv", {"weights": "w"}), "(1, height, width, channels) expected"),
        (("protonn", {"w": "w", "b": "w", "z": "w", "gamma": "b"}), "expected"),
        (("add", {"with": "nobody"}), "no earlier layer has 'name: nobody'"),
        (("max_pool", {"kernel": "two"}), "expected"),
        (("fastgrnn", {"w": "w"}), "(1, steps, features) expected"),
        (("softmax", {"axis": 7}), "'axis' is 7, -2 to 1 expected"),
        (("leaky_relu", {"alpha": float("inf")}), "'alpha' is inf, a finite number expected"),
        (("softmax", {"axis": float("1e400")}), "expected"),
    ],
)
def test_every_mistake_is_one_line_with_its_place(
    tmp_path: Path, layer: tuple[str, dict[str, Any]], message: str
) -> None:
    arrays = {"w": np.eye(3), "b": np.zeros(5), "bad": np.array([[np.nan]]), "wide": np.zeros((3, 8))}
    with pytest.raises(MinunError) as caught:
        network(tmp_path, [layer], (1, 3), **arrays)
    assert str(caught.value).startswith("model.yaml:5: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_layers_name_is_that_of_its_tensor(tmp_path: Path) -> None:
    arrays = {"W": floats(3, 4), "V": floats(2, 3), "b": floats(3)}
    layers = [
        ("dense", {"weights": "W", "bias": "b", "activation": "tanh", "name": "hidden"}),
        ("dense", {"weights": "V", "name": "scores"}),
        ("softmax", {}),
    ]
    graph = network(tmp_path, layers, (1, 4), **arrays)
    assert [node.outputs[0] for node in graph.nodes] == ["dense", "hidden", "scores", "softmax"]
    assert set(graph.constants) == {"hidden.weights", "hidden.bias", "scores.weights"}
    x = floats(5, 4)
    hidden = np.tanh(x @ arrays["W"].T + arrays["b"])
    scores = np.exp(hidden @ arrays["V"].T)
    np.testing.assert_allclose(answer(graph, x)[:, 0], scores / scores.sum(axis=1, keepdims=True), rtol=1e-9)


def test_two_layers_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MinunError, match=r"model.yaml:6: an earlier layer has 'name: a'; names must differ"):
        network(tmp_path, [("relu", {"name": "a"}), ("tanh", {"name": "a"})], (1, 3))


def test_an_array_without_a_weights_file_says_which_key_is_missing() -> None:
    with pytest.raises(MinunError, match=r"names array 'w', but there is no 'source.weights'; add"):
        load_layers([Layer("dense", {"weights": "w"}, 5)], None, (1, 3))


def test_a_weights_file_that_is_none_or_holds_pickles_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    path.write_bytes(b"PK not a zip")
    with pytest.raises(MinunError, match="not a readable NPZ"):
        load_layers([Layer("relu", {}, 1)], path, (1, 3))
    np.savez(path, w=np.array([{"a": 1}], dtype=object))
    with pytest.raises(MinunError, match="not a readable NPZ"):
        load_layers([Layer("relu", {}, 1)], path, (1, 3))


def test_an_output_that_is_not_there_is_told_with_the_line_that_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(
        "name: net\nsource:\n  input: [1, 4]\n  layers:\n    - relu: {name: top}\noutputs: [tob]\n"
    )
    with pytest.raises(MinunError) as caught:
        import_graph(read_model(tmp_path / "model.yaml"))
    assert str(caught.value).startswith("model.yaml:6: no layer has 'name: tob'")


def test_a_numpy_of_32_bit_integers_is_refused_before_a_sum_can_wrap_around(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_integers()
    narrow = np.dtype(np.int32)
    monkeypatch.setattr(np, "dtype", lambda _: narrow)
    with pytest.raises(MinunError, match=r"computes with 32-bit integers here; a search needs numpy 2"):
        check_integers()
