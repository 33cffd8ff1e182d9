# SPDX-License-Identifier: Apache-2.0
"""Which tensor has which format: the one rule that search, simulation and emission share.

An assignment maps every real-valued tensor of a graph to a format. Tensors inside a loop's body are named
`<scan node>/<tensor>` (nested loops nest the prefix). `unify` gives one format to tensors that must share it:
inputs and outputs of operators of policy `same`, a loop's states before, in and after the body, a scanned
tensor and its slice. Indices have no choice: they are `Index32`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from minun_pio.errors import MinunError
from minun_pio.ir import Graph, Node, Tensor
from minun_pio.numerics.format import Format
from minun_pio.numerics.index import Index32
from minun_pio.ops import REGISTRY
from minun_pio.ops.operator import Operator

Assignment = Mapping[str, Format]

INDEX_INPUTS: Mapping[str, tuple[int, ...]] = {"gather": (1,)}
"""Inputs that are indices, by operator."""

DATA_ONLY: Mapping[str, tuple[int, ...]] = {"gather": (0,)}
"""Operators of policy `same` whose rule covers only these inputs (the others are indices)."""


@dataclass(frozen=True)
class Scoped:
    """A tensor with the name it has in an assignment. `role`: input, constant, state, slice or computed."""

    name: str
    tensor: Tensor
    role: str
    loop: str  # the prefix: '' in the outer graph


def operator_of(node: Node) -> Operator:
    """The node's operator. Raises MinunError when there is none of that name."""
    operator = REGISTRY.get(node.op)
    if operator is None:
        raise MinunError(
            "op.unknown",
            f"node '{node.name}' wants operator '{node.op}'; there are: {', '.join(sorted(REGISTRY))}",
        )
    return operator


def inner(prefix: str, node: Node) -> str:
    """The prefix of the names inside a scan node's body."""
    return f"{prefix}{node.name}/"


def states_of(graph: Graph, node: Node) -> int:
    """How many carried states a scan node of `graph` has.

    A state has the same rank outside and inside the body; a scanned input has its time axis more outside. An
    absent initial state ('') is zero.
    """
    assert node.body is not None
    count = 0
    for outside, inside in zip(node.inputs, node.body.inputs, strict=True):
        if outside and len(graph.tensors[outside].shape) != len(node.body.tensors[inside].shape):
            break
        count += 1
    return count


def walk(graph: Graph, prefix: str = "") -> Iterator[tuple[str, Graph, Node]]:
    """Every node with its graph and prefix, bodies directly after their scan node."""
    for node in graph.nodes:
        yield prefix, graph, node
        if node.body is not None:
            yield from walk(node.body, inner(prefix, node))


def scoped_tensors(graph: Graph, prefix: str = "") -> Iterator[Scoped]:
    """Every tensor of the graph and of its loops' bodies, in the order of the graph."""
    for name in graph.inputs:
        role = "input" if not prefix else "slice"
        yield Scoped(prefix + name, graph.tensors[name], role, prefix)
    for name in graph.constants:
        yield Scoped(prefix + name, graph.tensors[name], "constant", prefix)
    for node in graph.nodes:
        for name in node.outputs:
            if name:
                yield Scoped(prefix + name, graph.tensors[name], "computed", prefix)
        if node.body is not None:
            yield from scoped_tensors(node.body, inner(prefix, node))


class _Groups:
    """Union-find over names, the representative being the first seen."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}

    def find(self, name: str) -> str:
        self.parent.setdefault(name, name)
        while self.parent[name] != name:
            self.parent[name] = self.parent[self.parent[name]]
            name = self.parent[name]
        return name

    def join(self, a: str, b: str) -> None:
        ra, rb = self.find(a), self.find(b)
        if ra != rb:
            self.parent[rb] = ra


def ties(graph: Graph, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Pairs of scoped names that must have one format."""
    for node in graph.nodes:
        if node.body is not None:
            yield from _scan_ties(graph, node, prefix)
            yield from ties(node.body, inner(prefix, node))
            continue
        if operator_of(node).policy != "same":
            continue
        chosen = DATA_ONLY.get(node.op)
        names = [n for k, n in enumerate(node.inputs) if n and (chosen is None or k in chosen)]
        names += [n for n in node.outputs if n]
        for other in names[1:]:
            yield prefix + names[0], prefix + other


