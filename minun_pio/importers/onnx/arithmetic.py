# SPDX-License-Identifier: Apache-2.0
"""ONNX's arithmetic of two and more tensors, with numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Mapping

from minun_pio.importers.onnx.context import Context, Handler
from minun_pio.importers.onnx.model import OnnxNode


def _binary(op: str) -> Handler:
    def handler(ctx: Context, node: OnnxNode) -> list[str]:
        return [ctx.add(node, op, [ctx.tensor(node, 0), ctx.tensor(node, 1)])]

    return handler


def _many(op: str) -> Handler:
    def handler(ctx: Context, node: OnnxNode) -> list[str]:
        result = ctx.tensor(node, 0)
        for index in range(1, len(node.inputs)):
            result = ctx.add(node, op, [result, ctx.tensor(node, index)])
        if node.op == "Mean" and len(node.inputs) > 1:
            result = ctx.add(node, "div", [result, ctx.scalar(node, float(len(node.inputs)))])
        return [result]

    return handler


def _pow(ctx: Context, node: OnnxNode) -> list[str]:
    """x to a constant power, as what it is: a square, a root, a reciprocal, products."""
    exponents = ctx.floats(node, 1, "exponent")
    x = ctx.tensor(node, 0)
    if exponents.size != 1:
        raise ctx.refusal(node, f"{exponents.size} exponents", "one constant exponent works")
    power = float(exponents.reshape(()))
    if power == 1.0:
        return [x]
    if power in (0.5, -0.5):
        return [ctx.add(node, "sqrt" if power > 0 else "reciprocal_sqrt", [x])]
    if power == int(power) and 0 < abs(power) <= 8:
        result = x
        for _ in range(int(abs(power)) - 1):
            result = ctx.add(node, "mul", [result, x])
        return [result if power > 0 else ctx.add(node, "reciprocal", [result])]
    raise ctx.refusal(node, f"exponent {power:g}", "exponents 0.5, -0.5 and whole ones from -8 to 8 work")


HANDLERS: Mapping[str, Handler] = {
    "Add": _binary("add"),
    "Sub": _binary("sub"),
    "Mul": _binary("mul"),
    "Div": _binary("div"),
    "Max": _many("maximum"),
    "Min": _many("minimum"),
    "Sum": _many("add"),
    "Mean": _many("add"),
    "Pow": _pow,
}
