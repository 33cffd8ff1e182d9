# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's operators that move values and do not change them, and resizing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from minun_pio.importers.builder import bounded
from minun_pio.importers.tflite.context import Context, Handler
from minun_pio.importers.tflite.model import TfOperator
from minun_pio.ir import Shape


def _to_shape(ctx: Context, op: TfOperator, shape: Shape) -> list[str]:
    return [
        ctx.add(op, "reshape", [ctx.tensor(op, 0)], {"shape": bounded(shape, "the result", ctx.model.file)})
    ]


def _reshape(ctx: Context, op: TfOperator) -> list[str]:
    """The output's own shape counts: the shape may be an input, an option, or both."""
    total = int(np.prod(ctx.shape(op, 0), dtype=np.int64))
    shape = list(ctx.output(op).shape)
    if ctx.known(op, 1) is not None:
        shape = ctx.integers(op, 1, "shape")
    if shape.count(-1) == 1:
        known = int(np.prod([n for n in shape if n != -1], dtype=np.int64))
        shape[shape.index(-1)] = total // max(1, known)
    if int(np.prod(shape, dtype=np.int64)) != total:
        raise ctx.refusal(op, f"{ctx.shape(op, 0)} to {shape}", "convert again", "tflite.malformed")
    return _to_shape(ctx, op, tuple(shape))


def _same_values(ctx: Context, op: TfOperator) -> list[str]:
    """SQUEEZE and EXPAND_DIMS: the file's output shape says which axes."""
    shape = ctx.output(op).shape
    if int(np.prod(shape, dtype=np.int64)) != int(np.prod(ctx.shape(op, 0), dtype=np.int64)):
        raise ctx.refusal(op, f"{ctx.shape(op, 0)} to {shape}", "convert again", "tflite.malformed")
    return _to_shape(ctx, op, shape)


def _transpose(ctx: Context, op: TfOperator) -> list[str]:
    perm = ctx.integers(op, 1, "permutation")
    if sorted(perm) != list(range(len(ctx.shape(op, 0)))):
        raise ctx.refusal(op, f"permutation {perm}", "convert again", "tflite.malformed")
    return [ctx.add(op, "transpose", [ctx.tensor(op, 0)], {"perm": tuple(perm)})]


def _concat(ctx: Context, op: TfOperator) -> list[str]:
    axis = ctx.axis(op, int(op.options("Axis", 0)), len(ctx.shape(op, 0)))
    parts = [ctx.tensor(op, place) for place in range(len(op.inputs))]
    return [ctx.add(op, "concat", parts, {"axis": axis})]


def _pack(ctx: Context, op: TfOperator) -> list[str]:
    shape = list(ctx.shape(op, 0))
    axis = ctx.axis(op, int(op.options("Axis", 0)), len(shape) + 1)
    wide = (*shape[:axis], 1, *shape[axis:])
    parts = []
    for place in range(len(op.inputs)):
        x = ctx.tensor(op, place)
        made = ctx.add(op, "reshape", [x], {"shape": wide})
        if x in ctx.builder.quantised:
            ctx.builder.quantised[made] = ctx.builder.quantised[x]
        parts.append(made)
    return [ctx.add(op, "concat", parts, {"axis": axis})]


