# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's operators that move blocks of an image into its depth or its batch, and back.

A dilated convolution written as SPACE_TO_BATCH_ND, a convolution and BATCH_TO_SPACE_ND is put together
again by `dilated.py` before these handlers see it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from minun_pio.importers.builder import bounded
from minun_pio.importers.tflite.context import Context, Handler
from minun_pio.importers.tflite.model import TfOperator
from minun_pio.importers.tflite.movement import step, to_shape


def _depth(ctx: Context, op: TfOperator) -> list[str]:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH: the channel is (row in the block, column in it, channel)."""
    shape, b = ctx.shape(op, 0), int(op.options("BlockSize", 0))
    if len(shape) != 4 or b < 1:
        raise ctx.refusal(
            op, f"block size {b} of {shape}", "(1, height, width, channels) works", "tflite.malformed"
        )
    n, h, w, c = shape
    to_space = op.op == "DEPTH_TO_SPACE"
    if c % (b * b) if to_space else h % b or w % b:
        raise ctx.refusal(op, f"block size {b} of {shape}", "one that divides works", "tflite.malformed")
    if to_space:
        cut, result = (n, h, w, b, b, c // b**2), (n, h * b, w * b, c // b**2)
    else:
        cut, result = (n, h // b, b, w // b, b, c), (n, h // b, w // b, c * b**2)
    x = to_shape(ctx, op, ctx.tensor(op, 0), cut)
    x = step(ctx, op, "transpose", [x], {"perm": (0, 1, 3, 2, 4, 5)})
    return [ctx.add(op, "reshape", [x], {"shape": result})]


def _block(ctx: Context, op: TfOperator) -> tuple[list[int], list[tuple[int, int]]]:
    """The block's extents, and the paddings or crops of each spatial axis."""
    rank, block, flat = len(ctx.shape(op, 0)), ctx.integers(op, 1, "block"), ctx.integers(op, 2, "paddings")
    if not 0 < len(block) < rank or len(flat) != 2 * len(block) or min(block) < 1 or min(flat) < 0:
        raise ctx.refusal(
            op, f"block {block}, paddings {flat} of {ctx.shape(op, 0)}", "convert again", "tflite.malformed"
        )
    return block, list(zip(flat[::2], flat[1::2], strict=True))


def _to_batch(ctx: Context, op: TfOperator) -> list[str]:
    shape = ctx.shape(op, 0)
    block, pads = _block(ctx, op)
    m = len(block)
    rest = shape[1 + m :]
    image = [n + b + a for n, (b, a) in zip(shape[1 : 1 + m], pads, strict=True)]
    if any(extent % b for extent, b in zip(image, block, strict=True)):
        raise ctx.refusal(op, f"block {block} of {image}", "one that divides works", "tflite.malformed")
    bounded((shape[0], *image, *rest), "the result", ctx.model.file)
    x = ctx.tensor(op, 0)
    if any(b or a for b, a in pads):
        around = ((0, 0), *pads, *((0, 0) for _ in rest))
        x = step(ctx, op, "pad", [x], {"pads": around, "mode": "constant", "value": 0.0})
    inner = [extent // b for extent, b in zip(image, block, strict=True)]
    cut = [shape[0], *(n for pair in zip(inner, block, strict=True) for n in pair), math.prod(rest)]
    perm = (*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), 2 * m + 1)
    x = to_shape(ctx, op, x, tuple(cut))
    x = step(ctx, op, "transpose", [x], {"perm": perm})
    return [ctx.add(op, "reshape", [x], {"shape": (shape[0] * math.prod(block), *inner, *rest)})]


def _to_space(ctx: Context, op: TfOperator) -> list[str]:
    shape = ctx.shape(op, 0)
    block, crops = _block(ctx, op)
    m, batch = len(block), shape[0] // math.prod(block)
    inner, rest = shape[1 : 1 + m], shape[1 + m :]
    if shape[0] % math.prod(block):
        raise ctx.refusal(op, f"block {block} of {shape}", "one that divides works", "tflite.malformed")
    image = [n * b for n, b in zip(inner, block, strict=True)]
    kept = [(b, n - a) for n, (b, a) in zip(image, crops, strict=True)]
    if any(low >= high for low, high in kept):
        raise ctx.refusal(op, f"crops {crops} of {image}", "leave something", "tflite.malformed")
    x = to_shape(ctx, op, ctx.tensor(op, 0), (*block, batch, *inner, math.prod(rest)))
    perm = (m, *(axis for k in range(m) for axis in (m + 1 + k, k)), 2 * m + 1)
    x = step(ctx, op, "transpose", [x], {"perm": perm})
    whole = {"shape": (batch, *image, *rest)}
    if not any(b or a for b, a in crops):
        return [ctx.add(op, "reshape", [x], whole)]
    x = step(ctx, op, "reshape", [x], whole)
    attrs = {
        "starts": tuple(low for low, _ in kept),
        "ends": tuple(high for _, high in kept),
        "axes": tuple(range(1, 1 + m)),
        "steps": (1,) * m,
    }
    return [ctx.add(op, "slice", [x], attrs)]


HANDLERS: Mapping[str, Handler] = {
    "DEPTH_TO_SPACE": _depth,
    "SPACE_TO_DEPTH": _depth,
    "SPACE_TO_BATCH_ND": _to_batch,
    "BATCH_TO_SPACE_ND": _to_space,
}
