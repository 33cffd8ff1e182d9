# SPDX-License-Identifier: Apache-2.0
"""Layers with a loop: FastGRNN (Kusupati et al., NeurIPS 2018), RNN, GRU, LSTM, and RNNPool (Saha et al.,
NeurIPS 2020), which sweeps FastGRNNs over patches of an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from minun_pio.importers.builder import GraphBuilder
from minun_pio.importers.cells import ACTIVATIONS, FUNCTIONS, GATES, Direction, cell_body
from minun_pio.importers.layers import Floats, Kind, Options
from minun_pio.ir import Graph


@dataclass(frozen=True)
class FastGrnn:
    """p = x w + h u; z = sigmoid(p + bg); h' = (zeta (1 - z) + nu) tanh(p + bh) + z h. `w` (inputs, hidden)
    and `u`
    (hidden, hidden) may be products of two (low rank); zeta and nu have gone through their sigmoid."""

    w: tuple[Floats, ...]
    u: tuple[Floats, ...]
    bg: Floats
    bh: Floats
    zeta: float
    nu: float
    mean: Floats | None = None
    std: Floats | None = None

    @property
    def inputs(self) -> int:
        return int(self.w[0].shape[0])

    @property
    def hidden(self) -> int:
        return self.bg.size


def fastgrnn_options(o: Options, suffix: str = "") -> FastGrnn:
    """The cell of a layer's options; a suffix tells several cells apart."""
    w = _factors(o, f"w{suffix}", f"w{suffix}_a", f"w{suffix}_b")
    u = _factors(o, f"u{suffix}", f"u{suffix}_a", f"u{suffix}_b")
    hidden = u[0].shape[0]
    if w[-1].shape[1] != hidden or u[-1].shape[1] != hidden:
        raise o.error(
            f"w ends at {w[-1].shape[1]}, u at {u[-1].shape[1]} for {hidden} hidden", "layers.shape"
        )
    zeta, nu = o.number(f"zeta{suffix}"), o.number(f"nu{suffix}")
    if o.choice(f"gates{suffix}", ("logits", "values"), "logits") == "logits":
        zeta, nu = 1 / (1 + np.exp(-zeta)), 1 / (1 + np.exp(-nu))
    inputs = w[0].shape[0]
    given = o.get(f"mean{suffix}") is not None or o.get(f"std{suffix}") is not None
    return FastGrnn(
        w, u, o.vector(f"bg{suffix}", hidden), o.vector(f"bh{suffix}", hidden), float(zeta), float(nu),
        o.vector(f"mean{suffix}", inputs, 0.0) if given else None,
        o.vector(f"std{suffix}", inputs, 1.0) if given else None,
    )  # fmt: skip


def _factors(o: Options, whole: str, left: str, right: str) -> tuple[Floats, ...]:
    if o.get(whole) is not None:
        return (o.array(whole, 2),)
    if o.get(left) is None and o.get(right) is None:
        raise o.error(f"the option '{whole}' is missing (or '{left}' and '{right}')", "layers.missing-key")
    a, b = o.array(left, 2), o.array(right, 2)
    if a.shape[1] != b.shape[0]:
        raise o.error(f"'{left}' {a.shape} and '{right}' {b.shape} do not multiply", "layers.shape")
    return a, b


