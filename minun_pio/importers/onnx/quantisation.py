# SPDX-License-Identifier: Apache-2.0
"""ONNX's QuantizeLinear and DequantizeLinear in pairs (QDQ): the tensor keeps its value, and the graph
notes the format that the model chose for it. The search may keep that format or override it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from minun_pio.errors import MinunError
from minun_pio.importers.onnx.context import Context, Handler, whole
from minun_pio.importers.onnx.model import OnnxNode
from minun_pio.numerics.affine import Affine


def _format(ctx: Context, node: OnnxNode, scale_at: int, dtype: np.dtype[np.generic]) -> Affine:
    scale = ctx.floats(node, scale_at, "scale").reshape(-1)
    zero_at = scale_at + 1
    zeros = ctx.value(node, zero_at, "zero point") if ctx.has(node, zero_at) else np.zeros(1, dtype)
    if zeros.dtype not in (np.int8, np.uint8, np.int16, np.int32):
        raise ctx.refusal(node, f"codes of type {zeros.dtype}", "int8, uint8, int16 and int32 work")
    zero = np.unique(zeros.astype(np.int64))
    if zero.size != 1 or (scale.size > 1 and zero[0] != 0):
        raise ctx.refusal(node, "a zero point per channel", "one per tensor, or symmetric channels, work")
    point = int(zero[0]) - (128 if zeros.dtype == np.uint8 else 0)
    axis = whole(ctx, node, "axis", 1) if scale.size > 1 else None
    try:
        return Affine(zeros.dtype.itemsize * 8, tuple(float(s) for s in scale), point, axis)
    except MinunError as error:
        raise ctx.refusal(node, error.message, "quantise the model again", "onnx.malformed") from None


def _quantise(ctx: Context, node: OnnxNode) -> list[str]:
    source = ctx.carry(node, ctx.name(node, 0))
    fmt = _format(ctx, node, 1, np.dtype(np.uint8))
    if fmt.axis is not None:
        raise ctx.refusal(node, "an activation quantised per channel", "one scale per tensor works")
    ctx.codes[node.outputs[0]] = (source, fmt)
    return [""]


def _dequantise(ctx: Context, node: OnnxNode) -> list[str]:
    name = ctx.name(node, 0)
    if name not in ctx.codes:
        raise ctx.refusal(
            node,
            f"its input '{name}' is codes from outside",
            "a QuantizeLinear before it, or a constant, works",
        )
    source, fmt = ctx.codes[name]
    ctx.builder.quantised.setdefault(source, fmt)
    return [source]


def note_constant(ctx: Context, node: OnnxNode) -> None:
    """A constant that was stored as codes: remember their format under its name."""
    codes = ctx.value(node, 0, "codes")
    fmt = _format(ctx, node, 1, codes.dtype)
    ctx.constant_formats[node.outputs[0]] = fmt


HANDLERS: Mapping[str, Handler] = {"QuantizeLinear": _quantise, "DequantizeLinear": _dequantise}
