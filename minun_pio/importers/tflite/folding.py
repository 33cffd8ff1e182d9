# SPDX-License-Identifier: Apache-2.0
"""What a file computes from constants alone, above all shapes: computed here, as the interpreter would.

Only plain numbers are folded, without a scale: shapes, indices, conditions, and float constants. An operator
that moves values is run by its own handler on the places of the values, which then are picked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.importers.builder import MAX_ELEMENTS, GraphBuilder
from minun_pio.importers.tflite import movement, picking
from minun_pio.importers.tflite.context import Context, Handler
from minun_pio.importers.tflite.model import TfOperator
from minun_pio.ops import REGISTRY

Array = NDArray[Any]
_Fold = Callable[[Context, TfOperator, list[Array]], Array]

_MOVES: Mapping[str, Handler] = {
    op: handler
    for op, handler in {**movement.HANDLERS, **picking.HANDLERS}.items()
    if not op.startswith("RESIZE") and op not in ("CAST", "PAD", "PADV2", "MIRROR_PAD")
}


def _binary(function: Callable[[Array, Array], Array]) -> _Fold:
    def fold(ctx: Context, op: TfOperator, values: list[Array]) -> Array:
        if op.options("FusedActivationFunction", 0):
            raise ctx.refusal(op, "a fused activation on constants", "convert without it")
        a, b = values
        _small(ctx, op, np.broadcast_shapes(a.shape, b.shape))
        if a.dtype == np.float64:  # dequantised constants: the interpreter has them in float32
            a, b = a.astype(np.float32), b.astype(np.float32)
        return np.asarray(function(a, b))

    return fold


def _unary(function: Callable[[Array], Array]) -> _Fold:
    return lambda ctx, op, values: np.asarray(function(values[0]))


def _divided(a: Array, b: Array) -> Array:
    """Integers are cut towards zero."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if not np.all(b):
        raise ZeroDivisionError
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


