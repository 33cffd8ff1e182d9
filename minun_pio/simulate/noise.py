# SPDX-License-Identifier: Apache-2.0
"""How much noise each tensor's format adds: the exact simulation beside real numbers, tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Graph, Node
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Format
from minun_pio.simulate.assign import Scoped, operator_of, real_tensors, walk
from minun_pio.simulate.legalise import Legal
from minun_pio.simulate.reference import Inputs, named_inputs, reference
from minun_pio.simulate.run import Cache, Run, encode_inputs, run_codes

Values = NDArray[np.float64]
BATCH_BYTES = 64 << 20  # of all tensors together, as float64


@dataclass(frozen=True)
class Noise:
    """What one tensor's format does to its values over a batch.

    `low` and `high` are its range in real numbers. `own_db` compares the signal with the noise of this
    tensor's own rounding, its operands taken as they are; `total_db` with all noise up to here. Both are
    10 log10(sum of squares / sum of squared errors): infinite where nothing is lost, None where there is no
    signal or, for `own_db`, where no operator of the graph wrote the tensor (a loop's results).
    `clipped`, `zeroed` and `nar` are shares of the elements: beyond the format's greatest value, rounded to
    zero, and not a real.
    """

    tensor: str
    format: str
    role: str
    low: float
    high: float
    own_db: float | None
    total_db: float | None
    clipped: float
    zeroed: float
    nar: float

    def to_json(self) -> dict[str, Any]:
        """As JSON: an infinite ratio is the string 'exact', which JSON can hold."""
        row = asdict(self)
        return {
            key: "exact" if value == math.inf and key.endswith("_db") else value for key, value in row.items()
        }


def noise(legal: Legal, inputs: Inputs, cache: Cache | None = None) -> list[Noise]:
    """One row a real-valued tensor, loops' bodies included, in the order of the graph.

    `inputs` are real, `(samples, *S)`. A tensor whose range is not finite in real numbers raises nothing; its
    ratios are None.
    """
    graph = legal.graph
    scoped = real_tensors(graph)
    names = frozenset(tensor.name for tensor in scoped)
    sums = {name: _Sums() for name in names}
    store: Cache = {} if cache is None else cache
    batch = named_inputs(graph, inputs)
    for part in _parts(batch, sum(tensor.tensor.elements for tensor in scoped)):
        real = reference(graph, part, keep=names)
        codes = run_codes(legal, encode_inputs(graph, legal.formats, part), keep=names, cache=store)
        alone = _alone(graph, codes, real)
        for name in names:
            sums[name].add(real[name], codes.values(name), alone.get(name), legal.formats[name])
    return [sums[tensor.name].row(tensor, legal.formats[tensor.name]) for tensor in scoped]


def _parts(batch: Mapping[str, Values], elements: int) -> Iterator[dict[str, Values]]:
    samples = next(iter(batch.values())).shape[0] if batch else 1
    step = max(1, BATCH_BYTES // (8 * max(elements, 1)))
    for start in range(0, samples, step):
        yield {name: values[start : start + step] for name, values in batch.items()}


def _alone(graph: Graph, codes: Run, real: Mapping[str, Values]) -> dict[str, Values]:
    """What every tensor would be if only its own rounding were left out."""
    written = {name: real[name] for name in graph.inputs if name in codes.codes}
    for prefix, inside, node in walk(graph):
        written.update(
            {prefix + name: real[prefix + name] for name in inside.constants if prefix + name in real}
        )
        if node.body is None:
            written.update(_one_step(prefix, inside, node, codes))
    return written


def _one_step(prefix: str, graph: Graph, node: Node, codes: Run) -> dict[str, Values]:
    """The outputs of one operator in real numbers, from its operands as the device has them."""
    operands: list[NDArray[Any] | None] = []
    for name in node.inputs:
        if not name:
            operands.append(None)
        elif name in graph.constants:
            scoped = prefix + name
            if scoped in codes.codes:
                shape = graph.tensors[name].shape
                operands.append(codes.values(scoped).reshape(-1, *shape)[:1])
            else:
                operands.append(np.asarray(graph.constants[name])[None])  # indices
        elif prefix + name in codes.codes:
            operands.append(codes.values(prefix + name).reshape(-1, *graph.tensors[name].shape))
        else:
            return {}  # computed indices
    results = operator_of(node).reference(node, operands)
    outputs: dict[str, Values] = {}
    for name, result in zip(node.outputs, results, strict=True):
        if name and prefix + name in codes.codes:
            outputs[prefix + name] = np.asarray(result, dtype=np.float64)
    return outputs


class _Sums:
    """Sums over the parts of a batch, of one tensor."""

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf
        self.signal = self.error = 0.0
        self.own_signal = self.own_error = 0.0
        self.has_own = False
        self.count = self.clipped = self.zeroed = self.nar = 0

    def add(self, real: Values, value: Values, own: Values | None, fmt: Format) -> None:
        self.low = min(self.low, float(np.min(real)))
        self.high = max(self.high, float(np.max(real)))
        nar = np.isnan(value)
        self.count += value.size
        self.nar += int(nar.sum())
        value = np.where(nar, 0.0, value)
        self.signal += float(np.sum(np.square(real)))
        self.error += float(np.sum(np.square(real - value)))
        if own is None:
            return
        self.has_own = True
        own = np.broadcast_to(own.reshape(value.shape) if own.size == value.size else own, value.shape)
        own = np.where(np.isnan(own), value, own)
        self.own_signal += float(np.sum(np.square(own)))
        self.own_error += float(np.sum(np.square(own - value)))
        self.zeroed += int(np.sum((value == 0) & (own != 0) & ~nar))
        self.clipped += int(np.sum(_beyond(own, fmt)))

    def row(self, tensor: Scoped, fmt: Format) -> Noise:
        count = max(self.count, 1)
        return Noise(
            tensor=tensor.name,
            format=fmt.name,
            role=tensor.role,
            low=self.low,
            high=self.high,
            own_db=_decibels(self.own_signal, self.own_error) if self.has_own else None,
            total_db=_decibels(self.signal, self.error),
            clipped=self.clipped / count,
            zeroed=self.zeroed / count,
            nar=self.nar / count,
        )


def _beyond(own: Values, fmt: Format) -> NDArray[np.bool_]:
    """Where a value lies more than half a step beyond the format's last code."""
    if fmt.family == "float" or fmt.bits > 16 or (isinstance(fmt, Affine) and fmt.axis is not None):
        return np.zeros(own.shape, np.bool_)  # these are chosen to hold everything
    top = (1 << (fmt.bits - 1)) - 1
    bottom = -top if fmt.family == "posit" else -top - 1
    low, after_low, before_high, high = fmt.decode(np.array([bottom, bottom + 1, top - 1, top], fmt.storage))
    outside = (own < low - (after_low - low) / 2) | (own > high + (high - before_high) / 2)
    return np.asarray(outside)


def _decibels(signal: float, error: float) -> float | None:
    if not (math.isfinite(signal) and math.isfinite(error)) or signal == 0.0:
        return None
    return math.inf if error == 0.0 else 10 * math.log10(signal / error)
