# SPDX-License-Identifier: Apache-2.0
"""ONNX's RNN, GRU and LSTM as scans over time. Both directions are two scans, joined.

The input of a step and the state are put beside each other, so that all gates are one exact product with one
rounding.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from minun_pio.importers.cells import ACTIVATIONS, FUNCTIONS, GATES, Direction, cell_body
from minun_pio.importers.onnx.context import Context, Handler, number, text, whole
from minun_pio.importers.onnx.model import OnnxNode

Floats = NDArray[np.float64]


def _functions(ctx: Context, node: OnnxNode, directions: int) -> list[tuple[str, Mapping[str, float]]]:
    names = node.attrs.get("activations") or list(ACTIVATIONS[node.op]) * directions
    alphas, betas = list(node.attrs.get("activation_alpha", [])), list(node.attrs.get("activation_beta", []))
    if len(names) != len(ACTIVATIONS[node.op]) * directions:
        raise ctx.refusal(
            node, f"{len(names)} activations", "one for each gate and direction", "onnx.malformed"
        )
    found: list[tuple[str, Mapping[str, float]]] = []
    for name in names:
        known = FUNCTIONS.get(str(name).lower())
        if known is None:
            raise ctx.refusal(node, f"activation '{name}'", f"these work: {', '.join(sorted(FUNCTIONS))}")
        attrs = dict(known[1])
        for key, given in (("alpha", alphas), ("beta", betas)):
            if key in attrs and given:
                attrs[key] = float(given.pop(0))
        found.append((known[0], attrs))
    return found


def _cell(ctx: Context, node: OnnxNode) -> list[str]:
    gates, lstm = GATES[node.op], node.op == "LSTM"
    way = text(ctx, node, "direction", "forward")
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(way)
    if ways is None:
        raise ctx.refusal(
            node, f"direction '{way}'", "forward, reverse, bidirectional work", "onnx.malformed"
        )
    batch_first = bool(whole(ctx, node, "layout", 0))
    shape = ctx.input_shape(node, 0)
    w, r = ctx.floats(node, 1, "W"), ctx.floats(node, 2, "R")
    hidden = whole(ctx, node, "hidden_size", r.shape[-1] if r.ndim else 0)
    if (
        len(shape) != 3
        or w.shape != (len(ways), gates * hidden, shape[2])
        or r.shape != (len(ways), gates * hidden, hidden)
    ):
        raise ctx.refusal(
            node, f"X {shape}, W {w.shape}, R {r.shape}", "the standard's shapes", "onnx.malformed"
        )
    steps, batch = (shape[1], shape[0]) if batch_first else (shape[0], shape[1])
    bias = ctx.floats(node, 3, "B") if ctx.has(node, 3) else np.zeros((len(ways), 2 * gates * hidden))
    if bias.shape != (len(ways), 2 * gates * hidden):
        raise ctx.refusal(node, f"B {bias.shape}", "(directions, 2 gates * hidden)", "onnx.malformed")
    if ctx.has(node, 4) and any(length != steps for length in ctx.integers(node, 4, "sequence_lens")):
        raise ctx.refusal(node, "sequence_lens shorter than the sequence", "whole sequences work")
    peepholes = ctx.floats(node, 7, "P") if lstm and ctx.has(node, 7) else None
    if peepholes is not None and peepholes.shape != (len(ways), 3 * hidden):
        raise ctx.refusal(node, f"P {peepholes.shape}", "(directions, 3 * hidden)", "onnx.malformed")
    functions, each = _functions(ctx, node, len(ways)), len(ACTIVATIONS[node.op])
    outputs = [*node.outputs, "", "", ""][:3]
    keep = bool(outputs[0] and ctx.uses.get(outputs[0]))
    x = ctx.tensor(node, 0)
    all_steps: list[str] = []
    last: list[list[str]] = [[], []]
    for k, reverse in enumerate(ways):
        half = gates * hidden
        direction = Direction(
            w[k], r[k], bias[k, :half], bias[k, half:],
            None if peepholes is None else peepholes[k],
            tuple(functions[k * each : (k + 1) * each]),
            hidden, number(ctx, node, "clip", 0.0),
            bool(whole(ctx, node, "linear_before_reset", 0)), bool(whole(ctx, node, "input_forget", 0)),
        )  # fmt: skip
        graph = cell_body(node.op, f"{node.name}_step", ctx.file, direction, batch, shape[2], keep)
        starts = [_initial(ctx, node, 5 + s, k, batch, hidden, batch_first) for s in range(2 if lstm else 1)]
        hints = [
            f"{node.name}_{what}{k}" for what in (["h", "c"] if lstm else ["h"]) + (["y"] if keep else [])
        ]
        attrs = {"steps": steps, "axis": 1 if batch_first else 0, "reverse": reverse}
        made = ctx.builder.add_many("scan", [*starts, x], attrs, outputs=hints, name=node.name, body=graph)
        for s in range(len(starts)):
            last[s].append(made[s])
        if keep:
            all_steps.append(made[-1])
    results = [_joined(ctx, node, all_steps, (2 if batch_first else 1)) if keep else ""]
    for s in range(2 if lstm else 1):
        wanted = bool(outputs[1 + s] and ctx.uses.get(outputs[1 + s]))
        results.append(_joined(ctx, node, last[s], 1 if batch_first else 0) if wanted else "")
    return results


def _initial(
    ctx: Context, node: OnnxNode, index: int, direction: int, batch: int, hidden: int, batch_first: bool
) -> str:
    """The state before the first step, (batch, hidden): zeros unless the model says otherwise."""
    if not ctx.has(node, index):
        return ctx.constant(node, np.zeros((batch, hidden)), "start")
    shape = ctx.input_shape(node, index)
    axis = 1 if batch_first else 0
    if len(shape) != 3 or shape[2] != hidden or shape[1 - axis] != batch or shape[axis] <= direction:
        raise ctx.refusal(
            node, f"an initial state of {shape}", "(directions, batch, hidden)", "onnx.malformed"
        )
    known = ctx.known(node, index)
    if known is not None:
        return ctx.constant(node, np.take(known, direction, axis=axis), "start")
    x = ctx.tensor(node, index)
    if shape[axis] > 1:
        attrs = {"starts": (direction,), "ends": (direction + 1,), "axes": (axis,), "steps": (1,)}
        x = ctx.add(node, "slice", [x], attrs)
    return ctx.add(node, "reshape", [x], {"shape": (batch, hidden)})


def _joined(ctx: Context, node: OnnxNode, parts: list[str], axis: int) -> str:
    """The directions' results on a new axis."""
    wide = []
    for part in parts:
        shape = ctx.builder.shape(part)
        wide.append(ctx.add(node, "reshape", [part], {"shape": (*shape[:axis], 1, *shape[axis:])}))
    return wide[0] if len(wide) == 1 else ctx.add(node, "concat", wide, {"axis": axis})


HANDLERS: Mapping[str, Handler] = {"RNN": _cell, "GRU": _cell, "LSTM": _cell}