def _floored(a: Array, b: Array) -> Array:
    if not np.all(b):
        raise ZeroDivisionError
    return np.asarray(a // b)


def _remainder(a: Array, b: Array) -> Array:
    if not np.all(b):
        raise ZeroDivisionError
    return np.asarray(a % b)


def _reduced(function: Callable[..., Array]) -> _Fold:
    def fold(ctx: Context, op: TfOperator, values: list[Array]) -> Array:
        x = values[0]
        axes = tuple({ctx.axis(op, axis, x.ndim) for axis in ctx.integers(op, 1, "axes")})
        return np.asarray(function(x, axis=axes, keepdims=bool(op.options("KeepDims", 0))))

    return fold


def _small(ctx: Context, op: TfOperator, shape: tuple[int, ...] | list[int]) -> None:
    if min(shape, default=0) < 0 or math.prod(shape) > MAX_ELEMENTS or len(shape) > 8:
        raise ctx.refusal(
            op, f"a constant of shape {list(shape)}", f"at most {MAX_ELEMENTS:,} elements are accepted"
        )


def _fill(ctx: Context, op: TfOperator, values: list[Array]) -> Array:
    shape = [int(extent) for extent in values[0].reshape(-1)]
    _small(ctx, op, shape)
    return np.full(shape, values[1].reshape(-1)[0])


def _zeros(ctx: Context, op: TfOperator, values: list[Array]) -> Array:
    if ctx.output(op).scales:
        raise ctx.refusal(op, "codes of zero", "the interpreter has none either")
    return np.zeros(values[0].shape, ctx.output(op).dtype)


def _range(ctx: Context, op: TfOperator, values: list[Array]) -> Array:
    start, limit, delta = (value.reshape(-1)[0] for value in values)
    steps = (float(limit) - float(start)) / float(delta)
    if not math.isfinite(steps):
        raise ZeroDivisionError
    count = max(0, math.ceil(steps))
    _small(ctx, op, [count])
    if values[0].dtype.kind == "f":  # one term after the other, in float32
        found = np.full(count, delta, np.float32)
        found[:1] = start
        return np.cumsum(found, dtype=np.float32) if count else found
    return np.asarray(start + delta * np.arange(count, dtype=values[0].dtype), values[0].dtype)


def _cast(ctx: Context, op: TfOperator, values: list[Array]) -> Array:
    with np.errstate(invalid="ignore"):
        return values[0].astype(ctx.output(op).dtype)


_FOLDS: Mapping[str, _Fold] = {
    "SHAPE": lambda ctx, op, values: np.asarray(values[0].shape, np.int64),
    "RANK": lambda ctx, op, values: np.asarray(values[0].ndim, np.int32),
    "FILL": _fill,
    "RANGE": _range,
    "CAST": _cast,
    "ZEROS_LIKE": _zeros,
    "WHERE": _unary(lambda x: np.argwhere(x).astype(np.int64)),
    "BROADCAST_ARGS": lambda ctx, op, values: np.asarray(
        np.broadcast_shapes(*(tuple(int(n) for n in value) for value in values)), np.int64
    ),
    "ADD": _binary(np.add),
    "SUB": _binary(np.subtract),
    "MUL": _binary(np.multiply),
    "DIV": _binary(_divided),
    "FLOOR_DIV": _binary(_floored),
    "FLOOR_MOD": _binary(_remainder),
    "MAXIMUM": _binary(np.maximum),
    "MINIMUM": _binary(np.minimum),
    "EQUAL": _binary(np.equal),
    "NOT_EQUAL": _binary(np.not_equal),
    "LESS": _binary(np.less),
    "LESS_EQUAL": _binary(np.less_equal),
    "GREATER": _binary(np.greater),
    "GREATER_EQUAL": _binary(np.greater_equal),
    "LOGICAL_AND": _binary(np.logical_and),
    "LOGICAL_OR": _binary(np.logical_or),
    "LOGICAL_NOT": _unary(np.logical_not),
    "NEG": _unary(np.negative),
    "ABS": _unary(np.abs),
    "REDUCE_PROD": _reduced(np.prod),
    "REDUCE_MAX": _reduced(np.max),
    "REDUCE_MIN": _reduced(np.min),
    "REDUCE_ANY": _reduced(np.any),
    "REDUCE_ALL": _reduced(np.all),
}

FOLDABLE = frozenset(_FOLDS)
"""Operators that work where all that they read is constant; some of them only there."""

_OF_SHAPES = frozenset({"SHAPE", "RANK", "ZEROS_LIKE"})
"""Those that read no values."""


def folded(ctx: Context, op: TfOperator) -> bool:
    """Compute `op` now if it reads plain constants only; its outputs are then in `ctx.values`."""
    if op.op not in _FOLDS and op.op not in _MOVES:
        return False
    if op.op in _OF_SHAPES and ctx.has(op, 0) and ctx.known(op, 0) is None:
        values: list[Array] = [np.broadcast_to(np.int8(0), ctx.shape(op, 0))]
    else:
        found = [_plain(ctx, op, place) for place in range(len(op.inputs)) if ctx.has(op, place)]
        values = [value for value in found if value is not None]
        if not values or len(values) != len(found):
            return False
    results = _moved(ctx, op, values) if op.op in _MOVES else [_FOLDS[op.op](ctx, op, values)]
    ctx.values.update(zip(op.outputs, results, strict=False))
    return True


def _plain(ctx: Context, op: TfOperator, place: int) -> Array | None:
    """A constant input without a scale. FILL's value may have one: it is repeated as it is."""
    scaled = bool(ctx.info(op, place).scales) and op.op not in ("FILL", *_OF_SHAPES)
    return None if scaled else ctx.known(op, place)


def _moved(ctx: Context, op: TfOperator, values: list[Array]) -> list[Array]:
    """What the operator's handler makes of the places of `values`, with the values put there."""
    builder = GraphBuilder("constants", ctx.model.file)
    inner, start = Context(ctx.model, builder, {}, ctx.values), 0
    given = dict(zip((index for index in op.inputs if index >= 0), values, strict=True))
    for index, value in given.items():
        if value.size:
            places = np.arange(start, start + value.size).reshape(value.shape)
            inner.tensors[index] = builder.constant(places, "constant")
        start += value.size
    made = _MOVES[op.op](inner, op)
    known: dict[str, Array] = {name: array[None] for name, array in builder.constants.items()}
    for node in builder.nodes:
        outputs = REGISTRY[node.op].reference(node, [known[name] for name in node.inputs])
        known.update(zip(node.outputs, outputs, strict=True))
    flat = [value.reshape(-1) for value in given.values()]
    source = 1 if op.op in ("SPLIT", "SELECT", "SELECT_V2") else 0
    everything = np.concatenate(flat).astype(values[source].dtype)
    return [np.asarray(everything[known[name][0].astype(np.int64)]) for name in made]