def _scan_ties(graph: Graph, node: Node, prefix: str) -> Iterator[tuple[str, str]]:
    body = node.body
    assert body is not None
    inside = inner(prefix, node)
    for k, name in enumerate(body.inputs):
        if node.inputs[k]:
            yield prefix + node.inputs[k], inside + name
    for k, name in enumerate(body.outputs):
        if node.outputs[k]:
            yield prefix + node.outputs[k], inside + name
    for k in range(states_of(graph, node)):
        yield inside + body.inputs[k], inside + body.outputs[k]


def _bodies(graph: Graph) -> list[tuple[str, Graph]]:
    return [(inner(prefix, node), node.body) for prefix, _, node in walk(graph) if node.body is not None]


def index_tensors(graph: Graph) -> frozenset[str]:
    """Scoped names of tensors that hold indices: integer constants, argmax outputs and what moves them."""
    found: set[str] = set()
    for prefix, _, node in walk(graph):
        if node.body is None and operator_of(node).policy == "index":
            found.update(prefix + n for n in node.outputs if n)
        for k in INDEX_INPUTS.get(node.op, ()):
            if k < len(node.inputs) and node.inputs[k]:
                found.add(prefix + node.inputs[k])
    for prefix, inside in [("", graph), *_bodies(graph)]:
        for name, values in inside.constants.items():
            if np.issubdtype(np.asarray(values).dtype, np.integer):
                found.add(prefix + name)
    groups = _Groups()
    for a, b in ties(graph):
        groups.join(a, b)
    roots = {groups.find(name) for name in found}
    return frozenset(found | {s.name for s in scoped_tensors(graph) if groups.find(s.name) in roots})


def real_tensors(graph: Graph) -> tuple[Scoped, ...]:
    """The tensors that need a format, in the order of the graph."""
    indices = index_tensors(graph)
    return tuple(s for s in scoped_tensors(graph) if s.name not in indices)


def format_groups(graph: Graph) -> tuple[tuple[str, ...], ...]:
    """Real tensors in groups of one format each, in the graph's order. A search promotes whole groups."""
    groups = _Groups()
    for a, b in ties(graph):
        groups.join(a, b)
    members: dict[str, list[str]] = {}
    for s in real_tensors(graph):
        members.setdefault(groups.find(s.name), []).append(s.name)
    return tuple(tuple(names) for names in members.values())


def uniform(graph: Graph, fmt: Format) -> dict[str, Format]:
    """Every real tensor in one format (posit and float families, which need no scale)."""
    return {s.name: fmt for s in real_tensors(graph)}


def _width(fmt: Format) -> tuple[int, int]:
    """What wins when tensors of one group differ: more bits, then (fixed-point) the wider range."""
    return fmt.bits, int(getattr(fmt, "scale_exp", 0))


def unify(graph: Graph, assignment: Assignment) -> dict[str, Format]:
    """The assignment with one format per group: the widest that a member was given.

    Indices are added as `Index32`. Members of different families, or with different affine scales, stay
    apart; `legalise` puts a conversion between them. Raises MinunError naming a tensor without a format.
    """
    indices = index_tensors(graph)
    result: dict[str, Format] = {}
    for s in scoped_tensors(graph):
        if s.name in indices:
            result[s.name] = Index32()
            continue
        fmt = assignment.get(s.name)
        if fmt is None:
            raise MinunError(
                "assign.missing", f"tensor '{s.name}' has no number format; assign one to every tensor"
            )
        result[s.name] = fmt
    groups = _Groups()
    for a, b in ties(graph):
        fa, fb = result.get(a), result.get(b)
        if fa is None or fb is None or a in indices or b in indices:
            continue
        if fa.family == fb.family and (fa.family != "affine" or fa == fb):
            groups.join(a, b)
    widest: dict[str, Format] = {}
    for name, fmt in result.items():
        root = groups.find(name)
        if root not in widest or _width(fmt) > _width(widest[root]):
            widest[root] = fmt
    return {name: widest[groups.find(name)] for name in result}
