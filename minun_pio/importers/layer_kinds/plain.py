# SPDX-License-Identifier: Apache-2.0
"""Dense layers, activations, normalisation, shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minun_pio.importers.layers import ACTIVATIONS, Kind, Options


def dense(o: Options) -> str:
    """`weights` (out, in), or (in, out) with `layout: in-out`; `bias` (out); `sparse: true` stores what is
    not zero."""
    w = o.array("weights", 2)
    if o.choice("layout", ("out-in", "in-out"), "out-in") == "in-out":
        w = w.T
    inputs = [o.stack.x, o.constant(w, "weights")]
    bias = o.optional("bias")
    if bias is not None:
        if bias.size != w.shape[0]:
            raise o.error(f"'bias' has {bias.size} numbers, {w.shape[0]} expected", "layers.shape")
        inputs.append(o.constant(bias.reshape(-1), "bias"))
    if o.flag("sparse"):
        return o.activated(o.add("sparse_dense", inputs, {"storage": "csc"}))
    return o.activated(o.add("dense", inputs))


def normalise(o: Options) -> str:
    """(x - `mean`) / `std` for each feature of the last axis."""
    shape = o.shape
    size = shape[-1]
    mean, std = o.vector("mean", size, 0.0), o.vector("std", size, 1.0)
    if np.any(std == 0):
        raise o.error("'std' has a zero in it; give such a feature 1")
    return o.add("scale_shift", [o.stack.x, o.constant(1 / std, "scale"), o.constant(-mean / std, "shift")])


def batch_norm(o: Options) -> str:
    size = o.shape[-1]
    mean, variance = o.vector("mean", size), o.vector("variance", size)
    scale = o.vector("scale", size, 1.0) / np.sqrt(variance + o.number("epsilon", 1e-5))
    shift = o.vector("bias", size, 0.0) - mean * scale
    return o.activated(
        o.add("scale_shift", [o.stack.x, o.constant(scale, "scale"), o.constant(shift, "shift")])
    )


def layer_norm(o: Options) -> str:
    size = o.shape[-1]
    inputs = [o.stack.x, o.constant(o.vector("scale", size, 1.0), "scale")]
    if o.get("bias") is not None:
        inputs.append(o.constant(o.vector("bias", size), "bias"))
    return o.add("layer_norm", inputs, {"axis": len(o.shape) - 1, "epsilon": o.number("epsilon", 1e-5)})


def l2_norm(o: Options) -> str:
    axis = o.axis()
    return o.add("l2_norm", [o.stack.x], {"axis": axis, "epsilon": o.number("epsilon", 0.0)})


def _softmax(op: str) -> Kind:
    return lambda o: o.add(op, [o.stack.x], {"axis": o.axis()})


def leaky_relu(o: Options) -> str:
    return o.add("leaky_relu", [o.stack.x], {"alpha": o.number("alpha", 0.01)})


def prelu(o: Options) -> str:
    """`slope` for each feature of the last axis, or one for all."""
    return o.add("prelu", [o.stack.x, o.constant(o.vector("slope", o.shape[-1]), "slope")])


def argmax(o: Options) -> str:
    attrs = {"axis": o.axis(), "keepdims": False, "select_last_index": False}
    return o.add("argmax", [o.stack.x], attrs)


def clip(o: Options) -> str:
    low, high = o.get("min"), o.get("max")
    return o.add("clip", [o.stack.x], {"lo": None if low is None else o.number("min"),
                                       "hi": None if high is None else o.number("max")})  # fmt: skip


def flatten(o: Options) -> str:
    return o.add("reshape", [o.stack.x], {"shape": (1, int(np.prod(o.shape)))})


def reshape(o: Options) -> str:
    shape = o.get("shape")
    if not isinstance(shape, (list, tuple)) or any(not isinstance(n, int) or n < 1 for n in shape):
        raise o.error(f"'shape' is {shape!r}, a list of whole numbers expected")
    return o.add("reshape", [o.stack.x], {"shape": tuple(shape)})


def transpose(o: Options) -> str:
    return o.add("transpose", [o.stack.x], {"perm": o.wholes("perm", len(o.shape))})


def _with_saved(op: str) -> Kind:
    def build(o: Options) -> str:
        """x with an earlier layer's output (`with:` its name) or constants (`value:`)."""
        other = o.get("with")
        if other is not None:
            if other not in o.stack.saved:
                raise o.error(f"no earlier layer has 'name: {other}'", "layers.unknown-name")
            return o.activated(o.add(op, [o.stack.x, o.stack.saved[other]]))
        return o.activated(o.add(op, [o.stack.x, o.constant(o.array("value"), "value")]))

    return build


def concat(o: Options) -> str:
    names = o.get("with")
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or any(name not in o.stack.saved for name in names):
        raise o.error(f"'with' is {names!r}, names of earlier layers expected", "layers.unknown-name")
    parts = [o.stack.x, *(o.stack.saved[name] for name in names)]
    return o.add("concat", parts, {"axis": o.axis()})


def activation(op: str, attrs: Mapping[str, Any]) -> Kind:
    return lambda o: o.add(op, [o.stack.x], attrs)


KINDS: Mapping[str, Kind] = {
    **{name: activation(op, attrs) for name, (op, attrs) in ACTIVATIONS.items()},
    "identity": lambda o: o.stack.x,
    "dense": dense,
    "normalise": normalise,
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "l2_norm": l2_norm,
    "softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"),
    "leaky_relu": leaky_relu,
    "prelu": prelu,
    "argmax": argmax,
    "clip": clip,
    "flatten": flatten,
    "reshape": reshape,
    "transpose": transpose,
    "add": _with_saved("add"),
    "mul": _with_saved("mul"),
    "concat": concat,
}
