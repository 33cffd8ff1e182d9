# SPDX-License-Identifier: Apache-2.0
"""The network between reading and emitting: tensors, nodes, graphs. Plain data, no behaviour.

Shapes are static and full (a batch of 1 is kept where the source network has it). Operators with a
spatial meaning (conv, pool, resize) are channels-last: `(1, H, W, C)`, in one dimension `(1, L, C)`.
Constant layouts: dense `(out, in)`; convolution `(out_c, kh, kw, in_c / groups)`.

A loop is a node of operator `scan` whose `body` is a Graph. The body's inputs are, in this order, the
carried states, then one slice (without the time axis) of each scanned input; its outputs are the next
states, then one slice of each scanned output. The scan node's inputs are the initial states, then the
scanned inputs (time on axis `attrs["axis"]`, default 0); its outputs are the final states, then the
scanned outputs. `attrs["steps"]` is the number of iterations, `attrs["reverse"]` runs time backwards.
The body sees constants through its own `constants`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """A value of the network. `name` is unique in its graph."""

    name: str
    shape: Shape

    @property
    def elements(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count


@dataclass(frozen=True)
class Node:
    """One operator. `op` is a name in `minun_pio.ops.REGISTRY`; an absent optional input is ''."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    body: Graph | None = None


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which they can run (topological), with every tensor's static shape.

    `constants` hold float64 or float32 arrays for real values, int64 arrays for indices. A tensor
    is exactly one of: graph input, constant, or the output of one node.
    `quantised` maps tensors that the source network already quantised (TFLite int8, ONNX QDQ) to
    their `numerics` format; the search may keep or override it.
    """

    name: str
    tensors: Mapping[str, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    quantised: Mapping[str, Any] = field(default_factory=dict)

    def producer(self, tensor: str) -> Node | None:
        """The node that writes `tensor`, or None for inputs and constants."""
        for node in self.nodes:
            if tensor in node.outputs:
                return node
        return None


def float_constant(values: Any) -> NDArray[np.float64]:
    """Network constants are kept in float64, so that folding does not round twice."""
    return np.asarray(values, dtype=np.float64)
