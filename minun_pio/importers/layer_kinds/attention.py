# SPDX-License-Identifier: Apache-2.0
"""A transformer's parts on (1, length, features): multi-head attention, feed-forward block, positional
encoding."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from minun_pio.importers.layers import ACTIVATIONS, Floats, Kind, Options


def _sequence(o: Options) -> tuple[int, int]:
    if len(o.shape) != 3 or o.shape[0] != 1:
        raise o.error(f"reads {o.shape}, (1, length, features) expected", "layers.shape")
    return o.shape[1], o.shape[2]


def _linear(o: Options, x: str, w: str, b: str, scale: float = 1.0) -> str:
    """x W' + b with W (out, in), both scaled."""
    weights = o.array(w, 2) * scale
    inputs = [x, o.constant(weights, w)]
    if o.get(b) is not None:
        inputs.append(o.constant(o.vector(b, weights.shape[0]) * scale, b))
    return o.add("dense", inputs, name=f"{o.kind}_{w}")


def attention(o: Options) -> str:
    """`wq`, `wk`, `wv`, `wo` (out, in) with `bq` …; `heads`; `causal`. The scale is in the queries'
    weights, so that scores are one product."""
    length, _ = _sequence(o)
    heads = o.whole("heads", 1)
    width = o.array("wq", 2).shape[0]
    if heads < 1 or width % heads:
        raise o.error(f"{heads} heads for {width} features", "layers.shape")
    size = width // heads
    parts = []
    for key, scale in (("q", 1 / sqrt(size)), ("k", 1.0), ("v", 1.0)):
        x = _linear(o, o.stack.x, f"w{key}", f"b{key}", scale)
        x = o.add("reshape", [x], {"shape": (1, length, heads, size)})
        parts.append(o.add("transpose", [x], {"perm": (0, 2, 1, 3)}))
    q, k, v = parts
    scores = o.add("matmul", [q, k], {"transpose_a": False, "transpose_b": True}, name="attention_scores")
    if o.flag("causal"):
        mask = np.where(np.tri(length, dtype=bool), 0.0, -128.0)
        scores = o.add("add", [scores, o.constant(mask, "mask")], name="attention_masked")
    weights = o.add("softmax", [scores], {"axis": 3}, name="attention_weights")
    x = o.add("matmul", [weights, v], {"transpose_a": False, "transpose_b": False}, name="attention_heads")
    x = o.add("transpose", [x], {"perm": (0, 2, 1, 3)})
    x = o.add("reshape", [x], {"shape": (1, length, width)})
    x = _linear(o, x, "wo", "bo")
    return o.add("add", [x, o.stack.x]) if o.flag("residual") else x


def feed_forward(o: Options) -> str:
    """Dense `w1`, `b1`, an activation (GELU unless said), dense `w2`, `b2`; `residual` adds the input."""
    op, attrs = ACTIVATIONS[o.choice("activation", ACTIVATIONS, "gelu")]
    x = o.add(op, [_linear(o, o.stack.x, "w1", "b1")], attrs)
    x = _linear(o, x, "w2", "b2")
    return o.add("add", [x, o.stack.x]) if o.flag("residual") else x


def sinusoids(length: int, features: int) -> Floats:
    """Vaswani et al. 2017, section 3.5: sines at even features, cosines at odd ones."""
    position = np.arange(length)[:, None]
    rate = np.exp(np.arange(0, features, 2) * (-np.log(10000.0) / features))
    table = np.zeros((length, features))
    table[:, 0::2] = np.sin(position * rate)
    table[:, 1::2] = np.cos(position * rate)[:, : features // 2]
    return table


def positional_encoding(o: Options) -> str:
    """Adds `table` (length, features), or sinusoids without one."""
    length, features = _sequence(o)
    table = o.array("table", 2) if o.get("table") is not None else sinusoids(length, features)
    if table.shape[0] < length or table.shape[1] != features:
        raise o.error(f"'table' is {table.shape}, ({length}, {features}) expected", "layers.shape")
    return o.add("add", [o.stack.x, o.constant(table[:length], "table")])


KINDS: Mapping[str, Kind] = {
    "attention": attention,
    "feed_forward": feed_forward,
    "positional_encoding": positional_encoding,
}
