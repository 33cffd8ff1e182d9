# SPDX-License-Identifier: Apache-2.0
"""Makes a graph and an assignment fit together: explicit conversions wherever families meet.

After this, every operator's tensors are of one family that it supports, tensors of policy `same` operators
have one format, a loop's time axis is the outermost one, and every int8 bias has the scale that its product
dictates. The graph's own tensors keep their names; added ones are called `<tensor>@<format>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from minun_pio.errors import MinunError
from minun_pio.ir import Graph, Node, Tensor
from minun_pio.numerics.affine import Affine, affine_bias
from minun_pio.numerics.fixed import fixed_for_range
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.format import Format
from minun_pio.ops.scan import time_axis
from minun_pio.simulate.assign import DATA_ONLY, Assignment, inner, operator_of, states_of, unify

BIASED = ("dense", "conv", "conv_transpose", "sparse_dense")


@dataclass(frozen=True)
class Legal:
    """A graph with every conversion in it, and the format of every scoped tensor."""

    graph: Graph
    formats: Mapping[str, Format]


def legalise(graph: Graph, assignment: Assignment) -> Legal:
    """Unifies the assignment and inserts conversions. Raises MinunError where no conversion can help."""
    formats = unify(graph, assignment)
    changed = _Legaliser("", graph, formats).graph()
    return Legal(changed, formats)


class _Legaliser:
    """Rebuilds one graph. `formats` is shared with the outer graph and grows with the added tensors."""

    def __init__(self, prefix: str, source: Graph, formats: dict[str, Format]) -> None:
        self.prefix = prefix
        self.source = source
        self.formats = formats
        self.tensors = dict(source.tensors)
        self.constants = dict(source.constants)
        self.nodes: list[Node] = []
        self.converted: dict[tuple[str, Format], str] = {}

    def graph(self, states: Sequence[Format] = ()) -> Graph:
        """The legal graph. `states`: the formats that the first outputs must have (a loop's next states)."""
        for node in self.source.nodes:
            if node.body is not None:
                self._scan(node)
            else:
                self._node(node)
        outputs = list(self.source.outputs)
        for k, fmt in enumerate(states):
            outputs[k] = self._convert(outputs[k], fmt, Node(f"state{k}", "convert", (), ()))
        used = {name for node in self.nodes for name in node.inputs} | set(outputs)
        return replace(
            self.source,
            outputs=tuple(outputs),
            tensors={n: t for n, t in self.tensors.items() if n in used or n not in self.constants},
            constants={n: v for n, v in self.constants.items() if n in used},
            nodes=tuple(self.nodes),
        )

    def _format(self, name: str) -> Format:
        return self.formats[self.prefix + name]

    def _convert(self, name: str, fmt: Format, node: Node) -> str:
        """The name of `name`'s value in `fmt`, made on first need. Constants are simply encoded anew."""
        if self._format(name) == fmt:
            return name
        key = (name, fmt)
        if key not in self.converted:
            fresh = _fresh(f"{name}@{fmt.name}", self.tensors)
            self.converted[key] = fresh
            self._add(fresh, self.tensors[name].shape, fmt)
            if name in self.constants:
                self.constants[fresh] = self.constants[name]
            else:
                self.nodes.append(Node(f"{node.name}@{fmt.name}", "convert", (name,), (fresh,)))
        return self.converted[key]

    def _add(self, name: str, shape: tuple[int, ...], fmt: Format) -> None:
        self.tensors[name] = Tensor(name, shape)
        self.formats[self.prefix + name] = fmt

    def _node(self, node: Node) -> None:
        operator = operator_of(node)
        if operator.policy == "convert":
            self.nodes.append(node)
            return
        reals = [n for n in (*node.outputs, *node.inputs) if n and self._format(n).family != "index"]
        if not reals:
            self.nodes.append(node)
            return
        family = self._format(reals[0]).family
        fallback = family not in operator.families
        if fallback and "float" not in operator.families:
            raise MinunError(
                "op.family",
                f"operator '{node.op}' knows no {family} numbers; "
                f"it supports: {', '.join(sorted(operator.families))}",
                f"node '{node.name}'",
            )
        out_format = Float32() if fallback else self._format(reals[0])
        inputs = tuple(self._operand(node, k, out_format) for k in range(len(node.inputs)))
        node = replace(node, inputs=inputs)
        if out_format.family == "affine" and node.op in BIASED:
            node = self._affine_bias(node)
        if fallback:
            self._in_float(node)
        else:
            self.nodes.append(node)

    def _operand(self, node: Node, position: int, out_format: Format) -> str:
        name = node.inputs[position]
        if not name or self._format(name).family == "index":
            return name
        found = self._format(name)
        if operator_of(node).policy == "same":
            chosen = DATA_ONLY.get(node.op)
            if chosen is not None and position not in chosen:
                return name
            return self._convert(name, out_format, node)
        if found.family == out_format.family:
            return name
        return self._convert(name, self._counterpart(name, out_format, node), node)

    def _counterpart(self, name: str, out_format: Format, node: Node) -> Format:
        """The format of `out_format`'s family for an operand of another family."""
        if out_format.family in ("posit", "float"):
            return out_format
        if name in self.constants and out_format.family == "fixed":
            largest = float(np.max(np.abs(self.constants[name])))
            return fixed_for_range(largest, out_format.bits)
        raise MinunError(
            "assign.family",
            f"tensor '{name}' is {self._format(name).name} and meets {out_format.name}; give it a "
            f"{out_format.family} format, whose scale must come from its values",
            f"node '{node.name}'",
        )

    def _affine_bias(self, node: Node) -> Node:
        if len(node.inputs) < 3 or not node.inputs[2]:
            return node
        x, w = self._format(node.inputs[0]), self._format(node.inputs[1])
        if not isinstance(x, Affine) or not isinstance(w, Affine):
            return node
        name = node.inputs[2]
        if name not in self.constants:
            return node
        wanted = affine_bias(x, w)
        found = self._format(name)
        if found == wanted or (isinstance(found, Affine) and found.bits >= 32):
            return node
        return replace(node, inputs=(*node.inputs[:2], self._convert(name, wanted, node), *node.inputs[3:]))

    def _in_float(self, node: Node) -> None:
        outputs, after = [], []
        for name in node.outputs:
            if not name or self._format(name).family == "index":
                outputs.append(name)
                continue
            fresh = _fresh(f"{name}@float32", self.tensors)
            self._add(fresh, self.tensors[name].shape, Float32())
            outputs.append(fresh)
            after.append(Node(f"{node.name}@{self._format(name).name}", "convert", (fresh,), (name,)))
        self.nodes += [replace(node, outputs=tuple(outputs)), *after]

    def _scan(self, node: Node) -> None:
        assert node.body is not None
        inside = inner(self.prefix, node)
        states = states_of(self.source, node)
        carried = [self.formats[inside + name] for name in node.body.inputs[:states]]
        body = _Legaliser(inside, node.body, self.formats).graph(carried)
        axis = time_axis(node)
        inputs = list(node.inputs)
        for k, name in enumerate(inputs):
            wanted = self.formats[inside + node.body.inputs[k]]
            inputs[k] = self._convert(name, wanted, node) if name else self._zeros(node, k, wanted)
        outputs, after = [n if self._is_used(n) else "" for n in node.outputs], []
        for k, name in enumerate(outputs):
            wanted = self.formats[inside + body.outputs[k]]
            if name and self._format(name) != wanted:
                fresh = _fresh(f"{name}@{wanted.name}", self.tensors)
                self._add(fresh, self.tensors[name].shape, wanted)
                outputs[k] = fresh
                after.append(Node(f"{node.name}@{name}", "convert", (fresh,), (name,)))
        if axis:
            self._time_first(node, inputs, outputs, after, states, axis)
        attrs = {**node.attrs, "axis": 0}
        changed = replace(node, inputs=tuple(inputs), outputs=tuple(outputs), attrs=attrs, body=body)
        self.nodes += [changed, *after]

    def _is_used(self, name: str) -> bool:
        return name in self.source.outputs or any(name in node.inputs for node in self.source.nodes)

    def _zeros(self, node: Node, k: int, fmt: Format) -> str:
        """An absent initial state as a constant."""
        assert node.body is not None
        shape = node.body.tensors[node.body.inputs[k]].shape
        name = _fresh(f"{node.name}@zero{k}", self.tensors)
        self._add(name, shape, fmt)
        self.constants[name] = np.zeros(shape)
        return name

    def _time_first(
        self, node: Node, inputs: list[str], outputs: list[str], after: list[Node], states: int, axis: int
    ) -> None:
        """Moves the time axis of scanned tensors to the front; a reshape where all before it is 1."""
        for k in range(states, len(inputs)):
            shape = self.tensors[inputs[k]].shape
            perm = (axis, *range(axis), *range(axis + 1, len(shape)))
            fresh = _fresh(f"{inputs[k]}@time", self.tensors)
            self._add(fresh, tuple(shape[p] for p in perm), self._format(inputs[k]))
            self.nodes.append(_moved(f"{node.name}@time{k}", inputs[k], fresh, shape, perm))
            inputs[k] = fresh
        for k in range(states, len(outputs)):
            if not outputs[k]:
                continue
            shape = self.tensors[outputs[k]].shape
            first = (shape[axis], *shape[:axis], *shape[axis + 1 :])
            perm = (*range(1, axis + 1), 0, *range(axis + 1, len(shape)))
            fresh = _fresh(f"{outputs[k]}@time", self.tensors)
            self._add(fresh, first, self._format(outputs[k]))
            after.insert(0, _moved(f"{node.name}@out{k}", fresh, outputs[k], first, perm))
            outputs[k] = fresh


def _moved(name: str, source: str, target: str, shape: tuple[int, ...], perm: tuple[int, ...]) -> Node:
    """A transpose, or a reshape where the order of the elements stays."""
    long_axes = [p for p in perm if shape[p] != 1]
    if long_axes == sorted(long_axes):
        return Node(name, "reshape", (source,), (target,), {"shape": tuple(shape[p] for p in perm)})
    return Node(name, "transpose", (source,), (target,), {"perm": perm})


def _fresh(name: str, taken: Mapping[str, Tensor]) -> str:
    if name not in taken:
        return name
    k = 2
    while f"{name}#{k}" in taken:
        k += 1
    return f"{name}#{k}"