def fastgrnn_body(cell: FastGrnn, batch: int, name: str, where: str, keep: bool) -> Graph:
    """One step: inputs h (batch, hidden) and x (batch, inputs); output the next h, with `keep` twice."""
    b = GraphBuilder(name, where)
    h = b.input("h", (batch, cell.hidden))
    x = b.input("x", (batch, cell.inputs))
    if cell.std is not None and cell.mean is not None:
        scale, shift = b.constant(1 / cell.std, "scale"), b.constant(-cell.mean / cell.std, "shift")
        x = b.add("scale_shift", [x, scale, shift], name="x_normal")
    if len(cell.w) == len(cell.u) == 1:
        joined = b.add("concat", [x, h], {"axis": 1}, name="x_h")
        p = b.add("dense", [joined, b.constant(np.vstack([cell.w[0], cell.u[0]]).T, "wu")], name="p")
    else:
        low_w = x if len(cell.w) == 1 else b.add("dense", [x, b.constant(cell.w[0].T, "w_a")], name="x_low")
        low_u = h if len(cell.u) == 1 else b.add("dense", [h, b.constant(cell.u[0].T, "u_a")], name="h_low")
        joined = b.add("concat", [low_w, low_u], {"axis": 1}, name="low")
        p = b.add("dense", [joined, b.constant(np.vstack([cell.w[-1], cell.u[-1]]).T, "wu")], name="p")
    z = b.add("sigmoid", [b.add("add", [p, b.constant(cell.bg, "bg")], name="p_g")], name="z")
    c = b.add("tanh", [b.add("add", [p, b.constant(cell.bh, "bh")], name="p_h")], name="c")
    ones = np.ones(cell.hidden)
    scale, shift = b.constant(-cell.zeta * ones, "zeta"), b.constant((cell.zeta + cell.nu) * ones, "nu")
    share = b.add("scale_shift", [z, scale, shift], name="share")
    fresh, kept = b.add("mul", [share, c], name="fresh"), b.add("mul", [z, h], name="kept")
    h_next = b.add("add", [fresh, kept], name="h_next")
    return b.finish([h_next, h_next] if keep else [h_next])


def _sequence(o: Options) -> tuple[int, int]:
    """Steps and features of (1, steps, features)."""
    if len(o.shape) != 3 or o.shape[0] != 1:
        raise o.error(f"reads {o.shape}, (1, steps, features) expected; reshape first", "layers.shape")
    return o.shape[1], o.shape[2]


def fastgrnn(o: Options) -> str:
    """The last state (1, hidden), or with `sequence: true` every state (1, steps, hidden)."""
    steps, features = _sequence(o)
    cell = fastgrnn_options(o)
    if cell.inputs != features:
        raise o.error(f"'w' takes {cell.inputs} inputs, the sequence has {features}", "layers.shape")
    keep = o.flag("sequence")
    body = fastgrnn_body(cell, 1, "fastgrnn_step", o.where, keep)
    start = o.constant(np.zeros((1, cell.hidden)), "start")
    attrs = {"steps": steps, "axis": 1, "reverse": o.flag("reverse")}
    hints = ["h", "states"] if keep else ["h"]
    made = o.stack.builder.add_many(
        "scan", [start, o.stack.x], attrs, outputs=hints, name="fastgrnn", body=body
    )
    return made[-1]


def _cell(kind: str) -> Kind:
    def build(o: Options) -> str:
        """`w` (gates * hidden, features), `u` (gates * hidden, hidden), `b` (gates * hidden) or `bw` and
        `bu`; gates in ONNX's order, or in PyTorch's with `order: pytorch`. `bidirectional` joins a second
        cell `w2`, `u2`, …"""
        steps, features = _sequence(o)
        both = o.flag("bidirectional")
        sequence = o.flag("sequence")
        parts = [
            _one_way(o, kind, suffix, steps, features, sequence) for suffix in (("", "2") if both else ("",))
        ]
        return (
            parts[0]
            if len(parts) == 1
            else o.add("concat", parts, {"axis": len(o.stack.builder.shape(parts[0])) - 1})
        )

    return build


def _one_way(o: Options, kind: str, suffix: str, steps: int, features: int, sequence: bool) -> str:
    gates, name = GATES[kind], kind.lower()
    w, u = o.array(f"w{suffix}", 2), o.array(f"u{suffix}", 2)
    hidden = u.shape[1]
    if w.shape != (gates * hidden, features) or u.shape != (gates * hidden, hidden):
        raise o.error(f"w {w.shape}, u {u.shape} for {features} features", "layers.shape")
    rows = gates * hidden
    wb = o.vector(f"bw{suffix}", rows, 0.0) + o.vector(f"b{suffix}", rows, 0.0)
    ub = o.vector(f"bu{suffix}", rows, 0.0)
    if o.choice("order", ("onnx", "pytorch"), "onnx") == "pytorch":
        order = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 3, 1, 2]}[kind]
        w, u, wb, ub = (a.reshape(gates, hidden, -1)[order].reshape(a.shape) for a in (w, u, wb, ub))
    functions = tuple((FUNCTIONS[f.lower()][0], dict(FUNCTIONS[f.lower()][1])) for f in ACTIVATIONS[kind])
    reset_after = o.flag("reset_after", True) if kind == "GRU" else False
    direction = Direction(w, u, wb, ub, None, functions, hidden, 0.0, reset_after, False)
    body = cell_body(kind, f"{name}_step", o.where, direction, 1, features, sequence)
    starts = [o.constant(np.zeros((1, hidden)), "start")] * (2 if kind == "LSTM" else 1)
    hints = [f"{name}_{what}" for what in ("h", "c")[: len(starts)]] + (
        [f"{name}_states"] if sequence else []
    )
    attrs = {"steps": steps, "axis": 1, "reverse": bool(suffix) or o.flag("reverse")}
    made = o.stack.builder.add_many("scan", [*starts, o.stack.x], attrs, outputs=hints, name=name, body=body)
    return made[-1] if sequence else made[0]


