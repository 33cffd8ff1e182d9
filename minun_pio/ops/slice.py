# SPDX-License-Identifier: Apache-2.0
"""slice: `starts:ends:steps` along `axes` with Python's (and ONNX's) clamping; steps may be negative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.ops.movement import StridedMovement, Walk, contiguous
from minun_pio.ops.shapes import axis_of, refuse, required, strides_of


def ranges(node: Node, shape: Shape) -> list[range]:
    """The indices taken along every axis of `shape`."""
    attrs = node.attrs
    starts, ends = attrs["starts"], attrs["ends"]
    axes = attrs.get("axes") or tuple(range(len(starts)))
    steps = attrs.get("steps") or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise refuse(
            node, f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes, {len(steps)} steps differ"
        )
    taken = [range(extent) for extent in shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = axis_of(node, int(axis), len(shape))
        if int(step) == 0:
            raise refuse(node, f"step 0 along axis {axis}; use a positive or negative step")
        taken[axis] = _clamped(int(start), int(end), int(step), shape[axis])
    return taken


def _clamped(start: int, end: int, step: int, extent: int) -> range:
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    if start < 0:
        start += extent
    if end < 0:
        end += extent
    first = min(max(start, low if step > 0 else 0), high)
    last = min(max(end, low), high)
    return range(first, last, step)


class Slice(StridedMovement):
    name = "slice"

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        result = tuple(len(taken) for taken in ranges(node, shape))
        if 0 in result:
            raise refuse(node, f"slice of {shape} is empty {result}; tensors need at least one element")
        return [result]

    def move(self, node: Node, inputs: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        (x,) = inputs
        assert x is not None
        for axis, taken in enumerate(ranges(node, x.shape[1:])):
            if len(taken) != x.shape[axis + 1] or taken.step != 1:
                x = x.take(list(taken), axis=axis + 1)
        return [contiguous(x)]

    def walk(self, node: Node, shape: Shape) -> Walk:
        strides = strides_of(shape)
        taken = ranges(node, shape)
        return Walk(
            tuple(len(indices) for indices in taken),
            tuple(stride * indices.step for stride, indices in zip(strides, taken, strict=True)),
            sum(stride * indices.start for stride, indices in zip(strides, taken, strict=True)),
        )


OPERATOR = Slice()
