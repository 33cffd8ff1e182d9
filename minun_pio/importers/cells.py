# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells as bodies of a scan: RNN, GRU and LSTM, whichever file they come from.

The input of a step and the state are put beside each other, so that all gates are one exact product with one
rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minun_pio.importers.builder import GraphBuilder
from minun_pio.ir import Graph

Floats = NDArray[np.float64]

GATES: Mapping[str, int] = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""Gates of a cell, each with `hidden` rows in its weights."""

ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "RNN": ("Tanh",),
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
}
FUNCTIONS: Mapping[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "sigmoid": ("sigmoid", ()),
    "tanh": ("tanh", ()),
    "relu": ("relu", ()),
    "softplus": ("softplus", ()),
    "leakyrelu": ("leaky_relu", (("alpha", 0.01),)),
    "elu": ("elu", (("alpha", 1.0),)),
    "hardsigmoid": ("hard_sigmoid", (("alpha", 0.2), ("beta", 0.5))),
}
"""What a cell may use: our operator and its attributes, by ONNX's name in lower case."""


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


STEPS: Mapping[str, Callable[[Body], list[str]]] = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}


def cell_body(kind: str, name: str, where: str, d: Direction, batch: int, inputs: int, keep: bool) -> Graph:
    """One step of cell `kind`: inputs h (and c), x of (batch, inputs); outputs the next h (and c), with
    `keep` also h as the step's output."""
    body = Body(name, where, d, batch, inputs, 2 if kind == "LSTM" else 1)
    return body.finish(STEPS[kind](body), keep)
