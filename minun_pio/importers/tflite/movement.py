# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's operators that arrange, join, part and repeat values without a change, and resizing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from minun_pio.importers.builder import bounded
from minun_pio.importers.tflite.context import Context, Handler
from minun_pio.importers.tflite.model import TfOperator
from minun_pio.ir import Shape


def step(ctx: Context, op: TfOperator, kind: str, inputs: list[str], attrs: Mapping[str, Any]) -> str:
    """A node in the middle of an operator that only moves: its output has the format of its first input."""
    made = ctx.builder.add(kind, inputs, attrs, name=f"{op.name}_{kind}")
    if inputs[0] in ctx.builder.quantised:
        ctx.builder.quantised[made] = ctx.builder.quantised[inputs[0]]
    return made


def to_shape(ctx: Context, op: TfOperator, x: str, shape: Shape) -> str:
    """`x` in another shape, as `step`; `x` itself when it has that already."""
    if ctx.builder.shape(x) == tuple(shape):
        return x
    return step(ctx, op, "reshape", [x], {"shape": bounded(shape, "a shape in between", ctx.model.file)})


def plain(ctx: Context, op: TfOperator) -> None:
    """Refuse a fused activation: operators that only move have none."""
    if op.options("FusedActivationFunction", 0):
        raise ctx.refusal(op, "a fused activation", "the interpreter has none here either")


def _reshaped(ctx: Context, op: TfOperator, shape: Shape) -> list[str]:
    x = ctx.tensor(op, 0)
    found = ctx.builder.shape(x)
    shape = bounded(shape, "the result", ctx.model.file)
    if math.prod(shape) != math.prod(found):
        raise ctx.refusal(op, f"{found} to {shape}", "convert again", "tflite.malformed")
    return [ctx.add(op, "reshape", [x], {"shape": shape})]


def _reshape(ctx: Context, op: TfOperator) -> list[str]:
    """The shape is an input, or an option; one that is computed counts as the file's output has it."""
    if ctx.known(op, 1) is not None:
        shape = ctx.integers(op, 1, "shape")
    elif ctx.has(op, 1):
        shape = list(ctx.output(op).shape)
    else:
        shape = _listed(op, "NewShapeAsNumpy")
        if not shape:
            shape = list(ctx.output(op).shape)
    total = math.prod(ctx.shape(op, 0))
    if shape == [0] and total == 1:  # how old converters write a scalar
        shape = []
    if shape.count(-1) == 1:
        rest = math.prod(n for n in shape if n != -1)
        shape[shape.index(-1)] = total // max(1, rest)
    return _reshaped(ctx, op, tuple(shape))


def _listed(op: TfOperator, key: str) -> list[int]:
    """An option that is a vector; empty when it is not there."""
    found = op.options(key, 0)
    return [] if isinstance(found, int) else [int(item) for item in found]


def _squeeze(ctx: Context, op: TfOperator) -> list[str]:
    shape = ctx.shape(op, 0)
    named = {ctx.axis(op, axis, len(shape)) for axis in _listed(op, "SqueezeDimsAsNumpy")}
    gone = named or {axis for axis, extent in enumerate(shape) if extent == 1}
    if any(shape[axis] != 1 for axis in gone):
        raise ctx.refusal(op, f"axes {sorted(gone)} of {shape}", "only extents of 1 go", "tflite.malformed")
    return _reshaped(ctx, op, tuple(extent for axis, extent in enumerate(shape) if axis not in gone))


def _expand_dims(ctx: Context, op: TfOperator) -> list[str]:
    shape = ctx.shape(op, 0)
    axis = ctx.axis(op, _one(ctx, op, 1, "axis"), len(shape) + 1)
    return _reshaped(ctx, op, (*shape[:axis], 1, *shape[axis:]))


def _one(ctx: Context, op: TfOperator, place: int, what: str) -> int:
    found = ctx.integers(op, place, what)
    if len(found) != 1:
        raise ctx.refusal(op, f"{what} {found}", "one number is expected", "tflite.malformed")
    return found[0]


