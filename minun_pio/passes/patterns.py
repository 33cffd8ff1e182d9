# SPDX-License-Identifier: Apache-2.0
"""Operators that exporters write out in smaller ones, put together again: GELU, hard swish, layer norm,
attention's transposed product.

A function of one value is recognised by its values, not by the way it is written: the small expression is
computed on a grid and compared, so any order of its factors will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node
from minun_pio.ops import REGISTRY
from minun_pio.passes.layout import BINARY, UNARY
from minun_pio.passes.sweep import Sweep, one_value

Floats = NDArray[np.float64]

_GRID: Floats = np.concatenate([np.linspace(-8.0, 8.0, 161), [-30.0, 30.0]])
_TOLERANCE = 2e-6
_MAX_NODES = 12


def _erf(x: Floats) -> Floats:
    from math import erf

    return np.asarray([erf(value) for value in x])


_KNOWN: tuple[tuple[str, Mapping[str, Any], Callable[[Floats], Floats]], ...] = (
    ("gelu", {"approximate": "none"}, lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(2)))),
    (
        "gelu",
        {"approximate": "tanh"},
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
    ("hard_swish", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("hard_sigmoid", {"alpha": 1 / 6, "beta": 0.5}, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
)
_WANTED = tuple(function(_GRID) for _, _, function in _KNOWN)


def function_of_one(sweep: Sweep, node: Node) -> bool:
    """GELU (erf and tanh), hard swish and hard sigmoid, however they are written."""
    if node.op not in ("mul", "div", "clip") or node.attrs.get("clip") is not None:
        return False
    inside = _expression(sweep, node)
    if len(inside) < 2:
        return False
    sources = {name for member in inside for name in member.inputs if sweep.value(name) is None}
    for source in sorted(sources, key=lambda name: -_position(sweep, name)):
        values = _evaluate(sweep, node, source, {member.outputs[0]: member for member in inside})
        if values is None or sweep.shape(source) != sweep.shape(node.outputs[0]):
            continue
        for (op, attrs, _), wanted in zip(_KNOWN, _WANTED, strict=True):
            if op in REGISTRY and np.allclose(values, wanted, rtol=_TOLERANCE, atol=_TOLERANCE):
                sweep.keep(replace(node, op=op, inputs=(source,), attrs=dict(attrs)))
                return True
    return False


def _position(sweep: Sweep, name: str) -> int:
    before = sweep.producer(name)
    return -1 if before is None else sweep.nodes.index(before)


def _expression(sweep: Sweep, node: Node) -> list[Node]:
    """`node` and the elementwise nodes with one-value constants that lead to it."""
    found, pending = [node], [node]
    while pending and len(found) < _MAX_NODES:
        for name in pending.pop().inputs:
            before = sweep.producer(name) if name else None
            if before is None or before in found or (before.op not in UNARY and before.op not in BINARY):
                continue
            if before.attrs.get("clip") is not None or name in sweep.quantised:
                continue
            others = [sweep.value(other) for other in before.inputs]
            if all(value is None or one_value(value) is not None for value in others):
                found.append(before)
                pending.append(before)
    return found


def _evaluate(sweep: Sweep, node: Node, source: str, inside: Mapping[str, Node]) -> Floats | None:
    """The expression on the grid as a function of `source`; None when it depends on anything else."""
    cache: dict[str, Floats] = {source: _GRID}

    def value(name: str, depth: int) -> Floats | None:
        if name in cache:
            return cache[name]
        constant = one_value(sweep.value(name))
        if constant is not None:
            return np.full_like(_GRID, constant)
        member = node if name == node.outputs[0] else inside.get(name)
        if member is None or depth > _MAX_NODES:
            return None
        arguments = [value(other, depth + 1) for other in member.inputs]
        if any(argument is None for argument in arguments):
            return None
        with np.errstate(all="ignore"):
            rows = [None if a is None else a.reshape(-1, 1) for a in arguments]
            cache[name] = np.asarray(REGISTRY[member.op].reference(member, rows)[0]).reshape(-1)
        return cache[name]

    return value(node.outputs[0], 0)


def layer_norm(sweep: Sweep, node: Node) -> bool:
    """(x - mean) / sqrt(variance + epsilon) over the last axis; scale and bias follow by `norm_scale`."""
    if node.op == "div":
        centred, below = node.inputs
    elif node.op == "mul" and (inverse := sweep.producer(node.inputs[1])) and inverse.op == "reciprocal":
        centred, below = node.inputs[0], inverse.inputs[0]
    else:
        return False
    difference, root = sweep.producer(centred), sweep.producer(below)
    if difference is None or difference.op != "sub" or root is None or root.op != "sqrt":
        return False
    x, mean = difference.inputs
    around = sweep.producer(root.inputs[0])
    if around is None or around.op != "add" or not _is_mean(sweep, mean, x):
        return False
    variance, epsilon = around.inputs
    if sweep.value(variance) is not None:
        variance, epsilon = epsilon, variance
    added = one_value(sweep.value(epsilon))
    spread = sweep.producer(variance)
    if (
        added is None
        or added <= 0
        or spread is None
        or spread.op != "reduce_mean"
        or not _last(sweep, spread)
    ):
        return False
    square = sweep.producer(spread.inputs[0])
    if (
        square is None
        or square.op != "mul"
        or len(square.inputs) != 2
        or square.inputs[0] != square.inputs[1]
    ):
        return False
    again = sweep.producer(square.inputs[0])
    if again is None or again.op != "sub" or again.inputs[0] != x or not _is_mean(sweep, again.inputs[1], x):
        return False
    attrs = {"axis": len(sweep.shape(x)) - 1, "epsilon": added}
    sweep.keep(replace(node, op="layer_norm", inputs=(x,), attrs=attrs))
    return True


def _last(sweep: Sweep, node: Node) -> bool:
    rank = len(sweep.shape(node.inputs[0]))
    return bool(node.attrs.get("keepdims", True)) and [axis % rank for axis in node.attrs["axes"]] == [
        rank - 1
    ]


def _is_mean(sweep: Sweep, mean: str, x: str) -> bool:
    node = sweep.producer(mean)
    return node is not None and node.op == "reduce_mean" and node.inputs[0] == x and _last(sweep, node)


def norm_scale(sweep: Sweep, node: Node) -> bool:
    """A product with, or a sum with, constants after a layer norm that has none yet."""
    if node.op not in ("mul", "add") or node.attrs.get("clip") is not None:
        return False
    x, other = node.inputs if sweep.value(node.inputs[0]) is None else node.inputs[::-1]
    before, values = sweep.producer(x), sweep.value(other)
    if before is None or before.op != "layer_norm" or values is None or not sweep.only_user(x):
        return False
    channels = sweep.shape(x)[-1]
    if int(before.attrs["axis"]) != len(sweep.shape(x)) - 1 or sweep.shape(node.outputs[0]) != sweep.shape(x):
        return False
    inputs = [*before.inputs, "", ""][:3]
    place = 1 if node.op == "mul" else 2
    if inputs[place] or (place == 1 and inputs[2]) or x in sweep.quantised:
        return False
    if values.size not in (1, channels) or (values.size > 1 and values.shape[-1] != channels):
        return False
    inputs[place] = sweep.constant(
        np.broadcast_to(values.reshape(-1), (channels,)).copy(), f"{node.name}_{place}"
    )
    while inputs and not inputs[-1]:
        inputs.pop()
    sweep.keep(replace(node, op="layer_norm", inputs=tuple(inputs), attrs=before.attrs))
    return True


def transposed_product(sweep: Sweep, node: Node) -> bool:
    """`matmul(a, transpose(b))` of the last two axes is a flag of matmul (attention's scores)."""
    if node.op != "matmul":
        return False
    inputs, attrs, changed = list(node.inputs), dict(node.attrs), False
    for index, key in ((0, "transpose_a"), (1, "transpose_b")):
        before = sweep.producer(inputs[index])
        if before is None or before.op != "transpose":
            continue
        perm = list(before.attrs["perm"])
        rank = len(perm)
        if rank >= 2 and perm == [*range(rank - 2), rank - 1, rank - 2]:
            inputs[index] = before.inputs[0]
            attrs[key] = not attrs.get(key, False)
            changed = True
    if changed:
        sweep.keep(replace(node, inputs=tuple(inputs), attrs=attrs))
    return changed
