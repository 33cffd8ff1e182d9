# SPDX-License-Identifier: Apache-2.0
"""dense: y = x @ w.T + b, x (..., in), w constant (out, in), b constant (out). Fused clip: attr `clip`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import exact
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Format, element_bytes
from minun_pio.numerics.tflite import Product
from minun_pio.ops.dense_kernels import choose, plain_weights, row_major
from minun_pio.ops.linear import (
    FAMILIES,
    affine_formats,
    clip_argument,
    clip_codes,
    clip_values,
    encoded,
    float_clip_arguments,
    folded_bias,
    optional,
    present,
    requantise_argument,
    requantise_tables,
    unpacked_bytes,
)
from minun_pio.ops.operator import Binding, Call, Floats, Overlap, Traits
from minun_pio.ops.shapes import constant, elements, refuse, required
from minun_pio.planner import raster


class Dense:
    name = "dense"
    policy = "free"
    families = FAMILIES

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape, weights = required(node, shapes, 0), required(node, shapes, 1)
        constant(node, constants, 1, "the weights")
        if len(weights) != 2 or not shape or shape[-1] != weights[1]:
            raise refuse(node, f"input {shape} and weights {weights}; expected (..., in) and (out, in)")
        bias = optional(shapes, 2)
        if bias is not None:
            constant(node, constants, 2, "the bias")
            if elements(bias) != weights[0]:
                raise refuse(node, f"bias {bias} for {weights[0]} outputs; expected ({weights[0]},)")
        return [(*shape[:-1], weights[0])]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        x, w, bias = inputs[0], inputs[1], optional(inputs, 2)
        assert x is not None
        assert w is not None
        values = x @ w[0].T
        if bias is not None:
            values = values + bias[0].ravel()
        return [clip_values(node, values)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        x, w, bias = inputs[0], inputs[1], optional(inputs, 2)
        assert x is not None
        assert w is not None
        codes = exact.dot(
            x,
            present(formats, 0, node),
            w[0],
            present(formats, 1, node),
            None if bias is None else bias[0].ravel(),
            optional(formats, 2),
            out_formats[0],
        )
        return [clip_codes(node, codes, out_formats[0])]

    def traits(self, binding: Binding) -> Traits:
        """A row of x is in scratch before its outputs are written, unless codes are used as they are."""
        rows, inputs, outputs = _extents(binding)
        fmt = present(binding.formats, 0, binding.node)
        scratch, gathered = 0, False
        if fmt.family in ("posit", "fixed"):
            chosen = choose(binding)
            scratch = inputs * unpacked_bytes(fmt) if chosen is None else chosen.scratch_bytes
            gathered = scratch > 0 and (chosen is None or chosen.gathered)
        distances = raster.dense_distances(
            rows,
            inputs,
            outputs,
            element_bytes(fmt),
            element_bytes(binding.out_formats[0]),
            gathered=gathered,
        )
        return Traits(
            scratch_bytes=scratch,
            scratch_align=(8 if binding.small_scratch else 4) if scratch else 1,
            in_place=((0, 0),) if gathered and rows == 1 else (),
            overlaps=(Overlap(0, 0, forward_bytes=distances.forward),),
        )

    def emit(self, binding: Binding) -> Call:
        node = binding.node
        rows, inputs, outputs = _extents(binding)
        x, w = present(binding.formats, 0, node), present(binding.formats, 1, node)
        out = binding.out_formats[0]
        extents = (str(rows), str(inputs), str(outputs))
        if x.family == "affine":
            return _emit_quantised(binding, extents)
        has_bias = optional(binding.constants, 2) is not None
        bias_format = present(binding.formats, 2, node) if has_bias else out
        bias = "{in2}" if has_bias else "nullptr"
        types = f"{out.cpp}, {x.cpp}, {w.cpp}, {bias_format.cpp}"
        if x.family == "float":
            return Call(
                header="minun/dense.h",
                function=f"minun::dense_float<{types}>",
                args=("{in0}", "{in1}", bias, "{out0}", *extents, *float_clip_arguments(node)),
                variant="float32",
            )
        chosen = choose(binding)
        if chosen is not None:
            return chosen.call()
        return Call(
            header="minun/dense.h",
            function=f"minun::dense<{types}, minun::RowMajor>",
            args=("{in0}", "{in1}", bias, "{out0}", "{scratch}", *extents, clip_argument(node, out)),
            variant="exact",
        )


def _extents(binding: Binding) -> tuple[int, int, int]:
    """Rows, inputs, outputs."""
    out_shape, shape = binding.out_shapes[0], binding.shapes[0]
    assert shape is not None
    return elements(out_shape[:-1]), shape[-1], out_shape[-1]


def _emit_quantised(binding: Binding, extents: tuple[str, str, str]) -> Call:
    x, w, out = affine_formats(binding)
    weights = encoded(np.asarray(binding.constants[1]), w)
    bias = optional(binding.constants, 2)
    bias_codes = None
    if bias is not None:
        bias_format = present(binding.formats, 2, binding.node)
        assert isinstance(bias_format, Affine)
        bias_codes = encoded(np.asarray(bias).ravel(), bias_format)
    factors = requantise_tables(x, w, out, Product.DENSE)
    total = "int64_t" if x.width == 16 else "int32_t"
    if x.width == 8 and w.width == 8:
        method, ordered = plain_weights(binding.core, weights, x.storage, 32)
        header, function = "minun/dense_fast.h", f"minun::dense_quantised8<{out.cpp}, {method}>"
        if binding.core == "avr":
            ordered = row_major(weights)
            header, function = "minun/dense_avr.h", f"minun::dense_avr_quantised8<{out.cpp}>"
        return Call(
            header=header,
            function=function,
            args=(
                *("{in0}", "{in1}", "{table0}", "{out0}", *extents),
                requantise_argument(binding.node, out, factors, 1),
            ),
            tables=(folded_bias(x, weights, bias_codes, x.width == 16), *factors),
            constant_codes={1: ordered},
            variant="quantised",
        )
    return Call(
        header="minun/quantised.h",
        function=f"minun::dense_quantised<{out.cpp}, {x.cpp}, {w.cpp}, {total}>",
        args=(
            "{in0}",
            "{in1}",
            "{table0}",
            "{out0}",
            *extents,
            requantise_argument(binding.node, out, factors, 1),
        ),
        tables=(folded_bias(x, weights, bias_codes, x.width == 16), *factors),
        variant="quantised",
    )


OPERATOR = Dense()
