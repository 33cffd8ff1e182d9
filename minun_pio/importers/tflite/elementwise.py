# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's activations, arithmetic, reductions and conversions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minun_pio.importers.tflite.context import Context, Handler
from minun_pio.importers.tflite.model import TfOperator
from minun_pio.numerics.affine import Affine


def _unary(kind: str, attrs: Mapping[str, Any] | None = None) -> Handler:
    return lambda ctx, op: [ctx.add(op, kind, [ctx.tensor(op, 0)], attrs)]


def _formats(ctx: Context, op: TfOperator) -> tuple[Affine | None, Affine | None]:
    """Of the first input and the first output."""
    return ctx.format(op, ctx.info(op, 0)), ctx.format(op, ctx.output(op))


def _bounded(kind: str, attrs: Mapping[str, Any] | None = None) -> Handler:
    """RELU and its kin, which bring their input to the output's scale first."""

    def handler(ctx: Context, op: TfOperator) -> list[str]:
        x = ctx.tensor(op, 0)
        found, wanted = _formats(ctx, op)
        if found is not None and wanted is not None and found != wanted:
            x = ctx.add(op, "convert", [x], {"single": True})
            ctx.builder.quantised[x] = wanted
        return [ctx.add(op, kind, [x], attrs)]

    return handler


def _abs(ctx: Context, op: TfOperator) -> list[str]:
    """With two scales it is a leaky ReLU of slope -1, to the bit."""
    found, wanted = _formats(ctx, op)
    if found == wanted:
        return [ctx.add(op, "abs", [ctx.tensor(op, 0)])]
    return [ctx.add(op, "leaky_relu", [ctx.tensor(op, 0)], {"alpha": -1.0})]


def _neg(ctx: Context, op: TfOperator) -> list[str]:
    found, wanted = _formats(ctx, op)
    if found != wanted or (found is not None and found.zero_point != 0):
        raise ctx.refusal(
            op,
            "it turns codes whatever their scale and zero point, which is no negation",
            "one scale and zero point 0 work: quantise it again",
        )
    return [ctx.add(op, "neg", [ctx.tensor(op, 0)], {} if found is None else {"wrap": True})]


def _binary(kind: str) -> Handler:
    def handler(ctx: Context, op: TfOperator) -> list[str]:
        inputs = [ctx.tensor(op, 0), ctx.tensor(op, 1)]
        clip = ctx.clip(op)
        general = kind == "sub" and not op.options("PotScaleInt16", True)
        attrs = {"general_scales": True} if general else {}
        if not clip or kind in ("add", "mul"):
            return [ctx.add(op, kind, inputs, {**clip, **attrs})]
        result = ctx.add(op, kind, inputs, attrs)
        fmt = ctx.format(op, ctx.output(op))
        if fmt is not None:
            ctx.builder.quantised[result] = fmt
        low, high = clip["clip"]
        return [ctx.add(op, "clip", [result], {"lo": low, "hi": high})]

    return handler


def _pair(kind: str) -> Handler:
    return lambda ctx, op: [ctx.add(op, kind, [ctx.tensor(op, 0), ctx.tensor(op, 1)])]


def _square(ctx: Context, op: TfOperator) -> list[str]:
    x = ctx.tensor(op, 0)
    return [ctx.add(op, "mul", [x, x])]


def _leaky(ctx: Context, op: TfOperator) -> list[str]:
    return [ctx.add(op, "leaky_relu", [ctx.tensor(op, 0)], {"alpha": float(op.options("Alpha", 0))})]


def _gelu(ctx: Context, op: TfOperator) -> list[str]:
    kind = "tanh" if op.options("Approximate", 0) else "none"
    return [ctx.add(op, "gelu", [ctx.tensor(op, 0)], {"approximate": kind})]


def _softmax(ctx: Context, op: TfOperator) -> list[str]:
    beta = float(op.options("Beta", 1))
    if not beta > 0.0:
        raise ctx.refusal(op, f"beta {beta:g}", "a positive one works")
    attrs = {"axis": len(ctx.shape(op, 0)) - 1, **({} if beta == 1.0 else {"beta": beta})}
    return [ctx.add(op, "softmax", [ctx.tensor(op, 0)], attrs)]


def _log_softmax(ctx: Context, op: TfOperator) -> list[str]:
    attrs = {"axis": len(ctx.shape(op, 0)) - 1}
    return [ctx.add(op, "log_softmax", [ctx.tensor(op, 0)], attrs)]


def _add_n(ctx: Context, op: TfOperator) -> list[str]:
    """Of real numbers only: the interpreter has no other."""
    total = ctx.tensor(op, 0)
    for place in range(1, len(op.inputs)):
        total = ctx.add(op, "add", [total, ctx.tensor(op, place)])
    return [total]


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
    attrs = {"axis": axis, "keepdims": False, "select_last_index": False, "smallest": op.op == "ARG_MIN"}
    return [ctx.add(op, "argmax", [ctx.tensor(op, 0)], attrs)]


def _convert(ctx: Context, op: TfOperator) -> list[str]:
    """QUANTIZE and DEQUANTIZE: between real numbers and codes, or from one scale to another."""
    return [ctx.add(op, "convert", [ctx.tensor(op, 0)])]


HANDLERS: Mapping[str, Handler] = {
    "RELU": _bounded("relu"),
    "RELU6": _bounded("clip", {"lo": 0.0, "hi": 6.0}),
    "RELU_N1_TO_1": _bounded("clip", {"lo": -1.0, "hi": 1.0}),
    "RELU_0_TO_1": _bounded("clip", {"lo": 0.0, "hi": 1.0}),
    "LOGISTIC": _unary("sigmoid"),
    "TANH": _unary("tanh"),
    "EXP": _unary("exp"),
    "LOG": _unary("log"),
    "SQRT": _unary("sqrt"),
    "ABS": _abs,
    "NEG": _neg,
    "ELU": _unary("elu", {"alpha": 1.0}),
    "HARD_SWISH": _unary("hard_swish"),
    "LEAKY_RELU": _leaky,
    "GELU": _gelu,
    "RSQRT": _unary("reciprocal_sqrt"),
    "SQUARE": _square,
    "SQUARED_DIFFERENCE": _pair("squared_difference"),
    "PRELU": _pair("prelu"),
    "ADD_N": _add_n,
    "ADD": _binary("add"),
    "SUB": _binary("sub"),
    "MUL": _binary("mul"),
    "DIV": _binary("div"),
    "MAXIMUM": _binary("maximum"),
    "MINIMUM": _binary("minimum"),
    "SOFTMAX": _softmax,
    "LOG_SOFTMAX": _log_softmax,
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
