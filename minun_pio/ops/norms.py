# SPDX-License-Identifier: Apache-2.0
"""layer_norm, l2_norm: rows brought to mean 0 and deviation 1, lanes brought to length 1.

layer_norm x, scale?, bias? (constants over the normalised elements): over all axes from `axis` on, attribute
epsilon (1e-5). l2_norm along `axis`: x / max(length, epsilon), 0 where the length is 0. Both are computed
with 32-bit significands (`minun/real.h`) and rounded once: up to 16 bits within one code of the correctly
rounded result (test/python/test_op_accuracy.py; layer_norm without scale and bias). l2_norm of int8 gives
TensorFlow Lite's bits; epsilon does not count there.
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
from minun_pio.numerics.real import Real
from minun_pio.numerics.tflite_softmax import UNIT_VECTOR, l2_norm_int8
from minun_pio.ops.calling import activation, input_format, input_shape, lane_traits
from minun_pio.ops.operator import Binding, Call, Floats, Traits
from minun_pio.ops.shapes import axis_of, constant, elements, refuse, required, row_blocks

_FAMILIES = frozenset({"posit", "fixed", "float"})


def _zeros(shape: tuple[int, ...]) -> Real:
    return Real(np.zeros(shape, np.uint64), np.zeros(shape, np.int64), np.zeros(shape, np.bool_))


def _cut(x: Real) -> Real:
    """Without the mark of an inexact result, which the kernels do not carry through."""
    return Real(x.significand, x.exponent, x.negative)


def _total(terms: Sequence[Real], shape: tuple[int, ...]) -> Real:
    total = _zeros(shape)
    for term in terms:
        total = real.add(total, term)
    return total


class LayerNorm:
    name = "layer_norm"
    policy = "free"
    families = _FAMILIES

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        axis = axis_of(node, int(node.attrs.get("axis", -1)), len(shape))
        for index, what in ((1, "the scale"), (2, "the bias")):
            given = shapes[index] if index < len(shapes) else None
            if given is None:
                continue
            constant(node, constants, index, what)
            if elements(given) != elements(shape[axis:]):
                raise refuse(node, f"{what} is {given}; expected one value for each of {shape[axis:]}")
        return [shape]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        x = inputs[0]
        assert x is not None
        rows = _rows(node, x)
        centred = rows - rows.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        y = centred / np.sqrt(variance + float(node.attrs.get("epsilon", 1e-5)))
        scale, bias = (inputs[i] if i < len(inputs) else None for i in (1, 2))
        y = y if scale is None else y * scale.reshape(-1)
        y = y if bias is None else y + bias.reshape(-1)
        return [y.reshape(x.shape)]

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
        rows = _rows(node, x)
        length, lead = rows.shape[-1], rows.shape[:-1]
        values = [real.to_real(rows[..., i], fmt) for i in range(length)]
        count = real.real_constant(float(length))
        mean = _cut(real.divide(_total(values, lead), count))
        apart = [real.subtract(value, mean) for value in values]
        spread = _cut(real.divide(_total([real.multiply(a, a) for a in apart], lead), count))
        epsilon = real.real_constant(float(node.attrs.get("epsilon", 1e-5)))
        root = _cut(real.square_root(real.add(spread, epsilon)))
        scale, bias = (_parameter(inputs, formats, i) for i in (1, 2))
        outputs = []
        for i in range(length):
            y = _cut(real.divide(apart[i], root))
            y = y if scale is None else real.multiply(y, scale[i])
            y = y if bias is None else real.add(y, bias[i])
            outputs.append(real.from_real(y, out_formats[0]))
        return [np.stack(outputs, axis=-1).reshape(x.shape)]

    def traits(self, binding: Binding) -> Traits:
        return lane_traits(binding)

    def emit(self, binding: Binding) -> Call:
        activation(binding, 0)
        shape, fmt, out = input_shape(binding, 0), input_format(binding, 0), binding.out_formats[0]
        axis = int(binding.node.attrs.get("axis", -1)) % len(shape)
        types, pointers = [out.cpp, fmt.cpp], ["{in0}"]
        for index in (1, 2):
            given = index < len(binding.shapes) and binding.shapes[index] is not None
            types.append(input_format(binding, index).cpp if given else out.cpp)
            pointers.append(f"{{in{index}}}" if given else "nullptr")
        extents = (str(elements(shape[:axis])), str(elements(shape[axis:])))
        epsilon = real.real_literal(float(binding.node.attrs.get("epsilon", 1e-5)))
        return Call(
            header="minun/norm.h",
            function=f"minun::layer_norm<{', '.join(types)}>",
            args=(*pointers, "{out0}", *extents, epsilon),
        )


def _rows(node: Node, x: NDArray[Any]) -> NDArray[Any]:
    """(samples, rows, normalised elements)."""
    axis = int(node.attrs.get("axis", -1)) % (x.ndim - 1) + 1
    return x.reshape(x.shape[0], elements(x.shape[1:axis]), elements(x.shape[axis:]))


def _parameter(inputs: Sequence[Codes | None], formats: Sequence[Format | None], index: int) -> Real | None:
    codes = inputs[index] if index < len(inputs) else None
    fmt = formats[index] if index < len(formats) else None
    return None if codes is None or fmt is None else real.to_real(codes.reshape(-1), fmt)


class L2Norm:
    name = "l2_norm"
    policy = "free"
    families = _FAMILIES | {"affine"}

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        axis_of(node, int(node.attrs.get("axis", -1)), len(shape))
        return [shape]

    def _axis(self, node: Node, x: NDArray[Any]) -> int:
        return int(node.attrs.get("axis", -1)) % (x.ndim - 1) + 1

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        x = inputs[0]
        assert x is not None
        length = np.sqrt((x**2).sum(axis=self._axis(node, x), keepdims=True))
        below = np.maximum(length, float(node.attrs.get("epsilon", 0.0)))
        return [np.divide(x, below, out=np.zeros_like(x), where=below != 0)]

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
        axis = self._axis(node, x)
        lanes = np.moveaxis(x, axis, -1)
        if isinstance(fmt, Affine):
            _check_int8(node, fmt, out_formats[0])
            return [np.ascontiguousarray(np.moveaxis(l2_norm_int8(lanes, fmt), -1, axis))]
        values = [real.to_real(lanes[..., k], fmt) for k in range(lanes.shape[-1])]
        norm = _cut(real.square_root(_total([real.multiply(v, v) for v in values], lanes.shape[:-1])))
        epsilon = real.real_constant(float(node.attrs.get("epsilon", 0.0)))
        above = real.subtract(epsilon, norm)
        short = (above.significand != 0) & ~above.negative & ~norm.undefined
        norm = real.choose(short, epsilon, norm)
        outputs = []
        for value in values:
            y = real.choose(norm.is_zero, real.ZERO, _cut(real.divide(value, norm)))
            outputs.append(real.from_real(y, out_formats[0]))
        return [np.ascontiguousarray(np.moveaxis(np.stack(outputs, axis=-1), -1, axis))]

    def traits(self, binding: Binding) -> Traits:
        return lane_traits(binding)

    def emit(self, binding: Binding) -> Call:
        activation(binding, 0)
        shape = input_shape(binding, 0)
        blocks = row_blocks(shape, int(binding.node.attrs.get("axis", -1)) % len(shape))
        fmt = input_format(binding, 0)
        if isinstance(fmt, Affine):
            _check_int8(binding.node, fmt, binding.out_formats[0])
            return Call(
                header="minun/norm_affine.h",
                function="minun::l2_norm_int8",
                args=("{in0}", "{out0}", *(str(extent) for extent in blocks), str(fmt.zero_point)),
                variant="tflite",
            )
        epsilon = real.real_literal(float(binding.node.attrs.get("epsilon", 0.0)))
        return Call(
            header="minun/norm.h",
            function=f"minun::l2_norm<{binding.out_formats[0].cpp}, {input_format(binding, 0).cpp}>",
            args=("{in0}", "{out0}", *(str(extent) for extent in blocks), epsilon),
        )


def _check_int8(node: Node, fmt: Affine, out: Format) -> None:
    """TensorFlow Lite prescribes the output's format."""
    if fmt.width != 8 or out != UNIT_VECTOR:
        raise refuse(
            node, f"l2_norm from {fmt.name} to {out.name}; int8 to {UNIT_VECTOR.name} is defined", "op.format"
        )


OPERATORS = (LayerNorm(), L2Norm())
