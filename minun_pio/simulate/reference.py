# SPDX-License-Identifier: Apache-2.0
"""The network in real numbers (float64), and the range that each tensor takes over a batch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.ir import Graph, Node
from minun_pio.simulate.assign import operator_of, real_tensors, scoped_tensors
from minun_pio.simulate.interpret import interpret

Array = NDArray[Any]
Inputs = Mapping[str, Array] | Array

CHUNK_BYTES = 64 << 20


@dataclass(frozen=True)
class Range:
    """The least and greatest value that a tensor took."""

    low: float
    high: float

    @property
    def magnitude(self) -> float:
        return max(abs(self.low), abs(self.high))


def named_inputs(graph: Graph, inputs: Inputs) -> dict[str, Array]:
    """The batch as `{input: (samples, *S)}`. A bare array serves a graph of one input; `(samples, n)` is
    reshaped where only the shape differs. Raises MinunError on what does not fit."""
    if not isinstance(inputs, Mapping):
        if len(graph.inputs) != 1:
            raise MinunError(
                "data.inputs",
                f"the network has the inputs {', '.join(graph.inputs)}; give data for each by name",
            )
        inputs = {graph.inputs[0]: inputs}
    result: dict[str, Array] = {}
    samples: int | None = None
    for name in graph.inputs:
        if name not in inputs:
            raise MinunError(
                "data.inputs", f"there is no data for input '{name}'; give an array of that name"
            )
        values = np.asarray(inputs[name])
        shape = graph.tensors[name].shape
        count = graph.tensors[name].elements
        if values.ndim == 0 or int(np.prod(values.shape[1:])) != count:
            raise MinunError(
                "data.shape",
                f"input '{name}' expects {shape} a sample, the data has {values.shape[1:]}; reshape it",
            )
        result[name] = values.reshape(values.shape[0], *shape)
        if samples is not None and values.shape[0] != samples:
            raise MinunError(
                "data.samples",
                f"input '{name}' has {values.shape[0]} samples, another has {samples}; give as many for each",
            )
        samples = values.shape[0]
    return result


def chunks(
    graph: Graph, inputs: Mapping[str, Array], chunk_bytes: int = CHUNK_BYTES
) -> Iterator[dict[str, Array]]:
    """The batch in parts, so that the largest tensor of a part takes at most `chunk_bytes` as float64.

    im2col widens a convolution's input by the kernel's area, so each node's inputs count with that factor.
    """
    widest = max(s.tensor.elements for s in scoped_tensors(graph))
    for node in graph.nodes:
        if node.op in ("conv", "conv_transpose") and len(node.inputs) > 1:
            kernel = graph.tensors[node.inputs[1]].shape[1:3]
            out = graph.tensors[node.outputs[0]].shape
            channels = graph.tensors[node.inputs[0]].shape[-1]
            widest = max(widest, int(np.prod(kernel)) * int(np.prod(out[:-1])) * channels)
    samples = next(iter(inputs.values())).shape[0] if inputs else 1
    step = max(1, chunk_bytes // (8 * widest))
    for start in range(0, samples, step):
        yield {name: values[start : start + step] for name, values in inputs.items()}


def _evaluate(node: Node, _: str, inputs: list[Array | None]) -> list[Array]:
    return list(operator_of(node).reference(node, inputs))


def _constant(graph: Graph, _: str, name: str) -> Array:
    values = np.asarray(graph.constants[name])
    return values[None] if np.issubdtype(values.dtype, np.integer) else values.astype(np.float64)[None]


def reference(
    graph: Graph, inputs: Inputs, *, keep: Collection[str] = (), chunk_bytes: int = CHUNK_BYTES
) -> dict[str, Array]:
    """Float64 values of the outputs and of the kept tensors, each `(samples, *S)`."""
    batch = named_inputs(graph, inputs)
    parts: list[dict[str, Array]] = []
    for chunk in chunks(graph, batch, chunk_bytes):
        samples = next(iter(chunk.values())).shape[0] if chunk else 1
        outputs, kept = interpret(graph, _as_float(chunk), _evaluate, _constant, keep)
        for name, values in zip(graph.outputs, outputs, strict=True):
            kept[name] = np.broadcast_to(values, (samples, *values.shape[1:]))
        parts.append(kept)
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def _as_float(chunk: Mapping[str, Array]) -> dict[str, Array]:
    return {n: v if np.issubdtype(v.dtype, np.integer) else v.astype(np.float64) for n, v in chunk.items()}


def profile(graph: Graph, inputs: Inputs, *, chunk_bytes: int = CHUNK_BYTES) -> dict[str, Range]:
    """The range of every real tensor (constants too) over the batch, by scoped name."""
    batch = named_inputs(graph, inputs)
    names = [s.name for s in real_tensors(graph)]
    found: dict[str, Range] = {}
    for chunk in chunks(graph, batch, chunk_bytes):
        _, kept = interpret(graph, _as_float(chunk), _evaluate, _constant, frozenset(names))
        for name in names:
            values = kept[name]
            low, high = float(np.min(values)), float(np.max(values))
            before = found.get(name)
            found[name] = Range(min(low, before.low), max(high, before.high)) if before else Range(low, high)
    return found
