# SPDX-License-Identifier: Apache-2.0
"""Take away the transposes between channels-first models and our channels-last operators.

Transposes sink: `op(transpose(x))` becomes `transpose(op(x))` wherever the operator does not mind, until
they meet their inverse, or a dense layer whose weights can be reordered instead.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from minun_pio.ir import Node, Shape
from minun_pio.passes.sweep import Sweep

UNARY = frozenset(
    [
        "abs",
        "clip",
        "convert",
        "elu",
        "erf",
        "exp",
        "gelu",
        "hard_sigmoid",
        "hard_swish",
        "leaky_relu",
        "log",
        "neg",
        "reciprocal",
        "reciprocal_sqrt",
        "relu",
        "sigmoid",
        "softplus",
        "sqrt",
        "tanh",
    ]
)
BINARY = frozenset({"add", "sub", "mul", "div", "squared_difference", "prelu", "maximum", "minimum"})
REDUCTIONS = frozenset({"reduce_mean", "reduce_sum", "reduce_max", "reduce_min"})
Perm = tuple[int, ...]


def merge(sweep: Sweep, node: Node) -> bool:
    """Two moves in a row are one; a transpose that only moves extents of 1 is a reshape."""
    if node.op not in ("transpose", "reshape"):
        return False
    before = sweep.producer(node.inputs[0])
    output = node.outputs[0]
    if node.op == "reshape":
        if before is None or before.op != "reshape":
            return False
        sweep.keep(replace(node, inputs=(before.inputs[0],)))
        return True
    perm = tuple(node.attrs["perm"])
    if _moves_ones(sweep.shape(node.inputs[0]), perm):
        sweep.keep(replace(node, op="reshape", attrs={"shape": sweep.shape(output)}))
        return True
    if before is not None and before.op == "transpose":
        inner = tuple(before.attrs["perm"])
        sweep.keep(replace(node, inputs=before.inputs, attrs={"perm": tuple(inner[axis] for axis in perm)}))
        return True
    return False


def _moves_ones(shape: Shape, perm: Perm) -> bool:
    order = [axis for axis in perm if shape[axis] != 1]
    return order == sorted(order) and list(perm) != sorted(perm)


def sink(sweep: Sweep, node: Node) -> bool:
    """`op(transpose(x))` to `transpose(op(x))`."""
    if len(node.outputs) != 1 or not node.inputs:
        return False
    perm = _common_perm(sweep, node)
    if perm is None:
        return False
    where = {
        axis: perm[axis] for axis in range(len(perm))
    }  # axis of the transposed tensor -> of the plain one
    attrs = dict(node.attrs)
    after: Perm = perm
    if node.op in UNARY:
        pass
    elif node.op in BINARY or node.op == "concat":
        if node.op == "concat":
            attrs["axis"] = where[int(attrs["axis"]) % len(perm)]
        elif len(sweep.shape(node.outputs[0])) != len(perm):
            return False
    elif node.op in REDUCTIONS or node.op == "argmax":
        key = "axis" if node.op == "argmax" else "axes"
        axes = [int(attrs["axis"])] if key == "axis" else list(attrs["axes"])
        moved = sorted(where[axis % len(perm)] for axis in axes)
        attrs[key] = moved[0] if key == "axis" else tuple(moved)
        if not attrs.get("keepdims", True):
            left = [axis for axis in perm if axis not in moved]
            order = sorted(left)
            after = tuple(order.index(axis) for axis in left)
    elif node.op in ("softmax", "log_softmax", "l2_norm"):
        attrs["axis"] = where[int(attrs["axis"]) % len(perm)]
    elif node.op == "slice":
        sliced = attrs.get("axes") or tuple(range(len(attrs["starts"])))
        attrs["axes"] = tuple(where[int(axis) % len(perm)] for axis in sliced)
    elif node.op == "reverse":
        attrs["axes"] = tuple(where[int(axis) % len(perm)] for axis in attrs["axes"])
    elif node.op == "pad":
        pads = [(0, 0)] * len(perm)
        for axis, pair in enumerate(attrs["pads"]):
            pads[where[axis]] = tuple(pair)
        attrs["pads"] = tuple(pads)
    else:
        return False
    inputs = [_plain(sweep, name, perm) for name in node.inputs]
    made = sweep.make(node.op, inputs, attrs, f"{node.name}_last")
    if node.outputs[0] in sweep.quantised:
        sweep.quantised[made] = sweep.quantised[node.outputs[0]]
    if after == tuple(range(len(after))):
        if not sweep.stand(node.outputs[0], made):
            sweep.keep(Node(node.name, "reshape", (made,), node.outputs, {"shape": sweep.shape(made)}))
        return True
    sweep.keep(Node(node.name, "transpose", (made,), node.outputs, {"perm": after}))
    return True


def _common_perm(sweep: Sweep, node: Node) -> Perm | None:
    """The one permutation that every computed input went through; constants may join."""
    found: set[Perm] = set()
    ranks: set[int] = set()
    for name in node.inputs:
        if not name:
            return None
        if sweep.value(name) is not None:
            ranks.add(len(sweep.shape(name)))
            continue
        before = sweep.producer(name)
        if before is None or before.op != "transpose":
            return None
        found.add(tuple(before.attrs["perm"]))
    if len(found) != 1:
        return None
    (perm,) = found
    return perm if all(rank <= len(perm) for rank in ranks) and (not ranks or node.op in BINARY) else None


def _plain(sweep: Sweep, name: str, perm: Perm) -> str:
    """An input as it was before the transpose; a constant is reordered now."""
    value = sweep.value(name)
    if value is None:
        before = sweep.producer(name)
        assert before is not None
        return before.inputs[0]
    if value.size == 1:
        return name
    wide = value.reshape((1,) * (len(perm) - value.ndim) + value.shape)
    moved = np.ascontiguousarray(wide.transpose([perm.index(axis) for axis in range(len(perm))]))
    while moved.ndim and moved.shape[0] == 1 and moved.ndim > 1:
        moved = moved[0]
    return sweep.constant(moved, f"{name}_last", like=name)


def into_dense(sweep: Sweep, node: Node) -> bool:
    """`dense(flatten(transpose(x)))` to `dense(flatten(x))` with the weights' columns in the other order."""
    if node.op != "dense" or node.inputs[1] in sweep.quantised:
        return False
    flat = sweep.producer(node.inputs[0])
    if flat is None or flat.op != "reshape":
        return False
    before = sweep.producer(flat.inputs[0])
    w = sweep.value(node.inputs[1])
    if before is None or before.op != "transpose" or w is None:
        return False
    source, shape = before.inputs[0], sweep.shape(flat.inputs[0])
    if sweep.tensors[source].elements != w.shape[1]:
        return False
    perm = list(before.attrs["perm"])
    back = [1 + perm.index(axis) for axis in range(len(perm))]
    weights = np.ascontiguousarray(w.reshape(-1, *shape).transpose([0, *back]).reshape(w.shape))
    x = sweep.make("reshape", [source], {"shape": sweep.shape(flat.outputs[0])}, f"{flat.name}_last")
    inputs = (x, sweep.constant(weights, f"{node.inputs[1]}_last"), *node.inputs[2:])
    sweep.keep(replace(node, inputs=inputs))
    return True
