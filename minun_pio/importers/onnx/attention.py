# SPDX-License-Identifier: Apache-2.0
"""ONNX's Attention (operator set 23 on) as products and a softmax. Exporters' older graphs are those
already."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from minun_pio.importers.onnx.context import Context, Handler, number, whole
from minun_pio.importers.onnx.model import OnnxNode

MASKED = -128.0
"""Added to a score that must not count: e^-128 is 0 in every format, and 16-bit formats keep the other
scores."""


def _heads(ctx: Context, node: OnnxNode, index: int, key: str) -> tuple[str, int]:
    """Input (batch, length, heads * size) or (batch, heads, length, size) as the latter; the heads."""
    x, shape = ctx.tensor(node, index), ctx.input_shape(node, index)
    if len(shape) == 4:
        return x, shape[1]
    heads = whole(ctx, node, key, 0)
    if len(shape) != 3 or heads < 1 or shape[2] % heads:
        raise ctx.refusal(node, f"{shape} in {heads} heads", f"{key} that divides", "onnx.malformed")
    x = ctx.add(node, "reshape", [x], {"shape": (shape[0], shape[1], heads, shape[2] // heads)})
    return ctx.add(node, "transpose", [x], {"perm": (0, 2, 1, 3)}), heads


def _repeated(ctx: Context, node: OnnxNode, x: str, times: int) -> str:
    """Each head `times` times in a row (grouped queries share keys and values)."""
    if times == 1:
        return x
    n, heads, length, size = ctx.builder.shape(x)
    x = ctx.add(node, "reshape", [x], {"shape": (n, heads, 1, length, size)})
    x = ctx.add(node, "expand", [x], {"shape": (n, heads, times, length, size)})
    return ctx.add(node, "reshape", [x], {"shape": (n, heads * times, length, size)})


def _mask(ctx: Context, node: OnnxNode, queries: int, keys: int, past: int) -> str | None:
    known = None
    if ctx.has(node, 3):
        value = ctx.known(node, 3)
        if value is None:
            if whole(ctx, node, "is_causal", 0) or "left_window_size" in node.attrs:
                raise ctx.refusal(node, "a run-time mask with is_causal or a window", "one of the two works")
            return ctx.tensor(node, 3)
        real = np.where(value, 0.0, MASKED) if value.dtype == np.bool_ else value.astype(np.float64)
        known = np.maximum(real, MASKED)
        if known.shape[-1] < keys:
            widths = [(0, 0)] * (known.ndim - 1) + [(0, keys - known.shape[-1])]
            known = np.pad(known, widths, constant_values=MASKED)
    ahead = np.arange(keys)[None, :] - (np.arange(queries)[:, None] + past)  # of each query's own place
    seen = np.ones((queries, keys), dtype=bool)
    if whole(ctx, node, "is_causal", 0):
        seen &= ahead <= 0
    left, right = whole(ctx, node, "left_window_size", -1), whole(ctx, node, "right_window_size", -1)
    if left >= 0:
        seen &= ahead >= -left
    if right >= 0:
        seen &= ahead <= right
    if not seen.all():
        outside = np.where(seen, 0.0, MASKED)
        known = outside if known is None else np.maximum(known + outside, MASKED)
    if known is None:
        return None
    if np.any(known.max(axis=-1) <= MASKED):
        raise ctx.refusal(
            node, "a query that may look at nothing", "masks that leave each query one key work"
        )
    return ctx.constant(node, known, "mask")


def _attention(ctx: Context, node: OnnxNode) -> list[str]:
    if ctx.has(node, 6):
        raise ctx.refusal(node, "nonpad_kv_seqlen", "a mask works")
    outputs = [*node.outputs, "", "", "", ""][:4]
    if outputs[3] and ctx.uses.get(outputs[3]):
        raise ctx.refusal(node, "the scores as an output", "the other outputs work")
    flat = len(ctx.input_shape(node, 0)) == 3
    q, q_heads = _heads(ctx, node, 0, "q_num_heads")
    k, kv_heads = _heads(ctx, node, 1, "kv_num_heads")
    v, _ = _heads(ctx, node, 2, "kv_num_heads")
    past = 0
    if ctx.has(node, 4):
        past = ctx.input_shape(node, 4)[2]
        k = ctx.add(node, "concat", [ctx.tensor(node, 4), k], {"axis": 2})
        v = ctx.add(node, "concat", [ctx.tensor(node, 5), v], {"axis": 2})
    present = [k, v]
    if kv_heads < 1 or q_heads % kv_heads:
        raise ctx.refusal(
            node, f"{q_heads} heads of queries on {kv_heads}", "a multiple works", "onnx.malformed"
        )
    k, v = (_repeated(ctx, node, x, q_heads // kv_heads) for x in (k, v))
    n, _, queries, size = ctx.builder.shape(q)
    keys = ctx.builder.shape(k)[2]
    scale = number(ctx, node, "scale", 1 / sqrt(size)) or 1 / sqrt(size)
    q = ctx.add(node, "mul", [q, ctx.scalar(node, scale)])
    scores = ctx.add(node, "matmul", [q, k], {"transpose_a": False, "transpose_b": True})
    softcap = number(ctx, node, "softcap", 0.0)
    mask = _mask(ctx, node, queries, keys, past)
    if softcap:
        small = ctx.add(node, "mul", [scores, ctx.scalar(node, 1 / softcap)])
        scores = ctx.add(node, "mul", [ctx.add(node, "tanh", [small]), ctx.scalar(node, softcap)])
    if mask is not None:
        scores = ctx.add(node, "add", [scores, mask])
    weights = ctx.add(node, "softmax", [scores], {"axis": 3})
    result = ctx.add(node, "matmul", [weights, v], {"transpose_a": False, "transpose_b": False})
    if flat:
        result = ctx.add(node, "transpose", [result], {"perm": (0, 2, 1, 3)})
        shape = ctx.builder.shape(result)
        result = ctx.add(node, "reshape", [result], {"shape": (n, queries, shape[2] * shape[3])})
    return [result, *(x if name else "" for x, name in zip(present, outputs[1:3], strict=True)), ""]


HANDLERS: Mapping[str, Handler] = {"Attention": _attention}
