# SPDX-License-Identifier: Apache-2.0
"""What a handler of an ONNX operator works with: known values, tensors, the graph under construction,
refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.importers.builder import GraphBuilder
from minun_pio.importers.onnx.model import OnnxGraph, OnnxNode
from minun_pio.ir import Graph, Shape

Array = NDArray[Any]


@dataclass
class Context:
    """The state of one graph's import. `values` are known at import (numpy, in ONNX's types), `tensors`
    maps an ONNX
    name to the graph tensor that carries it, `indices` are the ONNX names of integer tensors known at run
    time only."""

    file: str
    opset: int
    builder: GraphBuilder
    convert_body: Callable[[OnnxGraph, Context, Sequence[tuple[str, Shape]]], Graph]
    values: dict[str, Array] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)
    indices: set[str] = field(default_factory=set)
    codes: dict[str, tuple[str, Any]] = field(default_factory=dict)  # quantised: (tensor, format)
    constant_formats: dict[str, Any] = field(default_factory=dict)  # constants that were stored as codes
    uses: Mapping[str, int] = field(default_factory=dict)

    def where(self, node: OnnxNode) -> str:
        return f"{self.file}: node '{node.name}'"

    def refusal(
        self, node: OnnxNode, reason: str, nearest: str, code: str = "onnx.unsupported-form"
    ) -> MinunError:
        """The error for a node that cannot be taken: operator, operator set, reason, and what works."""
        return MinunError(
            code, f"operator {node.op} (operator set {self.opset}): {reason}; {nearest}", self.where(node)
        )

    def has(self, node: OnnxNode, index: int) -> bool:
        return index < len(node.inputs) and node.inputs[index] != ""

    def name(self, node: OnnxNode, index: int) -> str:
        if not self.has(node, index):
            raise self.refusal(node, f"input {index} is missing", "connect it", "onnx.malformed")
        return node.inputs[index]

    def known(self, node: OnnxNode, index: int) -> Array | None:
        """The value of an input when it is known at import."""
        return self.values.get(node.inputs[index]) if self.has(node, index) else None

    def value(self, node: OnnxNode, index: int, what: str) -> Array:
        """The value of an input that must be known at import."""
        name = self.name(node, index)
        found = self.values.get(name)
        if found is None:
            raise self.refusal(
                node,
                f"its {what} '{name}' is not a constant",
                "bind it as an initialiser",
                "onnx.not-constant",
            )
        return found

    def floats(self, node: OnnxNode, index: int, what: str) -> NDArray[np.float64]:
        return self.value(node, index, what).astype(np.float64)

    def integers(self, node: OnnxNode, index: int, what: str) -> list[int]:
        return [int(item) for item in self.value(node, index, what).reshape(-1)]

    def tensor(self, node: OnnxNode, index: int) -> str:
        """The graph's tensor for an input of real numbers; a known value becomes a constant."""
        name = self.name(node, index)
        if name in self.indices:
            raise self.refusal(
                node, f"its input '{name}' is an integer tensor", "arithmetic is on real numbers", "onnx.type"
            )
        return self.carry(node, name)

    def carry(self, node: OnnxNode, name: str) -> str:
        """As `tensor`, by ONNX name, for real numbers and indices alike."""
        if name in self.tensors:
            return self.tensors[name]
        if name not in self.values:
            raise self.refusal(node, f"its input '{name}' is not known here", "connect it", "onnx.malformed")
        value = self.values[name]
        if value.dtype.kind not in "f" and value.dtype.name != "bfloat16":
            raise self.refusal(
                node,
                f"its input '{name}' holds {value.dtype}",
                "real numbers are expected: cast to float32 in the model",
                "onnx.type",
            )
        fmt = self.constant_formats.get(name)
        per_tensor = fmt is not None and fmt.axis is None
        return self.builder.constant(value.astype(np.float64), name, fmt if per_tensor else None)

    def shape(self, name: str) -> Shape | None:
        """The shape of an ONNX tensor, when it is there."""
        if name in self.values:
            return tuple(int(extent) for extent in self.values[name].shape)
        if name in self.tensors:
            return self.builder.shape(self.tensors[name])
        return None

    def input_shape(self, node: OnnxNode, index: int) -> Shape:
        shape = self.shape(self.name(node, index))
        if shape is None:
            raise self.refusal(node, f"input {index} is not known here", "connect it", "onnx.malformed")
        return shape

    def add(
        self, node: OnnxNode, op: str, inputs: Sequence[str], attrs: Mapping[str, Any] | None = None
    ) -> str:
        """One graph node named after the ONNX node and its output."""
        hint = node.outputs[0] if node.outputs and node.outputs[0] else node.name
        return self.builder.add_many(op, inputs, attrs, outputs=[hint], name=node.name)[0]

    def constant(self, node: OnnxNode, values: Any, what: str) -> str:
        return self.builder.constant(np.asarray(values, dtype=np.float64), f"{node.name}.{what}")

    def weight(self, node: OnnxNode, index: int, values: Any, what: str) -> str:
        """A constant in our layout made from input `index`. When the model stores that input as codes, the
        format is noted; a format per channel is one per output channel, which is the first axis here."""
        fmt = self.constant_formats.get(node.inputs[index])
        if fmt is not None and fmt.axis is not None:
            fmt = replace(fmt, axis=0)
        return self.builder.constant(np.asarray(values, dtype=np.float64), f"{node.name}.{what}", fmt)

    def scalar(self, node: OnnxNode, value: float) -> str:
        return self.constant(node, value, "c")

    def axis(self, node: OnnxNode, axis: int, rank: int) -> int:
        if not -rank <= axis < max(rank, 1):
            raise self.refusal(
                node, f"axis {axis} of a tensor of rank {rank}", f"use {-rank}..{rank - 1}", "onnx.malformed"
            )
        return axis % rank if rank else 0


Handler = Callable[[Context, OnnxNode], list[str]]
"""Converts one node; returns the graph tensors for its outputs ('' for an output that is not made)."""


def _is_not(ctx: Context, node: OnnxNode, key: str, wanted: str) -> MinunError:
    return ctx.refusal(node, f"attribute '{key}' is not {wanted}", "export the model again", "onnx.malformed")


def number(ctx: Context, node: OnnxNode, key: str, default: float) -> float:
    """A numeric attribute."""
    value = node.attrs.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _is_not(ctx, node, key, "a number")
    return float(value)


def whole(ctx: Context, node: OnnxNode, key: str, default: int) -> int:
    """An integer attribute."""
    value = node.attrs.get(key, default)
    if not isinstance(value, int):
        raise _is_not(ctx, node, key, "an integer")
    return value


def wholes(ctx: Context, node: OnnxNode, key: str, default: Sequence[int] | None) -> list[int] | None:
    """An attribute that is a list of integers."""
    value = node.attrs.get(key)
    if value is None:
        return None if default is None else list(default)
    if not isinstance(value, list) or any(not isinstance(item, int) for item in value):
        raise _is_not(ctx, node, key, "a list of integers")
    return list(value)


def text(ctx: Context, node: OnnxNode, key: str, default: str) -> str:
    """A string attribute."""
    value = node.attrs.get(key, default)
    if not isinstance(value, str):
        raise _is_not(ctx, node, key, "a string")
    return value
