# SPDX-License-Identifier: Apache-2.0
"""expand: axes of extent 1 repeated (and leading axes added) to reach `shape`, by numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.ops.movement import StridedMovement, Walk, contiguous
from minun_pio.ops.shapes import aligned, broadcast, required, strides_of


class Expand(StridedMovement):
    name = "expand"

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        return [broadcast(node, required(node, shapes, 0), tuple(int(n) for n in node.attrs["shape"]))]

    def move(self, node: Node, inputs: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        (x,) = inputs
        assert x is not None
        target = np.broadcast_shapes(x.shape[1:], tuple(node.attrs["shape"]))
        return [contiguous(np.broadcast_to(aligned(x, len(target)), x.shape[:1] + target))]

    def walk(self, node: Node, shape: Shape) -> Walk:
        target = broadcast(node, shape, tuple(int(n) for n in node.attrs["shape"]))
        padded = (1,) * (len(target) - len(shape)) + tuple(shape)
        strides = strides_of(padded)
        return Walk(
            target, tuple(0 if have == 1 else step for have, step in zip(padded, strides, strict=True))
        )


OPERATOR = Expand()
