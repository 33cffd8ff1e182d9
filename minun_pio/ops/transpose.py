# SPDX-License-Identifier: Apache-2.0
"""transpose: the axes in another order, `perm[i]` the input axis that becomes output axis i."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.ops.movement import StridedMovement, Walk, contiguous
from minun_pio.ops.shapes import refuse, required, strides_of


class Transpose(StridedMovement):
    name = "transpose"

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        perm = tuple(int(axis) for axis in node.attrs["perm"])
        if sorted(perm) != list(range(len(shape))):
            raise refuse(node, f"perm {perm} must name each axis of {shape} once")
        return [tuple(shape[axis] for axis in perm)]

    def move(self, node: Node, inputs: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        (x,) = inputs
        assert x is not None
        return [contiguous(x.transpose((0, *(axis + 1 for axis in node.attrs["perm"]))))]

    def walk(self, node: Node, shape: Shape) -> Walk:
        strides = strides_of(shape)
        perm = node.attrs["perm"]
        return Walk(tuple(shape[axis] for axis in perm), tuple(strides[axis] for axis in perm))


OPERATOR = Transpose()
