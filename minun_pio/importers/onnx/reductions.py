# SPDX-License-Identifier: Apache-2.0
"""ONNX's reductions over axes, and the position of the largest value."""

from __future__ import annotations

from collections.abc import Mapping

from minun_pio.importers.onnx.context import Context, Handler, whole, wholes
from minun_pio.importers.onnx.model import OnnxNode


def _reduce(op: str, before: str = "", after: str = "") -> Handler:
    def handler(ctx: Context, node: OnnxNode) -> list[str]:
        x = ctx.tensor(node, 0)
        rank = len(ctx.input_shape(node, 0))
        axes = wholes(ctx, node, "axes", None)
        if axes is None and ctx.has(node, 1):
            axes = ctx.integers(node, 1, "axes")
        keepdims = bool(whole(ctx, node, "keepdims", 1))
        if before == "square":
            x = ctx.add(node, "mul", [x, x])
        elif before:
            x = ctx.add(node, before, [x])
        if whole(ctx, node, "noop_with_empty_axes", 0) and not axes:
            result = x
        else:
            over = tuple(sorted({ctx.axis(node, axis, rank) for axis in axes or range(rank)}))
            result = ctx.add(node, op, [x], {"axes": over, "keepdims": keepdims}) if rank else x
        return [ctx.add(node, after, [result]) if after else result]

    return handler


def _argument(ctx: Context, node: OnnxNode) -> list[str]:
    attrs = {
        "axis": ctx.axis(node, whole(ctx, node, "axis", 0), len(ctx.input_shape(node, 0))),
        "keepdims": bool(whole(ctx, node, "keepdims", 1)),
        "select_last_index": bool(whole(ctx, node, "select_last_index", 0)),
        "smallest": node.op == "ArgMin",
    }
    ctx.indices.add(node.outputs[0])
    return [ctx.add(node, "argmax", [ctx.tensor(node, 0)], attrs)]


HANDLERS: Mapping[str, Handler] = {
    "ReduceMean": _reduce("reduce_mean"),
    "ReduceSum": _reduce("reduce_sum"),
    "ReduceMax": _reduce("reduce_max"),
    "ReduceMin": _reduce("reduce_min"),
    "ReduceL1": _reduce("reduce_sum", before="abs"),
    "ReduceL2": _reduce("reduce_sum", before="square", after="sqrt"),
    "ReduceSumSquare": _reduce("reduce_sum", before="square"),
    "ReduceLogSum": _reduce("reduce_sum", after="log"),
    "ReduceLogSumExp": _reduce("reduce_sum", before="exp", after="log"),
    "ArgMax": _argument,
    "ArgMin": _argument,
}
