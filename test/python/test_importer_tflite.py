# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow Lite importer against the interpreter's reference kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tflite
from tflite_models import File, interpreted

from minun_pio.errors import MinunError
from minun_pio.importers.tflite import convert, load_tflite, parse_tflite
from minun_pio.ir import Graph
from minun_pio.passes import optimise
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.reference import reference
from minun_pio.simulate.run import run_codes

RNG = np.random.default_rng(3)
OP = tflite.BuiltinOperator
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "mlperf_tiny"


def graph_of(content: bytes) -> Graph:
    return optimise(convert(parse_tflite(content, "test.tflite")))


def codes_of(graph: Graph, codes: np.ndarray) -> np.ndarray:
    """Our output codes in the file's own formats, without the sample axis."""
    run = run_codes(legalise(graph, graph.quantised), {graph.inputs[0]: codes})
    return np.asarray(run.codes[graph.outputs[0]])


def convolutional(per_channel: bool) -> bytes:
    """int8: convolution, depthwise with multiplier 2, add, pools, dense, softmax."""
    f, rng, channels = File(), np.random.default_rng(3), 4

    def scales(count: int) -> list[float]:
        return [float(s) for s in rng.uniform(0.004, 0.02, count if per_channel else 1)]

    def weights(name: str, shape: tuple[int, ...], axis: int, count: int, x_scale: float) -> tuple[int, int]:
        s = scales(count)
        w = rng.integers(-127, 128, shape).astype(np.int8)
        bias = rng.integers(-500, 500, count).astype(np.int32)
        return (
            f.tensor(name, shape, "int8", w, s, 0, axis),
            f.tensor(f"{name}_b", (count,), "int32", bias, [x_scale * v for v in s]),
        )

    x = f.tensor("x", (1, 7, 6, 3), "int8", None, [0.03], -5)
    w1, b1 = weights("w1", (channels, 3, 3, 3), 0, channels, 0.03)
    a = f.tensor("a", (1, 4, 3, channels), "int8", None, [0.05], -20)
    conv = {"Padding": 0, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": 3}
    f.operator(OP.CONV_2D, [x, w1, b1], [a], "Conv2DOptions", **conv)
    w2, b2 = weights("w2", (1, 3, 3, 2 * channels), 3, 2 * channels, 0.05)
    c = f.tensor("c", (1, 4, 3, 2 * channels), "int8", None, [0.2], 4)
    depth = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 2}
    f.operator(OP.DEPTHWISE_CONV_2D, [a, w2, b2], [c], "DepthwiseConv2DOptions", **depth)
    d = f.tensor("d", (1, 4, 3, 2 * channels), "int8", None, [0.4], -3)
    f.operator(OP.ADD, [c, c], [d], "AddOptions", FusedActivationFunction=1)
    e = f.tensor("e", (1, 2, 2, 2 * channels), "int8", None, [0.4], -3)
    pool = {"Padding": 0, "FilterHeight": 2, "FilterWidth": 2, "StrideH": 2, "StrideW": 2}
    f.operator(OP.AVERAGE_POOL_2D, [d], [e], "Pool2DOptions", **pool)
    w3, b3 = weights("w3", (5, 8 * channels), 0, 1, 0.4)
    f.tensors[b3] = ("w3_b", (5,), "int32", rng.integers(-500, 500, 5).astype(np.int32), *f.tensors[b3][4:])
    h = f.tensor("h", (1, 5), "int8", None, [0.9], 10)
    f.operator(OP.FULLY_CONNECTED, [e, w3, b3], [h], "FullyConnectedOptions", KeepNumDims=False)
    y = f.tensor("y", (1, 5), "int8", None, [1 / 256], -128)
    f.operator(OP.SOFTMAX, [h], [y], "SoftmaxOptions", Beta=1.0)
    return f.bytes([x], [y])


@pytest.mark.parametrize("per_channel", [True, False])
def test_an_int8_network_gives_the_interpreters_bytes(per_channel: bool) -> None:
    content = convolutional(per_channel)
    graph = graph_of(content)
    assert all(name in graph.quantised for name in graph.tensors)
    samples = np.random.default_rng(8).integers(-128, 128, (40, 1, 7, 6, 3)).astype(np.int8)
    ours = codes_of(graph, samples)
    theirs = np.stack([interpreted(content, [sample])[0] for sample in samples])
    assert np.array_equal(ours, theirs)
    assert len(np.unique(theirs)) > 10  # the network does something