def _transpose(ctx: Context, op: TfOperator) -> list[str]:
    rank = len(ctx.shape(op, 0))
    perm = [ctx.axis(op, axis, rank) for axis in ctx.integers(op, 1, "permutation")]
    if sorted(perm) != list(range(rank)):
        raise ctx.refusal(op, f"permutation {perm}", "convert again", "tflite.malformed")
    return [ctx.add(op, "transpose", [ctx.tensor(op, 0)], {"perm": tuple(perm)})]


def _concat(ctx: Context, op: TfOperator) -> list[str]:
    plain(ctx, op)
    axis = ctx.axis(op, int(op.options("Axis", 0)), len(ctx.shape(op, 0)))
    parts = [ctx.tensor(op, place) for place in range(len(op.inputs))]
    return [ctx.add(op, "concat", parts, {"axis": axis})]


def _pack(ctx: Context, op: TfOperator) -> list[str]:
    shape = ctx.shape(op, 0)
    axis = ctx.axis(op, int(op.options("Axis", 0)), len(shape) + 1)
    wide = (*shape[:axis], 1, *shape[axis:])
    parts = []
    for place in range(len(op.inputs)):
        if ctx.shape(op, place) != shape:
            raise ctx.refusal(
                op, f"{ctx.shape(op, place)} beside {shape}", "equal shapes are packed", "tflite.malformed"
            )
        parts.append(to_shape(ctx, op, ctx.tensor(op, place), wide))
    return [ctx.add(op, "concat", parts, {"axis": axis})]


def _unpack(ctx: Context, op: TfOperator) -> list[str]:
    shape = ctx.shape(op, 0)
    axis, count = ctx.axis(op, int(op.options("Axis", 0)), len(shape)), len(op.outputs)
    if count != shape[axis]:
        raise ctx.refusal(op, f"{count} parts of {shape[axis]}", "one each is expected", "tflite.malformed")
    x, parts = ctx.tensor(op, 0), [ctx.tensor(op, 0)]
    if count > 1:
        hints = [f"{op.name}_part{k}" for k in range(count)]
        attrs = {"axis": axis, "sizes": (1,) * count}
        parts = list(ctx.builder.add_many("split", [x], attrs, outputs=hints, name=f"{op.name}_split"))
    left = (*shape[:axis], *shape[axis + 1 :])
    made: list[str] = []
    for k, part in enumerate(parts):
        if x in ctx.builder.quantised:
            ctx.builder.quantised[part] = ctx.builder.quantised[x]
        hint, name = ctx.output(op, k).label or f"{op.name}_{k}", f"{op.name}_{k}"
        made += ctx.builder.add_many("reshape", [part], {"shape": left}, outputs=[hint], name=name)
    return made


