# SPDX-License-Identifier: Apache-2.0
"""Runs a network under an assignment on a batch, with exactly the codes that the device computes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Graph, Node
from minun_pio.numerics import exact
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.format import Codes, Format
from minun_pio.simulate.assign import Assignment, operator_of, scoped_tensors
from minun_pio.simulate.interpret import interpret
from minun_pio.simulate.legalise import Legal, legalise
from minun_pio.simulate.reference import CHUNK_BYTES, Inputs, chunks, named_inputs

Array = NDArray[Any]
Cache = dict[tuple[str, Format], Codes]
"""Encoded constants by scoped name and format. Give one cache to many runs of the same network."""


@dataclass(frozen=True)
class Run:
    """Codes by scoped tensor name, `(samples, *S)`, and the formats they are in. Constants have one sample;
    `constants` holds the shapes of those that are there."""

    codes: Mapping[str, Codes]
    formats: Mapping[str, Format]
    constants: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def values(self, name: str) -> NDArray[np.float64]:
        """The real values of a tensor's codes."""
        fmt, codes = self.formats[name], self.codes[name]
        if name not in self.constants:
            return np.asarray(fmt.decode(codes), dtype=np.float64)
        shape = self.constants[name]  # a format per channel counts its axis from there
        parts = [fmt.decode(part) for part in codes.reshape(-1, *shape)]
        return np.stack(parts).astype(np.float64).reshape(codes.shape)


def run(
    graph: Graph,
    assignment: Assignment,
    inputs: Inputs,
    *,
    keep: Collection[str] = (),
    cache: Cache | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Run:
    """Outputs and kept tensors of a batch of real inputs `(samples, *S)`, as codes."""
    legal = legalise(graph, assignment)
    encoded = encode_inputs(graph, legal.formats, inputs)
    return run_codes(legal, encoded, keep=keep, cache=cache, chunk_bytes=chunk_bytes)


def encode_inputs(graph: Graph, formats: Mapping[str, Format], inputs: Inputs) -> dict[str, Codes]:
    """The batch in the formats of the graph's inputs: the codes that a sketch's `encode_input` gives."""
    return {name: from_floats(values, formats[name]) for name, values in named_inputs(graph, inputs).items()}


def from_floats(values: Array, fmt: Format) -> Codes:
    """Real numbers as a board takes them (`io.h`): float32, then one rounding; affine formats divide in
    float32. Indices are cut to integers.
    """
    if fmt.family == "index":
        return fmt.encode(values)
    with np.errstate(over="ignore"):
        single = np.asarray(values).astype(np.float32)
    return exact.convert(single, Float32(), fmt)


def run_codes(
    legal: Legal,
    inputs: Mapping[str, Codes],
    *,
    keep: Collection[str] = (),
    cache: Cache | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Run:
    """As `run`, from input codes and a graph that is already legal."""
    store: Cache = {} if cache is None else cache
    formats, graph = legal.formats, legal.graph

    def constant(inside: Graph, prefix: str, name: str) -> Codes:
        key = (prefix + name, formats[prefix + name])
        if key not in store:
            store[key] = encode_constant(inside.constants[name], key[1])[None]
        return store[key]

    def evaluate(node: Node, prefix: str, operands: list[Array | None]) -> list[Codes]:
        in_formats = [formats[prefix + n] if n else None for n in node.inputs]
        out_formats = [formats[prefix + n] for n in node.outputs if n]
        return list(operator_of(node).simulate(node, operands, in_formats, out_formats))

    parts: list[dict[str, Codes]] = []
    for chunk in chunks(graph, inputs, chunk_bytes):
        samples = next(iter(chunk.values())).shape[0] if chunk else 1
        outputs, kept = interpret(graph, chunk, evaluate, constant, keep)
        for name, codes in zip(graph.outputs, outputs, strict=True):
            kept[name] = np.broadcast_to(codes, (samples, *codes.shape[1:]))
        parts.append(kept)
    shapes = {
        scoped.name: scoped.tensor.shape for scoped in scoped_tensors(graph) if scoped.role == "constant"
    }
    once = {name: shapes[name] for name in parts[0] if name in shapes and name not in graph.outputs}
    merged = {
        name: parts[0][name] if name in once else np.concatenate([part[name] for part in parts])
        for name in parts[0]
    }
    return Run(codes=merged, formats={name: formats[name] for name in merged}, constants=once)


def encode_constant(values: Array, fmt: Format) -> Codes:
    """A constant's codes in a format; index constants become int32."""
    array = np.asarray(values)
    if np.issubdtype(array.dtype, np.integer) and fmt.family == "index":
        return array.astype(np.int32)
    return fmt.encode(array.astype(np.float64))
