# SPDX-License-Identifier: Apache-2.0
"""ONNX's functions of one value: activations and elementary functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minun_pio.importers.onnx.context import Context, Handler, number, text, whole
from minun_pio.importers.onnx.model import OnnxNode


def _unary(op: str) -> Handler:
    def handler(ctx: Context, node: OnnxNode) -> list[str]:
        return [ctx.add(node, op, [ctx.tensor(node, 0)])]

    return handler


def _with(op: str, defaults: Mapping[str, float]) -> Handler:
    def handler(ctx: Context, node: OnnxNode) -> list[str]:
        attrs = {key: number(ctx, node, key, default) for key, default in defaults.items()}
        return [ctx.add(node, op, [ctx.tensor(node, 0)], attrs)]

    return handler


def _clip(ctx: Context, node: OnnxNode) -> list[str]:
    bounds: list[float | None] = []
    for index, key in ((1, "min"), (2, "max")):
        if key in node.attrs:
            bounds.append(number(ctx, node, key, 0.0))
        elif ctx.has(node, index):
            bounds.append(float(ctx.floats(node, index, key).reshape(-1)[0]))
        else:
            bounds.append(None)
    low, high = (None if b is None or abs(b) > 3e38 else b for b in bounds)
    if low is None and high is None:
        return [ctx.tensor(node, 0)]
    if low is not None and high is not None and low > high:
        low = high  # ONNX: minimum wins over maximum
    return [ctx.add(node, "clip", [ctx.tensor(node, 0)], {"lo": low, "hi": high})]


def _gelu(ctx: Context, node: OnnxNode) -> list[str]:
    kind = text(ctx, node, "approximate", "none")
    if kind not in ("none", "tanh"):
        raise ctx.refusal(node, f"approximate='{kind}'", "'none' and 'tanh' work")
    return [ctx.add(node, "gelu", [ctx.tensor(node, 0)], {"approximate": kind})]


def _prelu(ctx: Context, node: OnnxNode) -> list[str]:
    x, slope = ctx.tensor(node, 0), ctx.floats(node, 1, "slope")
    if slope.size == 1:
        return [ctx.add(node, "leaky_relu", [x], {"alpha": float(slope.reshape(()))})]
    return [ctx.add(node, "prelu", [x, ctx.constant(node, slope, "slope")])]


def _selu(ctx: Context, node: OnnxNode) -> list[str]:
    alpha = number(ctx, node, "alpha", 1.6732632423543772)
    gamma = number(ctx, node, "gamma", 1.0507009873554805)
    inner = ctx.add(node, "elu", [ctx.tensor(node, 0)], {"alpha": alpha})
    return [ctx.add(node, "mul", [inner, ctx.scalar(node, gamma)])]


def _celu(ctx: Context, node: OnnxNode) -> list[str]:
    alpha = number(ctx, node, "alpha", 1.0)
    x = ctx.tensor(node, 0)
    scaled = ctx.add(node, "mul", [x, ctx.scalar(node, 1 / alpha)])
    inner = ctx.add(node, "elu", [scaled], {"alpha": 1.0})
    return [ctx.add(node, "mul", [inner, ctx.scalar(node, alpha)])]


def _softsign(ctx: Context, node: OnnxNode) -> list[str]:
    x = ctx.tensor(node, 0)
    size = ctx.add(node, "add", [ctx.add(node, "abs", [x]), ctx.scalar(node, 1.0)])
    return [ctx.add(node, "div", [x, size])]


def _swish(ctx: Context, node: OnnxNode) -> list[str]:
    x, alpha = ctx.tensor(node, 0), number(ctx, node, "alpha", 1.0)
    inner = x if alpha == 1.0 else ctx.add(node, "mul", [x, ctx.scalar(node, alpha)])
    return [ctx.add(node, "mul", [x, ctx.add(node, "sigmoid", [inner])])]


def _mish(ctx: Context, node: OnnxNode) -> list[str]:
    x = ctx.tensor(node, 0)
    return [ctx.add(node, "mul", [x, ctx.add(node, "tanh", [ctx.add(node, "softplus", [x])])])]


def _softmax(ctx: Context, node: OnnxNode) -> list[str]:
    """Before operator set 13 the axes from `axis` on are one; since then it is one axis."""
    x = ctx.tensor(node, 0)
    shape = ctx.input_shape(node, 0)
    axis = ctx.axis(node, whole(ctx, node, "axis", -1 if ctx.opset >= 13 else 1), len(shape))
    kind = "log_softmax" if node.op == "LogSoftmax" else "softmax"
    if ctx.opset >= 13 or axis == len(shape) - 1:
        return [ctx.add(node, kind, [x], {"axis": axis})]
    rows = int(np.prod(shape[:axis], dtype=np.int64))
    flat = ctx.add(node, "reshape", [x], {"shape": (rows, int(np.prod(shape[axis:])))})
    result = ctx.add(node, kind, [flat], {"axis": 1})
    return [ctx.add(node, "reshape", [result], {"shape": shape})]


def _identity(ctx: Context, node: OnnxNode) -> list[str]:
    return [ctx.carry(node, ctx.name(node, 0))]


def _dropout(ctx: Context, node: OnnxNode) -> list[str]:
    training = ctx.known(node, 2)
    if training is not None and bool(training.reshape(-1)[0]):
        raise ctx.refusal(node, "training_mode is true", "export the model for inference")
    return [ctx.tensor(node, 0)]


def _cast(ctx: Context, node: OnnxNode) -> list[str]:
    name = ctx.name(node, 0)
    if node.op == "Cast":
        import onnx

        target = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(whole(ctx, node, "to", 1)))
        to_real: Any = target.kind == "f" or target.name == "bfloat16"
        if to_real and target.itemsize < 4 and name not in ctx.indices:
            to_real = target.name in ("float16", "bfloat16")
    else:
        to_real = ctx.name(node, 1) not in ctx.indices
    if (name in ctx.indices) == bool(to_real):
        raise ctx.refusal(
            node,
            "a cast between integers and real numbers at run time",
            "casts of constants work",
            "onnx.type",
        )
    if name in ctx.indices:
        ctx.indices.add(node.outputs[0])
    return [ctx.carry(node, name)]


HANDLERS: Mapping[str, Handler] = {
    "Relu": _unary("relu"),
    "Sigmoid": _unary("sigmoid"),
    "Tanh": _unary("tanh"),
    "Exp": _unary("exp"),
    "Log": _unary("log"),
    "Sqrt": _unary("sqrt"),
    "Neg": _unary("neg"),
    "Abs": _unary("abs"),
    "Erf": _unary("erf"),
    "Reciprocal": _unary("reciprocal"),
    "Softplus": _unary("softplus"),
    "HardSwish": _unary("hard_swish"),
    "LeakyRelu": _with("leaky_relu", {"alpha": 0.01}),
    "Elu": _with("elu", {"alpha": 1.0}),
    "HardSigmoid": _with("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "Clip": _clip,
    "Gelu": _gelu,
    "PRelu": _prelu,
    "Selu": _selu,
    "Celu": _celu,
    "Softsign": _softsign,
    "Swish": _swish,
    "Mish": _mish,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Identity": _identity,
    "Dropout": _dropout,
    "Cast": _cast,
    "CastLike": _cast,
}
