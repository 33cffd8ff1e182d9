# SPDX-License-Identifier: Apache-2.0
"""Passes: small functions from a graph to a graph that computes the same in real numbers.

`optimise` runs them all until nothing changes. A pass is a few rules for `sweep.rewrite`, each a function
of one node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from minun_pio.ir import Graph, Node
from minun_pio.passes import constants, fusion, layout, patterns
from minun_pio.passes.sweep import Rule, dead_code, rewrite
from minun_pio.passes.validate import check

__all__ = ["check", "dead_code", "optimise"]

_ROUNDS = 12


def _passes() -> Sequence[Sequence[Rule]]:
    return (
        (constants.fold, constants.drop_identity, layout.merge, constants.share()),
        (patterns.function_of_one, patterns.layer_norm, patterns.norm_scale, patterns.transposed_product),
        (layout.into_dense, layout.sink),
        (fusion.scale_into_linear, fusion.scales_together, fusion.clamp_into_producer, fusion.pad_into_conv),
    )


def optimise(graph: Graph) -> Graph:
    """The graph after all passes: constants folded, batch norm and clamps fused, layout changes cancelled,
    dead nodes gone. Checked after every sweep. Raises MinunError when a pass breaks a graph."""
    graph = check(dead_code(graph))
    for _ in range(_ROUNDS):
        before = _all_nodes(graph)
        for rules in _passes():
            graph = check(rewrite(spread_formats(graph), rules))
        if _all_nodes(graph) == before:
            break
    return spread_formats(graph)


_MOVES = ("transpose", "reshape")


def spread_formats(graph: Graph) -> Graph:
    """What only moves a tensor has one format: the source network's, noted on either side, goes to the other.
    Backwards only where nobody else reads the tensor."""
    formats = dict(graph.quantised)
    readers = Counter(name for node in graph.nodes for name in node.inputs)
    readers.update(graph.outputs)
    moves = [node for node in graph.nodes if node.op in _MOVES]
    for node in moves:
        source, target = node.inputs[0], node.outputs[0]
        if source in formats and formats[source].axis is None:
            formats.setdefault(target, formats[source])
    for node in reversed(moves):
        source, target = node.inputs[0], node.outputs[0]
        if target in formats and readers[source] == 1 and source not in graph.constants:
            formats.setdefault(source, formats[target])
    return graph if formats == graph.quantised else replace(graph, quantised=formats)


def _all_nodes(graph: Graph) -> list[Node]:
    """Every node, those of a body after its loop."""
    found: list[Node] = []
    for node in graph.nodes:
        found.append(replace(node, body=None))
        found += _all_nodes(node.body) if node.body is not None else []
    return found
