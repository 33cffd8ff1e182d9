# SPDX-License-Identifier: Apache-2.0
"""convert: the same values in another format of any family, rounded once (quantise and dequantise too).

Attribute `single`: between affine formats the quotient of the scales is a float32, as TensorFlow Lite's RELU
has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.ir import Node, Shape
from minun_pio.numerics import exact, tflite
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.calling import elementwise_traits, input_format, input_shape, where
from minun_pio.ops.literals import float_literal
from minun_pio.ops.operator import Binding, Call, Floats, Traits
from minun_pio.ops.shapes import elements, required


class Convert:
    name = "convert"
    policy = "convert"
    families = frozenset({"posit", "fixed", "affine", "float"})

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        return [required(node, shapes, 0)]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        assert inputs[0] is not None
        return [inputs[0]]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        x, fmt = inputs[0], formats[0]
        assert x is not None
        assert fmt is not None
        return [exact.convert(x, fmt, out_formats[0], single=bool(node.attrs.get("single")))]

    def traits(self, binding: Binding) -> Traits:
        return elementwise_traits(binding, reverse=True)

    def emit(self, binding: Binding) -> Call:
        fmt, out = input_format(binding, 0), binding.out_formats[0]
        place = where(binding, 0)
        count = str(elements(input_shape(binding, 0)))
        types = f"{out.cpp}, {fmt.cpp}, {place}"
        header = "minun/convert.h"
        numbers: tuple[str, ...] = ()
        if isinstance(fmt, Affine) and isinstance(out, Affine):
            header = "minun/affine_binary.h"
            factor = tflite.rescale_constant(fmt, out, bool(binding.node.attrs.get("single")))
            kernel = "affine_rescale"
            types = f"{fmt.cpp}, {out.cpp}, {place}"
            zeros = (fmt.zero_point, out.zero_point)
            numbers = tuple(str(number) for number in (*zeros, factor.fixed, factor.shift))
        elif isinstance(out, Affine):
            kernel = "quantise" if fmt.family == "float" else "convert_to_affine"
            numbers = (*_scale(binding, out, fmt), str(out.zero_point))
        elif isinstance(fmt, Affine):
            kernel = "dequantise" if out.family == "float" else "convert_from_affine"
            numbers = (*_scale(binding, fmt, out), str(fmt.zero_point))
        else:
            kernel = "convert"
        return Call(
            header=header,
            function=f"minun::{kernel}<{types}, {{reverse}}>",
            args=("{in0}", "{out0}", count, *numbers),
            variant=kernel,
        )


def _scale(binding: Binding, affine: Affine, other: Format) -> tuple[str, ...]:
    """The scale as the kernel takes it: a float32, or a 24-bit integer and an exponent."""
    if float(np.float32(affine.scale)) != affine.scale:
        raise MinunError(
            "op.format",
            f"{affine.name} has a scale that is no float32; round it to one",
            f"node '{binding.node.name}' (convert)",
        )
    if other.family == "float":
        return (float_literal(affine.scale),)
    fraction, exponent = math.frexp(affine.scale)
    return str(int(fraction * 2**24)), str(exponent - 24)


OPERATOR = Convert()