def test_stored_codes_come_back_from_the_constants() -> None:
    graph = graph_of(convolutional(True))
    for name, values in graph.constants.items():
        fmt = graph.quantised[name]
        again = fmt.decode(fmt.encode(values))
        assert np.array_equal(again, values)


def test_a_float_network_agrees_with_the_interpreter() -> None:
    f = File()
    x = f.tensor("x", (1, 5, 5, 2))
    w = f.tensor("w", (3, 2, 2, 2), "float32", RNG.standard_normal((3, 2, 2, 2)).astype(np.float32))
    a = f.tensor("a", (1, 4, 4, 3))
    conv = {"Padding": 1, "StrideH": 1, "StrideW": 1, "FusedActivationFunction": 1}
    bias = f.tensor("bias", (3,), "float32", np.array([0.1, -0.2, 0.3], np.float32))
    f.operator(OP.CONV_2D, [x, w, bias], [a], "Conv2DOptions", **conv)
    pads = f.tensor("pads", (4, 2), "int32", np.array([[0, 0], [1, 0], [0, 2], [0, 0]], np.int32))
    p = f.tensor("p", (1, 5, 6, 3))
    f.operator(OP.PAD, [a, pads], [p], "PadOptions")
    size = f.tensor("size", (2,), "int32", np.array([10, 9], np.int32))
    r = f.tensor("r", (1, 10, 9, 3))
    f.operator(OP.RESIZE_BILINEAR, [p, size], [r], "ResizeBilinearOptions", HalfPixelCenters=True)
    axes = f.tensor("axes", (2,), "int32", np.array([1, 2], np.int32))
    m = f.tensor("m", (1, 3))
    f.operator(OP.MEAN, [r, axes], [m], "ReducerOptions", KeepDims=False)
    t = f.tensor("t", (1, 3))
    f.operator(OP.TANH, [m], [t])
    content = f.bytes([x], [t])
    graph = graph_of(content)
    sample = RNG.standard_normal((1, 5, 5, 2)).astype(np.float32)
    ours = reference(graph, sample[None])[graph.outputs[0]][0]
    np.testing.assert_allclose(ours, interpreted(content, [sample])[0], rtol=1e-5, atol=1e-6)


def test_the_quantised_network_is_also_a_network_of_real_numbers() -> None:
    content = convolutional(True)
    graph = graph_of(content)
    samples = RNG.integers(-128, 128, (20, 1, 7, 6, 3)).astype(np.int8)
    exact = reference(graph, graph.quantised["x"].decode(samples))[graph.outputs[0]]
    coded = graph.quantised[graph.outputs[0]].decode(codes_of(graph, samples))
    assert np.mean(exact.argmax(-1) == coded.argmax(-1)) >= 0.8


def test_an_unsupported_operator_is_refused_by_name() -> None:
    f = File()
    x, y = f.tensor("x", (1, 4)), f.tensor("y", (1, 4))
    f.operator(OP.CUMSUM, [x], [y])
    with pytest.raises(MinunError, match=r"operator 0: operator CUMSUM \(version 1\) is not supported"):
        graph_of(f.bytes([x], [y]))


def test_a_file_that_is_not_one_is_one_clear_line(tmp_path: Path) -> None:
    for content in (b"", b"nonsense" * 10, b"\0\0\0\0TFL3" + bytes(40)):
        path = tmp_path / "m.tflite"
        path.write_bytes(content)
        with pytest.raises(MinunError) as caught:
            load_tflite(path)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs ../shared/data/mlperf_tiny, which is not in the project"
)
@pytest.mark.parametrize("name", ["kws_ref_model.tflite", "pretrainedResnet_quant.tflite"])
def test_mlperf_tiny_models_give_the_interpreters_bytes(name: str) -> None:
    graph = optimise(load_tflite(SHARED / name))
    content = (SHARED / name).read_bytes()
    shape = graph.tensors[graph.inputs[0]].shape
    samples = RNG.integers(-128, 128, (4, *shape)).astype(np.int8)
    theirs = np.stack([interpreted(content, [sample])[0] for sample in samples])
    assert np.array_equal(codes_of(graph, samples), theirs)


