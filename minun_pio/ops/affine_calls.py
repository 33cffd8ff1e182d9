# SPDX-License-Identifier: Apache-2.0
"""Calls of the kernels with TensorFlow Lite's arithmetic: their multipliers, shifts and zero points."""

from __future__ import annotations

from typing import Any

from minun_pio.errors import MinunError
from minun_pio.numerics import functions, tflite, tflite_functions
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Format
from minun_pio.ops.calling import input_format, input_shape, where
from minun_pio.ops.literals import code_literal, float_literal
from minun_pio.ops.operator import Binding, Call, Table
from minun_pio.ops.shapes import elements


def affine(fmt: Format | None, binding: Binding) -> Affine:
    """`fmt`, which must be affine because the operator's output is."""
    if isinstance(fmt, Affine):
        return fmt
    found = "nothing" if fmt is None else fmt.name
    raise MinunError(
        "format.family",
        f"{found} found among affine tensors; put a convert node between",
        f"node '{binding.node.name}' ({binding.node.op})",
    )


_BINARY = {
    "mul": "affine_multiply",
    "div": "affine_divide",
    "prelu": "affine_prelu",
    "squared_difference": "affine_squared_difference",
}


def binary_call(name: str, binding: Binding, rank: int, walk: Table, bounds: tuple[Any, Any]) -> Call:
    """An operation on two tensors of int8 or int16 codes."""
    first, second = affine(input_format(binding, 0), binding), affine(input_format(binding, 1), binding)
    out = affine(binding.out_formats[0], binding)
    operands = ["{in0}", "{in1}", "{out0}", str(rank), "{table0}"]
    limits = [code_literal(bound, out) for bound in bounds]
    types = f"{first.cpp}, {second.cpp}, {out.cpp}, {where(binding, 0)}, {where(binding, 1)}"
    numbers = [first.zero_point, second.zero_point, out.zero_point]
    factors: tuple[tflite.Multiplier, ...]
    if name in ("add", "sub"):
        types += f", {'true' if name == 'sub' else 'false'}"
        total = tflite.add_constants(first, second, out, bool(binding.node.attrs.get("general_scales")))
        numbers.append(total.left_shift)
        factors = (total.first, total.second, total.result)
    else:
        factors = _factors(name, first, second, out)
    for factor in factors:
        numbers += [factor.fixed, factor.shift]
    return Call(
        header="minun/affine_binary.h",
        function=f"minun::{_BINARY.get(name, 'affine_add')}<{types}>",
        args=(*operands, *(str(number) for number in numbers), *limits),
        tables=(walk,),
        variant="tflite",
    )


def _factors(name: str, first: Affine, second: Affine, out: Affine) -> tuple[tflite.Multiplier, ...]:
    """The multipliers of mul, div, prelu or squared_difference, in the order of their kernels' arguments."""
    if name == "mul":
        return (tflite.mul_constant(first, second, out),)
    if name == "div":
        return (tflite.div_constant(first, second, out),)
    if name == "prelu":
        return tflite.prelu_constants(first, second, out)
    gap = tflite.difference_constants(first, second, out)
    return (gap.first, gap.second, gap.result)


def int16_call(function: str, binding: Binding, **attrs: float) -> Call:
    """A function of int16 codes."""
    fmt, out = affine(input_format(binding, 0), binding), affine(binding.out_formats[0], binding)
    count = str(elements(input_shape(binding, 0)))
    operands = ("{in0}", "{out0}", count)
    header, numbers, tables = "minun/functions_affine.h", tuple[str, ...](), tuple[Table, ...]()
    if tflite_functions.has_sigmoid_table(function, fmt, out):
        step = tflite_functions.step24(fmt, function == "tanh")
        kernel = f"sigmoid_int16<{str(function == 'tanh').lower()}, {{reverse}}>"
        tables = (Table("uint16_t", tflite_functions.sigmoid_table(), "sigmoid", align=2),)
        numbers = ("{table0}", str(step.multiplier), str(step.shift))
    elif function == "leaky_relu":
        kernel = "leaky_relu_int16<{reverse}>"
        up, down = tflite_functions.leaky_constants(fmt, out, **attrs)
        values = (fmt.zero_point, out.zero_point, up.fixed, up.shift, down.fixed, down.shift)
        numbers = tuple(str(value) for value in values)
    elif function == "sqrt":
        kernel = "square_root_int16<{reverse}>"
        numbers = (
            *(str(fmt.zero_point), float_literal(fmt.scale)),
            *(str(out.zero_point), float_literal(out.scale)),
        )
    else:
        header, kernel, numbers = "minun/line_table.h", "line_table<{reverse}>", ("{table0}",)
        entries = functions.affine_lookup(function, fmt, out, **attrs)
        tables = (Table("int16_t", entries, function, align=2),)
    return Call(
        header=header,
        function=f"minun::{kernel}",
        args=(*operands, *numbers),
        tables=tables,
        variant="tflite",
    )
