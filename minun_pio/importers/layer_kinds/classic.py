# SPDX-License-Identifier: Apache-2.0
"""The classic small models: ProtoNN and Bonsai (Gupta et al., Kumar et al., both ICML 2017)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from minun_pio.importers.layers import Kind, Options


def _row(o: Options) -> int:
    if len(o.shape) != 2 or o.shape[0] != 1:
        raise o.error(f"reads {o.shape}, (1, features) expected; flatten first", "layers.shape")
    return o.shape[1]


def protonn(o: Options) -> str:
    """exp(-gamma^2 |x `w` - `b`_j|^2) `z`: `w` (features, d), `b` (d, prototypes), `z` (classes,
    prototypes). Without
    `w` the prototypes are in the input's space."""
    features = _row(o)
    x, d = o.stack.x, features
    if o.get("w") is not None:
        w = o.array("w", 2)
        if w.shape[0] != features:
            raise o.error(f"'w' is {w.shape} for {features} features, (features, d) expected", "layers.shape")
        sparse = o.flag("sparse")
        projection = [x, o.constant(w.T, "w")]
        x = (
            o.add("sparse_dense", projection, {"storage": "csc"}, name="projected")
            if sparse
            else o.add("dense", projection, name="projected")
        )
        d = w.shape[1]
    b, z = o.array("b", 2), o.array("z", 2)
    if b.shape[0] != d or z.shape[1] != b.shape[1]:
        raise o.error(f"'b' is {b.shape}, 'z' {z.shape}; ({d}, m) and (classes, m) expected", "layers.shape")
    gamma = o.number("gamma")
    distance = o.add("squared_distance", [x, o.constant(b.T, "b")], name="distance")
    exponent = o.add("mul", [distance, o.constant(-gamma * gamma, "gamma")], name="exponent")
    near = o.add("exp", [exponent], name="similarity")
    return o.add("dense", [near, o.constant(z, "z")], name="scores")


def bonsai(o: Options) -> str:
    """A tree on the projection `z` x: `z` (d, features), or (d, features + 1) with the bias in its last
    column;
    `w`, `v` (nodes * classes, d) node by node, `t` (internal nodes, d); `divide` (by d when `true`) scales
    the projection; `mean` is taken from it. One class gives the scores (-s, s)."""
    features = _row(o)
    z, w, v, t = o.array("z", 2), o.array("w", 2), o.array("v", 2), o.array("t", 2)
    d = z.shape[0]
    if z.shape[1] not in (features, features + 1) or not d == w.shape[1] == v.shape[1] == t.shape[1]:
        raise o.error(
            f"z {z.shape}, w {w.shape}, v {v.shape}, t {t.shape} on {features} features", "layers.shape"
        )
    divide = o.get("divide", False)
    factor = 1.0 / (d if divide is True else 1.0 if divide is False else o.number("divide"))
    bias = z[:, features] * factor if z.shape[1] == features + 1 else np.zeros(d)
    bias = bias - o.vector("mean", d, 0.0)
    depth = o.whole("depth")
    if not 0 <= depth <= 12 or t.shape[0] < 2**depth - 1 or w.shape != v.shape:
        raise o.error(f"depth {depth}, t {t.shape}, w {w.shape}, v {v.shape}", "layers.shape")
    nodes = 2 ** (depth + 1) - 1
    if w.shape[0] % nodes:
        raise o.error(f"'w' has {w.shape[0]} rows for {nodes} nodes", "layers.shape")
    classes = w.shape[0] // nodes
    projection = [o.stack.x, o.constant(z[:, :features] * factor, "z")]
    if np.any(bias):
        projection.append(o.constant(bias, "bias"))
    sparse = o.flag("sparse")
    projected = (
        o.add("sparse_dense", projection, {"storage": "csc"}, name="projected")
        if sparse
        else o.add("dense", projection, name="projected")
    )
    attrs = {"depth": depth, "classes": classes, "sigma": o.number("sigma", 1.0)}
    gate = o.choice("gate", ("tanh", "clip"), "tanh")
    if gate != "tanh":
        attrs["gate"] = gate
    constants = [o.constant(a, what) for a, what in ((w, "w"), (v, "v"), (t[: 2**depth - 1], "t"))]
    scores = o.add("bonsai_tree", [projected, *constants], attrs, name="scores")
    if classes == 1:
        scores = o.add("dense", [scores, o.constant([[-1.0], [1.0]], "both")], name="both_scores")
    return scores


KINDS: Mapping[str, Kind] = {"protonn": protonn, "bonsai": bonsai}
