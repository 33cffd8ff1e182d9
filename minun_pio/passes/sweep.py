# SPDX-License-Identifier: Apache-2.0
"""How a pass walks: once over the nodes in order, each offered to rules that may put others in its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Graph, Node, Shape, Tensor
from minun_pio.ops import REGISTRY


class Sweep:
    """A graph being rewritten. Rules see the nodes emitted so far and may add nodes or stand one tensor for
    another.

    What a rule leaves unused is taken away by `dead_code`.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors: dict[str, Tensor] = dict(graph.tensors)
        self.constants: dict[str, NDArray[Any]] = dict(graph.constants)
        self.quantised: dict[str, Any] = dict(graph.quantised)
        self.nodes: list[Node] = []
        self.uses: Counter[str] = Counter(n for node in graph.nodes for n in node.inputs)
        self.uses.update(graph.outputs)
        self._producers: dict[str, int] = {}
        self._stands: dict[str, str] = {}
        self._names = {node.name for node in graph.nodes}
        self._outputs = set(graph.outputs)

    def resolve(self, name: str) -> str:
        """The tensor that now stands for `name`."""
        while name in self._stands:
            name = self._stands[name]
        return name

    def shape(self, name: str) -> Shape:
        return self.tensors[name].shape

    def value(self, name: str) -> NDArray[Any] | None:
        return self.constants.get(name)

    def producer(self, name: str) -> Node | None:
        """The node emitted for `name`."""
        index = self._producers.get(name)
        return None if index is None else self.nodes[index]

    def only_user(self, name: str) -> bool:
        """`name` is read once, and is no output of the graph."""
        return self.uses[name] == 1

    def constant(self, values: NDArray[Any], hint: str, like: str = "") -> str:
        """A new constant; it keeps the format of `like`, whose values it has in another order."""
        name = self._fresh(hint, self.tensors)
        if like in self.quantised:
            self.quantised[name] = self.quantised[like]
        self.tensors[name] = Tensor(name, tuple(int(n) for n in values.shape))
        self.constants[name] = values
        return name

    def keep(self, node: Node) -> None:
        for output in node.outputs:
            self._producers[output] = len(self.nodes)
        self.nodes.append(node)

    def make(self, op: str, inputs: Sequence[str], attrs: Mapping[str, Any], hint: str) -> str:
        """A new node with one output; the output's name."""
        draft = Node(self._fresh(hint, self._names), op, tuple(inputs), ("",), dict(attrs))
        shapes = [self.shape(name) if name else None for name in inputs]
        values = [self.constants.get(name) for name in inputs]
        (shape,) = REGISTRY[op].infer_shapes(draft, shapes, values)
        output = self._fresh(hint, self.tensors)
        self.tensors[output] = Tensor(output, tuple(shape))
        self._names.add(draft.name)
        self.uses[output] += 1
        self.keep(replace(draft, outputs=(output,)))
        return output

    def update(self, node: Node, **changes: Any) -> None:
        """Change an emitted node in place (its outputs stay)."""
        self.nodes[self._producers[node.outputs[0]]] = replace(node, **changes)

    def stand(self, old: str, new: str) -> bool:
        """Let `new` be read wherever `old` was. False where that cannot be: an output must come from a node
        of its own."""
        if old in self._outputs:
            if new not in self._producers or new in self._outputs:
                return False
            self._outputs.add(new)
        self._stands[old] = new
        self.uses[new] += self.uses[old] - 1
        if old in self.quantised:
            self.quantised.setdefault(new, self.quantised[old])
        return True

    def finish(self) -> Graph:
        return replace(
            self.graph,
            tensors=self.tensors,
            constants=self.constants,
            quantised=self.quantised,
            nodes=tuple(self.nodes),
            outputs=tuple(self.resolve(name) for name in self.graph.outputs),
        )

    @staticmethod
    def _fresh(hint: str, taken: Any) -> str:
        name, number = hint, 1
        while name in taken:
            name, number = f"{hint}_{number}", number + 1
        return name


Rule = Callable[[Sweep, Node], bool]
"""Offered a node whose inputs are resolved. True: the rule has put something in its place."""


def rewrite(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """One sweep over the graph, and over the bodies of its loops."""
    sweep = Sweep(graph)
    for node in graph.nodes:
        inputs = tuple(sweep.resolve(name) for name in node.inputs)
        body = rewrite(node.body, rules) if node.body is not None else None
        if inputs != node.inputs or body is not node.body:
            node = replace(node, inputs=inputs, body=body)
        if not any(rule(sweep, node) for rule in rules):
            sweep.keep(node)
    return dead_code(sweep.finish())


def dead_code(graph: Graph) -> Graph:
    """Without nodes, constants and tensors that no output depends on. Inputs stay."""
    wanted = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
    kept.reverse()
    alive = wanted | set(graph.inputs) | {name for node in kept for name in node.outputs}
    return replace(
        graph,
        nodes=tuple(kept),
        tensors={name: tensor for name, tensor in graph.tensors.items() if name in alive},
        constants={name: value for name, value in graph.constants.items() if name in alive},
        quantised={name: fmt for name, fmt in graph.quantised.items() if name in alive},
    )


def one_value(values: NDArray[Any] | None) -> float | None:
    """The number that a constant holds in every place, or None."""
    if values is None or values.dtype.kind != "f" or not values.size:
        return None
    first = values.reshape(-1)[0]
    return float(first) if np.all(values == first) else None
