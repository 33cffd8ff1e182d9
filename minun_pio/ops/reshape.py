# SPDX-License-Identifier: Apache-2.0
"""reshape: the same codes in the same order under another shape (flatten, squeeze, unsqueeze, identity)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.ops.calling import code_type, in_flash, input_shape, same_format, where
from minun_pio.ops.movement import Movement
from minun_pio.ops.operator import Binding, Call, Traits, View
from minun_pio.ops.shapes import elements, refuse, required


class Reshape(Movement):
    name = "reshape"

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        target = tuple(int(extent) for extent in node.attrs["shape"])
        if elements(target) != elements(shape) or any(extent < 0 for extent in target):
            raise refuse(node, f"{shape} has {elements(shape)} elements and cannot become {target}")
        return [target]

    def move(self, node: Node, inputs: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        (x,) = inputs
        assert x is not None
        return [x.reshape(x.shape[:1] + tuple(node.attrs["shape"]))]

    def traits(self, binding: Binding) -> Traits:
        if in_flash(binding, 0):
            return Traits()
        return Traits(in_place=((0, 0),), views=(View(0, 0, 0),))

    def emit(self, binding: Binding) -> Call:
        return Call(
            header="minun/memory.h",
            function=f"minun::copy_run<{code_type(same_format(binding))}, {where(binding, 0)}>",
            args=("{in0}", "{out0}", str(elements(input_shape(binding, 0)))),
            variant="copy",
        )


OPERATOR = Reshape()
