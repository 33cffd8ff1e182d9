# SPDX-License-Identifier: Apache-2.0
"""ONNX's convolutions and pools: (N, C, H, W) there, (1, H, W, C) here, with transposes in between.

One spatial dimension becomes H = 1; a batch of several is done a sample at a time; three dimensions are
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from minun_pio.importers.onnx.context import Context, Handler, text, whole, wholes
from minun_pio.importers.onnx.model import OnnxNode

MAX_BATCH = 64


@dataclass(frozen=True)
class Window:
    """Height and width of everything a sliding window has; pads are top, left, bottom, right."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]


def to_channels_last(ctx: Context, node: OnnxNode, x: str) -> str:
    return ctx.add(node, "transpose", [x], {"perm": (0, 2, 3, 1)})


def to_channels_first(ctx: Context, node: OnnxNode, x: str) -> str:
    return ctx.add(node, "transpose", [x], {"perm": (0, 3, 1, 2)})


def spatial(ctx: Context, node: OnnxNode) -> int:
    """The number of spatial dimensions, 1 or 2."""
    rank = len(ctx.input_shape(node, 0)) - 2
    if rank not in (1, 2):
        raise ctx.refusal(node, f"{rank} spatial dimensions", "one and two work")
    return rank


def window(ctx: Context, node: OnnxNode, kernel: Sequence[int], *, ceil: bool = False) -> Window:
    """The window of a Conv or pool, its automatic padding worked out."""
    rank = len(kernel)
    strides = wholes(ctx, node, "strides", [1] * rank) or []
    dilations = wholes(ctx, node, "dilations", [1] * rank) or []
    pads = wholes(ctx, node, "pads", [0] * (2 * rank)) or []
    if not len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        raise ctx.refusal(
            node, f"strides {strides}, dilations {dilations}, pads {pads} for {rank} dimensions",
            f"{rank} of each (pads twice that) are expected", "onnx.malformed",
        )  # fmt: skip
    if min([*strides, *dilations, *kernel]) < 1 or min(pads) < 0:
        raise ctx.refusal(
            node, "a stride, dilation or kernel below 1, or a negative pad", "Slice crops instead"
        )
    how = text(ctx, node, "auto_pad", "NOTSET")
    if how == "VALID":
        pads = [0] * (2 * rank)
    elif how in ("SAME_UPPER", "SAME_LOWER"):
        extents = ctx.input_shape(node, 0)[2:]
        for d in range(rank):
            outputs = -(-extents[d] // strides[d])
            total = max(0, (outputs - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 - extents[d])
            small, large = total // 2, total - total // 2
            pads[d], pads[rank + d] = (small, large) if how == "SAME_UPPER" else (large, small)
    elif how != "NOTSET":
        raise ctx.refusal(
            node, f"auto_pad '{how}'", "NOTSET, VALID, SAME_UPPER, SAME_LOWER work", "onnx.malformed"
        )
    if rank == 1:
        return Window((1, kernel[0]), (1, strides[0]), (0, pads[0], 0, pads[1]), (1, dilations[0]))
    return Window(
        (kernel[0], kernel[1]),
        (strides[0], strides[1]),
        (pads[0], pads[1], pads[2], pads[3]),
        (dilations[0], dilations[1]),
    )


def per_sample(ctx: Context, node: OnnxNode, operate: Callable[[str], str]) -> str:
    """`operate` on (1, H, W, C), given and returning ONNX's layout, for each sample of the batch."""
    x = ctx.tensor(node, 0)
    shape = ctx.input_shape(node, 0)
    flat = len(shape) == 3
    if shape[0] > MAX_BATCH:
        raise ctx.refusal(node, f"a fixed batch of {shape[0]}", "export with batch 1 or a dynamic batch")
    results = []
    for k in range(shape[0]):
        part = x
        if shape[0] > 1:
            part = ctx.add(
                node, "slice", [x], {"starts": (k,), "ends": (k + 1,), "axes": (0,), "steps": (1,)}
            )
        if flat:
            part = ctx.add(node, "reshape", [part], {"shape": (1, shape[1], 1, shape[2])})
        part = to_channels_first(ctx, node, operate(to_channels_last(ctx, node, part)))
        if flat:
            _, channels, _, length = ctx.builder.shape(part)
            part = ctx.add(node, "reshape", [part], {"shape": (1, channels, length)})
        results.append(part)
    return results[0] if len(results) == 1 else ctx.add(node, "concat", results, {"axis": 0})


def _conv(ctx: Context, node: OnnxNode) -> list[str]:
    rank = spatial(ctx, node)
    w = ctx.floats(node, 1, "weight")
    groups = whole(ctx, node, "group", 1)
    channels = ctx.input_shape(node, 0)[1]
    if w.ndim != rank + 2 or groups < 1 or channels != w.shape[1] * groups or w.shape[0] % groups:
        raise ctx.refusal(
            node, f"weights {w.shape} in {groups} groups on {channels} channels",
            "(out, in / groups, kernel...) is expected", "onnx.malformed",
        )  # fmt: skip
    kernel = wholes(ctx, node, "kernel_shape", w.shape[2:]) or []
    if tuple(kernel) != w.shape[2:]:
        raise ctx.refusal(
            node, f"kernel_shape {kernel}, weights {w.shape}", "make them agree", "onnx.malformed"
        )
    win = window(ctx, node, kernel)
    weights = w.reshape(*w.shape[:2], *win.kernel).transpose(0, 2, 3, 1)
    extra = [ctx.weight(node, 1, weights, "w")]
    if ctx.has(node, 2):
        extra.append(ctx.weight(node, 2, ctx.floats(node, 2, "bias"), "b"))
    attrs = {"strides": win.strides, "pads": win.pads, "dilations": win.dilations, "groups": groups}
    return [per_sample(ctx, node, lambda x: ctx.add(node, "conv", [x, *extra], attrs))]


def _conv_transpose(ctx: Context, node: OnnxNode) -> list[str]:
    rank = spatial(ctx, node)
    w = ctx.floats(node, 1, "weight")
    groups = whole(ctx, node, "group", 1)
    shape = ctx.input_shape(node, 0)
    if w.ndim != rank + 2 or groups < 1 or w.shape[0] != shape[1] or w.shape[0] % groups:
        raise ctx.refusal(
            node, f"weights {w.shape} in {groups} groups on {shape[1]} channels",
            "(in, out / groups, kernel...) is expected", "onnx.malformed",
        )  # fmt: skip
    kernel = list(w.shape[2:])
    if (wholes(ctx, node, "kernel_shape", kernel) or []) != kernel:
        raise ctx.refusal(node, f"kernel_shape and weights {w.shape}", "make them agree", "onnx.malformed")
    strides = wholes(ctx, node, "strides", [1] * rank) or []
    dilations = wholes(ctx, node, "dilations", [1] * rank) or []
    extra = wholes(ctx, node, "output_padding", [0] * rank) or []
    pads = wholes(ctx, node, "pads", [0] * (2 * rank)) or []
    if not len(strides) == len(dilations) == len(extra) == rank or len(pads) != 2 * rank:
        raise ctx.refusal(
            node, "attributes of wrong length", f"{rank} of each are expected", "onnx.malformed"
        )
    wanted = wholes(ctx, node, "output_shape", None)
    how = text(ctx, node, "auto_pad", "NOTSET")
    if how in ("SAME_UPPER", "SAME_LOWER") and wanted is None:
        wanted = [extent * stride for extent, stride in zip(shape[2:], strides, strict=True)]
    if wanted is not None:
        wanted = wanted[-rank:]
        for d in range(rank):
            total = (
                strides[d] * (shape[2 + d] - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1 - wanted[d]
            )
            if total < 0:
                extra[d], total = extra[d] - total, 0
            small, large = total // 2, total - total // 2
            pads[d], pads[rank + d] = (small, large) if how == "SAME_UPPER" else (large, small)
    if min([*strides, *dilations]) < 1 or min([*pads, *extra]) < 0:
        raise ctx.refusal(node, "a stride or dilation below 1, or a negative pad", "Slice crops instead")
    if rank == 1:
        kernel, strides, dilations, extra = [1, *kernel], [1, *strides], [1, *dilations], [0, *extra]
        pads = [0, pads[0], 0, pads[1]]
    grouped = w.reshape(groups, w.shape[0] // groups, w.shape[1], *kernel)
    weights = grouped.transpose(0, 2, 3, 4, 1).reshape(groups * w.shape[1], *kernel, w.shape[0] // groups)
    constants = [ctx.constant(node, weights, "w")]
    if ctx.has(node, 2):
        constants.append(ctx.constant(node, ctx.floats(node, 2, "bias"), "b"))
    attrs = {
        "strides": tuple(strides),
        "pads": tuple(pads),
        "dilations": tuple(dilations),
        "groups": groups,
        "output_padding": tuple(extra),
    }
    return [per_sample(ctx, node, lambda x: ctx.add(node, "conv_transpose", [x, *constants], attrs))]


def _pool(op: str) -> Handler:
    def handler(ctx: Context, node: OnnxNode) -> list[str]:
        rank = spatial(ctx, node)
        kernel = wholes(ctx, node, "kernel_shape", None)
        if kernel is None or len(kernel) != rank:
            raise ctx.refusal(
                node, f"kernel_shape {kernel}", f"{rank} extents are expected", "onnx.malformed"
            )
        win = window(ctx, node, kernel)
        attrs: dict[str, object] = {
            "kernel": win.kernel,
            "strides": win.strides,
            "pads": win.pads,
            "dilations": win.dilations,
            "ceil_mode": bool(whole(ctx, node, "ceil_mode", 0)),
        }
        if op == "average_pool":
            attrs["count_include_pad"] = bool(whole(ctx, node, "count_include_pad", 0))
        return [per_sample(ctx, node, lambda x: ctx.add(node, op, [x], attrs))]

    return handler


def _global_pool(op: str) -> Handler:
    def handler(ctx: Context, node: OnnxNode) -> list[str]:
        rank = len(ctx.input_shape(node, 0))
        if rank < 3:
            raise ctx.refusal(node, f"rank {rank}", "(N, C, ...) is expected", "onnx.malformed")
        return [ctx.add(node, op, [ctx.tensor(node, 0)], {"axes": tuple(range(2, rank)), "keepdims": True})]

    return handler


HANDLERS: Mapping[str, Handler] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _pool("max_pool"),
    "AveragePool": _pool("average_pool"),
    "GlobalAveragePool": _global_pool("reduce_mean"),
    "GlobalMaxPool": _global_pool("reduce_max"),
}
