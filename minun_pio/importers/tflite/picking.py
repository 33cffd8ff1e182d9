# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's operators that pick values: slices, gathers, and selections by a constant condition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from minun_pio.importers.builder import bounded
from minun_pio.importers.tflite.context import Context, Handler
from minun_pio.importers.tflite.model import TfOperator
from minun_pio.importers.tflite.movement import step, to_shape
from minun_pio.ir import Shape


def _sliced(ctx: Context, op: TfOperator, taken: Sequence[range], result: Shape | None = None) -> list[str]:
    """The indices of `taken` along every axis, seen in the shape `result`."""
    shape = tuple(len(indices) for indices in taken)
    if 0 in shape:
        raise ctx.refusal(op, f"an empty slice {shape}", "tensors have at least one element")
    attrs = {
        "starts": tuple(indices.start for indices in taken),
        # an end before the first element counts from the end, once more
        "ends": tuple(
            indices.stop if indices.stop >= 0 else -extent - 1
            for indices, extent in zip(taken, ctx.shape(op, 0), strict=True)
        ),
        "axes": tuple(range(len(taken))),
        "steps": tuple(indices.step for indices in taken),
    }
    x = ctx.tensor(op, 0)
    if result is None or result == shape:
        return [ctx.add(op, "slice", [x], attrs)]
    if any(indices != range(extent) for indices, extent in zip(taken, ctx.shape(op, 0), strict=True)):
        x = step(ctx, op, "slice", [x], attrs)
    return [ctx.add(op, "reshape", [x], {"shape": bounded(result, "the result", ctx.model.file)})]


def _slice(ctx: Context, op: TfOperator) -> list[str]:
    shape = ctx.shape(op, 0)
    begin, size = ctx.integers(op, 1, "begin"), ctx.integers(op, 2, "size")
    if not len(begin) == len(size) == len(shape):
        raise ctx.refusal(op, f"begin {begin}, size {size} of {shape}", "convert again", "tflite.malformed")
    ends = [n if s == -1 else b + s for b, s, n in zip(begin, size, shape, strict=True)]
    if any(not 0 <= b <= e <= n for b, e, n in zip(begin, ends, shape, strict=True)):
        raise ctx.refusal(op, f"begin {begin}, size {size} of {shape}", "stay inside", "tflite.malformed")
    return _sliced(ctx, op, [range(b, e) for b, e in zip(begin, ends, strict=True)])


def _strided_slice(ctx: Context, op: TfOperator) -> list[str]:
    """begin:end:stride as TensorFlow defines them, with its five masks: an entry is an ellipsis, a new axis,
    one index whose axis goes, or a range. Axes that no entry names are taken whole."""
    shape = ctx.shape(op, 0)
    begin, end = ctx.integers(op, 1, "begin"), ctx.integers(op, 2, "end")
    strides = ctx.integers(op, 3, "strides")
    entries = f"begin {begin}, end {end}, strides {strides} of {shape}"
    if not len(begin) == len(end) == len(strides) or 0 in strides:
        raise ctx.refusal(op, entries, "convert again", "tflite.malformed")
    low, high = int(op.options("BeginMask", 0)), int(op.options("EndMask", 0))
    gone, new = int(op.options("ShrinkAxisMask", 0)), int(op.options("NewAxisMask", 0))
    dots = [k for k in range(len(begin)) if int(op.options("EllipsisMask", 0)) >> k & 1]
    if len(dots) > 1:
        raise ctx.refusal(op, f"{len(dots)} ellipses", "one at most is expected", "tflite.malformed")
    kinds = ["new" if new >> k & 1 else "one" if gone >> k & 1 else "range" for k in range(len(begin))]
    for k in dots:
        kinds[k] = "dots"
    whole = len(shape) - sum(kind in ("one", "range") for kind in kinds)
    if whole < 0:
        raise ctx.refusal(op, f"{entries}: too many", "one an axis is expected", "tflite.malformed")
    if (dots and not whole and kinds[-1] != "dots") or any(
        kind == "one" and low >> k & 1 for k, kind in enumerate(kinds)
    ):
        raise ctx.refusal(
            op,
            f"{entries}, masks that TensorFlow and its interpreter read differently",
            "name every axis once",
        )
    taken: list[range] = []
    result: list[int] = []
    for k, kind in enumerate([*kinds, *([] if dots else ["dots"])]):
        if kind == "new":
            result.append(1)
            continue
        if kind == "dots":
            for extent in shape[len(taken) : len(taken) + whole]:
                taken.append(range(extent))
                result.append(extent)
            continue
        extent, first = shape[len(taken)], begin[k]
        if kind == "one":
            place = first + extent if first < 0 else first
            if not 0 <= place < extent or strides[k] < 0:
                raise ctx.refusal(op, f"{entries}: index {first}", "stay inside", "tflite.malformed")
            taken.append(range(place, place + 1))
            continue
        last = first + end[k] if op.options("Offset", 0) else end[k]
        bounds = slice(None if low >> k & 1 else first, None if high >> k & 1 else last, strides[k])
        taken.append(range(*bounds.indices(extent)))
        result.append(len(taken[-1]))
    return _sliced(ctx, op, taken, tuple(result))


