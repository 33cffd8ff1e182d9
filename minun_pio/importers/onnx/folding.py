# SPDX-License-Identifier: Apache-2.0
"""Shape arithmetic and constant subgraphs, computed at import with numpy.

Exporters write shapes as Shape, Gather, Unsqueeze, Concat, Reshape; positional encodings as Range, Sin,
Cos. A node of
`FOLDABLE` whose inputs are all known is replaced by its value. Results are bounded before they are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.importers.builder import MAX_ELEMENTS
from minun_pio.importers.onnx.model import OnnxNode

Array = NDArray[Any]
Rule = Callable[[OnnxNode, Sequence[Array], int], "Array | list[Array]"]


def fold(node: OnnxNode, inputs: Sequence[Array | None], opset: int, where: str) -> list[Array] | None:
    """The outputs of `node` for known inputs; None when no rule is there (the node stays)."""
    rule = FOLDABLE.get(node.op)
    if rule is None:
        return None
    present = [value for value in inputs if value is not None]
    if len(present) != len(inputs) and node.op not in _ABSENT_ALLOWED:
        return None
    try:
        with np.errstate(all="ignore"):
            result = rule(node, present, opset)
    except MinunError:
        raise
    except (
        MemoryError,
        ValueError,
        IndexError,
        TypeError,
        KeyError,
        OverflowError,
        ZeroDivisionError,
        AttributeError,
    ) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise MinunError(
            "onnx.malformed", f"{node.op} of constants cannot be computed: {reason}", where
        ) from None
    return result if isinstance(result, list) else [result]


def guard(shape: Sequence[int] | Array) -> tuple[int, ...]:
    """A shape that may be allocated."""
    plain = tuple(int(extent) for extent in shape)
    if any(extent < 0 for extent in plain) or math.prod(plain) > MAX_ELEMENTS or len(plain) > 32:
        raise MinunError(
            "onnx.too-large", f"a constant of shape {plain}; at most {MAX_ELEMENTS:,} elements are accepted"
        )
    return plain


def _elementwise(function: Callable[..., Any]) -> Rule:
    def rule(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
        guard(np.broadcast_shapes(*(value.shape for value in x)))
        result = x[0] if len(x) == 1 and function in (np.maximum, np.minimum, np.add) else function(*x[:2])
        for value in x[2:]:
            result = function(result, value)
        return _typed(result, x[0])

    return rule


def _typed(result: Any, like: Array) -> Array:
    array = np.asarray(result)
    return array if array.dtype.kind == "b" else array.astype(like.dtype, copy=False)


def _comparison(function: Callable[..., Any]) -> Rule:
    def rule(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
        guard(np.broadcast_shapes(*(value.shape for value in x)))
        return np.asarray(function(*x))

    return rule


def _divide(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    guard(np.broadcast_shapes(x[0].shape, x[1].shape))
    if x[0].dtype.kind in "iu":
        return _typed(np.trunc(x[0] / x[1]), x[0])
    return _typed(x[0] / x[1], x[0])


def _mod(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    guard(np.broadcast_shapes(x[0].shape, x[1].shape))
    return _typed((np.fmod if node.attrs.get("fmod") else np.mod)(x[0], x[1]), x[0])


def axes(node: OnnxNode, x: Sequence[Array], position: int = 1) -> tuple[int, ...] | None:
    """The axes of a Squeeze, Unsqueeze or Reduce: an attribute before opset 11 or 13, an input since."""
    if "axes" in node.attrs:
        return tuple(node.attrs["axes"])
    if len(x) > position:
        return tuple(int(axis) for axis in x[position].reshape(-1))
    return None


def _reduce(function: Callable[..., Any]) -> Rule:
    def rule(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
        over = axes(node, x)
        if not x[0].size:
            raise ValueError("a reduction of nothing")
        if not over and node.attrs.get("noop_with_empty_axes"):
            return x[0]
        return _typed(function(x[0], axis=over or None, keepdims=bool(node.attrs.get("keepdims", 1))), x[0])

    return rule


def _constant(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    for key, dtype in (
        ("value", None),
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if key in node.attrs:
            return np.asarray(node.attrs[key], dtype=dtype)
    raise ValueError("Constant without a numeric value")


def _constant_of_shape(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    value = np.asarray(node.attrs.get("value", np.zeros(1, np.float32))).reshape(-1)
    return np.full(guard(x[0].reshape(-1)), value[0])


def _cast(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    if node.op == "CastLike":
        return x[0].astype(x[1].dtype)
    import onnx

    return x[0].astype(onnx.helper.tensor_dtype_to_np_dtype(int(node.attrs["to"])))


def _slice(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    if "starts" in node.attrs:
        starts, ends = node.attrs["starts"], node.attrs["ends"]
        over = node.attrs.get("axes", list(range(len(starts))))
        steps = [1] * len(starts)
    else:
        starts, ends = x[1].tolist(), x[2].tolist()
        over = x[3].tolist() if len(x) > 3 else list(range(len(starts)))
        steps = x[4].tolist() if len(x) > 4 else [1] * len(starts)
    index: list[Any] = [slice(None)] * x[0].ndim
    for start, end, axis, step in zip(starts, ends, over, steps, strict=True):
        stop = None if step < 0 and end < -x[0].shape[axis] else end
        index[axis] = slice(start, stop, step)
    return np.asarray(x[0][tuple(index)])


def _range(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    start, limit, delta = (value.reshape(()).item() for value in x)
    guard((max(0, math.ceil((limit - start) / delta)),))
    return np.arange(start, limit, delta, dtype=x[0].dtype)


def reshaped(shape: Sequence[int], target: Sequence[int], allow_zero: bool) -> tuple[int, ...]:
    """ONNX's Reshape: 0 copies the input's extent, one -1 is inferred."""
    result = [
        int(shape[i]) if extent == 0 and not allow_zero and i < len(shape) else int(extent)
        for i, extent in enumerate(target)
    ]
    if result.count(-1) > 1 or any(extent < -1 for extent in result):
        raise ValueError(f"bad target shape {list(target)}")
    known = math.prod(extent for extent in result if extent != -1)
    if -1 in result:
        if known == 0 or math.prod(shape) % known:
            raise ValueError(f"shape {tuple(shape)} does not fit {list(target)}")
        result[result.index(-1)] = math.prod(shape) // known
    if math.prod(result) != math.prod(shape):
        raise ValueError(f"shape {tuple(shape)} does not fit {list(target)}")
    return tuple(result)


def _reshape(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    return x[0].reshape(reshaped(x[0].shape, x[1].reshape(-1).tolist(), bool(node.attrs.get("allowzero"))))


def _flatten(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    axis = int(node.attrs.get("axis", 1))
    axis = axis + x[0].ndim if axis < 0 else axis
    return x[0].reshape(math.prod(x[0].shape[:axis]), -1)


def _unsqueeze(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    return np.expand_dims(x[0], axes(node, x) or ())


def _squeeze(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    return np.squeeze(x[0], axes(node, x))


def _expand(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    shape = guard(np.broadcast_shapes(x[0].shape, guard(x[1].reshape(-1))))
    return np.array(np.broadcast_to(x[0], shape))


def _tile(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    repeats = x[1].reshape(-1).tolist()
    guard([extent * count for extent, count in zip(x[0].shape, repeats, strict=True)])
    return np.tile(x[0], repeats)


def _gather(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    axis = int(node.attrs.get("axis", 0)) % max(1, x[0].ndim)
    guard((*x[0].shape[:axis], *x[1].shape, *x[0].shape[axis + 1 :]))
    return np.asarray(np.take(x[0], x[1], axis=axis))


def _concat(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    return np.concatenate(list(x), axis=int(node.attrs["axis"]))


def _split(node: OnnxNode, x: Sequence[Array], opset: int) -> list[Array]:
    axis, count = int(node.attrs.get("axis", 0)), len(node.outputs)
    sizes = node.attrs.get("split") or (x[1].tolist() if len(x) > 1 else None)
    if sizes is None:
        part = -(-x[0].shape[axis] // count)
        cuts = [part * k for k in range(1, count)]
    else:
        cuts = np.cumsum(sizes)[:-1].tolist()
    return list(np.split(x[0], cuts, axis=axis))


def _matmul(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    if x[0].ndim and x[1].ndim:
        guard(
            (x[0].size // max(1, x[0].shape[-1]), x[1].size // max(1, x[1].shape[-2 if x[1].ndim > 1 else 0]))
        )
    return np.asarray(np.matmul(x[0], x[1]))


def _trilu(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    k = int(x[1].reshape(())) if len(x) > 1 else 0
    return np.triu(x[0], k) if node.attrs.get("upper", 1) else np.tril(x[0], k)


def dequantised(codes: Array, scale: Array, zero: Array | None, axis: int) -> Array:
    """DequantizeLinear: (codes - zero) * scale, in float64; scale and zero one value or one along `axis`."""
    shape = [1] * codes.ndim
    if scale.ndim == 1 and scale.size > 1:
        shape[axis] = scale.size
    factor = scale.astype(np.float64).reshape(shape if scale.size > 1 else ())
    offset = np.zeros(()) if zero is None else zero.astype(np.float64).reshape(shape if zero.size > 1 else ())
    return np.asarray((codes.astype(np.float64) - offset) * factor)


def _dequantise(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    if node.attrs.get("block_size"):
        raise ValueError("blocked quantisation")
    return dequantised(x[0], x[1], x[2] if len(x) > 2 else None, int(node.attrs.get("axis", 1)))


def _identity(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    return x[0]


def _where(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    guard(np.broadcast_shapes(*(value.shape for value in x)))
    return np.where(*x)


def _cumsum(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    if node.attrs.get("reverse") or node.attrs.get("exclusive"):
        raise ValueError("reverse or exclusive CumSum")
    return _typed(np.cumsum(x[0], axis=int(x[1].reshape(()))), x[0])


def _transpose(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    return np.transpose(x[0], node.attrs.get("perm"))


def _nonzero(node: OnnxNode, x: Sequence[Array], opset: int) -> Array:
    return np.asarray(np.nonzero(x[0]), dtype=np.int64)


_ABSENT_ALLOWED = frozenset({"Slice", "DequantizeLinear", "Constant"})

FOLDABLE: Mapping[str, Rule] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Cast": _cast,
    "CastLike": _cast,
    "Add": _elementwise(np.add),
    "Sub": _elementwise(np.subtract),
    "Mul": _elementwise(np.multiply),
    "Div": _divide,
    "Mod": _mod,
    "Pow": _elementwise(np.power),
    "Min": _elementwise(np.minimum),
    "Max": _elementwise(np.maximum),
    "Neg": _elementwise(np.negative),
    "Abs": _elementwise(np.abs),
    "Floor": _elementwise(np.floor),
    "Ceil": _elementwise(np.ceil),
    "Round": _elementwise(np.rint),
    "Sqrt": _elementwise(np.sqrt),
    "Exp": _elementwise(np.exp),
    "Log": _elementwise(np.log),
    "Sin": _elementwise(np.sin),
    "Cos": _elementwise(np.cos),
    "Reciprocal": _elementwise(lambda x: 1 / x),
    "Not": _comparison(np.logical_not),
    "And": _comparison(np.logical_and),
    "Or": _comparison(np.logical_or),
    "Equal": _comparison(np.equal),
    "Greater": _comparison(np.greater),
    "GreaterOrEqual": _comparison(np.greater_equal),
    "Less": _comparison(np.less),
    "LessOrEqual": _comparison(np.less_equal),
    "Where": _where,
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "ReduceMin": _reduce(np.min),
    "ReduceMax": _reduce(np.max),
    "ReduceMean": _reduce(np.mean),
    "Slice": _slice,
    "Range": _range,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "Gather": _gather,
    "Concat": _concat,
    "Split": _split,
    "MatMul": _matmul,
    "Trilu": _trilu,
    "CumSum": _cumsum,
    "NonZero": _nonzero,
    "DequantizeLinear": _dequantise,
    "Identity": _identity,
    "Dropout": _identity,
}
