# SPDX-License-Identifier: Apache-2.0
"""softmax, log_softmax along `axis`: exp(beta (x - max)) / sum, or its logarithm, in 32-bit integers, rounded
once; int8 and int16 as TensorFlow Lite has them. Attribute beta (1).

Up to 16 bits the result is within one code of the correctly rounded one, and equal to it on 99.9 % of random
inputs (test/python/test_op_accuracy.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import real, tflite_softmax
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Format
from minun_pio.numerics.real_functions import exponential, logarithm
from minun_pio.ops.affine_calls import affine
from minun_pio.ops.bounds import ordered
from minun_pio.ops.calling import activation, input_format, input_shape, lane_traits
from minun_pio.ops.operator import Binding, Call, Floats, Table, Traits
from minun_pio.ops.shapes import axis_of, refuse, required, row_blocks


@dataclass(frozen=True)
class Softmax:
    name: str
    log: bool
    policy: str = "free"
    families: frozenset[str] = frozenset({"posit", "fixed", "affine", "float"})

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
        apart = (x - x.max(axis=axis, keepdims=True)) * _beta(node)
        total = np.exp(apart).sum(axis=axis, keepdims=True)
        return [apart - np.log(total) if self.log else np.exp(apart) / total]

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
            result = self._affine(node, rows, fmt, out)
        else:
            result = self._real(rows, fmt, out, _beta(node))
        return [np.ascontiguousarray(np.moveaxis(result, -1, _sample_axis(node, x)))]

    def _affine(self, node: Node, rows: Codes, fmt: Affine, out: Affine) -> Codes:
        self._check(node, fmt, out)
        if self.log:
            return tflite_softmax.log_softmax_int8(rows, fmt)
        if fmt.width == 16:
            return tflite_softmax.softmax_int16(rows, fmt, _beta(node))
        return tflite_softmax.softmax_int8(rows, fmt, out, _beta(node))

    def _check(self, node: Node, fmt: Affine, out: Affine) -> None:
        """TensorFlow Lite prescribes the output's format."""
        wanted = tflite_softmax.LOG_SHARES if self.log else tflite_softmax.SHARES.get(fmt.width)
        if wanted is None or fmt.width != wanted.width:
            raise refuse(node, f"{self.name} from {fmt.name}; int8 is defined", "op.format")
        if out != wanted:
            raise refuse(node, f"{self.name} gives {out.name}; its output has {wanted.name}", "op.format")
        if self.log and _beta(node) != 1.0:
            raise refuse(
                node, f"beta {_beta(node):g}; for int8 log_softmax only 1 is defined", "op.attribute"
            )

    def _real(self, rows: Codes, fmt: Format, out: Format, beta: float) -> Codes:
        """Over the last axis, step for step as the kernel does it."""
        top = real.to_real(_largest(rows, fmt), fmt)
        factor = real.real_constant(beta)
        total = real.Real(
            np.zeros(rows.shape[:-1], np.uint64),
            np.zeros(rows.shape[:-1], np.int64),
            np.zeros(rows.shape[:-1], bool),
        )
        apart, powers = [], []
        for k in range(rows.shape[-1]):
            difference = real.subtract(real.to_real(rows[..., k], fmt), top)
            apart.append(difference if beta == 1.0 else real.multiply(difference, factor))
            powers.append(exponential(apart[-1]))
            total = real.add(total, powers[-1])
        if self.log:
            log = _cut(logarithm(total))
            shares = [real.subtract(difference, log) for difference in apart]
        else:
            shares = [_cut(real.divide(power, total)) for power in powers]
        return np.stack([real.from_real(share, out) for share in shares], axis=-1)

    def traits(self, binding: Binding) -> Traits:
        return lane_traits(binding)

    def emit(self, binding: Binding) -> Call:
        activation(binding, 0)
        node, out = binding.node, binding.out_formats[0]
        fmt, shape = input_format(binding, 0), input_shape(binding, 0)
        blocks = row_blocks(shape, int(node.attrs.get("axis", -1)) % len(shape))
        args = ("{in0}", "{out0}", *(str(extent) for extent in blocks))
        if isinstance(out, Affine):
            source = affine(fmt, binding)
            self._check(node, source, out)
            return self._affine_call(source, args, _beta(node))
        beta = _beta(node)
        types = f"{out.cpp}, {fmt.cpp}, {str(self.log).lower()}, {str(beta != 1.0).lower()}"
        return Call(
            header="minun/softmax.h",
            function=f"minun::softmax<{types}>",
            args=(*args, real.real_literal(beta)),
        )

    def _affine_call(self, fmt: Affine, args: tuple[str, ...], beta: float) -> Call:
        tables: tuple[Table, ...] = ()
        numbers: tuple[int, ...]
        if self.log:
            found = tflite_softmax.log_softmax_constants(fmt)
            kernel = "log_softmax_int8"
            numbers = (
                found.factor.fixed,
                found.factor.shift,
                found.lowest,
                found.back.fixed,
                found.back.shift,
            )
        elif fmt.width == 16:
            factor = tflite_softmax.softmax16_constant(fmt, beta)
            kernel, numbers = "softmax_int16", (factor.fixed, factor.shift)
            names = ("softmax_powers", "softmax_reciprocals")
            tables = tuple(
                Table("int16_t", table, name, align=2)
                for table, name in zip(tflite_softmax.softmax16_tables(), names, strict=True)
            )
        else:
            constants = tflite_softmax.softmax_constants(fmt, beta)
            kernel = "softmax_int8"
            numbers = (constants.multiplier, constants.left_shift, constants.lowest)
        places = tuple(f"{{table{k}}}" for k in range(len(tables)))
        return Call(
            header="minun/softmax_affine.h",
            function=f"minun::{kernel}",
            args=(*args, *(str(number) for number in numbers), *places),
            tables=tables,
            variant="tflite",
        )


def _beta(node: Node) -> float:
    return float(node.attrs.get("beta", 1.0))


def _cut(x: real.Real) -> real.Real:
    """Without the mark of an inexact result, which the kernel does not carry through."""
    return real.Real(x.significand, x.exponent, x.negative)


def _sample_axis(node: Node, x: NDArray[Any]) -> int:
    return int(node.attrs.get("axis", -1)) % (x.ndim - 1) + 1


def _largest(rows: Codes, fmt: Format) -> Codes:
    """The largest code of each row, as the kernel compares them: a NaN is never larger."""
    order = ordered(rows, fmt)
    best = np.zeros(rows.shape[:-1], np.intp)
    largest = order[..., 0]
    for k in range(1, rows.shape[-1]):
        wins = largest < order[..., k]
        best = np.where(wins, k, best)
        largest = np.where(wins, order[..., k], largest)
    result: Codes = np.take_along_axis(rows, best[..., None], axis=-1)[..., 0]
    return result


OPERATORS = (Softmax("softmax", log=False), Softmax("log_softmax", log=True))
