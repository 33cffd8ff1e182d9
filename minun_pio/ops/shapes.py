# SPDX-License-Identifier: Apache-2.0
"""Shape arithmetic that the operators share: checks with one clear line, broadcasting, windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.ir import Node, Shape


def elements(shape: Shape) -> int:
    """The number of elements of a tensor of this shape."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def refuse(node: Node, message: str, code: str = "op.shape") -> MinunError:
    """The error for inputs or attributes that do not fit; the caller raises it."""
    return MinunError(code, message, where=f"node '{node.name}' ({node.op})")


def required(node: Node, shapes: Sequence[Shape | None], index: int) -> Shape:
    """The shape of input `index`, which must be there."""
    shape = shapes[index] if index < len(shapes) else None
    if shape is None:
        raise refuse(node, f"input {index} is missing; connect it", "op.input-missing")
    return shape


def constant(node: Node, constants: Sequence[NDArray[Any] | None], index: int, what: str) -> NDArray[Any]:
    """The value of input `index`, which must be a constant of the graph."""
    value = constants[index] if index < len(constants) else None
    if value is None:
        raise refuse(
            node, f"{what} (input {index}) must be constant; bind it in the model", "op.not-constant"
        )
    return value


def axis_of(node: Node, axis: int, rank: int) -> int:
    """`axis` as a number in 0..rank-1; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise refuse(node, f"axis {axis} is outside a tensor of rank {rank}; use {-rank}..{rank - 1}")
    return axis % rank


def axes_of(node: Node, axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Sorted distinct axes; None or empty means every axis."""
    if not axes:
        return tuple(range(rank))
    return tuple(sorted({axis_of(node, int(axis), rank) for axis in axes}))


def broadcast(node: Node, *shapes: Shape) -> Shape:
    """The shape that `shapes` broadcast to by numpy's rule."""
    try:
        return tuple(int(extent) for extent in np.broadcast_shapes(*shapes))
    except ValueError:
        listed = ", ".join(str(shape) for shape in shapes)
        raise refuse(node, f"shapes {listed} do not broadcast; make each extent equal or 1") from None


def strides_of(shape: Shape) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def aligned(array: NDArray[Any], rank: int) -> NDArray[Any]:
    """`(samples, *shape)` with axes of 1 put after the samples, so that the shape has `rank` axes."""
    missing = rank - (array.ndim - 1)
    return array.reshape(array.shape[:1] + (1,) * missing + array.shape[1:]) if missing > 0 else array


def row_blocks(shape: Shape, axis: int) -> tuple[int, int, int]:
    """`(outer, extent, inner)` of `axis`: elements before, along and after it."""
    return elements(shape[:axis]), shape[axis], elements(shape[axis + 1 :])
