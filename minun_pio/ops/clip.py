# SPDX-License-Identifier: Apache-2.0
"""relu, clip: values brought between `lo` and `hi` (None: no bound), on the codes of one format.

NaR and NaN stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.bounds import clamp, code_bounds
from minun_pio.ops.calling import elementwise_traits, input_shape, same_format, where
from minun_pio.ops.literals import code_literal
from minun_pio.ops.operator import Binding, Call, Floats, Traits
from minun_pio.ops.shapes import elements, refuse, required

Bounds = tuple[float | None, float | None]


class Clip:
    name = "clip"
    policy = "same"
    families = frozenset({"posit", "fixed", "affine", "float"})

    def bounds(self, node: Node) -> Bounds:
        lo, hi = node.attrs.get("lo"), node.attrs.get("hi")
        return (None if lo is None else float(lo), None if hi is None else float(hi))

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        lo, hi = self.bounds(node)
        if lo is not None and hi is not None and lo > hi:
            raise refuse(node, f"lower bound {lo} is above upper bound {hi}; swap them", "op.attribute")
        return [required(node, shapes, 0)]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        (x,) = inputs
        assert x is not None
        lo, hi = self.bounds(node)
        return [clamp(x, -np.inf if lo is None else lo, np.inf if hi is None else hi)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        (x,) = inputs
        assert x is not None
        low, high = code_bounds(out_formats[0], self.bounds(node))
        return [clamp(x, low, high, out_formats[0])]

    def traits(self, binding: Binding) -> Traits:
        return elementwise_traits(binding)

    def emit(self, binding: Binding) -> Call:
        fmt = same_format(binding)
        low, high = code_bounds(fmt, self.bounds(binding.node))
        count = str(elements(input_shape(binding, 0)))
        return Call(
            header="minun/clip.h",
            function=f"minun::clip<{fmt.cpp}, {where(binding, 0)}>",
            args=("{in0}", "{out0}", count, code_literal(low, fmt), code_literal(high, fmt)),
        )


class Relu(Clip):
    name = "relu"

    def bounds(self, node: Node) -> Bounds:
        return (0.0, None)


OPERATORS = (Relu(), Clip())
