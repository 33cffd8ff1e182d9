# SPDX-License-Identifier: Apache-2.0
"""Cases of TensorFlow Lite's convolutions, dense layers, matrix products and pools."""

from __future__ import annotations

import numpy as np
import tflite
from tflite_cases_elementwise import CLIPS
from tflite_draw import Case, Draw, Drawn, Shape, Step

_NONE = 0
_LIMIT = (1 << 31) - 1


def _weights(
    draw: Draw, shape: Shape, axis: int, step: float, *, one_scale: bool, zero: int = 0
) -> tuple[int, list[float]]:
    """Constant int8 weights and the scales of their products with an input of scale `step`."""
    if draw.is_float:
        return draw.tensor(shape, "float32", draw.rng.standard_normal(shape).astype(np.float32) * 0.3), []
    low, high = (0.002, 0.02) if draw.kind != "wide" else (1e-4, 0.1)
    count = 1 if one_scale else shape[axis]
    if draw.kind == "power":
        scales = [2.0 ** -int(draw.rng.integers(6, 10)) for _ in range(count)]
    else:
        scales = np.exp(draw.rng.uniform(np.log(low), np.log(high), count)).astype(np.float32).tolist()
    codes = draw.rng.integers(-127, 128, shape).astype(np.int8)
    if draw.rng.random() < 0.2:
        share = draw.rng.choice([0.0, 0.5, 1.0])  # of one sign: sums as large as they get
        codes = np.where(draw.rng.random(shape) < share, -127, 127).astype(np.int8)
    index = draw.tensor(shape, "int8", codes, scales=scales, zero=zero, axis=axis)
    return index, [step * scale for scale in scales]


