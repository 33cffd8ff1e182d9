# SPDX-License-Identifier: Apache-2.0
"""Calls of the kernels with TensorFlow Lite's arithmetic: their multipliers, shifts and zero points."""

from __future__ import annotations

from typing import Any

from minun_pio.errors import MinunError
from minun_pio.numerics import tflite
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Format
from minun_pio.ops.calling import input_format, where
from minun_pio.ops.literals import code_literal
from minun_pio.ops.operator import Binding, Call, Table


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


def binary_call(name: str, binding: Binding, rank: int, walk: Table, bounds: tuple[Any, Any]) -> Call:
    """add, sub and mul of int8 or int16 codes."""
    first, second = affine(input_format(binding, 0), binding), affine(input_format(binding, 1), binding)
    out = affine(binding.out_formats[0], binding)
    operands = ["{in0}", "{in1}", "{out0}", str(rank), "{table0}"]
    limits = [code_literal(bound, out) for bound in bounds]
    places = f"{first.cpp}, {second.cpp}, {out.cpp}, {where(binding, 0)}, {where(binding, 1)}"
    zeros = [str(first.zero_point), str(second.zero_point), str(out.zero_point)]
    if name == "mul":
        factor = tflite.mul_constant(first, second, out)
        numbers = [*zeros, str(factor.fixed), str(factor.shift)]
        function = f"minun::affine_multiply<{places}>"
    else:
        constants = tflite.add_constants(first, second, out)
        factors = (constants.first, constants.second, constants.result)
        numbers = [*zeros, str(constants.left_shift)]
        for factor in factors:
            numbers += [str(factor.fixed), str(factor.shift)]
        function = f"minun::affine_add<{places}, {'true' if name == 'sub' else 'false'}>"
    return Call(
        header="minun/affine_binary.h",
        function=function,
        args=(*operands, *numbers, *limits),
        tables=(walk,),
        variant="tflite",
    )
