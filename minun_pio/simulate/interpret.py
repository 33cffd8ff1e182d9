# SPDX-License-Identifier: Apache-2.0
"""Walks a graph node by node, loops included, freeing what is no longer needed. Says nothing about numbers:
`run` walks it with codes, `reference` with real values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Graph, Node
from minun_pio.ops.scan import iterate
from minun_pio.simulate.assign import inner, states_of

Array = NDArray[Any]
Evaluate = Callable[[Node, str, list["Array | None"]], list[Array]]
Constant = Callable[[Graph, str, str], Array]


def interpret(
    graph: Graph,
    inputs: Mapping[str, Array],
    evaluate: Evaluate,
    constant: Constant,
    keep: Collection[str] = (),
    prefix: str = "",
) -> tuple[list[Array], dict[str, Array]]:
    """Outputs of the graph, in order, and the kept tensors by scoped name.

    `evaluate(node, prefix, inputs)` computes one node; `constant(graph, prefix, name)` gives a constant with
    its sample axis of 1. A kept tensor of a loop's body comes with time on axis 1: `(samples, steps, *S)`.
    """
    env: dict[str, Array] = dict(inputs)
    kept: dict[str, Array] = {prefix + n: a for n, a in inputs.items() if prefix + n in keep}
    last = {name: k for k, node in enumerate(graph.nodes) for name in node.inputs}
    outputs = set(graph.outputs)

    def value(name: str) -> Array:
        if name not in env and name in graph.constants:
            env[name] = constant(graph, prefix, name)
        return env[name]

    for name in graph.constants:
        if prefix + name in keep:
            kept[prefix + name] = value(name)
    for k, node in enumerate(graph.nodes):
        operands = [value(name) if name else None for name in node.inputs]
        if node.body is None:
            results = evaluate(node, prefix, operands)
        else:
            results = _loop(graph, node, operands, evaluate, constant, keep, kept, prefix)
        for name, result in zip(node.outputs, results, strict=True):
            if not name:
                continue
            env[name] = result
            if prefix + name in keep:
                kept[prefix + name] = result
        for name in node.inputs:
            if name and last[name] == k and name not in outputs:
                env.pop(name, None)
    return [value(name) for name in graph.outputs], kept


def _loop(
    graph: Graph,
    node: Node,
    operands: list[Array | None],
    evaluate: Evaluate,
    constant: Constant,
    keep: Collection[str],
    kept: dict[str, Array],
    prefix: str,
) -> list[Array]:
    body = node.body
    assert body is not None
    inside = inner(prefix, node)
    wanted = any(name.startswith(inside) for name in keep)
    logs: dict[str, list[Array]] = {}

    def run_body(values: list[Array], _: int) -> list[Array]:
        named = dict(zip(body.inputs, values, strict=True))
        results, log = interpret(body, named, evaluate, constant, keep if wanted else (), inside)
        for name, array in log.items():
            logs.setdefault(name, []).append(array)
        return results

    results = iterate(node, operands, states_of(graph, node), run_body)
    for name, arrays in logs.items():
        samples = max(a.shape[0] for a in arrays)
        kept[name] = np.stack([np.broadcast_to(a, (samples, *a.shape[1:])) for a in arrays], axis=1)
    return results
