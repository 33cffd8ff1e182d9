# SPDX-License-Identifier: Apache-2.0
"""add, sub, mul, div, squared_difference, prelu, maximum, minimum with numpy's broadcasting; either input may
be constant.

All but the last two give the exact result rounded once into any format of the inputs' family (attribute
`clip`: then clamped; `general_scales` of sub: see `tflite.add_constants`); division by zero gives NaR, in
fixed-point and int8 the outermost code of the dividend's sign. prelu is x, and x * slope where x is negative.
maximum and minimum pick codes of one format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import exact
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.affine_calls import binary_call
from minun_pio.ops.bounds import code_bounds, fused_bounds, fused_clamp, fused_reference, ordered
from minun_pio.ops.calling import (
    elementwise_traits,
    input_format,
    input_shape,
    same_format,
    shape_table,
    where,
)
from minun_pio.ops.literals import code_literal
from minun_pio.ops.operator import Binding, Call, Floats, Table, Traits
from minun_pio.ops.shapes import aligned, broadcast, refuse, required, strides_of

Pairs = Sequence[NDArray[Any] | None]
Exact = Callable[..., Codes]


def pair(inputs: Pairs) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both inputs, with axes added so that numpy broadcasts the tensors' and the sample axis alike."""
    a, b = inputs
    assert a is not None
    assert b is not None
    rank = max(a.ndim, b.ndim) - 1
    return aligned(a, rank), aligned(b, rank)


def broadcast_walk(binding: Binding, inputs: int) -> tuple[int, Table]:
    """`(rank, table)`: the output's extents, then each input's steps, over as few axes as possible."""
    out = binding.out_shapes[0]
    steps: list[list[int]] = []
    for index in range(inputs):
        shape = input_shape(binding, index)
        padded = (1,) * (len(out) - len(shape)) + tuple(shape)
        strides = strides_of(padded)
        steps.append([0 if have == 1 else stride for have, stride in zip(padded, strides, strict=True)])
    extents: list[int] = []
    merged: list[list[int]] = [[] for _ in steps]
    for axis, extent in enumerate(out):
        if extent == 1:
            continue
        if extents and all(m[-1] == s[axis] * extent for m, s in zip(merged, steps, strict=True)):
            extents[-1] *= extent
            for m, s in zip(merged, steps, strict=True):
                m[-1] = s[axis]
        else:
            extents.append(extent)
            for m, s in zip(merged, steps, strict=True):
                m.append(s[axis])
    if not extents:
        extents, merged = [1], [[0] for _ in steps]
    if len(extents) > 8:
        raise refuse(binding.node, f"broadcasting over {len(extents)} axes; the kernel takes up to 8")
    table = [*extents, *(step for m in merged for step in m)]
    return len(extents), shape_table(table, "walk")


class Elementwise:
    """What all of them share."""

    name: str
    kernel: str

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        return [broadcast(node, required(node, shapes, 0), required(node, shapes, 1))]

    def traits(self, binding: Binding) -> Traits:
        return elementwise_traits(binding, reverse=not isinstance(binding.out_formats[0], Affine))

    def _call(self, binding: Binding, out: Format, bounds: tuple[Any, Any]) -> Call:
        rank, table = broadcast_walk(binding, 2)
        first, second = input_format(binding, 0), input_format(binding, 1)
        types = f"{out.cpp}, {first.cpp}, {second.cpp}, {where(binding, 0)}, {where(binding, 1)}"
        return Call(
            header="minun/elementwise_binary.h",
            function=f"minun::binary<minun::{self.kernel}, {types}, {{reverse}}>",
            args=(
                "{in0}",
                "{in1}",
                "{out0}",
                str(rank),
                "{table0}",
                code_literal(bounds[0], out),
                code_literal(bounds[1], out),
            ),
            tables=(table,),
        )


@dataclass(frozen=True)
class Arithmetic(Elementwise):
    """The exact result, one rounding."""

    name: str
    kernel: str
    real: Callable[[Any, Any], Any]
    exact: Exact
    families: frozenset[str] = frozenset({"posit", "fixed", "affine", "float"})
    policy: str = "free"

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        a, b = pair(inputs)
        with np.errstate(all="ignore"):
            return [fused_reference(self.real(a, b), node.attrs)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        a, b = pair(inputs)
        fa, fb = formats
        assert fa is not None
        assert fb is not None
        general = {"general": True} if node.attrs.get("general_scales") else {}
        return [fused_clamp(self.exact(a, fa, b, fb, out_formats[0], **general), out_formats[0], node.attrs)]

    def emit(self, binding: Binding) -> Call:
        out = binding.out_formats[0]
        bounds = code_bounds(out, fused_bounds(binding.node.attrs))
        if isinstance(out, Affine):
            rank, table = broadcast_walk(binding, 2)
            return binary_call(self.name, binding, rank, table, bounds)
        return self._call(binding, out, bounds)


@dataclass(frozen=True)
class Pick(Elementwise):
    """The larger or smaller of two codes of one format; where a float NaN is in play, the second."""

    name: str
    kernel: str
    larger: bool
    families: frozenset[str] = frozenset({"posit", "fixed", "affine", "float"})
    policy: str = "same"

    def _pick(self, a: NDArray[Any], b: NDArray[Any], fmt: Format | None) -> NDArray[Any]:
        left, right = ordered(a, fmt), ordered(b, fmt)
        wins = right < left if self.larger else left < right
        result: NDArray[Any] = np.where(wins, a, b)
        return result

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        return [self._pick(*pair(inputs), None)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        return [self._pick(*pair(inputs), out_formats[0])]

    def emit(self, binding: Binding) -> Call:
        fmt = same_format(binding)
        return self._call(binding, fmt, code_bounds(fmt, None))


def _squared(x: Floats, y: Floats) -> Floats:
    return np.square(x - y)


OPERATORS = (
    Arithmetic("add", "Add", np.add, exact.add),
    Arithmetic("sub", "Subtract", np.subtract, exact.sub),
    Arithmetic("mul", "Multiply", np.multiply, exact.mul),
    Arithmetic("div", "Divide", np.divide, exact.div),
    Arithmetic("squared_difference", "SquaredDifference", _squared, exact.squared_difference),
    Arithmetic("prelu", "Prelu", lambda x, slope: np.where(x < 0, x * slope, x), exact.prelu),
    Pick("maximum", "Maximum", larger=True),
    Pick("minimum", "Minimum", larger=False),
)
