# SPDX-License-Identifier: Apache-2.0
"""ONNX's Scan (operator set 9 on): our scan has one time axis and one direction, so the others are moved
there."""

from __future__ import annotations

from collections.abc import Mapping

from minun_pio.importers.onnx.context import Context, Handler, whole, wholes
from minun_pio.importers.onnx.model import OnnxGraph, OnnxNode


def _scan(ctx: Context, node: OnnxNode) -> list[str]:
    body = node.attrs.get("body")
    if ctx.opset < 9:
        raise ctx.refusal(node, "the batched form of operator set 8", "operator set 9 and later work")
    if not isinstance(body, OnnxGraph):
        raise ctx.refusal(node, "no body", "export the model again", "onnx.malformed")
    scanned = whole(ctx, node, "num_scan_inputs", 1)
    states = len(node.inputs) - scanned
    collected = len(body.outputs) - states
    if scanned < 1 or states < 0 or collected < 0 or len(body.inputs) != len(node.inputs):
        raise ctx.refusal(node, "a body that does not fit", "states, then scanned inputs", "onnx.malformed")
    axes = wholes(ctx, node, "scan_input_axes", [0] * scanned) or []
    ways = wholes(ctx, node, "scan_input_directions", [0] * scanned) or []
    out_axes = wholes(ctx, node, "scan_output_axes", [0] * collected) or []
    out_ways = wholes(ctx, node, "scan_output_directions", [0] * collected) or []
    if (
        len(axes) != scanned
        or len(ways) != scanned
        or len(out_axes) != collected
        or len(out_ways) != collected
    ):
        raise ctx.refusal(node, "axes or directions of wrong length", "one each", "onnx.malformed")
    inputs = [ctx.tensor(node, k) for k in range(states)]
    backwards = all(ways) and bool(ways)
    steps = 0
    for k in range(scanned):
        x = ctx.tensor(node, states + k)
        rank = len(ctx.builder.shape(x))
        axis = ctx.axis(node, axes[k], rank)
        if axis:
            x = ctx.add(node, "transpose", [x], {"perm": (axis, *(a for a in range(rank) if a != axis))})
        if bool(ways[k]) != backwards:
            x = ctx.add(node, "reverse", [x], {"axes": (0,)})
        length = ctx.builder.shape(x)[0] if rank else 0
        if steps not in (0, length) or not length:
            raise ctx.refusal(node, "scanned inputs of different length", "make them equal", "onnx.malformed")
        steps = length
        inputs.append(x)
    shapes = [ctx.builder.shape(x) if k < states else ctx.builder.shape(x)[1:] for k, x in enumerate(inputs)]
    names = [given.name for given in body.inputs]
    graph = ctx.convert_body(body, ctx, list(zip(names, shapes, strict=True)))
    hints = [name or f"{node.name}.{k}" for k, name in enumerate(node.outputs)]
    hints += [f"{node.name}.{k}" for k in range(len(hints), len(body.outputs))]
    attrs = {"steps": steps, "axis": 0, "reverse": backwards}
    made = list(ctx.builder.add_many("scan", inputs, attrs, outputs=hints, name=node.name, body=graph))
    for k in range(collected):
        x = made[states + k]
        # ONNX: direction 0 appends each step's slice. Ours puts it where the step was in the input.
        if bool(out_ways[k]) != backwards:
            x = ctx.add(node, "reverse", [x], {"axes": (0,)})
        rank = len(ctx.builder.shape(x))
        axis = ctx.axis(node, out_axes[k], rank)
        if axis:
            x = ctx.add(node, "transpose", [x], {"perm": (*range(1, axis + 1), 0, *range(axis + 1, rank))})
        made[states + k] = x
    return made


HANDLERS: Mapping[str, Handler] = {"Scan": _scan}
