# SPDX-License-Identifier: Apache-2.0
"""int8 operators give the bits of TensorFlow Lite's reference kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite
from numpy.typing import NDArray
from tflite_models import File, interpreted
from tflite_single_op import Operand, Options, interpret, single_op_model

from minun_pio.ir import Node
from minun_pio.numerics.affine import Affine
from minun_pio.ops import REGISTRY

pytest.importorskip(
    "ai_edge_litert", reason="the TensorFlow Lite interpreter (ai-edge-litert) is not installed"
)

_O, _T = tflite.BuiltinOperator, tflite.BuiltinOptions


def _format(rng: np.random.Generator, low: float = 0.01, high: float = 0.2) -> Affine:
    return Affine(8, (float(np.float32(rng.uniform(low, high))),), int(rng.integers(-100, 100)))


def _single_scale(scale: float, zero: int) -> Affine:
    return Affine(8, (float(np.float32(scale)),), zero)


def _codes(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _ours(
    op: str, attrs: Mapping[str, Any], inputs: Sequence[NDArray[Any]], formats: Sequence[Affine], out: Affine
) -> NDArray[Any]:
    node = Node("case", op, tuple(f"x{i}" for i in range(len(inputs))), ("y",), attrs)
    return np.asarray(REGISTRY[op].simulate(node, [x[None] for x in inputs], formats, [out])[0][0])


def _table(name: str, **fields: Any) -> Options:
    """Builds the options table `name` with scalar fields."""

    def build(builder: flatbuffers.Builder) -> int:
        getattr(tflite, f"{name}Start")(builder)
        for key, value in fields.items():
            getattr(tflite, f"{name}Add{key}")(builder, value)
        return int(getattr(tflite, f"{name}End")(builder))

    return build


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_arithmetic_agrees(op: str) -> None:
    rng = np.random.default_rng(3)
    builtin = {"add": _O.ADD, "sub": _O.SUB, "mul": _O.MUL}[op]
    kind = {"add": _T.AddOptions, "sub": _T.SubOptions, "mul": _T.MulOptions}[op]
    name = {"add": "AddOptions", "sub": "SubOptions", "mul": "MulOptions"}[op]
    for shapes in (((1, 64, 4), (1, 64, 4)), ((1, 64, 4), (4,))) * 10:
        a, b, out = (_format(rng) for _ in range(3))
        operands = [Operand(shape, fmt) for shape, fmt in zip(shapes, (a, b), strict=True)]
        model = single_op_model(builtin, operands, [Operand(shapes[0], out)], _table(name), kind)
        x, y = _codes(rng, shapes[0]), _codes(rng, shapes[1])
        (wanted,) = interpret(model, [x, y])
        np.testing.assert_array_equal(_ours(op, {}, [x, y], [a, b], out), wanted)


@pytest.mark.parametrize("op", ["max_pool", "average_pool"])
@pytest.mark.parametrize(("padding", "pads"), [(0, (0, 0, 1, 1)), (1, (0, 0, 0, 0))])
def test_pooling_agrees(op: str, padding: int, pads: tuple[int, int, int, int]) -> None:
    rng = np.random.default_rng(5)
    builtin = _O.MAX_POOL_2D if op == "max_pool" else _O.AVERAGE_POOL_2D
    options = _table("Pool2DOptions", Padding=padding, StrideW=2, StrideH=2, FilterWidth=3, FilterHeight=3)
    extent = 4 if padding == 0 else 3
    for _ in range(8):
        fmt = _format(rng)
        shapes = (1, 8, 8, 3), (1, extent, extent, 3)
        model = single_op_model(
            builtin, [Operand(shapes[0], fmt)], [Operand(shapes[1], fmt)], options, _T.Pool2DOptions
        )
        x = _codes(rng, shapes[0])
        (wanted,) = interpret(model, [x])
        attrs = {"kernel": (3, 3), "strides": (2, 2), "pads": pads}
        np.testing.assert_array_equal(_ours(op, attrs, [x], [fmt], fmt), wanted)


@pytest.mark.parametrize("axes", [(1, 2), (3,), (1,)])
def test_mean_agrees(axes: tuple[int, ...]) -> None:
    # SUM has no such test: this interpreter's reference kernel leaves outputs unwritten.
    rng = np.random.default_rng(7)
    for _ in range(8):
        fmt, out = _format(rng), _format(rng, 0.05, 0.9)
        shape = (1, 5, 6, 4)
        reduced = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
        axis = Operand((len(axes),), None, np.asarray(axes, np.int32), np.dtype(np.int32))
        options = _table("ReducerOptions", KeepDims=True)
        model = single_op_model(
            _O.MEAN, [Operand(shape, fmt), axis], [Operand(reduced, out)], options, _T.ReducerOptions
        )
        x = _codes(rng, shape)
        (wanted,) = interpret(model, [x])
        np.testing.assert_array_equal(_ours("reduce_mean", {"axes": axes}, [x], [fmt], out), wanted)


def test_softmax_agrees() -> None:
    rng = np.random.default_rng(9)
    out = Affine(8, (1 / 256,), -128)
    for _ in range(40):
        fmt = _format(rng, 0.005, 0.9)
        model = single_op_model(
            _O.SOFTMAX,
            [Operand((4, 10), fmt)],
            [Operand((4, 10), out)],
            _table("SoftmaxOptions", Beta=1.0),
            _T.SoftmaxOptions,
        )
        x = _codes(rng, (4, 10))
        (wanted,) = interpret(model, [x])
        np.testing.assert_array_equal(_ours("softmax", {"axis": -1}, [x], [fmt], out), wanted)


@pytest.mark.parametrize(
    ("op", "builtin", "out"),
    [
        ("sigmoid", _O.LOGISTIC, Affine(8, (1 / 256,), -128)),
        ("tanh", _O.TANH, Affine(8, (1 / 128,), 0)),
    ],
)
def test_sigmoid_and_tanh_agree_on_every_code(op: str, builtin: int, out: Affine) -> None:
    rng = np.random.default_rng(11)
    x = np.arange(-128, 128).astype(np.int8)[None]
    for _ in range(12):
        fmt = _format(rng)
        model = single_op_model(builtin, [Operand((1, 256), fmt)], [Operand((1, 256), out)], None, 0)
        (wanted,) = interpret(model, [x])
        np.testing.assert_array_equal(_ours(op, {}, [x], [fmt], out), wanted)


_NEAR_POWER = float(np.float32(0.00024405)), float(np.float32(0.00048795819748))
"""Scales within a thousandth, in powers, of 2^-12 and 2^-11."""


@pytest.mark.parametrize(
    ("op", "builtin", "fmt", "out"),
    [
        *(("sigmoid", _O.LOGISTIC, Affine(16, (scale,)), Affine(16, (2.0**-15,))) for scale in _NEAR_POWER),
        *(("tanh", _O.TANH, Affine(16, (scale,)), Affine(16, (2.0**-15,))) for scale in _NEAR_POWER),
        *(
            ("hard_swish", _O.HARD_SWISH, _single_scale(scale, 20), _single_scale(0.0286, -40))
            for scale in (1e-5, 4.7e-5, 2e-4)
        ),
    ],
)
def test_functions_agree_at_scales_that_they_treat_in_their_own_way(
    op: str, builtin: int, fmt: Affine, out: Affine
) -> None:
    codes = np.arange(fmt.min_code, fmt.max_code + 1).astype(fmt.storage)[None]
    file, width = File(), np.dtype(fmt.storage).name
    x, y = (
        file.tensor(n, codes.shape, width, None, f.scales, f.zero_point) for n, f in (("x", fmt), ("y", out))
    )
    file.operator(builtin, [x], [y])
    (wanted,) = interpreted(file.bytes([x], [y]), [codes])
    np.testing.assert_array_equal(_ours(op, {}, [codes], [fmt], out), wanted)


def test_requantisation_agrees() -> None:
    rng = np.random.default_rng(13)
    x = np.arange(-128, 128).astype(np.int8)[None]
    for _ in range(12):
        fmt, out = _format(rng), _format(rng)
        shape = Operand((1, 256), fmt), Operand((1, 256), out)
        model = single_op_model(
            _O.QUANTIZE, shape[:1], shape[1:], _table("QuantizeOptions"), _T.QuantizeOptions
        )
        (wanted,) = interpret(model, [x])
        np.testing.assert_array_equal(_ours("convert", {}, [x], [fmt], out), wanted)


@pytest.mark.parametrize(
    ("coordinate", "align", "half"),
    [
        ("asymmetric", False, False),
        ("align_corners", True, False),
        ("half_pixel", False, True),
    ],
)
@pytest.mark.parametrize("sizes", [(8, 7), (3, 2), (10, 12)])
def test_linear_resize_agrees(coordinate: str, align: bool, half: bool, sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(15)
    fmt = _format(rng)
    options = _table("ResizeBilinearOptions", AlignCorners=align, HalfPixelCenters=half)
    size = Operand((2,), None, np.asarray(sizes, np.int32), np.dtype(np.int32))
    out_shape = (1, *sizes, 3)
    model = single_op_model(
        _O.RESIZE_BILINEAR,
        [Operand((1, 5, 6, 3), fmt), size],
        [Operand(out_shape, fmt)],
        options,
        _T.ResizeBilinearOptions,
    )
    x = _codes(rng, (1, 5, 6, 3))
    (wanted,) = interpret(model, [x])
    attrs = {"sizes": out_shape, "mode": "linear", "coordinate": coordinate}
    np.testing.assert_array_equal(_ours("resize", attrs, [x], [fmt], fmt), wanted)
