# SPDX-License-Identifier: Apache-2.0
"""ONNX's normalisations. Statistics that are constant become a scale and a shift."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from minun_pio.importers.onnx.context import Context, Handler, number, whole
from minun_pio.importers.onnx.model import OnnxNode


def _batch_norm(ctx: Context, node: OnnxNode) -> list[str]:
    if whole(ctx, node, "training_mode", 0):
        raise ctx.refusal(node, "training_mode is 1", "export the model for inference")
    shape = ctx.input_shape(node, 0)
    scale, bias, mean, variance = (
        ctx.floats(node, i, what) for i, what in ((1, "scale"), (2, "bias"), (3, "mean"), (4, "variance"))
    )
    if len(shape) < 2 or not scale.shape == bias.shape == mean.shape == variance.shape == (shape[1],):
        raise ctx.refusal(node, f"statistics {scale.shape} for {shape}", "one a channel", "onnx.malformed")
    factor = scale / np.sqrt(variance + number(ctx, node, "epsilon", 1e-5))
    x = ctx.tensor(node, 0)
    to_last = (0, *range(2, len(shape)), 1)
    to_first = (0, len(shape) - 1, *range(1, len(shape) - 1))
    x = x if len(shape) == 2 else ctx.add(node, "transpose", [x], {"perm": to_last})
    constants = [ctx.constant(node, factor, "scale"), ctx.constant(node, bias - mean * factor, "shift")]
    x = ctx.add(node, "scale_shift", [x, *constants])
    return [x if len(shape) == 2 else ctx.add(node, "transpose", [x], {"perm": to_first})]


def _layer_norm(ctx: Context, node: OnnxNode) -> list[str]:
    """Over all axes from `axis`: those are made one, the operator normalises the last axis."""
    shape = ctx.input_shape(node, 0)
    axis = ctx.axis(node, whole(ctx, node, "axis", -1), len(shape))
    tail = shape[axis:]
    extent = int(np.prod(tail))
    x = ctx.tensor(node, 0)
    several = len(tail) > 1
    if several:
        x = ctx.add(node, "reshape", [x], {"shape": (*shape[:axis], extent)})
    inputs = [x]
    epsilon = number(ctx, node, "epsilon", 1e-5)
    for index, what, alone in ((1, "scale", 1.0), (2, "bias", 0.0)):
        if ctx.has(node, index):
            values = ctx.floats(node, index, what)
            if values.size != extent and values.size != 1:
                values = np.broadcast_to(values, tail)
            inputs.append(ctx.constant(node, np.broadcast_to(values.reshape(-1), (extent,)), what))
        elif index == 1:
            inputs.append(ctx.constant(node, np.full(extent, alone), what))
    result = ctx.add(node, "layer_norm", inputs, {"axis": axis, "epsilon": epsilon})
    return [ctx.add(node, "reshape", [result], {"shape": shape}) if several else result, "", ""]


def _rms_norm(ctx: Context, node: OnnxNode) -> list[str]:
    shape = ctx.input_shape(node, 0)
    axis = ctx.axis(node, whole(ctx, node, "axis", -1), len(shape))
    x = ctx.tensor(node, 0)
    axes = tuple(range(axis, len(shape)))
    square = ctx.add(node, "reduce_mean", [ctx.add(node, "mul", [x, x])], {"axes": axes, "keepdims": True})
    around = ctx.add(node, "add", [square, ctx.scalar(node, number(ctx, node, "epsilon", 1e-5))])
    result = ctx.add(node, "div", [x, ctx.add(node, "sqrt", [around])])
    return [ctx.add(node, "mul", [result, ctx.tensor(node, 1)])]


def _group_norm(ctx: Context, node: OnnxNode) -> list[str]:
    """Instance and group normalisation: each group of channels is one row of a layer norm, then scaled."""
    shape = ctx.input_shape(node, 0)
    if len(shape) < 3:
        raise ctx.refusal(node, f"rank {len(shape)}", "(N, C, ...) is expected", "onnx.malformed")
    channels = shape[1]
    groups = channels if node.op == "InstanceNormalization" else whole(ctx, node, "num_groups", 1)
    scale, bias = ctx.floats(node, 1, "scale"), ctx.floats(node, 2, "bias")
    if groups < 1 or channels % groups:
        raise ctx.refusal(
            node, f"{groups} groups of {channels} channels", "a divisor works", "onnx.malformed"
        )
    if scale.shape != bias.shape or scale.size not in (groups, channels):
        raise ctx.refusal(node, f"scale {scale.shape}, bias {bias.shape}", "one a channel", "onnx.malformed")
    repeat = channels // scale.size
    scale, bias = np.repeat(scale, repeat), np.repeat(bias, repeat)
    rest = int(np.prod(shape)) // (shape[0] * groups)
    x = ctx.add(node, "reshape", [ctx.tensor(node, 0)], {"shape": (shape[0], groups, rest)})
    attrs = {"axis": 2, "epsilon": number(ctx, node, "epsilon", 1e-5)}
    x = ctx.add(node, "layer_norm", [x, ctx.constant(node, np.ones(rest), "one")], attrs)
    x = ctx.add(node, "reshape", [x], {"shape": shape})
    each = (channels, *(1,) * (len(shape) - 2))
    x = ctx.add(node, "mul", [x, ctx.constant(node, scale.reshape(each), "scale")])
    return [ctx.add(node, "add", [x, ctx.constant(node, bias.reshape(each), "bias")])]


def _lp_norm(ctx: Context, node: OnnxNode) -> list[str]:
    axis = ctx.axis(node, whole(ctx, node, "axis", -1), len(ctx.input_shape(node, 0)))
    x = ctx.tensor(node, 0)
    if whole(ctx, node, "p", 2) == 2:
        return [ctx.add(node, "l2_norm", [x], {"axis": axis, "epsilon": 0.0})]
    size = ctx.add(node, "reduce_sum", [ctx.add(node, "abs", [x])], {"axes": (axis,), "keepdims": True})
    return [ctx.add(node, "div", [x, size])]


def _mvn(ctx: Context, node: OnnxNode) -> list[str]:
    """MeanVarianceNormalization: (x - mean) / (deviation + 1e-9) over axes."""
    x = ctx.tensor(node, 0)
    axes = tuple(ctx.axis(node, a, len(ctx.input_shape(node, 0))) for a in node.attrs.get("axes", [0, 2, 3]))
    over = {"axes": axes, "keepdims": True}
    centred = ctx.add(node, "sub", [x, ctx.add(node, "reduce_mean", [x], over)])
    variance = ctx.add(node, "reduce_mean", [ctx.add(node, "mul", [centred, centred])], over)
    deviation = ctx.add(node, "add", [ctx.add(node, "sqrt", [variance]), ctx.scalar(node, 1e-9)])
    return [ctx.add(node, "div", [centred, deviation])]


HANDLERS: Mapping[str, Handler] = {
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "InstanceNormalization": _group_norm,
    "GroupNormalization": _group_norm,
    "LpNormalization": _lp_norm,
    "MeanVarianceNormalization": _mvn,
}
