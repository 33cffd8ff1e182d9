# SPDX-License-Identifier: Apache-2.0
"""ONNX's RNN, GRU and LSTM as scans over time. Both directions are two scans, joined.

The input of a step and the state are put beside each other, so that all gates are one exact product with one
rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minun_pio.importers.builder import GraphBuilder
from minun_pio.importers.onnx.context import Context, Handler, number, text, whole
from minun_pio.importers.onnx.model import OnnxNode
from minun_pio.ir import Graph

Floats = NDArray[np.float64]

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_ACTIVATIONS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_OPERATORS: Mapping[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "sigmoid": ("sigmoid", ()),
    "tanh": ("tanh", ()),
    "relu": ("relu", ()),
    "softplus": ("softplus", ()),
    "leakyrelu": ("leaky_relu", (("alpha", 0.01),)),
    "elu": ("elu", (("alpha", 1.0),)),
    "hardsigmoid": ("hard_sigmoid", (("alpha", 0.2), ("beta", 0.5))),
}


@dataclass(frozen=True)
class Direction:
    """One direction: (gates * hidden, inputs) and (gates * hidden, hidden) weights, and its functions."""

    w: Floats
    r: Floats
    wb: Floats
    rb: Floats
    peepholes: Floats | None
    functions: tuple[tuple[str, Mapping[str, float]], ...]
    hidden: int
    clip: float
    before_reset: bool
    coupled: bool


class Body:
    """One step being built: names of its inputs, and small expressions on them."""

    def __init__(self, name: str, where: str, d: Direction, batch: int, inputs: int, states: int) -> None:
        self.b = GraphBuilder(name, where)
        self.d = d
        self.states = [self.b.input(("h", "c")[k], (batch, d.hidden)) for k in range(states)]
        self.x = self.b.input("x", (batch, inputs))

    def product(self, parts: list[str], w: Floats, bias: Floats, name: str) -> str:
        joined = self.b.add("concat", parts, {"axis": 1}, name=f"{name}_in") if len(parts) > 1 else parts[0]
        inputs = [joined, self.b.constant(w, f"{name}.w")]
        if np.any(bias):
            inputs.append(self.b.constant(bias, f"{name}.b"))
        return self.b.add("dense", inputs, name=name)

    def gates(self, product: str, names: list[str]) -> list[str]:
        if len(names) == 1:
            return [product]
        sizes = (self.d.hidden,) * len(names)
        return list(
            self.b.add_many("split", [product], {"axis": 1, "sizes": sizes}, outputs=names, name="gates")
        )

    def activate(self, index: int, x: str, name: str) -> str:
        op, attrs = self.d.functions[index]
        if self.d.clip > 0:
            x = self.b.add("clip", [x], {"lo": -self.d.clip, "hi": self.d.clip}, name=f"{name}_clipped")
        return self.b.add(op, [x], attrs, name=name)

    def add(self, op: str, *inputs: str, name: str = "") -> str:
        return self.b.add(op, list(inputs), name=name)

    def finish(self, next_states: list[str], keep: bool) -> Graph:
        return self.b.finish([*next_states, *(next_states[:1] if keep else [])])


def _rnn_step(body: Body) -> list[str]:
    d = body.d
    both = body.product([body.x, body.states[0]], np.hstack([d.w, d.r]), d.wb + d.rb, "p")
    return [body.activate(0, both, "h_next")]


def _gru_step(body: Body) -> list[str]:
    """Gates in ONNX's order z, r, h: h' = n + z (h - n)."""
    d, n = body.d, body.d.hidden
    h = body.states[0]
    w, r, bias = d.w[: 2 * n], d.r[: 2 * n], (d.wb + d.rb)[: 2 * n]
    z, reset = body.gates(body.product([body.x, h], np.hstack([w, r]), bias, "p_zr"), ["p_z", "p_r"])
    z, reset = body.activate(0, z, "z"), body.activate(0, reset, "r")
    if d.before_reset:
        inner = body.product([h], d.r[2 * n :], d.rb[2 * n :], "rh")
        outer = body.product([body.x], d.w[2 * n :], d.wb[2 * n :], "wx")
        candidate = body.add("add", outer, body.add("mul", reset, inner, name="r_rh"), name="p_n")
    else:
        kept = body.add("mul", reset, h, name="r_h")
        weights = np.hstack([d.w[2 * n :], d.r[2 * n :]])
        candidate = body.product([body.x, kept], weights, (d.wb + d.rb)[2 * n :], "p_n")
    new = body.activate(1, candidate, "n")
    change = body.add("mul", z, body.add("sub", h, new, name="h_minus_n"), name="z_change")
    return [body.add("add", new, change, name="h_next")]


def _lstm_step(body: Body) -> list[str]:
    """Gates in ONNX's order i, o, f, c; peepholes in the order i, o, f."""
    d, n = body.d, body.d.hidden
    h, c = body.states
    product = body.product([body.x, h], np.hstack([d.w, d.r]), d.wb + d.rb, "p")
    i, o, f, g = body.gates(product, ["p_i", "p_o", "p_f", "p_c"])

    def peep(gate: str, index: int, cell: str) -> str:
        if d.peepholes is None:
            return gate
        weights = body.b.constant(d.peepholes[index * n : (index + 1) * n], "peephole")
        return body.add("add", gate, body.add("mul", cell, weights))

    i = body.activate(0, peep(i, 0, c), "i")
    f = (
        body.add("sub", body.b.constant(np.ones(1), "one"), i, name="f")
        if d.coupled
        else body.activate(0, peep(f, 2, c), "f")
    )
    g = body.activate(1, g, "g")
    c_next = body.add(
        "add", body.add("mul", f, c, name="f_c"), body.add("mul", i, g, name="i_g"), name="c_next"
    )
    o = body.activate(0, peep(o, 1, c_next), "o")
    op, attrs = d.functions[2]
    return [body.add("mul", o, body.b.add(op, [c_next], attrs, name="c_out"), name="h_next"), c_next]


_STEPS = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}


def _functions(ctx: Context, node: OnnxNode, directions: int) -> list[tuple[str, Mapping[str, float]]]:
    names = node.attrs.get("activations") or list(_ACTIVATIONS[node.op]) * directions
    alphas, betas = list(node.attrs.get("activation_alpha", [])), list(node.attrs.get("activation_beta", []))
    if len(names) != len(_ACTIVATIONS[node.op]) * directions:
        raise ctx.refusal(
            node, f"{len(names)} activations", "one for each gate and direction", "onnx.malformed"
        )
    found: list[tuple[str, Mapping[str, float]]] = []
    for name in names:
        known = _OPERATORS.get(str(name).lower())
        if known is None:
            raise ctx.refusal(node, f"activation '{name}'", f"these work: {', '.join(sorted(_OPERATORS))}")
        attrs = dict(known[1])
        for key, given in (("alpha", alphas), ("beta", betas)):
            if key in attrs and given:
                attrs[key] = float(given.pop(0))
        found.append((known[0], attrs))
    return found


def _cell(ctx: Context, node: OnnxNode) -> list[str]:
    gates, lstm = _GATES[node.op], node.op == "LSTM"
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
    functions, each = _functions(ctx, node, len(ways)), len(_ACTIVATIONS[node.op])
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
        body = Body(f"{node.name}_step", ctx.file, direction, batch, shape[2], 2 if lstm else 1)
        graph = body.finish(_STEPS[node.op](body), keep)
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
