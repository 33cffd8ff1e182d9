# SPDX-License-Identifier: Apache-2.0
"""Each pass keeps what a network computes and leaves what it promises; the checker sees what is broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx_models import agrees, imported, model, node, operators, ours

from minun_pio.errors import MinunError
from minun_pio.importers.builder import GraphBuilder
from minun_pio.ir import Graph, Node, Tensor
from minun_pio.numerics.affine import Affine
from minun_pio.passes import check, dead_code, optimise
from minun_pio.passes.constants import share
from minun_pio.passes.sweep import Sweep

RNG = np.random.default_rng(9)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def same(before: Graph, after: Graph) -> None:
    inputs = {name: RNG.standard_normal(before.tensors[name].shape) for name in before.inputs}
    for a, b in zip(ours(before, inputs), ours(after, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def linear(**attrs: Any) -> GraphBuilder:
    b = GraphBuilder("t")
    x = b.input("x", (1, 4))
    b.add("dense", [x, b.constant(floats(3, 4), "w"), b.constant(floats(3), "bias")], attrs, name="d")
    return b


def test_scale_shift_and_relu_go_into_the_dense_layer() -> None:
    b = linear()
    scaled = b.add("scale_shift", ["d", b.constant(floats(3), "s"), b.constant(floats(3), "t")])
    before = b.finish([b.add("relu", [scaled])])
    after = optimise(before)
    assert operators(after) == ["dense"]
    assert after.nodes[0].attrs["clip"] == (0.0, None)
    same(before, after)


def test_two_clamps_are_one_and_the_last_one_wins_where_they_do_not_meet() -> None:
    for second, wanted in (((2.0, 4.0), (2.0, 4.0)), ((-3.0, -1.0), (-1.0, -1.0)), ((0.5, 9.0), (0.5, 6.0))):
        b = linear()
        first = b.add("clip", ["d"], {"lo": 0.0, "hi": 6.0})
        before = b.finish([b.add("clip", [first], {"lo": second[0], "hi": second[1]})])
        after = optimise(before)
        assert after.nodes[-1].attrs["clip"] == wanted
        same(before, after)


def _padded(pads: tuple[tuple[int, int], ...], **attrs: Any) -> Graph:
    b = GraphBuilder("t")
    x = b.input("x", (1, 5, 6, 2))
    padded = b.add("pad", [x], {"pads": pads, "mode": "constant", "value": 0.0, **attrs})
    w, bias = b.constant(floats(3, 3, 3, b.shape(padded)[3]), "w"), b.constant(floats(3), "b")
    made = b.add("conv", [padded, w, bias], {"strides": (2, 2), "pads": (0, 1, 0, 0)})
    return b.finish([made])


def test_zeros_around_an_image_are_the_convolutions_own_pads() -> None:
    before = _padded(((0, 0), (1, 2), (0, 3), (0, 0)))
    after = optimise(before)
    assert operators(after) == ["conv"]
    assert after.nodes[0].attrs["pads"] == (1, 1, 2, 3)
    same(before, after)


def test_zeros_around_an_image_with_its_channels_first_are_too() -> None:
    nodes = [node("Pad", ["x", "pads"], ["p"]), node("Conv", ["p", "w"], ["y"], strides=[2, 2])]
    constants = {"pads": np.array([0, 0, 1, 0, 0, 0, 2, 3]), "w": floats(4, 3, 3, 3)}
    proto = model(nodes, {"x": [1, 3, 7, 6]}, ["y"], constants)
    graph = imported(proto)
    assert operators(graph) == ["transpose", "conv", "transpose"]
    assert graph.nodes[1].attrs["pads"] == (1, 0, 2, 3)
    agrees(proto, {"x": floats(1, 3, 7, 6)})


@pytest.mark.parametrize(
    ("pads", "attrs"),
    [
        (((0, 0), (1, 1), (1, 1), (0, 0)), {"value": 0.5}),
        (((0, 0), (1, 1), (1, 1), (0, 0)), {"mode": "edge"}),
        (((0, 0), (1, 1), (1, 1), (0, 1)), {}),
    ],
)
def test_other_pads_stay_before_a_convolution(
    pads: tuple[tuple[int, int], ...], attrs: dict[str, Any]
) -> None:
    before = _padded(pads, **attrs)
    after = optimise(before)
    assert operators(after) == ["pad", "conv"]
    same(before, after)


def test_a_pad_of_another_quantised_format_stays() -> None:
    graph = _padded(((0, 0), (1, 1), (1, 1), (0, 0)))
    x, padded = graph.nodes[0].inputs[0], graph.nodes[0].outputs[0]
    formats = {x: Affine(8, (0.5,), 3), padded: Affine(8, (0.25,), 3)}
    assert operators(optimise(replace(graph, quantised=formats))) == ["pad", "conv"]
    formats[padded] = formats[x]
    assert operators(optimise(replace(graph, quantised=formats))) == ["conv"]


def test_a_tensor_with_two_readers_is_not_fused_away() -> None:
    b = linear()
    relu = b.add("relu", ["d"])
    before = b.finish([b.add("add", ["d", relu])])
    after = optimise(before)
    assert operators(after) == ["dense", "relu", "add"]
    same(before, after)


def test_quantised_weights_are_never_rewritten() -> None:
    b = linear()
    b.quantised["w"] = object()
    before = b.finish([b.add("scale_shift", ["d", b.constant(floats(3), "s"), b.constant(floats(3), "t")])])
    assert operators(optimise(before)) == ["dense", "scale_shift"]


def test_constants_are_folded_and_what_nobody_reads_goes() -> None:
    b = GraphBuilder("t")
    x = b.input("x", (1, 3))
    c = b.add("exp", [b.constant(floats(3), "c")])
    b.add("tanh", [x])
    before = b.finish([b.add("add", [x, c])])
    after = optimise(before)
    assert operators(after) == ["add"]
    assert set(after.constants) == set(after.nodes[0].inputs) - {"x"}
    same(before, after)


@pytest.mark.parametrize("divide", [True, False])
def test_gelu_is_recognised_however_its_factors_are_ordered(divide: bool) -> None:
    root = {"root": np.float32(np.sqrt(2))} if divide else {"root": np.float32(1 / np.sqrt(2))}
    nodes = [
        node("Div" if divide else "Mul", ["x", "root"], ["a"]),
        node("Erf", ["a"], ["b"]),
        node("Add", ["one", "b"], ["c"]),
        *(
            [node("Mul", ["x", "c"], ["d"]), node("Mul", ["half", "d"], ["y"])]
            if divide
            else [node("Mul", ["half", "c"], ["d"]), node("Mul", ["d", "x"], ["y"])]
        ),
    ]
    constants = root | {"one": np.float32(1), "half": np.float32(0.5)}
    graph = agrees(model(nodes, {"x": [1, 9]}, ["y"], constants), {"x": floats(1, 9)})
    assert operators(graph) == ["gelu"]
    assert graph.nodes[0].attrs["approximate"] == "none"


def test_tanh_gelu_and_hard_swish_are_recognised() -> None:
    constants = {
        "three": np.float32(3), "c": np.float32(0.044715), "k": np.float32(np.sqrt(2 / np.pi)),
        "one": np.float32(1), "half": np.float32(0.5), "zero": np.float32(0), "six": np.float32(6),
    }  # fmt: skip
    gelu = [
        node("Pow", ["x", "three"], ["x3"]), node("Mul", ["x3", "c"], ["cx3"]),
        node("Add", ["x", "cx3"], ["i"]),
        node("Mul", ["i", "k"], ["ki"]), node("Tanh", ["ki"], ["t"]), node("Add", ["t", "one"], ["t1"]),
        node("Mul", ["x", "half"], ["hx"]), node("Mul", ["hx", "t1"], ["y"]),
    ]  # fmt: skip
    swish = [
        node("Add", ["x", "three"], ["a"]), node("Clip", ["a", "zero", "six"], ["b"]),
        node("Mul", ["x", "b"], ["m"]), node("Div", ["m", "six"], ["y"]),
    ]  # fmt: skip
    for nodes, wanted in ((gelu, "gelu"), (swish, "hard_swish")):
        graph = agrees(model(nodes, {"x": [1, 9]}, ["y"], constants), {"x": 3 * floats(1, 9)})
        assert operators(graph) == [wanted]


def test_a_function_that_only_looks_like_gelu_stays_as_it_is() -> None:
    nodes = [node("Erf", ["x"], ["b"]), node("Add", ["one", "b"], ["c"]), node("Mul", ["x", "c"], ["y"])]
    graph = agrees(model(nodes, {"x": [1, 9]}, ["y"], {"one": np.float32(1)}), {"x": floats(1, 9)})
    assert "gelu" not in operators(graph)


def test_layer_norm_written_out_is_one_operator_with_scale_and_bias() -> None:
    nodes = [
        node("ReduceMean", ["x"], ["m"], axes=[-1]), node("Sub", ["x", "m"], ["d"]),
        node("Pow", ["d", "two"], ["s"]), node("ReduceMean", ["s"], ["v"], axes=[-1]),
        node("Add", ["v", "eps"], ["e"]), node("Sqrt", ["e"], ["r"]), node("Div", ["d", "r"], ["n"]),
        node("Mul", ["n", "g"], ["ng"]), node("Add", ["ng", "b"], ["y"]),
    ]  # fmt: skip
    constants = {"two": np.float32(2), "eps": np.float32(1e-5), "g": floats(8), "b": floats(8)}
    graph = agrees(model(nodes, {"x": [1, 4, 8]}, ["y"], constants, opset=13), {"x": floats(1, 4, 8)}, 1e-4)
    assert operators(graph) == ["layer_norm"]
    assert len(graph.nodes[0].inputs) == 3


def test_transposes_sink_through_reductions_slices_and_pads() -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Pad", ["c", "pads"], ["p"]),
        node("Slice", ["p", "from", "to", "axes"], ["s"]),
        node("LeakyRelu", ["s"], ["l"], alpha=0.1),
        node("ReduceMax", ["l"], ["r"], axes=[1], keepdims=0),
        node("ReduceSum", ["r", "last"], ["y"], keepdims=0),
    ]
    constants = {
        "w": floats(3, 2, 2, 2), "pads": np.array([0, 0, 1, 0, 0, 0, 0, 2]), "from": np.array([1]),
        "to": np.array([3]), "axes": np.array([3]), "last": np.array([2]),
    }  # fmt: skip
    graph = agrees(model(nodes, {"x": [1, 2, 4, 4]}, ["y"], constants), {"x": floats(1, 2, 4, 4)})
    assert operators(graph).count("transpose") == 1


def test_equal_nodes_are_computed_once() -> None:
    nodes = [node("Exp", ["x"], ["a"]), node("Exp", ["x"], ["b"]), node("Sub", ["a", "b"], ["y"])]
    assert operators(imported(model(nodes, {"x": [1, 3]}, ["y"]))) == ["exp", "sub"]


def test_equal_nodes_of_two_loops_are_not_taken_for_one() -> None:
    rule = share()
    for k in range(50):
        tensors = {name: Tensor(name, (1, 2)) for name in ("s", f"next{k}")}
        body = Graph("body", tensors, (Node("n", "relu", ("s",), (f"next{k}",)),), ("s",), ("last",))
        assert not rule(Sweep(body), body.nodes[0])


def test_a_loops_body_is_simplified_as_long_as_that_changes_it() -> None:
    turn = {"perm": (1, 0)}
    nodes = (
        Node("there", "transpose", ("s",), ("turned",), turn),
        Node("act", "relu", ("turned",), ("acted",)),
        Node("back", "transpose", ("acted",), ("next",), turn),
    )
    shapes = {"s": (2, 3), "turned": (3, 2), "acted": (3, 2), "next": (2, 3)}
    tensors = {name: Tensor(name, shape) for name, shape in shapes.items()}
    body = Graph("body", tensors, nodes, ("s",), ("next",))
    loop = Node("loop", "scan", ("x",), ("end",), {"steps": 2}, body)
    found = optimise(Graph("g", {n: Tensor(n, (2, 3)) for n in ("x", "end")}, (loop,), ("x",), ("end",)))
    assert found.nodes[0].body is not None
    assert [node.op for node in found.nodes[0].body.nodes] == ["relu"]


def sound() -> Graph:
    b = linear()
    return b.finish([b.add("relu", ["d"])])


def broken(graph: Graph, **changes: Any) -> str:
    with pytest.raises(MinunError) as caught:
        check(replace(graph, **changes))
    return str(caught.value)


def test_the_checker_finds_each_kind_of_damage() -> None:
    graph = sound()
    assert check(graph) is graph
    assert "not written before" in broken(graph, nodes=graph.nodes[::-1])
    wrong = dict(graph.tensors) | {"d": Tensor("d", (1, 7))}
    assert "the operator gives (1, 3)" in broken(graph, tensors=wrong)
    assert "two nodes have this name" in broken(graph, nodes=(*graph.nodes, graph.nodes[0]))
    assert "two sources" in broken(graph, inputs=("x", "w"))
    assert "no node" in broken(graph, outputs=("x",))
    assert "not registered" in broken(graph, nodes=(Node("n", "nonsense", ("x",), ("d",)),))


def test_dead_code_keeps_every_input_of_the_network() -> None:
    b = linear()
    b.input("unused", (1, 2))
    graph = dead_code(b.finish(["d"]))
    assert graph.inputs == ("x", "unused")