def _split(ctx: Context, op: TfOperator) -> list[str]:
    source = 1 if op.op == "SPLIT" else 0
    shape = ctx.shape(op, source)
    axis = ctx.axis(op, ctx.integers(op, 0 if op.op == "SPLIT" else 2, "axis")[0], len(shape))
    count = len(op.outputs)
    sizes = [shape[axis] // count] * count if op.op == "SPLIT" else ctx.integers(op, 1, "sizes")
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = shape[axis] - sum(sizes) - 1
    if len(sizes) != count or sum(sizes) != shape[axis] or min(sizes) < 1:
        raise ctx.refusal(op, f"parts {sizes} of {shape[axis]}", "convert again", "tflite.malformed")
    hints = [ctx.output(op, k).name or f"{op.name}_{k}" for k in range(count)]
    attrs = {"axis": axis, "sizes": tuple(sizes)}
    return list(ctx.builder.add_many("split", [ctx.tensor(op, source)], attrs, outputs=hints, name=op.name))


def _slice(ctx: Context, op: TfOperator) -> list[str]:
    shape = ctx.shape(op, 0)
    begin, size = ctx.integers(op, 1, "begin"), ctx.integers(op, 2, "size")
    if len(begin) != len(shape) or len(size) != len(shape):
        raise ctx.refusal(op, f"begin {begin}, size {size}", "convert again", "tflite.malformed")
    ends = tuple(n if s == -1 else b + s for b, s, n in zip(begin, size, shape, strict=True))
    attrs = {
        "starts": tuple(begin),
        "ends": ends,
        "axes": tuple(range(len(shape))),
        "steps": (1,) * len(shape),
    }
    return [ctx.add(op, "slice", [ctx.tensor(op, 0)], attrs)]


def _strided_slice(ctx: Context, op: TfOperator) -> list[str]:
    shape = ctx.shape(op, 0)
    begin, end = ctx.integers(op, 1, "begin"), ctx.integers(op, 2, "end")
    steps = ctx.integers(op, 3, "strides")
    if not len(begin) == len(end) == len(steps) <= len(shape) or 0 in steps:
        raise ctx.refusal(
            op, f"begin {begin}, end {end}, strides {steps}", "convert again", "tflite.malformed"
        )
    if op.options("EllipsisMask", 0) or op.options("NewAxisMask", 0):
        raise ctx.refusal(op, "an ellipsis or a new axis", "begin, end and strides work")
    whole_low, whole_high = int(op.options("BeginMask", 0)), int(op.options("EndMask", 0))
    gone = int(op.options("ShrinkAxisMask", 0))
    starts, ends = [], []
    for axis, (b, e, step) in enumerate(zip(begin, end, steps, strict=True)):
        extent = shape[axis]
        low = (0 if step > 0 else extent - 1) if whole_low >> axis & 1 else b
        high = (extent if step > 0 else -extent - 1) if whole_high >> axis & 1 else e
        if gone >> axis & 1:
            low = b + extent if b < 0 else b
            high, steps[axis] = low + 1, 1
        starts.append(low)
        ends.append(high)
    attrs = {
        "starts": tuple(starts),
        "ends": tuple(ends),
        "axes": tuple(range(len(starts))),
        "steps": tuple(steps),
    }
    result = ctx.add(op, "slice", [ctx.tensor(op, 0)], attrs)
    left = tuple(n for axis, n in enumerate(ctx.builder.shape(result)) if not gone >> axis & 1)
    return [ctx.add(op, "reshape", [result], {"shape": left}) if gone else result]


def _pad(ctx: Context, op: TfOperator) -> list[str]:
    shape = ctx.shape(op, 0)
    pads = ctx.value(op, 1, "paddings").reshape(-1, 2)
    if len(pads) != len(shape) or pads.min() < 0:
        raise ctx.refusal(op, f"paddings {pads.tolist()}", "convert again", "tflite.malformed")
    mode, value = "constant", 0.0
    if op.op == "MIRROR_PAD":
        if op.options("Mode", 0) != 0:
            raise ctx.refusal(op, "mode SYMMETRIC", "REFLECT works")
        mode = "reflect"
    if op.op == "PADV2" and ctx.has(op, 2):
        stored, info = ctx.value(op, 2, "value"), ctx.info(op, 2)
        zero = info.zeros[0] if info.zeros else 0
        value = (float(stored.reshape(-1)[0]) - zero) * (info.scales[0] if info.scales else 1.0)
    bounded(
        [n + int(b) + int(a) for n, (b, a) in zip(shape, pads, strict=True)], "the result", ctx.model.file
    )
    attrs = {"pads": tuple((int(b), int(a)) for b, a in pads), "mode": mode, "value": value}
    return [ctx.add(op, "pad", [ctx.tensor(op, 0)], attrs)]


def _gather(ctx: Context, op: TfOperator) -> list[str]:
    if op.options("BatchDims", 0):
        raise ctx.refusal(op, "batch dimensions", "without them it works")
    axis = ctx.axis(op, int(op.options("Axis", 0)), len(ctx.shape(op, 0)))
    picked = ctx.known(op, 1)
    if picked is not None:
        extent = ctx.shape(op, 0)[axis]
        if picked.dtype.kind not in "iu" or picked.min() < 0 or picked.max() >= extent:
            raise ctx.refusal(op, f"an index outside 0..{extent - 1}", "convert again", "tflite.malformed")
        indices = ctx.builder.constant(picked.astype(np.int64), f"{op.name}_indices")
    else:
        indices = ctx.tensor(op, 1)
    return [ctx.add(op, "gather", [ctx.tensor(op, 0), indices], {"axis": axis})]


def _reverse(ctx: Context, op: TfOperator) -> list[str]:
    axes = tuple(ctx.axis(op, axis, len(ctx.shape(op, 0))) for axis in ctx.integers(op, 1, "axes"))
    return [ctx.add(op, "reverse", [ctx.tensor(op, 0)], {"axes": axes})]


def _resize(ctx: Context, op: TfOperator) -> list[str]:
    shape, sizes = ctx.shape(op, 0), ctx.integers(op, 1, "size")
    if len(shape) != 4 or len(sizes) != 2 or min(sizes) < 1:
        raise ctx.refusal(op, f"{shape} to {sizes}", "height and width are resized")
    corners, half = bool(op.options("AlignCorners", 0)), bool(op.options("HalfPixelCenters", 0))
    nearest = op.op == "RESIZE_NEAREST_NEIGHBOR"
    attrs = {
        "sizes": bounded((shape[0], *sizes, shape[3]), "the result", ctx.model.file),
        "mode": "nearest" if nearest else "linear",
        "coordinate": "align_corners" if corners else "half_pixel" if half else "asymmetric",
        "nearest_mode": "round_prefer_ceil" if corners or half else "floor",
    }
    if nearest and half:
        attrs["coordinate"], attrs["nearest_mode"] = "tf_half_pixel_for_nn", "floor"
    return [ctx.add(op, "resize", [ctx.tensor(op, 0)], attrs)]


HANDLERS: Mapping[str, Handler] = {
    "RESHAPE": _reshape,
    "SQUEEZE": _same_values,
    "EXPAND_DIMS": _same_values,
    "TRANSPOSE": _transpose,
    "CONCATENATION": _concat,
    "PACK": _pack,
    "SPLIT": _split,
    "SPLIT_V": _split,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "PAD": _pad,
    "PADV2": _pad,
    "MIRROR_PAD": _pad,
    "GATHER": _gather,
    "REVERSE_V2": _reverse,
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
}
