# SPDX-License-Identifier: Apache-2.0
"""reduce_sum, reduce_mean, reduce_max, reduce_min over `axes` (none given: all), attribute keepdims.

Sum and mean are exact and rounded once; float32 adds in raster order; affine is TensorFlow Lite's arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import exact, tflite
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Format, element_bytes
from minun_pio.ops.affine_calls import affine
from minun_pio.ops.bounds import ordered
from minun_pio.ops.calling import in_flash, input_format, input_shape, same_format, shape_table, where
from minun_pio.ops.movement import Walk, sample_axes
from minun_pio.ops.operator import Binding, Call, Floats, Overlap, Table, Traits
from minun_pio.ops.shapes import axes_of, elements, required, strides_of


class Reduction:
    """What all four share: axes, shapes, the two walks of the kernel."""

    name: str

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        axes = _axes(node, len(shape))
        if _keepdims(node):
            return [tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))]
        return [tuple(extent for axis, extent in enumerate(shape) if axis not in axes)]

    def traits(self, binding: Binding) -> Traits:
        """Output k is written when all that is still to be read lies from element k + 1 on."""
        if in_flash(binding, 0):
            return Traits()
        out_width = element_bytes(binding.out_formats[0])
        ahead = out_width - element_bytes(input_format(binding, 0))
        outputs = elements(binding.out_shapes[0])
        return Traits(overlaps=(Overlap(0, 0, forward_bytes=max(0, (outputs - 1) * ahead)),))


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    return axes_of(node, node.attrs.get("axes"), rank)


def _keepdims(node: Node) -> bool:
    return bool(node.attrs.get("keepdims", True))


def _walks(binding: Binding) -> tuple[tuple[str, ...], tuple[Table, ...], int]:
    """Arguments, tables, and how many elements go into one output."""
    shape = input_shape(binding, 0)
    axes = _axes(binding.node, len(shape))
    strides = strides_of(shape)
    walks = []
    for chosen in ([i for i in range(len(shape)) if i not in axes], axes):
        walk = Walk(tuple(shape[i] for i in chosen), tuple(strides[i] for i in chosen)).merged()
        walks.append(walk)
    kept, reduced = walks
    tables = tuple(shape_table(walk.extents + walk.strides, "reduce") for walk in walks)
    args = (str(len(kept.extents)), "{table0}", str(len(reduced.extents)), "{table1}")
    return args, tables, elements(reduced.extents)


@dataclass(frozen=True)
class SumReduction(Reduction):
    name: str
    mean: bool
    policy: str = "free"
    families: frozenset[str] = frozenset({"posit", "fixed", "affine", "float"})

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        (x,) = inputs
        assert x is not None
        axes = sample_axes(x, _axes(node, x.ndim - 1))
        total = x.sum(axis=axes, keepdims=_keepdims(node))
        return [total / np.prod([x.shape[axis] for axis in axes]) if self.mean else total]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        (x,), (fmt,) = inputs, formats
        assert x is not None
        assert fmt is not None
        axes = sample_axes(x, _axes(node, x.ndim - 1))
        reduce = exact.reduce_mean if self.mean else exact.reduce_sum
        return [reduce(x, fmt, axes, out_formats[0], _keepdims(node))]

    def emit(self, binding: Binding) -> Call:
        args, tables, count = _walks(binding)
        fmt, out = input_format(binding, 0), binding.out_formats[0]
        place = where(binding, 0)
        if isinstance(out, Affine):
            source = affine(fmt, binding)
            if self.mean:
                kernel, factor = "affine_mean", tflite.mean_constant(source, out, count)
                zero = -source.zero_point * count
                numbers = tuple(str(n) for n in (zero, out.zero_point, factor.fixed, factor.shift))
            else:
                kernel, constants = "affine_sum", tflite.sum_constants(source, out, count)
                numbers = (str(out.zero_point), *(_single(value) for value in constants))
            return Call(
                header="minun/affine_reduce.h",
                function=f"minun::{kernel}<{fmt.cpp}, {out.cpp}, {place}>",
                args=("{in0}", "{out0}", *args, *numbers),
                tables=tables,
                variant="tflite",
            )
        return Call(
            header="minun/reduce.h",
            function=f"minun::reduce_sum<{out.cpp}, {fmt.cpp}, {place}>",
            args=("{in0}", "{out0}", *args, str(count if self.mean else 1)),
            tables=tables,
        )


def _single(value: float) -> str:
    """A float32 as `minun::detail::Single`."""
    fraction, exponent = math.frexp(value)
    return f"minun::detail::Single{{{int(fraction * 2**24)}, {exponent - 24 if fraction else 0}}}"


@dataclass(frozen=True)
class ExtremeReduction(Reduction):
    name: str
    largest: bool
    policy: str = "same"
    families: frozenset[str] = frozenset({"posit", "fixed", "affine", "float"})

    def _extreme(self, node: Node, x: NDArray[Any], fmt: Format | None) -> NDArray[Any]:
        rank = x.ndim - 1
        axes = _axes(node, rank)
        kept = [axis for axis in range(rank) if axis not in axes]
        order = (0, *(axis + 1 for axis in (*kept, *axes)))
        rows = x.transpose(order).reshape(x.shape[0], *(x.shape[axis + 1] for axis in kept), -1)
        best: NDArray[Any] = rows[..., 0]
        for k in range(1, rows.shape[-1]):
            left, right = ordered(best, fmt), ordered(rows[..., k], fmt)
            best = np.where(left < right if self.largest else right < left, rows[..., k], best)
        if _keepdims(node):
            shape = tuple(1 if axis in axes else x.shape[axis + 1] for axis in range(rank))
            best = best.reshape(x.shape[0], *shape)
        return np.ascontiguousarray(best)

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        assert inputs[0] is not None
        return [self._extreme(node, inputs[0], None)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        assert inputs[0] is not None
        return [self._extreme(node, inputs[0], out_formats[0])]

    def emit(self, binding: Binding) -> Call:
        args, tables, _ = _walks(binding)
        fmt = same_format(binding)
        largest = "true" if self.largest else "false"
        return Call(
            header="minun/reduce.h",
            function=f"minun::reduce_extreme<{fmt.cpp}, {largest}, {where(binding, 0)}>",
            args=("{in0}", "{out0}", *args),
            tables=tables,
        )


OPERATORS = (
    SumReduction("reduce_sum", mean=False),
    SumReduction("reduce_mean", mean=True),
    ExtremeReduction("reduce_max", largest=True),
    ExtremeReduction("reduce_min", largest=False),
)
