# SPDX-License-Identifier: Apache-2.0
"""ONNX's Gemm and MatMul: `dense` where the right factor is a constant matrix, `matmul` elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from minun_pio.importers.onnx.context import Context, Handler, number, whole
from minun_pio.importers.onnx.model import OnnxNode


def _gemm(ctx: Context, node: OnnxNode) -> list[str]:
    """alpha * A' B' + beta * C."""
    alpha, beta = number(ctx, node, "alpha", 1.0), number(ctx, node, "beta", 1.0)
    trans_a, trans_b = bool(whole(ctx, node, "transA", 0)), bool(whole(ctx, node, "transB", 0))
    a, b = ctx.tensor(node, 0), ctx.known(node, 1)
    if trans_a:
        a = ctx.add(node, "transpose", [a], {"perm": (1, 0)})
    if b is None:
        result = ctx.add(
            node, "matmul", [a, ctx.tensor(node, 1)], {"transpose_a": False, "transpose_b": trans_b}
        )
        if alpha != 1.0:
            result = ctx.add(node, "mul", [result, ctx.scalar(node, alpha)])
        if ctx.has(node, 2) and beta != 0.0:
            c = ctx.tensor(node, 2)
            c = c if beta == 1.0 else ctx.add(node, "mul", [c, ctx.scalar(node, beta)])
            result = ctx.add(node, "add", [result, c])
        return [result]
    if b.ndim != 2:
        raise ctx.refusal(node, f"B has rank {b.ndim}", "a matrix is expected", "onnx.malformed")
    weights = b.astype(np.float64) * alpha
    w = weights if trans_b else weights.T
    third = ctx.known(node, 2)
    bias = None if third is None or beta == 0.0 else third.astype(np.float64) * beta
    one_row = (
        bias is not None
        and (bias.ndim <= 1 or bias.shape[0] == 1)
        and bias.shape[-1:] in ((), (1,), w.shape[:1])
    )
    plain = alpha == beta == 1.0
    inputs = [a, ctx.weight(node, 1, w, "w") if plain else ctx.constant(node, w, "w")]
    if bias is not None and one_row:
        row = np.broadcast_to(bias.reshape(-1), (w.shape[0],))
        inputs.append(ctx.weight(node, 2, row, "b") if plain else ctx.constant(node, row, "b"))
    result = ctx.add(node, "dense", inputs)
    if bias is not None and not one_row:
        return [ctx.add(node, "add", [result, ctx.constant(node, bias, "c")])]
    if third is None and ctx.has(node, 2) and beta != 0.0:
        added = ctx.tensor(node, 2)
        added = added if beta == 1.0 else ctx.add(node, "mul", [added, ctx.scalar(node, beta)])
        return [ctx.add(node, "add", [result, added])]
    return [result]


def _matmul(ctx: Context, node: OnnxNode) -> list[str]:
    a_shape, b_shape = ctx.input_shape(node, 0), ctx.input_shape(node, 1)
    b = ctx.known(node, 1)
    if b is not None and b.ndim == 2 and len(a_shape) >= 1:
        w = ctx.weight(node, 1, b.astype(np.float64).T, "w")
        return [ctx.add(node, "dense", [ctx.tensor(node, 0), w])]
    left, right = ctx.tensor(node, 0), ctx.tensor(node, 1)
    if len(a_shape) == 1:
        left = ctx.add(node, "reshape", [left], {"shape": (1, *a_shape)})
    if len(b_shape) == 1:
        right = ctx.add(node, "reshape", [right], {"shape": (*b_shape, 1)})
    result = ctx.add(node, "matmul", [left, right], {"transpose_a": False, "transpose_b": False})
    shape = list(ctx.builder.shape(result))
    if len(b_shape) == 1:
        del shape[-1]
    if len(a_shape) == 1:
        del shape[-1 if len(b_shape) == 1 else -2]
    if len(a_shape) == 1 or len(b_shape) == 1:
        result = ctx.add(node, "reshape", [result], {"shape": tuple(shape)})
    return [result]


HANDLERS: Mapping[str, Handler] = {"Gemm": _gemm, "MatMul": _matmul}
