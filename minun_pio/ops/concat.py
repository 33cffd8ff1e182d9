# SPDX-License-Identifier: Apache-2.0
"""concat: inputs one after another along `axis`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics.format import element_bytes
from minun_pio.ops.calling import code_type, in_flash, input_shape, same_format
from minun_pio.ops.movement import Movement
from minun_pio.ops.operator import Binding, Call, Overlap, Traits, View
from minun_pio.ops.shapes import axis_of, elements, refuse, required
from minun_pio.planner import raster


class Concat(Movement):
    name = "concat"

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        first = required(node, shapes, 0)
        axis = axis_of(node, int(node.attrs["axis"]), len(first))
        total = 0
        for index in range(len(shapes)):
            shape = required(node, shapes, index)
            if (
                len(shape) != len(first)
                or shape[:axis] + shape[axis + 1 :] != first[:axis] + first[axis + 1 :]
            ):
                raise refuse(
                    node, f"input {index} is {shape}, which differs from {first} outside axis {axis}"
                )
            total += shape[axis]
        return [(*first[:axis], total, *first[axis + 1 :])]

    def move(self, node: Node, inputs: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        parts = [part for part in inputs if part is not None]
        samples = max(part.shape[0] for part in parts)
        axis = int(node.attrs["axis"]) % (parts[0].ndim - 1) + 1
        return [
            np.concatenate([np.broadcast_to(part, (samples, *part.shape[1:])) for part in parts], axis=axis)
        ]

    def traits(self, binding: Binding) -> Traits:
        """Inputs one after the other are views; else the first one, copied first, may be overrun."""
        out = binding.out_shapes[0]
        axis = int(binding.node.attrs["axis"]) % len(out)
        width = element_bytes(same_format(binding))
        rows = elements(out[:axis])
        if rows != 1:
            runs = elements(input_shape(binding, 0)[axis:]) * width, elements(out[axis:]) * width
            first = Overlap(0, 0, raster.concat_first_distance(rows, *runs))
            return Traits() if in_flash(binding, 0) else Traits(overlaps=(first,))
        views: list[View] = []
        offset_bytes = 0
        for index in range(len(binding.shapes)):
            if not in_flash(binding, index):
                views.append(View(index, 0, offset_bytes))
            offset_bytes += elements(input_shape(binding, index)) * width
        return Traits(views=tuple(views))

    def emit(self, binding: Binding) -> Call:
        out = binding.out_shapes[0]
        axis = int(binding.node.attrs["axis"]) % len(out)
        parts: list[str] = []
        for index in range(len(binding.shapes)):
            pointer = f"{{in{index}}}"
            parts.append(f"minun::in_flash({pointer})" if in_flash(binding, index) else pointer)
            parts.append(str(elements(input_shape(binding, index)[axis:])))
        return Call(
            header="minun/concat.h",
            function=f"minun::concat<{code_type(same_format(binding))}>",
            args=("{out0}", str(elements(out[:axis])), str(elements(out[axis:])), *parts),
            variant="rows",
        )


OPERATOR = Concat()
