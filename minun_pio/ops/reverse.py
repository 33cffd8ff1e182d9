# SPDX-License-Identifier: Apache-2.0
"""reverse: the elements along `axes` from last to first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.ops.movement import StridedMovement, Walk, contiguous
from minun_pio.ops.shapes import axis_of, required, strides_of


class Reverse(StridedMovement):
    name = "reverse"

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        for axis in node.attrs["axes"]:
            axis_of(node, int(axis), len(shape))
        return [shape]

    def move(self, node: Node, inputs: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        (x,) = inputs
        assert x is not None
        axes = tuple(int(axis) % (x.ndim - 1) + 1 for axis in node.attrs["axes"])
        return [contiguous(np.flip(x, axes))]

    def walk(self, node: Node, shape: Shape) -> Walk:
        strides = list(strides_of(shape))
        offset = 0
        for axis in {int(axis) % len(shape) for axis in node.attrs["axes"]}:
            offset += (shape[axis] - 1) * strides[axis]
            strides[axis] = -strides[axis]
        return Walk(shape, tuple(strides), offset)


OPERATOR = Reverse()