def test_of_a_fused_operators_names_the_first_is_kept_and_all_of_them_choose_it() -> None:
    file = File()
    x = file.tensor("x", (1, 4))
    first = file.tensor("net/act/Relu;net/norm;net/conv", (1, 4))
    last = file.tensor("net/out;net/sum", (1, 4))
    file.operator(tflite.BuiltinOperator.RELU, [x], [first])
    file.operator(tflite.BuiltinOperator.TANH, [first], [last])
    model = parse_tflite(file.bytes([x], [last]), "net.tflite")
    assert convert(model).outputs == ("net/out",)
    for wanted in ("net/act/Relu", "net/act/Relu;net/norm;net/conv"):
        assert convert(model, outputs=[wanted]).outputs == ("net/act/Relu",)


def test_a_constant_keeps_its_scale_when_a_transpose_moves_behind_its_reader() -> None:
    file = File()
    x = file.tensor("x", (1, 2, 5, 2), "int8", None, [0.03], 5)
    perm = file.tensor("perm", (4,), "int32", np.array([0, 3, 1, 2], np.int32))
    moved = file.tensor("moved", (1, 2, 2, 5), "int8", None, [0.03], 5)
    slopes = RNG.integers(-128, 128, (2, 2, 5)).astype(np.int8)
    slope = file.tensor("slope", (2, 2, 5), "int8", slopes, [0.012], -101)
    y = file.tensor("y", (1, 2, 2, 5), "int8", None, [0.05], -3)
    file.operator(OP.TRANSPOSE, [x, perm], [moved], "TransposeOptions")
    file.operator(OP.PRELU, [moved, slope], [y])
    content = file.bytes([x], [y])
    codes = RNG.integers(-128, 128, (1, 2, 5, 2)).astype(np.int8)
    graph = graph_of(content)
    assert [node.op for node in graph.nodes] == ["prelu", "transpose"]
    np.testing.assert_array_equal(codes_of(graph, codes[None])[0], interpreted(content, [codes])[0])


@pytest.mark.parametrize(("width", "scale"), [("int8", 0.2448979616165161), ("int16", 0.0037605767138302326)])
def test_the_bound_of_a_fused_relu6_is_divided_in_float32(width: str, scale: float) -> None:
    file = File()
    high = np.iinfo(width).max
    codes = np.linspace(0, high, 60).astype(width).reshape(1, 6, 10, 1)
    x = file.tensor("x", codes.shape, width, None, [scale])
    w = file.tensor("w", (1, 1, 1, 1), "int8", np.full((1, 1, 1, 1), 100, np.int8), [0.01])
    sums = "int32" if width == "int8" else "int64"
    bias = file.tensor("b", (1,), sums, np.zeros(1, sums), [scale * 0.01])
    y = file.tensor("y", codes.shape, width, None, [scale])
    file.operator(
        OP.CONV_2D, [x, w, bias], [y], "Conv2DOptions", StrideH=1, StrideW=1, FusedActivationFunction=3
    )
    content = file.bytes([x], [y])
    np.testing.assert_array_equal(
        codes_of(graph_of(content), codes[None])[0], interpreted(content, [codes])[0]
    )


def test_a_zero_taken_away_is_rounded_as_the_interpreter_rounds_it() -> None:
    file = File()
    x = file.tensor("x", (1, 256), "int8", None, [0.010231584310531616], 0)
    zero = file.tensor("zero", (), "int8", np.array(29, np.int8), [0.0537511445581913], 29)
    y = file.tensor("y", (1, 256), "int8", None, [0.04435163363814354], 35)
    file.operator(OP.SUB, [x, zero], [y], "SubOptions", FusedActivationFunction=2)
    content = file.bytes([x], [y])
    codes = np.arange(-128, 128).astype(np.int8)[None]
    np.testing.assert_array_equal(
        codes_of(graph_of(content), codes[None])[0], interpreted(content, [codes])[0]
    )
