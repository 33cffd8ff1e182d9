# SPDX-License-Identifier: Apache-2.0
"""Compute at build time what depends on constants only; drop what changes nothing; share what is computed
twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from minun_pio.ir import Node
from minun_pio.ops import REGISTRY
from minun_pio.passes.sweep import Rule, Sweep, one_value


def fold(sweep: Sweep, node: Node) -> bool:
    """A node of constants becomes constants."""
    values = [sweep.value(name) if name else None for name in node.inputs]
    if (
        node.body is not None
        or not values
        or any(v is None for v, n in zip(values, node.inputs, strict=True) if n)
    ):
        return False
    if any(name in sweep.graph.outputs for name in node.outputs):
        return False
    with np.errstate(all="ignore"):
        results = REGISTRY[node.op].reference(node, [None if v is None else v[None] for v in values])
    if any(not np.all(np.isfinite(result)) for result in results):
        return False
    for name, result in zip(node.outputs, results, strict=True):
        array = np.asarray(result)[0]
        kind = np.int64 if array.dtype.kind in "iu" else np.float64
        sweep.stand(name, sweep.constant(array.astype(kind), name))
    return True


def _changes_nothing(sweep: Sweep, node: Node) -> bool:
    x = node.inputs[0] if node.inputs else ""
    same = bool(x) and len(node.outputs) == 1 and sweep.shape(x) == sweep.shape(node.outputs[0])
    attrs = node.attrs
    if node.op == "reshape":
        return same
    if node.op == "transpose":
        return list(attrs["perm"]) == list(range(len(attrs["perm"])))
    if node.op in ("concat", "split"):
        return len(node.inputs) == 1 and len(node.outputs) == 1
    if node.op == "expand":
        return same
    if node.op == "slice":
        return same and all(step > 0 for step in attrs.get("steps") or (1,))
    if node.op == "clip":
        return attrs.get("lo") is None and attrs.get("hi") is None
    if attrs.get("clip") is None and len(node.inputs) == 2 and same:
        second = one_value(sweep.value(node.inputs[1]))
        return second is not None and second == {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0}.get(node.op)
    return False


_ARITHMETIC = ("add", "sub", "mul", "div")


def drop_identity(sweep: Sweep, node: Node) -> bool:
    """A node whose output is its input goes; not where the source network rounds there, into another format
    or by its arithmetic."""
    before, after = sweep.quantised.get(node.inputs[0]), sweep.quantised.get(node.outputs[0])
    if after is not None and (node.op in _ARITHMETIC or (before is not None and before != after)):
        return False
    return _changes_nothing(sweep, node) and sweep.stand(node.outputs[0], node.inputs[0])


def share() -> Rule:
    """A rule for one sweep and those of the bodies in it: a node equal to an earlier one of its own graph is
    not computed again."""
    seen: dict[tuple[Any, ...], Node] = {}

    def rule(sweep: Sweep, node: Node) -> bool:
        if node.body is not None or any(name in sweep.quantised for name in node.outputs):
            return False
        key = (sweep, node.op, node.inputs, repr(sorted(node.attrs.items())))
        first = seen.setdefault(key, node)
        if first is node or any(name in sweep.graph.outputs for name in node.outputs):
            return False
        return all(sweep.stand(old, new) for old, new in zip(node.outputs, first.outputs, strict=True))

    return rule
