# SPDX-License-Identifier: Apache-2.0
"""split: the input cut along `axis` into outputs of the given `sizes`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics.format import element_bytes
from minun_pio.ops.calling import code_type, in_flash, input_shape, same_format
from minun_pio.ops.movement import Movement, contiguous
from minun_pio.ops.operator import Binding, Call, Traits, View
from minun_pio.ops.shapes import axis_of, elements, refuse, required


class Split(Movement):
    name = "split"

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        axis = axis_of(node, int(node.attrs["axis"]), len(shape))
        sizes = tuple(int(size) for size in node.attrs["sizes"])
        if sum(sizes) != shape[axis] or min(sizes, default=0) < 1 or len(sizes) != len(node.outputs):
            raise refuse(node, f"sizes {sizes} do not cut {shape[axis]} into {len(node.outputs)} parts")
        return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]

    def move(self, node: Node, inputs: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        (x,) = inputs
        assert x is not None
        cuts = list(accumulate(int(size) for size in node.attrs["sizes"]))[:-1]
        axis = int(node.attrs["axis"]) % (x.ndim - 1) + 1
        return [contiguous(part) for part in np.split(x, cuts, axis=axis)]

    def traits(self, binding: Binding) -> Traits:
        shape = input_shape(binding, 0)
        axis = int(binding.node.attrs["axis"]) % len(shape)
        if elements(shape[:axis]) != 1 or in_flash(binding, 0):
            return Traits()
        width = element_bytes(same_format(binding))
        starts = [0, *accumulate(elements(part) * width for part in binding.out_shapes)]
        return Traits(
            views=tuple(View(0, index, starts[index], output_inside=True) for index in range(len(starts) - 1))
        )

    def emit(self, binding: Binding) -> Call:
        shape = input_shape(binding, 0)
        axis = int(binding.node.attrs["axis"]) % len(shape)
        parts: list[str] = []
        for index, part in enumerate(binding.out_shapes):
            parts += [f"{{out{index}}}", str(elements(part[axis:]))]
        source = "minun::in_flash({in0})" if in_flash(binding, 0) else "{in0}"
        return Call(
            header="minun/concat.h",
            function=f"minun::split<{code_type(same_format(binding))}>",
            args=(source, str(elements(shape[:axis])), str(elements(shape[axis:])), *parts),
            variant="rows",
        )


OPERATOR = Split()
