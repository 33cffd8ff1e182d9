# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's activations, arithmetic, reductions and conversions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minun_pio.importers.tflite.context import Context, Handler
from minun_pio.importers.tflite.model import TfOperator


def _unary(kind: str, attrs: Mapping[str, Any] | None = None) -> Handler:
    return lambda ctx, op: [ctx.add(op, kind, [ctx.tensor(op, 0)], attrs)]


def _binary(kind: str) -> Handler:
    def handler(ctx: Context, op: TfOperator) -> list[str]:
        inputs = [ctx.tensor(op, 0), ctx.tensor(op, 1)]
        clip = ctx.clip(op)
        if not clip or kind in ("add", "mul"):
            return [ctx.add(op, kind, inputs, clip)]
        result = ctx.add(op, kind, inputs)
        fmt = ctx.format(op, ctx.output(op))
        if fmt is not None:
            ctx.builder.quantised[result] = fmt
        low, high = clip["clip"]
        return [ctx.add(op, "clip", [result], {"lo": low, "hi": high})]

    return handler


def _rsqrt(ctx: Context, op: TfOperator) -> list[str]:
    return [ctx.add(op, "reciprocal", [ctx.add(op, "sqrt", [ctx.tensor(op, 0)])])]


def _square(ctx: Context, op: TfOperator) -> list[str]:
    x = ctx.tensor(op, 0)
    y = ctx.tensor(op, 1) if op.op == "SQUARED_DIFFERENCE" else None
    if y is not None:
        x = ctx.add(op, "sub", [x, y])
    return [ctx.add(op, "mul", [x, x])]


def _leaky(ctx: Context, op: TfOperator) -> list[str]:
    return [ctx.add(op, "leaky_relu", [ctx.tensor(op, 0)], {"alpha": float(op.options("Alpha", 0))})]


def _gelu(ctx: Context, op: TfOperator) -> list[str]:
    kind = "tanh" if op.options("Approximate", 0) else "none"
    return [ctx.add(op, "gelu", [ctx.tensor(op, 0)], {"approximate": kind})]


def _softmax(ctx: Context, op: TfOperator) -> list[str]:
    beta = float(op.options("Beta", 1))
    if beta != 1.0:
        raise ctx.refusal(op, f"beta {beta:g}", "beta 1 works")
    return [ctx.add(op, "softmax", [ctx.tensor(op, 0)], {"axis": len(ctx.shape(op, 0)) - 1})]


def _l2_norm(ctx: Context, op: TfOperator) -> list[str]:
    attrs = {"axis": len(ctx.shape(op, 0)) - 1, "epsilon": 0.0}
    return [ctx.add(op, "l2_norm", [ctx.tensor(op, 0)], attrs)]


def _reduce(kind: str) -> Handler:
    def handler(ctx: Context, op: TfOperator) -> list[str]:
        rank = len(ctx.shape(op, 0))
        axes = tuple(sorted({ctx.axis(op, axis, rank) for axis in ctx.integers(op, 1, "axes")}))
        attrs = {"axes": axes or tuple(range(rank)), "keepdims": bool(op.options("KeepDims", 0))}
        return [ctx.add(op, kind, [ctx.tensor(op, 0)], attrs)]

    return handler


def _argmax(ctx: Context, op: TfOperator) -> list[str]:
    axis = ctx.axis(op, ctx.integers(op, 1, "axis")[0], len(ctx.shape(op, 0)))
    x = ctx.tensor(op, 0)
    if op.op == "ARG_MIN":
        x = ctx.add(op, "neg", [x])
    return [ctx.add(op, "argmax", [x], {"axis": axis, "keepdims": False, "select_last_index": False})]


def _convert(ctx: Context, op: TfOperator) -> list[str]:
    """QUANTIZE and DEQUANTIZE: between real numbers and codes, or from one scale to another."""
    return [ctx.add(op, "convert", [ctx.tensor(op, 0)])]


HANDLERS: Mapping[str, Handler] = {
    "RELU": _unary("relu"),
    "RELU6": _unary("clip", {"lo": 0.0, "hi": 6.0}),
    "RELU_N1_TO_1": _unary("clip", {"lo": -1.0, "hi": 1.0}),
    "RELU_0_TO_1": _unary("clip", {"lo": 0.0, "hi": 1.0}),
    "LOGISTIC": _unary("sigmoid"),
    "TANH": _unary("tanh"),
    "EXP": _unary("exp"),
    "LOG": _unary("log"),
    "SQRT": _unary("sqrt"),
    "ABS": _unary("abs"),
    "NEG": _unary("neg"),
    "ELU": _unary("elu", {"alpha": 1.0}),
    "HARD_SWISH": _unary("hard_swish"),
    "LEAKY_RELU": _leaky,
    "GELU": _gelu,
    "RSQRT": _rsqrt,
    "SQUARE": _square,
    "SQUARED_DIFFERENCE": _square,
    "ADD": _binary("add"),
    "SUB": _binary("sub"),
    "MUL": _binary("mul"),
    "DIV": _binary("div"),
    "MAXIMUM": _binary("maximum"),
    "MINIMUM": _binary("minimum"),
    "SOFTMAX": _softmax,
    "L2_NORMALIZATION": _l2_norm,
    "MEAN": _reduce("reduce_mean"),
    "SUM": _reduce("reduce_sum"),
    "REDUCE_MAX": _reduce("reduce_max"),
    "REDUCE_MIN": _reduce("reduce_min"),
    "ARG_MAX": _argmax,
    "ARG_MIN": _argmax,
    "QUANTIZE": _convert,
    "DEQUANTIZE": _convert,
}
