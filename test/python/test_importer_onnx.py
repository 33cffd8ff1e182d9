# SPDX-License-Identifier: Apache-2.0
"""The ONNX importer against onnxruntime, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper
from onnx_models import agrees, imported, model, node, operators

from minun_pio.errors import MinunError
from minun_pio.simulate.assign import real_tensors

RNG = np.random.default_rng(5)


def floats(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def refusal(proto: object, **options: object) -> MinunError:
    with pytest.raises(MinunError) as caught:
        imported(proto, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_convolutional_network_needs_no_transpose_once_the_passes_are_done() -> None:
    constants = {
        "w1": floats(8, 3, 3, 3, scale=0.3), "b1": floats(8), "w2": floats(8, 1, 3, 3),
        "g": 1 + floats(8, scale=0.1), "be": floats(8), "mu": floats(8), "va": np.abs(floats(8)) + 0.5,
        "w3": floats(5, 8 * 3 * 3, scale=0.1),
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c1", "g", "be", "mu", "va"], ["n1"]),
        node("Relu", ["n1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], group=8, strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Clip", ["c2", "zero", "six"], ["r2"]),
        node("MaxPool", ["r2"], ["p2"], kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1]),
        node("Flatten", ["p2"], ["f"]),
        node("Gemm", ["f", "w3"], ["y"], transB=1),
    ]
    constants |= {"zero": np.float32(0), "six": np.float32(6)}
    graph = agrees(model(nodes, {"x": [1, 3, 6, 6]}, ["y"], constants), {"x": floats(1, 3, 6, 6)}, 1e-4)
    assert operators(graph) == ["transpose", "conv", "conv", "max_pool", "reshape", "dense"]
    assert graph.nodes[0].inputs == ("x",)  # only the network's own input is turned
    assert graph.nodes[2].attrs["clip"] == (0.0, 6.0)


def test_a_residual_block_and_a_concatenation_keep_channels_last() -> None:
    constants = {"w": floats(4, 4, 3, 3, scale=0.3), "v": floats(4, 4, 1, 1)}
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        node("Conv", ["a", "v"], ["b"]),
        node("Add", ["a", "b"], ["c"]),
        node("Relu", ["c"], ["d"]),
        node("Concat", ["d", "a"], ["e"], axis=1),
        node("GlobalAveragePool", ["e"], ["f"]),
        node("Flatten", ["f"], ["y"]),
    ]
    graph = agrees(model(nodes, {"x": [1, 4, 5, 5]}, ["y"], constants), {"x": floats(1, 4, 5, 5)})
    assert operators(graph).count("transpose") == 1


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers_are_scans_that_agree_with_onnxruntime(op: str, direction: str) -> None:
    gates, ways, hidden = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], 2 if direction == "bidirectional" else 1, 4
    constants = {
        "w": floats(ways, gates * hidden, 3, scale=0.5),
        "r": floats(ways, gates * hidden, hidden, scale=0.5),
        "b": floats(ways, 2 * gates * hidden, scale=0.5),
    }
    attrs = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attrs["linear_before_reset"] = 1
    outputs = ["y", "h", "c"] if op == "LSTM" else ["y", "h"]
    proto = model([node(op, ["x", "w", "r", "b"], outputs, **attrs)], {"x": [6, 1, 3]}, outputs, constants)
    graph = agrees(proto, {"x": floats(6, 1, 3)})
    assert operators(graph).count("scan") == ways


def test_attention_written_out_is_two_products_and_a_softmax() -> None:
    constants = {name: floats(8, 8, scale=0.4) for name in ("wq", "wk", "wv")} | {
        "split": np.array([1, 5, 2, 4]), "joined": np.array([1, 5, 8]), "root": np.float32(2.0),
    }  # fmt: skip
    nodes = []
    for key, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", ["x", f"w{key}"], [f"{key}1"]),
            node("Reshape", [f"{key}1", "split"], [f"{key}2"]),
            node("Transpose", [f"{key}2"], [f"{key}3"], perm=perm),
        ]
    nodes += [
        node("MatMul", ["q3", "k3"], ["s"]),
        node("Div", ["s", "root"], ["d"]),
        node("Softmax", ["d"], ["p"], axis=-1),
        node("MatMul", ["p", "v3"], ["o"]),
        node("Transpose", ["o"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "joined"], ["y"]),
    ]
    graph = agrees(model(nodes, {"x": [1, 5, 8]}, ["y"], constants), {"x": floats(1, 5, 8)})
    assert operators(graph).count("matmul") == 2
    assert operators(graph).count("dense") == 3


def test_shape_arithmetic_and_a_dynamic_batch_are_folded_away() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Concat", ["n1", "minus"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.array(0), "axis": np.array([0]), "minus": np.array([-1])}
    graph = imported(model(nodes, {"x": ["batch", 2, 3]}, ["y"], constants))
    assert operators(graph) == ["reshape"]
    assert graph.tensors[graph.outputs[0]].shape == (1, 6)


def test_quantised_pairs_become_the_formats_of_their_tensors() -> None:
    constants = {
        "s": np.float32(0.05), "z": np.int8(3), "wq": RNG.integers(-127, 128, (4, 6)).astype(np.int8),
        "ws": np.abs(floats(4)) * 0.01 + 0.01, "wz": np.zeros(4, np.int8),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["wq", "ws", "wz"], ["w"], axis=0),
        node("Gemm", ["d", "w"], ["y"], transB=1),
    ]
    graph = imported(model(nodes, {"x": [1, 6]}, ["y"], constants))
    assert operators(graph) == ["dense"]
    assert graph.quantised["x"].scales == pytest.approx((0.05,))
    assert graph.quantised["x"].zero_point == 3
    weights = graph.nodes[0].inputs[1]
    codes = graph.quantised[weights].encode(graph.constants[weights])
    assert np.array_equal(codes, constants["wq"])  # the model's own codes come back


def test_old_operator_sets_give_the_same_network() -> None:
    nodes = [
        node("Unsqueeze", ["x"], ["u"], axes=[0]),
        node("ReduceMean", ["u"], ["m"], axes=[2], keepdims=0),
        node("Clip", ["m"], ["c"], min=-0.5, max=0.5),
        node("Softmax", ["c"], ["y"], axis=1),
    ]
    agrees(model(nodes, {"x": [3, 4]}, ["y"], opset=7), {"x": floats(3, 4)})


@pytest.mark.parametrize(
    ("nodes", "parts"),
    [
        (
            [node("TopK", ["x", "k"], ["y", "i"], "top")],
            ("node 'top'", "TopK", "operator set 17", "ArgMax works"),
        ),
        ([node("Conv", ["x", "x"], ["y"], "conv1")], ("node 'conv1'", "Conv", "not a constant")),
        ([node("Foo", ["x"], ["y"], "strange", domain="my.own")], ("node 'strange'", "my.own.Foo")),
        ([node("Relu", ["x"], ["y"], "r", spin=3)], ("node 'r'", "attribute 'spin'")),
        ([node("Gelu", ["x"], ["y"], "g", approximate="wild")], ("node 'g'", "approximate='wild'", "work")),
    ],
)
def test_what_cannot_be_taken_is_refused_by_node_operator_and_reason(
    nodes: list[object], parts: tuple[str, ...]
) -> None:
    error = refusal(model(nodes, {"x": [1, 2, 4, 4]}, ["y"], {"k": np.array([2])}))
    assert all(part in str(error) for part in parts), str(error)


def test_an_unknown_operator_is_refused_before_anything_is_built() -> None:
    late = [node("Reshape", ["x", "bad"], ["r"], "first"), node("Loop", ["r"], ["y"], "second")]
    assert "second" in str(refusal(model(late, {"x": [1, 4]}, ["y"], {"bad": np.array([9, 9])})))


def test_a_dynamic_extent_is_refused_until_a_shape_is_given() -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": ["n", "length", 3]}, ["y"])
    assert "source.input" in str(refusal(proto))
    assert imported(proto, input_shape=(1, 7, 3)).tensors["x"].shape == (1, 7, 3)
    assert "declared" in str(refusal(proto, input_shape=(1, 7, 4)))


def test_an_output_is_chosen_by_name_and_a_wrong_name_finds_the_nearest() -> None:
    proto = model([node("Relu", ["x"], ["hidden"]), node("Exp", ["hidden"], ["y"])], {"x": [1, 3]}, ["y"])
    assert operators(imported(proto, outputs=("hidden",))) == ["relu"]
    assert "did you mean 'hidden'?" in str(refusal(proto, outputs=("hiden",)))


def test_a_cyclic_graph_is_one_clear_line() -> None:
    nodes = [node("Add", ["x", "b"], ["a"], "one"), node("Relu", ["a"], ["b"], "two")]
    error = refusal(model(nodes, {"x": [1, 3]}, ["b"]))
    assert "cyclic or not sorted" in str(error)
    assert "node 'one'" in str(error)


def test_external_data_outside_the_folder_is_refused_unseen_on_every_system(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pathlib import Path

    from minun_pio.importers.onnx import parse_onnx
    from minun_pio.importers.onnx.external import external_files

    folder = Path(str(tmp_path)) / "models"
    folder.mkdir()
    (folder.parent / "secret").write_bytes(bytes(12))
    (folder / "beside").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    proto = model([node("Add", ["x", "w"], ["y"])], {"x": [1, 3]}, ["y"], {"w": floats(3)})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key = "location"
    outside = ("../secret", "sub/../../secret", str(folder.parent / "secret"))
    on_windows = (r"\\server\share\secret", "//server/share/secret", r"C:\secret", "C:secret", r"..\secret")
    for entry.value in (*outside, *on_windows):
        with monkeypatch.context() as patched:
            patched.setattr(Path, "open", lambda *_: pytest.fail("it was opened"))
            with pytest.raises(MinunError, match="outside the model's folder"):
                parse_onnx(proto.SerializeToString(), "t.onnx", folder)
        (folder / "t.onnx").write_bytes(proto.SerializeToString())
        assert external_files(folder / "t.onnx") == {}
    entry.value = "sub/../beside"
    (folder / "sub").mkdir()
    (folder / "t.onnx").write_bytes(proto.SerializeToString())
    assert list(external_files(folder / "t.onnx")) == ["sub/../beside"]
    read = parse_onnx(proto.SerializeToString(), "t.onnx", folder)
    assert list(read.graph.constants["w"]) == [0, 1, 2]


def test_huge_dimensions_are_refused_before_memory_is_taken() -> None:
    shape = helper.make_tensor("shape", TensorProto.INT64, [3], [1 << 20, 1 << 20, 1 << 20])
    proto = model(
        [node("ConstantOfShape", ["shape"], ["c"]), node("Add", ["x", "c"], ["y"])], {"x": [1]}, ["y"]
    )
    proto.graph.initializer.append(shape)
    assert refusal(proto).code == "onnx.too-large"
    assert refusal(model([node("Relu", ["x"], ["y"])], {"x": [1 << 30, 8]}, ["y"])).code == "import.too-large"


def test_a_scan_body_sees_outer_constants_and_runs_step_by_step() -> None:
    body = helper.make_graph(
        [
            node("MatMul", ["h", "u"], ["p"]),
            node("Add", ["p", "x"], ["s"]),
            node("Tanh", ["s"], ["next"]),
            node("Identity", ["next"], ["out"]),
        ],
        "body",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3]) for n in ("h", "x")],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3]) for n in ("next", "out")],
    )
    scan = node("Scan", ["h0", "xs"], ["h", "ys"], num_scan_inputs=1, body=body, scan_input_directions=[1])
    constants = {"h0": np.zeros((1, 3), np.float32), "u": floats(3, 3)}
    graph = agrees(model([scan], {"xs": [4, 1, 3]}, ["h", "ys"], constants), {"xs": floats(4, 1, 3)})
    assert "scan" in operators(graph)


def test_a_quantised_networks_formats_stay_through_changes_of_layout() -> None:
    def coded(name: str, scale: str) -> list[NodeProto]:
        made = [node("QuantizeLinear", [name, scale, "z"], [f"{name}_q"])]
        return [*made, node("DequantizeLinear", [f"{name}_q", scale, "z"], [f"{name}_d"])]

    constants = {
        **{"z": np.int8(0), "ws": np.float32(0.01), "s1": np.float32(0.05), "s2": np.float32(0.2)},
        "w": RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
        "k": RNG.integers(-60, 60, (4, 1, 1)).astype(np.int8),
    }
    nodes = [
        *coded("x", "s1"),
        node("DequantizeLinear", ["w", "ws", "z"], ["wd"]),
        node("DequantizeLinear", ["k", "s1", "z"], ["kd"]),
        node("Conv", ["x_d", "wd"], ["y"]),
        *coded("y", "s2"),
        node("Mul", ["y_d", "kd"], ["m"]),
        *coded("m", "s2"),
    ]
    graph = imported(model(nodes, {"x": [1, 3, 8, 8]}, ["m_d"], constants))
    assert [n.op for n in graph.nodes] == ["transpose", "conv", "mul", "transpose"]
    assert {scoped.name for scoped in real_tensors(graph)} <= set(graph.quantised)
    assert graph.quantised[graph.nodes[1].outputs[0]].scales == (float(np.float32(0.2)),)