def _bias(draw: Draw, count: int, terms: int, scales: list[float], kind: str) -> list[int]:
    """The bias's tensor in a list; empty for none. `kind`: none, small, int32 (int16 may have it as well) or
    limits (the sum stays in int32)."""
    if kind == "none":
        return []
    if draw.is_float:
        return [draw.tensor((count,), "float32", draw.rng.standard_normal(count).astype(np.float32))]
    largest = 255 * 127 if draw.width == "int8" else 32768 * 127
    reach = largest * max(1, int(terms**0.5))
    if kind == "limits":
        reach = max(1, _LIMIT - largest * terms)
        codes = draw.rng.choice([-reach, reach, reach // 2, -reach // 3], count)
    else:
        codes = draw.rng.integers(-reach // 4, reach // 4 + 1, count)
    wide = "int64" if draw.width == "int16" and kind != "int32" else "int32"
    return [draw.tensor((count,), wide, codes.astype(wide), scales=scales)]


def _type(bias: str) -> dict[str, int]:
    """The option that says of which type the bias is, where that is not the usual one."""
    return {"QuantizedBiasType": tflite.TensorType.INT32} if bias == "int32" else {}


def _result(draw: Draw, products: list[float], terms: int, bias: str = "small") -> Step | None:
    """An output scale that the sums fill: a part of their spread, all of it, or much less. With a bias
    at its limits no multiplier exceeds 1: the interpreter's int32 would overflow."""
    if draw.is_float:
        return None
    spread = max(products) * terms**0.5 * (70 * 70 if draw.width == "int8" else 18000 * 70)
    factor = {"fine": 1 / 200, "coarse": 8.0}.get(draw.kind, float(draw.rng.uniform(0.3, 3.0)))
    if draw.kind == "power":
        return Step(2.0 ** float(np.ceil(np.log2(spread / draw.limits[1]))), draw.zero())
    scale = spread * factor / draw.limits[1]
    if bias == "limits":
        scale = max(scale, 1.01 * max(products))
    return Step(float(np.float32(scale)), draw.zero())


def _scale_of(draw: Draw, x: int) -> float:
    return 1.0 if draw.is_float else draw.step[x].scale


def conv(
    form: str,
    *,
    shape: Shape = (1, 7, 6, 3),
    kernel: int = 3,
    filters: int = 4,
    stride: int = 1,
    dilation: int = 1,
    valid: bool = False,
    clip: int = _NONE,
    one_scale: bool = False,
    bias: str = "small",
    groups: int = 1,
) -> Case:
    """CONV_2D."""

    def make(draw: Draw) -> Drawn:
        x = draw.input(shape)
        terms = kernel * kernel * shape[3] // groups
        weight_shape = (filters, kernel, kernel, shape[3] // groups)
        w, products = _weights(draw, weight_shape, 0, _scale_of(draw, x), one_scale=one_scale)
        inputs = [x, w, *_bias(draw, filters, terms, products, bias)]
        draw.output(
            (1, *_extents(shape, kernel, stride, dilation, valid), filters),
            _result(draw, products, terms, bias),
        )
        return draw.operator(
            "CONV_2D", inputs, "Conv2DOptions", Padding=int(valid), StrideH=stride, StrideW=stride,
            DilationHFactor=dilation, DilationWFactor=dilation, FusedActivationFunction=clip, **_type(bias),
        )  # fmt: skip

    return Case("CONV_2D", form, make)


def _extents(shape: Shape, kernel: int, stride: int, dilation: int, valid: bool) -> list[int]:
    reach = (kernel - 1) * dilation
    return [(n - reach - 1) // stride + 1 if valid else -(-n // stride) for n in shape[1:3]]


def depthwise(
    form: str,
    *,
    shape: Shape = (1, 6, 6, 3),
    multiplier: int = 1,
    stride: int = 1,
    dilation: int = 1,
    clip: int = _NONE,
    one_scale: bool = False,
    bias: str = "small",
) -> Case:
    """DEPTHWISE_CONV_2D with a 3 x 3 kernel."""

    def make(draw: Draw) -> Drawn:
        x, filters = draw.input(shape), shape[3] * multiplier
        w, products = _weights(draw, (1, 3, 3, filters), 3, _scale_of(draw, x), one_scale=one_scale)
        inputs = [x, w, *_bias(draw, filters, 9, products, bias)]
        draw.output(
            (1, *_extents(shape, 3, stride, dilation, False), filters), _result(draw, products, 9, bias)
        )
        return draw.operator(
            "DEPTHWISE_CONV_2D", inputs, "DepthwiseConv2DOptions", StrideH=stride, StrideW=stride,
            DepthMultiplier=multiplier, DilationHFactor=dilation, DilationWFactor=dilation,
            FusedActivationFunction=clip,
        )  # fmt: skip

    return Case("DEPTHWISE_CONV_2D", form, make)


def transposed(form: str, *, stride: int, valid: bool, bias: str = "none", clip: int = _NONE) -> Case:
    """TRANSPOSE_CONV with a 3 x 3 kernel."""

    def make(draw: Draw) -> Drawn:
        shape = (1, 4, 5, 3)
        extents = [(n - 1) * stride + 3 if valid else n * stride for n in shape[1:3]]
        x = draw.input(shape)
        w, products = _weights(draw, (4, 3, 3, 3), 0, _scale_of(draw, x), one_scale=False)
        size = draw.integers([1, *extents, 4])
        inputs = [size, w, x, *_bias(draw, 4, 27, products, bias)]
        draw.output((1, *extents, 4), _result(draw, products, 27))
        return draw.operator(
            "TRANSPOSE_CONV", inputs, "TransposeConvOptions", 3 if bias != "none" else 1, Padding=int(valid),
            StrideH=stride, StrideW=stride, FusedActivationFunction=clip,
        )  # fmt: skip

    return Case("TRANSPOSE_CONV", form, make)


def dense(
    form: str,
    *,
    shape: Shape = (3, 10),
    units: int = 5,
    clip: int = _NONE,
    one_scale: bool = True,
    bias: str = "small",
    keep: bool = False,
    zero: int = 0,
) -> Case:
    """FULLY_CONNECTED on the last axis of `shape`."""

    def make(draw: Draw) -> Drawn:
        taken = (*shape[:-1], min(shape[-1], 200)) if draw.small else shape
        x, terms = draw.input(taken), taken[-1]
        w, products = _weights(draw, (units, terms), 0, _scale_of(draw, x), one_scale=one_scale, zero=zero)
        inputs = [x, w, *_bias(draw, units, terms, products, bias)]
        lead = taken[:-1] if keep else (int(np.prod(taken[:-1])),)
        draw.output((*lead, units), _result(draw, products, terms, bias))
        return draw.operator(
            "FULLY_CONNECTED", inputs, "FullyConnectedOptions", KeepNumDims=keep,
            FusedActivationFunction=clip, **_type(bias),
        )  # fmt: skip

    return Case("FULLY_CONNECTED", form, make)


def product(
    form: str, a: Shape, b: Shape, *, adjoint: tuple[bool, bool] = (False, False), constant: bool = False
) -> Case:
    """BATCH_MATMUL; `constant`: the second operand is one."""

    def make(draw: Draw) -> Drawn:
        x = draw.input(a)
        step = Step(draw.random_step().scale, 0 if constant else draw.zero())
        y = draw.constant(b, step) if constant else draw.input(b, step)
        left = (*a[:-2], a[-1], a[-2]) if adjoint[0] else a
        right = (*b[:-2], b[-1], b[-2]) if adjoint[1] else b
        batch = np.broadcast_shapes(a[:-2], b[:-2])
        scales = [_scale_of(draw, x) * _scale_of(draw, y)]
        if draw.width == "int16":
            scales = [scales[0] * 256]  # the second operand is as wide
        draw.output((*batch, left[-2], right[-1]), _result(draw, scales, left[-1]))
        return draw.operator("BATCH_MATMUL", [x, y], "BatchMatMulOptions", AdjX=adjoint[0], AdjY=adjoint[1])

    return Case("BATCH_MATMUL", form, make)


def pool(
    operator: str, form: str, *, clip: int = _NONE, valid: bool = False, kernel: tuple[int, int] = (3, 2)
) -> Case:
    """A pool over strides of two; the output has the input's format."""

    def make(draw: Draw) -> Drawn:
        shape = (1, 7, 7, 3)
        sizes = [(7 - k) // 2 + 1 if valid else 4 for k in kernel]
        x = draw.input(shape)
        draw.output((1, *sizes, 3), like=x)
        return draw.operator(
            operator, [x], "Pool2DOptions", Padding=int(valid), StrideH=2, StrideW=2, FilterHeight=kernel[0],
            FilterWidth=kernel[1], FusedActivationFunction=clip,
        )  # fmt: skip

    return Case(operator, form, make)


LINEAR: tuple[Case, ...] = (
    conv(""),
    conv("stride", stride=2),
    conv("valid stride", stride=2, valid=True),
    conv("one scale", one_scale=True),
    conv("bias at its limits", bias="limits"),
    conv("int32 bias", bias="int32"),
    conv("dilation", dilation=2),
    conv("1 x 1", kernel=1, shape=(1, 4, 5, 8)),
    conv("groups", groups=2, shape=(1, 5, 5, 4)),
    conv("1024 inputs", kernel=1, shape=(1, 2, 2, 1024), filters=3),
    *(conv(name, clip=number) for name, number in CLIPS.items()),
    depthwise(""),
    depthwise("multiplier", multiplier=2),
    depthwise("stride", stride=2),
    depthwise("dilation", dilation=2),
    depthwise("one scale", one_scale=True),
    depthwise("no bias", bias="none"),
    depthwise("bias at its limits", bias="limits"),
    *(depthwise(name, clip=number) for name, number in CLIPS.items()),
    transposed("", stride=2, valid=False),
    transposed("valid", stride=2, valid=True),
    transposed("stride 1", stride=1, valid=False),
    transposed("bias", stride=2, valid=True, bias="small"),
    transposed("bias relu6", stride=2, valid=True, bias="small", clip=3),
    dense(""),
    dense("per channel", one_scale=False),
    dense("per channel relu", one_scale=False, clip=1),
    dense("no bias", bias="none"),
    dense("per channel no bias", bias="none", one_scale=False),
    dense("bias at its limits", bias="limits"),
    dense("per channel bias at its limits", bias="limits", one_scale=False),
    dense("1024 inputs", shape=(2, 1024)),
    dense("per channel 1024 inputs", shape=(2, 1024), one_scale=False),
    dense("int32 bias", bias="int32"),
    dense("axes kept", shape=(2, 3, 10), keep=True),
    dense("axes joined", shape=(2, 3, 10)),
    dense("one row", shape=(1, 33), units=7),
    dense("weights with a zero point", zero=5),
    *(dense(name, clip=number) for name, number in CLIPS.items()),
    product("", (2, 3, 6), (2, 6, 4)),
    product("adjoint second", (2, 3, 6), (2, 4, 6), adjoint=(False, True)),
    product("adjoint first", (2, 6, 3), (2, 6, 4), adjoint=(True, False)),
    product("heads", (1, 2, 5, 6), (1, 2, 6, 5)),
    product("broadcast", (2, 3, 6), (1, 6, 4)),
    product("constant", (2, 3, 6), (6, 4), constant=True),
    product("one matrix", (3, 300), (300, 2)),
    *(pool("AVERAGE_POOL_2D", form, clip=number) for form, number in (("", 0), *CLIPS.items())),
    *(pool("MAX_POOL_2D", form, clip=number) for form, number in (("", 0), *CLIPS.items())),
    pool("AVERAGE_POOL_2D", "valid", valid=True),
    pool("AVERAGE_POOL_2D", "whole", valid=True, kernel=(7, 7)),
    pool("MAX_POOL_2D", "valid", valid=True),
    pool("L2_POOL_2D", ""),
)  # fmt: skip
