# SPDX-License-Identifier: Apache-2.0
"""The graph checker: what every importer and pass must keep true."""

from __future__ import annotations

import numpy as np

from minun_pio.errors import MinunError
from minun_pio.ir import Graph, Node
from minun_pio.ops import REGISTRY


def check(graph: Graph) -> Graph:
    """`graph` itself, or MinunError at the first thing that is not as `ir` says.

    Names are unique, nodes are in an order in which they can run, every tensor has one source, and its
    shape is the one that its operator gives.
    """
    known: set[str] = set()
    for name in (*graph.inputs, *graph.constants):
        _define(graph, known, name, "an input or constant")
    for name, values in graph.constants.items():
        shape = graph.tensors[name].shape
        if tuple(np.shape(values)) != shape:
            raise _error(f"constant '{name}' holds {np.shape(values)}, its tensor says {shape}", graph)
    seen: set[str] = set()
    for node in graph.nodes:
        if node.name in seen:
            raise _error("two nodes have this name", graph, node)
        seen.add(node.name)
        _check_node(graph, known, node)
    if not graph.outputs:
        raise _error("no output", graph)
    for name in graph.outputs:
        if graph.producer(name) is None:
            raise _error(f"output '{name}' is written by no node", graph)
    if len(set(graph.outputs)) != len(graph.outputs):
        raise _error("an output is named twice", graph)
    return graph


def _check_node(graph: Graph, known: set[str], node: Node) -> None:
    operator = REGISTRY.get(node.op)
    if operator is None:
        raise _error(f"operator '{node.op}' is not registered", graph, node)
    for name in node.inputs:
        if name and name not in known:
            raise _error(f"input '{name}' is not written before it", graph, node)
    if node.body is not None:
        check(node.body)
    shapes = [graph.tensors[name].shape if name else None for name in node.inputs]
    values = [graph.constants.get(name) for name in node.inputs]
    found = [tuple(shape) for shape in operator.infer_shapes(node, shapes, values)]
    if len(found) != len(node.outputs):
        raise _error(f"{len(node.outputs)} outputs, the operator has {len(found)}", graph, node)
    for name, shape in zip(node.outputs, found, strict=True):
        _define(graph, known, name, f"an output of '{node.name}'")
        if graph.tensors[name].shape != shape:
            raise _error(f"'{name}' is {graph.tensors[name].shape}, the operator gives {shape}", graph, node)


def _define(graph: Graph, known: set[str], name: str, what: str) -> None:
    if name not in graph.tensors or graph.tensors[name].name != name:
        raise _error(f"'{name}' is {what} and has no tensor", graph)
    if name in known:
        raise _error(f"'{name}' has two sources", graph)
    known.add(name)


def _error(message: str, graph: Graph, node: Node | None = None) -> MinunError:
    place = f"graph '{graph.name}'" + (f", node '{node.name}' ({node.op})" if node else "")
    return MinunError("graph.invalid", message, place)