def rnnpool(o: Options) -> str:
    """(1, H, W, C) to (1, H', W', 4 hidden2): for each patch, cell 1 over every row and cell 2 over the
    rows' states
    in both directions, then the same with columns. `patch`, `strides`, `pads`; cells by suffixes 1 and 2."""
    if len(o.shape) != 4:
        raise o.error(f"reads {o.shape}, (1, height, width, channels) expected", "layers.shape")
    first, second = fastgrnn_options(o, "1"), fastgrnn_options(o, "2")
    if first.inputs != o.shape[3] or second.inputs != first.hidden:
        raise o.error(
            f"cells take {first.inputs} and {second.inputs} on {o.shape[3]} channels", "layers.shape"
        )
    patch, strides = o.wholes("patch", 2), o.wholes("strides", 2)
    top, left, bottom, right = o.wholes("pads", 4, (0, 0, 0, 0))
    x = o.stack.x
    if any((top, left, bottom, right)):
        pads = ((0, 0), (top, bottom), (left, right), (0, 0))
        x = o.add("pad", [x], {"pads": pads, "mode": "constant", "value": 0.0})
    parts: list[str] = []
    for inner, outer in ((2, 1), (1, 2)):
        rows = _swept(o, x, first, inner, patch[inner - 1], strides[inner - 1], False)
        for reverse in (False, True):
            parts.append(_swept(o, rows, second, outer, patch[outer - 1], strides[outer - 1], reverse))
    return o.add("concat", parts, {"axis": 3})


def _swept(o: Options, x: str, cell: FastGrnn, axis: int, size: int, stride: int, reverse: bool) -> str:
    """The last state of `cell` over every window of `size` along `axis`, each `stride` apart."""
    shape = list(o.stack.builder.shape(x))
    count = (shape[axis] - size) // stride + 1
    if count < 1:
        raise o.error(f"a patch of {size} in an extent of {shape[axis]}", "layers.shape")
    step = []
    for t in range(size):
        ends = t + stride * (count - 1) + 1
        part = x
        if (t, ends, stride) != (0, shape[axis], 1):
            attrs = {"starts": (t,), "ends": (ends,), "axes": (axis,), "steps": (stride,)}
            part = o.add("slice", [x], attrs, name=f"window_{t}")
        step.append(part)
    shape[axis] = count
    batch = shape[1] * shape[2]
    flat = [o.add("reshape", [part], {"shape": (1, batch, shape[3])}) for part in step]
    windows = o.add("concat", flat, {"axis": 0}, name="windows")
    body = fastgrnn_body(cell, batch, "rnnpool_step", o.where, False)
    start = o.constant(np.zeros((batch, cell.hidden)), "start")
    loop = {"steps": size, "axis": 0, "reverse": reverse}
    (state,) = o.stack.builder.add_many(
        "scan", [start, windows], loop, outputs=["state"], name="rnnpool", body=body
    )
    return o.add("reshape", [state], {"shape": (1, shape[1], shape[2], cell.hidden)})


KINDS: Mapping[str, Kind] = {
    "fastgrnn": fastgrnn,
    "rnn": _cell("RNN"),
    "gru": _cell("GRU"),
    "lstm": _cell("LSTM"),
    "rnnpool": rnnpool,
}