def _split(ctx: Context, op: TfOperator) -> list[str]:
    source = 1 if op.op == "SPLIT" else 0
    shape = ctx.shape(op, source)
    axis = ctx.axis(op, _one(ctx, op, 0 if op.op == "SPLIT" else 2, "axis"), len(shape))
    count = len(op.outputs)
    sizes = [shape[axis] // count] * count if op.op == "SPLIT" else ctx.integers(op, 1, "sizes")
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = shape[axis] - sum(sizes) - 1
    if len(sizes) != count or sum(sizes) != shape[axis] or min(sizes) < 1:
        raise ctx.refusal(op, f"parts {sizes} of {shape[axis]}", "convert again", "tflite.malformed")
    hints = [ctx.output(op, k).label or f"{op.name}_{k}" for k in range(count)]
    attrs = {"axis": axis, "sizes": tuple(sizes)}
    return list(ctx.builder.add_many("split", [ctx.tensor(op, source)], attrs, outputs=hints, name=op.name))


def _tile(ctx: Context, op: TfOperator) -> list[str]:
    """Every repeated axis gets one of extent 1 before it, which is expanded."""
    shape, repeats = ctx.shape(op, 0), ctx.integers(op, 1, "multiples")
    if len(repeats) != len(shape) or min(repeats, default=1) < 1:
        raise ctx.refusal(op, f"multiples {repeats} of {shape}", "one of at least 1 an axis works")
    result = bounded(
        [n * count for n, count in zip(shape, repeats, strict=True)], "the result", ctx.model.file
    )
    narrow: list[int] = []
    wide: list[int] = []
    open_axis = False
    for extent, count in zip(shape, repeats, strict=True):
        if count > 1:
            narrow += [1, extent]
            wide += [count, extent]
        elif open_axis:
            narrow[-1] *= extent
            wide[-1] *= extent
        else:
            narrow.append(extent)
            wide.append(extent)
        open_axis = True
    x = to_shape(ctx, op, ctx.tensor(op, 0), tuple(narrow))
    if wide != narrow:
        x = step(ctx, op, "expand", [x], {"shape": bounded(wide, "the result", ctx.model.file)})
    return [ctx.add(op, "reshape", [x], {"shape": result})]


def _broadcast_to(ctx: Context, op: TfOperator) -> list[str]:
    shape, wanted = ctx.shape(op, 0), tuple(ctx.integers(op, 1, "shape"))
    bounded(wanted, "the result", ctx.model.file)
    behind = wanted[len(wanted) - len(shape) :] if len(wanted) >= len(shape) else ()
    if len(behind) != len(shape) or any(
        have not in (1, want) for have, want in zip(shape, behind, strict=True)
    ):
        raise ctx.refusal(op, f"{shape} to {wanted}", "extents of 1 grow", "tflite.malformed")
    if wanted == shape:
        return [ctx.add(op, "reshape", [ctx.tensor(op, 0)], {"shape": shape})]
    return [ctx.add(op, "expand", [ctx.tensor(op, 0)], {"shape": wanted})]


def _pad(ctx: Context, op: TfOperator) -> list[str]:
    shape, flat = ctx.shape(op, 0), ctx.integers(op, 1, "paddings")
    if len(flat) != 2 * len(shape) or min(flat, default=0) < 0:
        raise ctx.refusal(op, f"paddings {flat} of {shape}", "convert again", "tflite.malformed")
    pads = tuple(zip(flat[::2], flat[1::2], strict=True))
    mode, value = "constant", 0.0
    if op.op == "MIRROR_PAD":
        mode = "symmetric" if op.options("Mode", 0) else "reflect"
    if op.op == "PADV2" and ctx.has(op, 2):
        stored, info = ctx.value(op, 2, "value"), ctx.info(op, 2)
        zero = info.zeros[0] if info.zeros else 0
        value = (float(stored.reshape(-1)[0]) - zero) * (info.scales[0] if info.scales else 1.0)
        if math.isnan(value):
            raise ctx.refusal(op, "its value is NaN", "give it a number", "tflite.malformed")
    bounded([n + b + a for n, (b, a) in zip(shape, pads, strict=True)], "the result", ctx.model.file)
    return [ctx.add(op, "pad", [ctx.tensor(op, 0)], {"pads": pads, "mode": mode, "value": value})]


def _reverse(ctx: Context, op: TfOperator) -> list[str]:
    axes = tuple(ctx.axis(op, axis, len(ctx.shape(op, 0))) for axis in ctx.integers(op, 1, "axes"))
    if len(set(axes)) != len(axes):
        raise ctx.refusal(op, f"axes {axes} repeat", "name each once", "tflite.malformed")
    return [ctx.add(op, "reverse", [ctx.tensor(op, 0)], {"axes": axes})]


def _cast(ctx: Context, op: TfOperator) -> list[str]:
    """Only what changes no value: real numbers to real numbers, indices to wider or narrower ones."""
    source, target = ctx.info(op, 0), ctx.output(op)
    kinds = {"f": ("float32", "float64"), "i": ("int32", "int64")}
    allowed = kinds.get(source.dtype.kind, ())
    if source.scales or target.scales or not {source.dtype.name, target.dtype.name} <= set(allowed):
        raise ctx.refusal(op, f"{source.dtype} to {target.dtype}", "constants and float32 to float32 work")
    x = ctx.tensor(op, 0)
    return [ctx.add(op, "reshape", [x], {"shape": ctx.builder.shape(x)})]


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
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand_dims,
    "TRANSPOSE": _transpose,
    "CONCATENATION": _concat,
    "PACK": _pack,
    "UNPACK": _unpack,
    "SPLIT": _split,
    "SPLIT_V": _split,
    "TILE": _tile,
    "BROADCAST_TO": _broadcast_to,
    "PAD": _pad,
    "PADV2": _pad,
    "MIRROR_PAD": _pad,
    "REVERSE_V2": _reverse,
    "CAST": _cast,
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
}
