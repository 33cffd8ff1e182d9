# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators that move values and do not change them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from minun_pio.importers.builder import bounded
from minun_pio.importers.onnx.context import Context, Handler, number, text, whole, wholes
from minun_pio.importers.onnx.folding import reshaped
from minun_pio.importers.onnx.model import OnnxNode
from minun_pio.ir import Shape


def _moved(ctx: Context, node: OnnxNode) -> str:
    """The tensor that is moved, real or index; an index stays one."""
    name = ctx.name(node, 0)
    if name in ctx.indices:
        ctx.indices.update(node.outputs)
    return ctx.carry(node, name)


def _to_shape(ctx: Context, node: OnnxNode, shape: Shape) -> list[str]:
    return [
        ctx.add(
            node, "reshape", [_moved(ctx, node)], {"shape": bounded(shape, "the result", ctx.where(node))}
        )
    ]


def _reshape(ctx: Context, node: OnnxNode) -> list[str]:
    target = ctx.integers(node, 1, "shape")
    shape = ctx.input_shape(node, 0)
    try:
        return _to_shape(ctx, node, reshaped(shape, target, bool(whole(ctx, node, "allowzero", 0))))
    except ValueError as error:
        raise ctx.refusal(node, str(error), "make the sizes agree", "onnx.malformed") from None


