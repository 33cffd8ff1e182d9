# SPDX-License-Identifier: Apache-2.0
"""ONNX's Resize and Upsample: nearest and linear, of height and width."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor

from minun_pio.importers.builder import bounded
from minun_pio.importers.onnx.context import Context, Handler, text, whole, wholes
from minun_pio.importers.onnx.model import OnnxNode


def _resize(ctx: Context, node: OnnxNode) -> list[str]:
    shape = ctx.input_shape(node, 0)
    old = node.op == "Upsample" or ctx.opset < 11
    scales_at = 1 if old else 2
    axes = wholes(ctx, node, "axes", range(len(shape))) or []
    axes = [ctx.axis(node, axis, len(shape)) for axis in axes]
    sizes, scales = list(shape), [1.0] * len(shape)
    if "scales" in node.attrs:
        given = [float(value) for value in node.attrs["scales"]]
    elif ctx.has(node, scales_at) and ctx.value(node, scales_at, "scales").size:
        given = [float(value) for value in ctx.floats(node, scales_at, "scales").reshape(-1)]
    else:
        given = []
    if given:
        if len(given) != len(axes) or min(given) <= 0:
            raise ctx.refusal(
                node, f"scales {given} for {len(axes)} axes", "one positive each", "onnx.malformed"
            )
        for axis, scale in zip(axes, given, strict=True):
            sizes[axis], scales[axis] = floor(shape[axis] * scale), scale
    else:
        wanted = ctx.integers(node, 3, "sizes")
        if len(wanted) != len(axes) or min(wanted) < 1:
            raise ctx.refusal(
                node, f"sizes {wanted} for {len(axes)} axes", "one positive each", "onnx.malformed"
            )
        policy = text(ctx, node, "keep_aspect_ratio_policy", "stretch")
        ratios = [size / shape[axis] for size, axis in zip(wanted, axes, strict=True)]
        if policy != "stretch":
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [ratio] * len(axes)
            wanted = [floor(shape[axis] * ratio + 0.5) for axis in axes]
        for axis, size, ratio in zip(axes, wanted, ratios, strict=True):
            sizes[axis], scales[axis] = size, ratio
    sizes = list(bounded(sizes, "the result", ctx.where(node)))
    mode = text(ctx, node, "mode", "nearest")
    if mode not in ("nearest", "linear"):
        raise ctx.refusal(node, f"mode '{mode}'", "nearest and linear work")
    if whole(ctx, node, "antialias", 0):
        raise ctx.refusal(node, "antialias", "without it, it works")
    coordinate = text(ctx, node, "coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    if coordinate not in (
        "half_pixel",
        "asymmetric",
        "align_corners",
        "pytorch_half_pixel",
        "half_pixel_symmetric",
    ):
        raise ctx.refusal(node, f"coordinate_transformation_mode '{coordinate}'", "half_pixel works")
    if coordinate == "align_corners" and any(
        size != shape[axis] * scales[axis] and abs(size - shape[axis] * scales[axis]) > 1e-3
        for axis, size in enumerate(sizes)
    ):
        raise ctx.refusal(
            node, f"align_corners with scales {given} of {shape}", "sizes in place of scales work"
        )
    attrs = {
        "sizes": tuple(sizes),
        "scales": tuple(scales),
        "mode": mode,
        "coordinate": coordinate,
        "nearest_mode": text(ctx, node, "nearest_mode", "floor" if old else "round_prefer_floor"),
    }
    x = ctx.tensor(node, 0)
    if len(shape) != 4 or sizes[:2] != list(shape[:2]):
        return [ctx.add(node, "resize", [x], attrs)]
    attrs["sizes"] = (sizes[0], sizes[2], sizes[3], sizes[1])
    attrs["scales"] = (1.0, scales[2], scales[3], 1.0)
    x = ctx.add(node, "transpose", [x], {"perm": (0, 2, 3, 1)})
    return [ctx.add(node, "transpose", [ctx.add(node, "resize", [x], attrs)], {"perm": (0, 3, 1, 2)})]


HANDLERS: Mapping[str, Handler] = {"Resize": _resize, "Upsample": _resize}
