# SPDX-License-Identifier: Apache-2.0
"""max_pool, average_pool over (1, H, W, C).

Attributes: kernel, strides, pads (top, left, bottom, right), dilations, ceil_mode, and for the average
count_include_pad and clip. Padding never wins a maximum. An average is the exact sum over the elements
present, divided by their number (count_include_pad: the padding counts, as zeros), rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import tflite
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.elementwise import mean_rows
from minun_pio.numerics.format import Codes, Format, element_bytes
from minun_pio.ops.affine_calls import affine
from minun_pio.ops.bounds import code_bounds, fused_bounds, fused_clamp, fused_reference, ordered
from minun_pio.ops.calling import activation, input_format, input_shape, same_format
from minun_pio.ops.literals import code_literal
from minun_pio.ops.operator import Binding, Call, Floats, Overlap, Traits
from minun_pio.ops.shapes import refuse, required
from minun_pio.ops.windows import window_of
from minun_pio.planner import raster


class Pool:
    name = ""
    families = frozenset({"posit", "fixed", "affine", "float"})

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        return [window_of(node, required(node, shapes, 0)).out_shape]

    def traits(self, binding: Binding) -> Traits:
        """A channel's window is read before its output is written; then comes the next channel."""
        widths = element_bytes(input_format(binding, 0)), element_bytes(binding.out_formats[0])
        window = window_of(binding.node, input_shape(binding, 0))
        return Traits(overlaps=(Overlap(0, 0, *raster.window_distances(window.raster(*widths))),))


class MaxPool(Pool):
    name = "max_pool"
    policy = "same"

    def _largest(self, node: Node, x: NDArray[Any], empty: Any, fmt: Format | None) -> NDArray[Any]:
        patches, present = window_of(node, x.shape[1:]).patches(x)
        best = np.broadcast_to(np.asarray(empty, x.dtype), patches.shape[:-1])
        found = np.zeros(present.shape[:-1], np.bool_)
        for k in range(patches.shape[-1]):
            candidate, here = patches[..., k], present[..., k]
            wins = ordered(best, fmt) < ordered(candidate, fmt)
            take = here[None, None, :, :, None] & (wins | ~found[None, None, :, :, None])
            best = np.where(take, candidate, best)
            found |= here
        return np.ascontiguousarray(best)

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        assert inputs[0] is not None
        return [self._largest(node, inputs[0], -np.inf, None)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        assert inputs[0] is not None
        low, _ = code_bounds(out_formats[0], None)
        return [self._largest(node, inputs[0], low, out_formats[0])]

    def emit(self, binding: Binding) -> Call:
        activation(binding, 0)
        fmt = same_format(binding)
        low, _ = code_bounds(fmt, None)
        window = window_of(binding.node, input_shape(binding, 0))
        return Call(
            header="minun/pool.h",
            function=f"minun::max_pool<{fmt.cpp}, {{reverse}}>",
            args=("{in0}", "{out0}", window.call, code_literal(low, fmt)),
        )


class AveragePool(Pool):
    name = "average_pool"
    policy = "free"

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        window = window_of(node, required(node, shapes, 0))
        if int(window.divisors().min()) == 0:
            raise refuse(node, "a window covers nothing but padding; its average has no value")
        return [window.out_shape]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        assert inputs[0] is not None
        window = window_of(node, inputs[0].shape[1:])
        patches, present = window.patches(inputs[0])
        total = np.where(present[None, None, :, :, None, :], patches, 0.0).sum(axis=-1)
        return [fused_reference(total / window.divisors()[None, None, :, :, None], node.attrs)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        x, fmt, out = inputs[0], formats[0], out_formats[0]
        assert x is not None
        assert fmt is not None
        window = window_of(node, x.shape[1:])
        patches, present = window.patches(x)
        mask = present[None, None, :, :, None, :]
        counts = np.broadcast_to(window.divisors()[None, None, :, :, None], patches.shape[:-1])
        if isinstance(fmt, Affine) and isinstance(out, Affine):
            _one_scale(node, fmt, out)
            total = np.where(mask, patches, 0).astype(np.int64).sum(axis=-1)
            codes = tflite.average(total, counts, out)
        else:
            zero = np.zeros((), patches.dtype)
            codes = mean_rows(np.where(mask, patches, zero), fmt, out, counts)
        return [fused_clamp(codes, out, node.attrs)]

    def emit(self, binding: Binding) -> Call:
        activation(binding, 0)
        fmt, out = input_format(binding, 0), binding.out_formats[0]
        if isinstance(out, Affine):
            _one_scale(binding.node, affine(fmt, binding), out)
        bounds = code_bounds(out, fused_bounds(binding.node.attrs))
        window = window_of(binding.node, input_shape(binding, 0))
        return Call(
            header="minun/pool.h",
            function=f"minun::average_pool<{out.cpp}, {fmt.cpp}, {{reverse}}>",
            args=("{in0}", "{out0}", window.call, *(code_literal(bound, out) for bound in bounds)),
        )


def _one_scale(node: Node, fmt: Affine, out: Affine) -> None:
    if fmt.scales != out.scales or fmt.zero_point != out.zero_point:
        raise refuse(
            node, f"{fmt.name} in and {out.name} out; an affine average keeps its scale", "op.format"
        )
    if bool(node.attrs.get("count_include_pad", False)) and fmt.zero_point != 0:
        raise refuse(
            node,
            f"padding that counts in an affine average needs zero point 0, its input has {fmt.zero_point}; "
            "take another 'formats.family' or leave count_include_pad out",
            "op.format",
        )


OPERATORS = (MaxPool(), AveragePool())
