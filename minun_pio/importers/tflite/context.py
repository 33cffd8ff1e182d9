# SPDX-License-Identifier: Apache-2.0
"""What a handler of a TensorFlow Lite operator works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.importers.builder import GraphBuilder
from minun_pio.importers.tflite.model import TfModel, TfOperator, TfTensor
from minun_pio.ir import Shape
from minun_pio.numerics.affine import Affine

ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
_CLIPS: Mapping[str, tuple[float | None, float | None] | None] = {
    "NONE": None,
    "RELU": (0.0, None),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU6": (0.0, 6.0),
}


@dataclass
class Context:
    """The state of an import: `tensors` maps an index of the file's tensors to the graph's tensor."""

    model: TfModel
    builder: GraphBuilder
    tensors: dict[int, str] = field(default_factory=dict)
    values: dict[int, NDArray[Any]] = field(default_factory=dict)

    def refusal(
        self, op: TfOperator, reason: str, nearest: str, code: str = "tflite.unsupported-form"
    ) -> MinunError:
        """The error for an operator that cannot be taken."""
        return MinunError(
            code,
            f"operator {op.op} (version {op.version}): {reason}; {nearest}",
            f"{self.model.file}: operator {op.index}",
        )

    def has(self, op: TfOperator, place: int) -> bool:
        return place < len(op.inputs) and op.inputs[place] >= 0

    def index(self, op: TfOperator, place: int) -> int:
        if not self.has(op, place):
            raise self.refusal(op, f"input {place} is missing", "convert again", "tflite.malformed")
        return op.inputs[place]

    def info(self, op: TfOperator, place: int) -> TfTensor:
        return self.model.tensors[self.index(op, place)]

    def output(self, op: TfOperator, place: int = 0) -> TfTensor:
        if place >= len(op.outputs):
            raise self.refusal(op, f"output {place} is missing", "convert again", "tflite.malformed")
        return self.model.tensors[op.outputs[place]]

    def known(self, op: TfOperator, place: int) -> NDArray[Any] | None:
        """An input as it is stored, when it is constant."""
        if not self.has(op, place):
            return None
        index = op.inputs[place]
        return self.values.get(index, self.model.tensors[index].data)

    def value(self, op: TfOperator, place: int, what: str) -> NDArray[Any]:
        found = self.known(op, place)
        if found is None:
            raise self.refusal(
                op, f"its {what} is not constant", "convert with it fixed", "tflite.not-constant"
            )
        return found

    def integers(self, op: TfOperator, place: int, what: str) -> list[int]:
        found = self.value(op, place, what)
        if found.dtype.kind not in "iu":
            raise self.refusal(
                op, f"its {what} holds {found.dtype}", "integers are expected", "tflite.malformed"
            )
        return [int(item) for item in found.reshape(-1)]

    def shape(self, op: TfOperator, place: int) -> Shape:
        index = self.index(op, place)
        if index in self.tensors:
            return self.builder.shape(self.tensors[index])
        return self.model.tensors[index].shape

    def tensor(self, op: TfOperator, place: int) -> str:
        """The graph's tensor of an input; a constant becomes one."""
        index = self.index(op, place)
        if index in self.tensors:
            return self.tensors[index]
        info = self.model.tensors[index]
        if self.known(op, place) is None:
            raise self.refusal(
                op, f"its input '{info.name}' is written by no operator before it", "the file is not sorted",
                "tflite.malformed",
            )  # fmt: skip
        return self.weight(op, place, lambda array: array, info.axis)

    def weight(
        self,
        op: TfOperator,
        place: int,
        arrange: Callable[[NDArray[Any]], NDArray[Any]],
        axis: int,
        *,
        per_channel: bool = False,
    ) -> str:
        """A constant input, real values of it, rearranged; its format is noted with its channels on `axis`.

        `per_channel` notes the axis also where one scale serves all: convolutions round by channel.
        """
        info, stored = self.info(op, place), self.value(op, place, "weights")
        if not info.scales:
            if stored.dtype.kind == "f":
                return self.builder.constant(arrange(stored.astype(np.float64)), info.label or op.name)
            raise self.refusal(op, f"'{info.name}' holds {stored.dtype} without a scale", "quantise it again")
        fmt = self.format(op, info)
        if fmt is not None:
            several = per_channel or len(fmt.scales) > 1
            fmt = Affine(fmt.width, fmt.scales, fmt.zero_point, axis if several else None)
        return self.builder.constant(arrange(dequantised(stored, info)), info.label or op.name, fmt)

    def format(self, op: TfOperator, info: TfTensor) -> Affine | None:
        """The number format that a tensor has in the file; None for real numbers and plain integers."""
        if not info.scales or info.dtype.kind not in "iu":
            return None
        if len(set(info.zeros)) > 1:
            raise self.refusal(op, f"'{info.name}' has a zero point per channel", "quantise symmetrically")
        zero = info.zeros[0] if info.zeros else 0
        if info.dtype == np.uint8:
            raise self.refusal(op, f"'{info.name}' holds uint8", "int8 quantisation works: convert again")
        width = info.dtype.itemsize * 8
        axis = info.axis if len(info.scales) > 1 else None
        return Affine(width, info.scales, zero, axis)

    def add(
        self, op: TfOperator, kind: str, inputs: Sequence[str], attrs: Mapping[str, Any] | None = None
    ) -> str:
        """One graph node for the operator's first output."""
        hint = self.output(op).label or op.name
        return self.builder.add_many(kind, inputs, attrs, outputs=[hint], name=op.name)[0]

    def clip(self, op: TfOperator) -> dict[str, Any]:
        """The fused activation as an attribute."""
        number = op.options("FusedActivationFunction", 0)
        name = ACTIVATIONS[number] if 0 <= number < len(ACTIVATIONS) else str(number)
        if name not in _CLIPS:
            raise self.refusal(op, f"fused activation {name}", "RELU, RELU6 and RELU_N1_TO_1 work")
        return {} if _CLIPS[name] is None else {"clip": _CLIPS[name]}

    def axis(self, op: TfOperator, axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            raise self.refusal(op, f"axis {axis} of rank {rank}", "convert again", "tflite.malformed")
        return axis % rank


Handler = Callable[[Context, TfOperator], list[str]]
"""Converts one operator; returns the graph's tensors for its outputs."""


def dequantised(stored: NDArray[Any], info: TfTensor) -> NDArray[np.float64]:
    """(code - zero) * scale in float64: exact, so that encoding gives the code back."""
    shape = [1] * stored.ndim
    if len(info.scales) > 1:
        shape[info.axis] = len(info.scales)
    scales = np.asarray(info.scales, dtype=np.float64).reshape(shape if len(info.scales) > 1 else ())
    zeros = np.asarray(info.zeros or (0,), dtype=np.float64)
    zeros = zeros.reshape(shape) if zeros.size > 1 else zeros.reshape(())
    return np.asarray((stored.astype(np.float64) - zeros) * scales)
