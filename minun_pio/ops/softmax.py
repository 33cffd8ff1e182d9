# SPDX-License-Identifier: Apache-2.0
"""softmax along `axis`: exp(x - max) / sum, in 32-bit integers, rounded once; int8 as TensorFlow Lite has it.

Up to 16 bits the result is within one code of the correctly rounded one, and equal to it on 99.9 % of random
inputs (test/python/test_op_accuracy.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import real
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Format
from minun_pio.numerics.real_functions import exponential
from minun_pio.ops.affine_calls import affine
from minun_pio.ops.bounds import ordered
from minun_pio.ops.calling import activation, input_format, input_shape, lane_traits
from minun_pio.ops.operator import Binding, Call, Floats, Traits
from minun_pio.ops.shapes import axis_of, refuse, required, row_blocks
from minun_pio.ops.softmax_affine import softmax_constants, softmax_int8


class Softmax:
    name = "softmax"
    policy = "free"
    families = frozenset({"posit", "fixed", "affine", "float"})

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        axis_of(node, int(node.attrs.get("axis", -1)), len(shape))
        return [shape]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        x = inputs[0]
        assert x is not None
        axis = _sample_axis(node, x)
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        return [powers / powers.sum(axis=axis, keepdims=True)]

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
        rows = np.moveaxis(x, _sample_axis(node, x), -1)
        if isinstance(fmt, Affine) and isinstance(out, Affine):
            _int8_only(node, fmt, out)
            result = softmax_int8(rows, fmt, out, float(node.attrs.get("beta", 1.0)))
        else:
            result = _softmax(rows, fmt, out)
        return [np.ascontiguousarray(np.moveaxis(result, -1, _sample_axis(node, x)))]

    def traits(self, binding: Binding) -> Traits:
        return lane_traits(binding)

    def emit(self, binding: Binding) -> Call:
        activation(binding, 0)
        fmt, out = input_format(binding, 0), binding.out_formats[0]
        shape = input_shape(binding, 0)
        blocks = row_blocks(shape, int(binding.node.attrs.get("axis", -1)) % len(shape))
        args = ("{in0}", "{out0}", *(str(extent) for extent in blocks))
        if isinstance(out, Affine):
            source = affine(fmt, binding)
            _int8_only(binding.node, source, out)
            constants = softmax_constants(source, float(binding.node.attrs.get("beta", 1.0)))
            numbers = (constants.multiplier, constants.left_shift, constants.lowest)
            return Call(
                header="minun/softmax_affine.h",
                function=f"minun::softmax_affine<{out.cpp}, {fmt.cpp}>",
                args=(*args, *(str(number) for number in numbers)),
                variant="tflite",
            )
        return Call(header="minun/softmax.h", function=f"minun::softmax<{out.cpp}, {fmt.cpp}>", args=args)


def _sample_axis(node: Node, x: NDArray[Any]) -> int:
    return int(node.attrs.get("axis", -1)) % (x.ndim - 1) + 1


def _int8_only(node: Node, fmt: Affine, out: Affine) -> None:
    if fmt.width != 8 or out.width != 8:
        raise refuse(node, f"softmax from {fmt.name} to {out.name}; int8 both ways is defined", "op.format")
    if out.zero_point != -128 or out.scale != 1.0 / 256:
        raise refuse(
            node, f"softmax gives {out.name}; its output has scale 1/256 and zero point -128", "op.format"
        )


def _softmax(rows: Codes, fmt: Format, out: Format) -> Codes:
    """Over the last axis, step for step as the kernel does it."""
    order = ordered(rows, fmt)
    best = np.zeros(rows.shape[:-1], np.intp)
    largest = order[..., 0]
    for k in range(1, rows.shape[-1]):
        wins = largest < order[..., k]
        best = np.where(wins, k, best)
        largest = np.where(wins, order[..., k], largest)
    top = real.to_real(np.take_along_axis(rows, best[..., None], axis=-1)[..., 0], fmt)
    powers = [exponential(real.subtract(real.to_real(rows[..., k], fmt), top)) for k in range(rows.shape[-1])]
    total = real.Real(
        np.zeros(best.shape, np.uint64), np.zeros(best.shape, np.int64), np.zeros(best.shape, bool)
    )
    for power in powers:
        total = real.add(total, power)
    shares = []
    for power in powers:
        share = real.divide(power, total)
        shares.append(real.from_real(real.Real(share.significand, share.exponent, share.negative), out))
    return np.stack(shares, axis=-1)


OPERATOR = Softmax()