def _gather(ctx: Context, op: TfOperator) -> list[str]:
    shape, batch = ctx.shape(op, 0), int(op.options("BatchDims", 0))
    axis = ctx.axis(op, int(op.options("Axis", 0)), len(shape))
    picked = ctx.known(op, 1)
    if picked is None:
        if batch:
            raise ctx.refusal(op, "batch dimensions with computed indices", "constant indices work")
        return [ctx.add(op, "gather", [ctx.tensor(op, 0), ctx.tensor(op, 1)], {"axis": axis})]
    _inside(ctx, op, picked, shape[axis])
    batch = batch + picked.ndim if batch < 0 else batch
    if batch:
        return [_gather_batches(ctx, op, axis, batch, picked.astype(np.int64))]
    indices = ctx.builder.constant(picked.astype(np.int64), f"{op.name}_indices")
    return [ctx.add(op, "gather", [ctx.tensor(op, 0), indices], {"axis": axis})]


def _inside(ctx: Context, op: TfOperator, picked: NDArray[np.generic], extent: int) -> None:
    if picked.dtype.kind not in "iu" or picked.size == 0 or picked.min() < 0 or picked.max() >= extent:
        raise ctx.refusal(op, f"an index outside 0..{extent - 1}", "convert again", "tflite.malformed")


def _gather_batches(ctx: Context, op: TfOperator, axis: int, batch: int, picked: NDArray[np.int64]) -> str:
    """The batches and the gathered axis as one axis of rows, which one gather picks from.

    x is (batches, between, extent, behind); its result is (batches, between, indices, behind).
    """
    shape = ctx.shape(op, 0)
    if not 0 < batch <= axis or picked.shape[:batch] != shape[:batch]:
        raise ctx.refusal(
            op, f"{batch} batch dimensions of {shape} and {picked.shape}", "convert again", "tflite.malformed"
        )
    batches, between = math.prod(shape[:batch]), math.prod(shape[batch:axis])
    extent, behind = shape[axis], math.prod(shape[axis + 1 :])
    flat = picked.reshape(batches, -1)
    count = flat.shape[1]
    rows = np.arange(batches)[:, None, None] * between + np.arange(between)[None, :, None]
    indices = ctx.builder.constant(rows * extent + flat[:, None, :], f"{op.name}_indices")
    x = to_shape(ctx, op, ctx.tensor(op, 0), (batches * between * extent, behind))
    x = step(ctx, op, "gather", [x, indices], {"axis": 0})
    assert ctx.builder.shape(x) == (batches, between, count, behind)
    result = (*shape[:axis], *picked.shape[batch:], *shape[axis + 1 :])
    return ctx.add(op, "reshape", [x], {"shape": bounded(result, "the result", ctx.model.file)})


def _gather_nd(ctx: Context, op: TfOperator) -> list[str]:
    """Constant indices (..., k) into the first k axes: one gather from those axes as one."""
    shape, picked = ctx.shape(op, 0), ctx.value(op, 1, "indices")
    depth = picked.shape[-1] if picked.ndim else 0
    if not 0 < depth <= len(shape):
        raise ctx.refusal(op, f"indices {picked.shape} of {shape}", "convert again", "tflite.malformed")
    for axis in range(depth):
        _inside(ctx, op, picked[..., axis], shape[axis])
    places = np.moveaxis(picked.astype(np.int64), -1, 0)
    linear = np.ravel_multi_index(tuple(places), shape[:depth])
    indices = ctx.builder.constant(np.asarray(linear, np.int64), f"{op.name}_indices")
    x = to_shape(ctx, op, ctx.tensor(op, 0), (math.prod(shape[:depth]), *shape[depth:]))
    return [ctx.add(op, "gather", [x, indices], {"axis": 0})]


def _select(ctx: Context, op: TfOperator) -> list[str]:
    """By a constant condition: one side whole, or a gather from both sides behind each other."""
    condition = ctx.value(op, 0, "condition")
    if condition.dtype != np.bool_:
        raise ctx.refusal(op, f"a condition of {condition.dtype}", "bool is expected", "tflite.malformed")
    sides = [ctx.shape(op, 1), ctx.shape(op, 2)]
    if op.op == "SELECT" and condition.ndim == 1 and len(sides[0]) > 1:
        condition = condition.reshape(-1, *(1 for _ in sides[0][1:]))  # it selects rows
    result = bounded(np.broadcast_shapes(condition.shape, *sides), "the result", ctx.model.file)
    wanted = np.broadcast_to(condition, result).reshape(-1)
    if wanted.all() or not wanted.any():
        place = 1 if wanted.all() else 2
        kind = "reshape" if ctx.shape(op, place) == result else "expand"
        return [ctx.add(op, kind, [ctx.tensor(op, place)], {"shape": result})]
    parts, starts, start = [], [], 0
    for place in (1, 2):
        shape = ctx.shape(op, place)
        index = np.arange(start, start + math.prod(shape)).reshape(shape)
        starts.append(np.broadcast_to(index, result).reshape(-1))
        parts.append(to_shape(ctx, op, ctx.tensor(op, place), (math.prod(shape),)))
        start += math.prod(shape)
    both = step(ctx, op, "concat", parts, {"axis": 0})
    fmt = ctx.format(op, ctx.output(op))
    if fmt is not None:
        ctx.builder.quantised[both] = fmt
    chosen = np.where(wanted, starts[0], starts[1]).reshape(result)
    indices = ctx.builder.constant(chosen.astype(np.int64), f"{op.name}_indices")
    return [ctx.add(op, "gather", [both, indices], {"axis": 0})]


HANDLERS: Mapping[str, Handler] = {
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "SELECT": _select,
    "SELECT_V2": _select,
}
