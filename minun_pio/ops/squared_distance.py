# SPDX-License-Identifier: Apache-2.0
"""squared_distance: x (1, d), b constant (m, d) -> (1, m): the exact sum of (x - b)^2, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import exact
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.calling import activation, input_format, input_shape
from minun_pio.ops.distance_kernels import choose
from minun_pio.ops.operator import Binding, Call, Floats, Traits
from minun_pio.ops.shapes import constant, refuse, required


class SquaredDistance:
    name = "squared_distance"
    policy = "free"
    families = frozenset({"posit", "fixed", "float"})

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        x, b = required(node, shapes, 0), required(node, shapes, 1)
        constant(node, constants, 1, "the prototypes")
        if len(x) != 2 or len(b) != 2 or x[0] != 1 or x[1] != b[1]:
            raise refuse(node, f"x {x} and prototypes {b}; expected (1, d) and (m, d)")
        return [(1, b[0])]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        x, b = inputs
        assert x is not None
        assert b is not None
        return [((x[:, :, None, :] - b[:, None, :, :]) ** 2).sum(axis=-1)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        x, b = inputs
        fx, fb = formats
        assert x is not None
        assert b is not None
        assert fx is not None
        assert fb is not None
        return [exact.squared_distance(x, fx, b[0], fb, out_formats[0])]

    def traits(self, binding: Binding) -> Traits:
        chosen = choose(binding)
        return Traits() if chosen is None else Traits(chosen.scratch_bytes, chosen.bits // 8)

    def emit(self, binding: Binding) -> Call:
        activation(binding, 0)
        chosen = choose(binding)
        if chosen is not None:
            return chosen.call()
        rows, length = input_shape(binding, 1)
        types = (
            f"{binding.out_formats[0].cpp}, {input_format(binding, 0).cpp}, {input_format(binding, 1).cpp}"
        )
        return Call(
            header="minun/squared_distance.h",
            function=f"minun::squared_distance<{types}>",
            args=("{in0}", "{in1}", "{out0}", str(rows), str(length)),
        )


OPERATOR = SquaredDistance()
