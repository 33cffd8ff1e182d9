# SPDX-License-Identifier: Apache-2.0
"""scale_shift: x (..., C) * scale (C) + shift (C), rounded once (a batch normalisation); attribute clip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import exact
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.bounds import code_bounds, fused_bounds, fused_clamp, fused_reference
from minun_pio.ops.calling import activation, elementwise_traits, input_format, input_shape
from minun_pio.ops.literals import code_literal
from minun_pio.ops.operator import Binding, Call, Floats, Traits
from minun_pio.ops.shapes import constant, elements, refuse, required


class ScaleShift:
    name = "scale_shift"
    policy = "free"
    families = frozenset({"posit", "fixed", "float"})

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        for index, what in ((1, "the scale"), (2, "the shift")):
            constant(node, constants, index, what)
            if not shape or elements(required(node, shapes, index)) != shape[-1]:
                raise refuse(node, f"{what} is {shapes[index]}; expected one value per channel of {shape}")
        return [shape]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        x, scale, shift = inputs
        assert x is not None
        assert scale is not None
        assert shift is not None
        return [fused_reference(x * scale.ravel() + shift.ravel(), node.attrs)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        x, scale, shift = inputs
        fx, fs, ft = formats
        assert x is not None
        assert scale is not None
        assert shift is not None
        assert fx is not None
        assert fs is not None
        assert ft is not None
        codes = exact.multiply_add(x, fx, scale.ravel(), fs, shift.ravel(), ft, out_formats[0])
        return [fused_clamp(codes, out_formats[0], node.attrs)]

    def traits(self, binding: Binding) -> Traits:
        return elementwise_traits(binding, reverse=True)

    def emit(self, binding: Binding) -> Call:
        activation(binding, 0)
        shape = input_shape(binding, 0)
        out = binding.out_formats[0]
        bounds = code_bounds(out, fused_bounds(binding.node.attrs))
        types = ", ".join([out.cpp, *(input_format(binding, index).cpp for index in range(3))])
        extents = (str(elements(shape[:-1])), str(shape[-1]))
        return Call(
            header="minun/scale_shift.h",
            function=f"minun::scale_shift<{types}, {{reverse}}>",
            args=(
                "{in0}",
                "{in1}",
                "{in2}",
                "{out0}",
                *extents,
                *(code_literal(code, out) for code in bounds),
            ),
        )


OPERATOR = ScaleShift()
