# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's convolutions, dense layers, matrix products and pools. They are channels-last, as
ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.importers.tflite.context import Context, Handler
from minun_pio.importers.tflite.model import TfOperator

Arrange = Callable[[NDArray[Any]], NDArray[Any]]

_SAME, _VALID = 0, 1


def padding(
    ctx: Context,
    op: TfOperator,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
) -> tuple[int, int, int, int]:
    """Top, left, bottom, right of SAME or VALID, or those that `dilated.py` found."""
    if min([*kernel, *strides, *dilations]) < 1:
        raise ctx.refusal(op, "a stride, dilation or kernel below 1", "convert again", "tflite.malformed")
    explicit = op.options("ExplicitPads", 0)
    if explicit:
        top, left, bottom, right = explicit
        return (top, left, bottom, right)
    if op.options("Padding", _SAME) == _VALID:
        return (0, 0, 0, 0)
    before, after = [], []
    for extent, size, stride, dilation in zip(ctx.shape(op, 0)[1:3], kernel, strides, dilations, strict=True):
        outputs = -(-extent // stride)
        total = max(0, (outputs - 1) * stride + (size - 1) * dilation + 1 - extent)
        before.append(total // 2)
        after.append(total - total // 2)
    return (before[0], before[1], after[0], after[1])


def _image(ctx: Context, op: TfOperator, place: int = 0) -> tuple[int, ...]:
    shape = ctx.shape(op, place)
    if len(shape) != 4 or shape[0] != 1:
        raise ctx.refusal(op, f"an input of shape {shape}", "(1, height, width, channels) is expected")
    return shape


def _strides(op: TfOperator) -> tuple[int, int]:
    return int(op.options("StrideH", 1)), int(op.options("StrideW", 1))


def _dilations(op: TfOperator) -> tuple[int, int]:
    return int(op.options("DilationHFactor", 1)), int(op.options("DilationWFactor", 1))


def _weights(ctx: Context, op: TfOperator, arrange: Arrange, *, per_channel: bool = False) -> str:
    """The second input, with its output channels outermost."""
    info = ctx.info(op, 1)
    if any(info.zeros):
        zeros = sorted(set(info.zeros))
        raise ctx.refusal(
            op, f"weights with zero point {zeros[-1] or zeros[0]}", "0 works: quantise symmetrically"
        )
    return ctx.weight(op, 1, arrange, 0, per_channel=per_channel)


def _conv(ctx: Context, op: TfOperator) -> list[str]:
    shape, weights = _image(ctx, op), ctx.info(op, 1).shape
    if len(weights) != 4 or shape[3] % max(1, weights[3]):
        raise ctx.refusal(op, f"weights {weights} on {shape}", "convert again", "tflite.malformed")
    strides, dilations = _strides(op), _dilations(op)
    attrs: dict[str, Any] = {
        "strides": strides,
        "pads": padding(ctx, op, weights[1:3], strides, dilations),
        "dilations": dilations,
        "groups": shape[3] // weights[3],
        **ctx.clip(op),
    }
    inputs = [ctx.tensor(op, 0), _weights(ctx, op, lambda w: w, per_channel=True)]
    if ctx.has(op, 2):
        inputs.append(ctx.weight(op, 2, lambda b: b, 0))
    return [ctx.add(op, "conv", inputs, {**attrs, **_sums(ctx, op, 0, 2)})]


def _depthwise(ctx: Context, op: TfOperator) -> list[str]:
    shape, weights = _image(ctx, op), ctx.info(op, 1).shape
    if len(weights) != 4 or weights[0] != 1 or weights[3] % shape[3]:
        raise ctx.refusal(op, f"weights {weights} on {shape}", "convert again", "tflite.malformed")
    strides, dilations = _strides(op), _dilations(op)
    attrs: dict[str, Any] = {
        "strides": strides,
        "pads": padding(ctx, op, weights[1:3], strides, dilations),
        "dilations": dilations,
        "groups": shape[3],
        **ctx.clip(op),
    }
    inputs = [ctx.tensor(op, 0), _weights(ctx, op, lambda w: w.transpose(3, 1, 2, 0), per_channel=True)]
    if ctx.has(op, 2):
        inputs.append(ctx.weight(op, 2, lambda b: b, 0))
    return [ctx.add(op, "conv", inputs, attrs)]


def _transpose_conv(ctx: Context, op: TfOperator) -> list[str]:
    """Inputs are the output's shape, weights (out, kh, kw, in), the image, a bias."""
    out, weights = ctx.integers(op, 0, "output shape"), ctx.info(op, 1).shape
    shape = _image(ctx, op, 2)
    strides = _strides(op)
    if len(out) != 4 or len(weights) != 4 or weights[3] != shape[3]:
        raise ctx.refusal(op, f"weights {weights} on {shape}", "convert again", "tflite.malformed")
    before, after, extra = [], [], []
    for d in range(2):
        full = (shape[1 + d] - 1) * strides[d] + weights[1 + d]
        total = max(0, full - out[1 + d])
        before.append(total // 2)
        after.append(total - total // 2)
        extra.append(out[1 + d] - (full - total))
    if min(extra) < 0:
        raise ctx.refusal(op, f"an output of {out}", "convert again", "tflite.malformed")
    attrs = {
        "strides": strides,
        "pads": (before[0], before[1], after[0], after[1]),
        "dilations": (1, 1),
        "groups": 1,
        "output_padding": tuple(extra),
        **ctx.clip(op),
    }
    inputs = [ctx.tensor(op, 2), _weights(ctx, op, lambda w: w, per_channel=True)]
    if ctx.has(op, 3):
        inputs.append(ctx.weight(op, 3, lambda b: b, 0))
    return [ctx.add(op, "conv_transpose", inputs, {**attrs, **_sums(ctx, op, 2, 3)})]


def _sums(ctx: Context, op: TfOperator, x: int, bias: int) -> dict[str, bool]:
    """int16 with int32 biases: the sums are int32 too."""
    int16 = ctx.info(op, x).dtype == np.int16
    return (
        {"narrow_sums": True} if int16 and ctx.has(op, bias) and ctx.info(op, bias).dtype == np.int32 else {}
    )


def _fully_connected(ctx: Context, op: TfOperator) -> list[str]:
    weights = ctx.info(op, 1).shape
    if len(weights) != 2 or op.options("WeightsFormat", 0) != 0:
        raise ctx.refusal(op, f"weights {weights}", "a plain matrix (out, in) is expected")
    if ctx.known(op, 1) is None:
        raise ctx.refusal(op, "weights that are computed", "constant weights work", "tflite.not-constant")
    x, shape = ctx.tensor(op, 0), ctx.shape(op, 0)
    total = int(np.prod(shape, dtype=np.int64))
    if total % weights[1]:
        raise ctx.refusal(op, f"{shape} into {weights}", "convert again", "tflite.malformed")
    if shape[-1:] != (weights[1],) or (not op.options("KeepNumDims", 0) and len(shape) != 2):
        x = _reshaped(ctx, op, x, (total // weights[1], weights[1]))
    inputs = [x, _weights(ctx, op, lambda w: w)]
    if ctx.has(op, 2):
        inputs.append(ctx.weight(op, 2, lambda b: b.reshape(-1), 0))
    return [ctx.add(op, "dense", inputs, ctx.clip(op))]


def _reshaped(ctx: Context, op: TfOperator, x: str, shape: tuple[int, ...]) -> str:
    """A view of `x`, in the same format."""
    made = ctx.builder.add("reshape", [x], {"shape": shape}, name=f"{op.name}_rows")
    if x in ctx.builder.quantised:
        ctx.builder.quantised[made] = ctx.builder.quantised[x]
    return made


def _batch_matmul(ctx: Context, op: TfOperator) -> list[str]:
    attrs = {"transpose_a": bool(op.options("AdjX", 0)), "transpose_b": bool(op.options("AdjY", 0))}
    return [ctx.add(op, "matmul", [ctx.tensor(op, 0), ctx.tensor(op, 1)], attrs)]


def _pool(kind: str) -> Handler:
    def handler(ctx: Context, op: TfOperator) -> list[str]:
        _image(ctx, op)
        kernel = int(op.options("FilterHeight", 1)), int(op.options("FilterWidth", 1))
        strides = _strides(op)
        attrs: dict[str, Any] = {
            "kernel": kernel,
            "strides": strides,
            "pads": padding(ctx, op, kernel, strides, (1, 1)),
            "dilations": (1, 1),
            "ceil_mode": False,
        }
        if kind == "average_pool":
            attrs["count_include_pad"] = False
            return [ctx.add(op, kind, [ctx.tensor(op, 0)], {**attrs, **ctx.clip(op)})]
        pooled = ctx.add(op, kind, [ctx.tensor(op, 0)], attrs)
        clip = ctx.clip(op).get("clip")
        if clip is None:
            return [pooled]
        fmt = ctx.format(op, ctx.output(op))
        if fmt is not None:
            ctx.builder.quantised[pooled] = fmt
        return [ctx.add(op, "clip", [pooled], {"lo": clip[0], "hi": clip[1]})]

    return handler


HANDLERS: Mapping[str, Handler] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transpose_conv,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "AVERAGE_POOL_2D": _pool("average_pool"),
    "MAX_POOL_2D": _pool("max_pool"),
}
