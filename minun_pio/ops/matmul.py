# SPDX-License-Identifier: Apache-2.0
"""matmul: a (..., M, K) @ b (..., K, N), leading axes broadcast; attributes transpose_a, transpose_b.

Either operand may be constant. Exact sum, one rounding; float formats sum in order; int8 and int16 as
TensorFlow Lite's BATCH_MATMUL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import exact, tflite
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.affine_calls import affine
from minun_pio.ops.calling import input_format, where
from minun_pio.ops.operator import Binding, Call, Floats, Traits
from minun_pio.ops.shapes import aligned, broadcast, refuse, required, strides_of


class Matmul:
    name = "matmul"
    policy = "free"
    families = frozenset({"posit", "fixed", "affine", "float"})

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        return [_plan(node, required(node, shapes, 0), required(node, shapes, 1)).out_shape]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        a, b = _oriented(node, inputs)
        return [a @ b]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        a, b = _oriented(node, inputs)
        first, second = formats[0], formats[1]
        assert first is not None
        assert second is not None
        return [exact.dot_batched(a, first, b, second, out_formats[0])]

    def traits(self, binding: Binding) -> Traits:
        return Traits()

    def emit(self, binding: Binding) -> Call:
        shapes = [shape for shape in binding.shapes[:2] if shape is not None]
        plan = _plan(binding.node, shapes[0], shapes[1])
        a, b, out = input_format(binding, 0), input_format(binding, 1), binding.out_formats[0]
        suffix = "_float" if a.family == "float" else ""
        types = f"{out.cpp}, {a.cpp}, {b.cpp}, {where(binding, 0)}, {where(binding, 1)}"
        if isinstance(out, Affine):
            left, right = affine(a, binding), affine(b, binding)
            (real,) = tflite.output_factors(left, right, out, tflite.Product.MATMUL)
            factor = tflite.quantise_multiplier(real)
            zeros = (left.zero_point, right.zero_point, out.zero_point)
            numbers = (str(number) for number in (*zeros, factor.fixed, factor.shift))
            total = "int64_t" if left.width == 16 else "int32_t"
            return Call(
                header="minun/matmul.h",
                function=f"minun::matmul_quantised<{types}, {total}>",
                args=("{in0}", "{in1}", "{out0}", plan.cpp, *numbers),
                variant="quantised",
            )
        return Call(
            header="minun/matmul.h",
            function=f"minun::matmul{suffix}<{types}>",
            args=("{in0}", "{in1}", "{out0}", plan.cpp),
            variant="float32" if suffix else "exact",
        )


@dataclass(frozen=True)
class _Plan:
    out_shape: Shape
    numbers: tuple[int, ...]

    @property
    def cpp(self) -> str:
        return f"minun::MatmulShape{{{', '.join(str(number) for number in self.numbers)}}}"


def _plan(node: Node, a: Shape, b: Shape) -> _Plan:
    """The output's shape and the kernel's extents and strides: leading axes folded into two."""
    if len(a) < 2 or len(b) < 2:
        raise refuse(node, f"operands {a} and {b}; each needs at least two axes, reshape first")
    transpose_a, transpose_b = bool(node.attrs.get("transpose_a")), bool(node.attrs.get("transpose_b"))
    rows, depth = (a[-1], a[-2]) if transpose_a else (a[-2], a[-1])
    depth_b, columns = (b[-1], b[-2]) if transpose_b else (b[-2], b[-1])
    if depth != depth_b:
        raise refuse(node, f"operands {a} and {b}: {depth} columns meet {depth_b} rows")
    lead = broadcast(node, a[:-2], b[:-2])
    axes = _folded(lead, _lead_strides(a, len(lead)), _lead_strides(b, len(lead)))
    if len(axes) > 2:
        raise refuse(node, f"operands {a} and {b} broadcast along over two axes; expand one first")
    while len(axes) < 2:
        axes.insert(0, (1, 0, 0))
    (outer, a_outer, b_outer), (inner, a_inner, b_inner) = axes
    a_row, a_depth = (1, a[-1]) if transpose_a else (a[-1], 1)
    b_depth, b_column = (1, b[-1]) if transpose_b else (b[-1], 1)
    numbers = (outer, inner, rows, columns, depth, a_outer, a_inner, a_row, a_depth)
    return _Plan((*lead, rows, columns), (*numbers, b_outer, b_inner, b_column, b_depth))


def _lead_strides(shape: Shape, rank: int) -> list[int]:
    """Strides of the leading axes, 0 where broadcast, right-aligned to `rank`."""
    strides = strides_of(shape)[:-2]
    own = [0 if extent == 1 else stride for extent, stride in zip(shape[:-2], strides, strict=True)]
    return [0] * (rank - len(own)) + own


def _folded(lead: Shape, a: list[int], b: list[int]) -> list[tuple[int, int, int]]:
    """Leading axes (extent, stride of a, stride of b), neighbours merged where one stride serves both."""
    axes: list[tuple[int, int, int]] = []
    for extent, step_a, step_b in zip(lead, a, b, strict=True):
        if extent == 1:
            continue
        if axes and axes[-1][1:] == (step_a * extent, step_b * extent):
            axes[-1] = (axes[-1][0] * extent, step_a, step_b)
        else:
            axes.append((extent, step_a, step_b))
    return axes


def _oriented(node: Node, inputs: Sequence[NDArray[Any] | None]) -> tuple[NDArray[Any], NDArray[Any]]:
    a, b = inputs[0], inputs[1]
    assert a is not None
    assert b is not None
    rank = max(a.ndim, b.ndim) - 1
    a, b = aligned(a, rank), aligned(b, rank)
    if node.attrs.get("transpose_a"):
        a = np.swapaxes(a, -1, -2)
    if node.attrs.get("transpose_b"):
        b = np.swapaxes(b, -1, -2)
    return a, b


OPERATOR = Matmul()