def _flatten(ctx: Context, node: OnnxNode) -> list[str]:
    shape = ctx.input_shape(node, 0)
    axis = whole(ctx, node, "axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise ctx.refusal(node, f"axis {axis} of rank {len(shape)}", "use one inside", "onnx.malformed")
    axis = axis + len(shape) if axis < 0 else axis
    return _to_shape(
        ctx, node, (int(np.prod(shape[:axis], dtype=np.int64)), int(np.prod(shape[axis:], dtype=np.int64)))
    )


def _axes(ctx: Context, node: OnnxNode) -> list[int] | None:
    axes = wholes(ctx, node, "axes", None)
    return ctx.integers(node, 1, "axes") if axes is None and ctx.has(node, 1) else axes


def _squeeze(ctx: Context, node: OnnxNode) -> list[str]:
    shape = ctx.input_shape(node, 0)
    axes = _axes(ctx, node)
    gone = (
        {i for i, extent in enumerate(shape) if extent == 1}
        if axes is None
        else {ctx.axis(node, axis, len(shape)) for axis in axes}
    )
    if any(shape[axis] != 1 for axis in gone):
        raise ctx.refusal(
            node, f"axes {sorted(gone)} of {shape}", "only extents of 1 go away", "onnx.malformed"
        )
    return _to_shape(ctx, node, tuple(extent for i, extent in enumerate(shape) if i not in gone))


def _unsqueeze(ctx: Context, node: OnnxNode) -> list[str]:
    shape = ctx.input_shape(node, 0)
    axes = _axes(ctx, node) or []
    rank = len(shape) + len(axes)
    places = {ctx.axis(node, axis, rank) for axis in axes}
    if len(places) != len(axes):
        raise ctx.refusal(node, f"axes {axes} repeat", "name each once", "onnx.malformed")
    rest = iter(shape)
    return _to_shape(ctx, node, tuple(1 if i in places else next(rest) for i in range(rank)))


def _transpose(ctx: Context, node: OnnxNode) -> list[str]:
    rank = len(ctx.input_shape(node, 0))
    perm = wholes(ctx, node, "perm", range(rank)[::-1]) or []
    if sorted(perm) != list(range(rank)):
        raise ctx.refusal(node, f"perm {perm} of rank {rank}", "name every axis once", "onnx.malformed")
    return [ctx.add(node, "transpose", [_moved(ctx, node)], {"perm": tuple(perm)})]


def _concat(ctx: Context, node: OnnxNode) -> list[str]:
    axis = ctx.axis(node, whole(ctx, node, "axis", 0), len(ctx.input_shape(node, 0)))
    parts = [ctx.tensor(node, index) for index in range(len(node.inputs))]
    return [parts[0]] if len(parts) == 1 else [ctx.add(node, "concat", parts, {"axis": axis})]


def _split(ctx: Context, node: OnnxNode) -> list[str]:
    shape = ctx.input_shape(node, 0)
    axis = ctx.axis(node, whole(ctx, node, "axis", 0), len(shape))
    sizes = wholes(ctx, node, "split", None)
    if sizes is None and ctx.has(node, 1):
        sizes = ctx.integers(node, 1, "split")
    if sizes is None:
        count = len(node.outputs)
        part = -(-shape[axis] // count)
        sizes = [part] * (count - 1) + [shape[axis] - part * (count - 1)]
    if len(sizes) != len(node.outputs) or sum(sizes) != shape[axis] or min(sizes) < 1:
        raise ctx.refusal(
            node, f"parts {sizes} of {shape[axis]} for {len(node.outputs)} outputs",
            "parts of at least 1 that add up work",
        )  # fmt: skip
    x = _moved(ctx, node)
    if len(sizes) == 1:
        return [x]
    hints = [name or f"{node.name}.{k}" for k, name in enumerate(node.outputs)]
    return list(
        ctx.builder.add_many(
            "split", [x], {"axis": axis, "sizes": tuple(sizes)}, outputs=hints, name=node.name
        )
    )


def _slice(ctx: Context, node: OnnxNode) -> list[str]:
    shape = ctx.input_shape(node, 0)
    starts, ends = wholes(ctx, node, "starts", None), wholes(ctx, node, "ends", None)
    axes = wholes(ctx, node, "axes", None)
    steps: list[int] | None = None
    if starts is None or ends is None:
        starts, ends = ctx.integers(node, 1, "starts"), ctx.integers(node, 2, "ends")
        axes = ctx.integers(node, 3, "axes") if ctx.has(node, 3) else None
        steps = ctx.integers(node, 4, "steps") if ctx.has(node, 4) else None
    over = [ctx.axis(node, axis, len(shape)) for axis in (axes if axes is not None else range(len(starts)))]
    steps = steps or [1] * len(starts)
    if not len(starts) == len(ends) == len(over) == len(steps) or 0 in steps or len(set(over)) != len(over):
        raise ctx.refusal(
            node, f"starts {starts}, ends {ends}, axes {over}, steps {steps}", "one of each an axis"
        )
    x = _moved(ctx, node)
    if all(step == -1 and len(range(shape[a])[s:(e if e >= -shape[a] else None):-1]) == shape[a]
           for s, e, a, step in zip(starts, ends, over, steps, strict=True)):  # fmt: skip
        return [ctx.add(node, "reverse", [x], {"axes": tuple(over)})]
    attrs = {"starts": tuple(starts), "ends": tuple(ends), "axes": tuple(over), "steps": tuple(steps)}
    return [ctx.add(node, "slice", [x], attrs)]


def _pad(ctx: Context, node: OnnxNode) -> list[str]:
    shape = ctx.input_shape(node, 0)
    mode = text(ctx, node, "mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise ctx.refusal(node, f"mode '{mode}'", "constant, reflect and edge work")
    given = wholes(ctx, node, "pads", None)
    pads = ctx.integers(node, 1, "pads") if given is None else given
    value = number(ctx, node, "value", 0.0)
    if given is None and ctx.has(node, 2):
        value = float(ctx.floats(node, 2, "value").reshape(-1)[0])
    axes = ctx.integers(node, 3, "axes") if ctx.has(node, 3) else list(range(len(shape)))
    if len(pads) != 2 * len(axes):
        raise ctx.refusal(node, f"{len(pads)} pads for {len(axes)} axes", "two an axis", "onnx.malformed")
    before, after = [0] * len(shape), [0] * len(shape)
    for k, axis in enumerate(axes):
        place = ctx.axis(node, axis, len(shape))
        before[place], after[place] = pads[k], pads[len(axes) + k]
    x = ctx.tensor(node, 0)
    if min([*before, *after]) < 0:
        cut = tuple(max(0, -b) for b in before)
        ends = tuple(extent - max(0, -a) for extent, a in zip(shape, after, strict=True))
        over = tuple(range(len(shape)))
        attrs = {"starts": cut, "ends": ends, "axes": over, "steps": (1,) * len(shape)}
        x = ctx.add(node, "slice", [x], attrs)
        before, after = [max(0, b) for b in before], [max(0, a) for a in after]
    if not any([*before, *after]):
        return [x]
    bounded([b + a + e for b, a, e in zip(before, after, shape, strict=True)], "the result", ctx.where(node))
    return [
        ctx.add(
            node, "pad", [x], {"pads": tuple(zip(before, after, strict=True)), "mode": mode, "value": value}
        )
    ]


def _gather(ctx: Context, node: OnnxNode) -> list[str]:
    axis = ctx.axis(node, whole(ctx, node, "axis", 0), len(ctx.input_shape(node, 0)))
    chosen = ctx.name(node, 1)
    if chosen in ctx.values:
        picked = ctx.values[chosen].astype(np.int64)
        extent = ctx.input_shape(node, 0)[axis]
        if picked.size and (picked.min() < -extent or picked.max() >= extent):
            raise ctx.refusal(node, f"an index outside 0..{extent - 1}", "keep them inside", "onnx.malformed")
        indices = ctx.builder.constant(picked % extent, f"{node.name}.indices")
    elif chosen in ctx.indices:
        indices = ctx.tensors[chosen]
    else:
        raise ctx.refusal(
            node, f"its indices '{chosen}' are real numbers", "integers are expected", "onnx.type"
        )
    return [ctx.add(node, "gather", [_moved(ctx, node), indices], {"axis": axis})]


def _expand(ctx: Context, node: OnnxNode) -> list[str]:
    wanted = bounded(ctx.integers(node, 1, "shape"), "the target", ctx.where(node))
    shape = ctx.input_shape(node, 0)
    try:
        result = tuple(int(extent) for extent in np.broadcast_shapes(shape, wanted))
    except ValueError:
        raise ctx.refusal(node, f"{shape} to {wanted}", "extents of 1 grow", "onnx.malformed") from None
    x = _moved(ctx, node)
    return [x if result == shape else ctx.add(node, "expand", [x], {"shape": result})]


def _tile(ctx: Context, node: OnnxNode) -> list[str]:
    x, shape = _moved(ctx, node), list(ctx.input_shape(node, 0))
    repeats = ctx.integers(node, 1, "repeats")
    if len(repeats) != len(shape) or min(repeats, default=1) < 1:
        raise ctx.refusal(node, f"repeats {repeats} of {tuple(shape)}", "one of at least 1 an axis works")
    for axis, count in enumerate(repeats):
        if count == 1:
            continue
        outer, inner = shape[:axis], shape[axis:]
        wide = bounded((*outer, count, *inner), "the result", ctx.where(node))
        x = ctx.add(node, "reshape", [x], {"shape": (*outer, 1, *inner)})
        x = ctx.add(node, "expand", [x], {"shape": wide})
        shape[axis] *= count
        x = ctx.add(node, "reshape", [x], {"shape": tuple(shape)})
    return [x]


def _depth_space(ctx: Context, node: OnnxNode) -> list[str]:
    n, c, h, w = _four(ctx, node)
    b = whole(ctx, node, "blocksize", 1)
    to_space = node.op == "DepthToSpace"
    if b < 1 or (c % (b * b) if to_space else h % b or w % b):
        raise ctx.refusal(
            node, f"block size {b} of {(n, c, h, w)}", "one that divides works", "onnx.malformed"
        )
    depth_first = text(ctx, node, "mode", "DCR") == "DCR"
    if not to_space:
        split = (n, c, h // b, b, w // b, b)
        perm = (0, 3, 5, 1, 2, 4) if depth_first else (0, 1, 3, 5, 2, 4)
        shape = (n, c * b * b, h // b, w // b)
    elif depth_first:
        split, perm, shape = (n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2), (n, c // b**2, h * b, w * b)
    else:
        split, perm, shape = (n, c // b**2, b, b, h, w), (0, 1, 4, 2, 5, 3), (n, c // b**2, h * b, w * b)
    x = ctx.add(node, "reshape", [ctx.tensor(node, 0)], {"shape": split})
    x = ctx.add(node, "transpose", [x], {"perm": perm})
    return [ctx.add(node, "reshape", [x], {"shape": shape})]


def _four(ctx: Context, node: OnnxNode) -> tuple[int, int, int, int]:
    shape = ctx.input_shape(node, 0)
    if len(shape) != 4:
        raise ctx.refusal(node, f"rank {len(shape)}", "(N, C, H, W) is expected", "onnx.malformed")
    return shape[0], shape[1], shape[2], shape[3]


HANDLERS: Mapping[str, Handler] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Gather": _gather,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _depth_space,
    "SpaceToDepth": _depth_space,
}
