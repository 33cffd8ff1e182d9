# SPDX-License-Identifier: Apache-2.0
"""Layers on images (1, H, W, C): convolution, pools, MobileNet's inverted bottleneck."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minun_pio.importers.layers import Floats, Kind, Options


def _padding(o: Options, kernel: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """`pads`: [top, left, bottom, right], one number for all, `same` or `valid`."""
    pads = o.get("pads", 0)
    if pads == "valid":
        return (0, 0, 0, 0)
    if pads != "same":
        return o.wholes("pads", 4, (0, 0, 0, 0))
    before, after = [], []
    for extent, size, stride in zip(o.shape[1:3], kernel, strides, strict=True):
        total = max(0, (-(-extent // stride) - 1) * stride + size - extent)
        before.append(total // 2)
        after.append(total - total // 2)
    return (*before, *after)


def _image(o: Options) -> None:
    if len(o.shape) != 4:
        raise o.error(
            f"reads {o.shape}, (1, height, width, channels) expected; reshape first", "layers.shape"
        )


def conv(o: Options) -> str:
    """`weights` (out, kh, kw, in / groups), or as `layout` says: `oihw` or `hwio`."""
    _image(o)
    w = o.array("weights", 4)
    layout = o.choice("layout", ("ohwi", "oihw", "hwio"), "ohwi")
    w = w.transpose({"ohwi": (0, 1, 2, 3), "oihw": (0, 2, 3, 1), "hwio": (3, 0, 1, 2)}[layout])
    strides = o.wholes("strides", 2, (1, 1))
    dilations = o.wholes("dilations", 2, (1, 1))
    reach = tuple((n - 1) * d + 1 for n, d in zip(w.shape[1:3], dilations, strict=True))
    pads = _padding(o, reach, strides)
    attrs = {"strides": strides, "pads": pads, "dilations": dilations, "groups": o.whole("groups", 1)}
    inputs = [o.stack.x, o.constant(w, "weights")]
    if o.get("bias") is not None:
        inputs.append(o.constant(o.vector("bias", w.shape[0]), "bias"))
    return o.activated(o.add("conv", inputs, attrs))


def _pool(op: str) -> Kind:
    def build(o: Options) -> str:
        _image(o)
        kernel = o.wholes("kernel", 2)
        strides = o.wholes("strides", 2, kernel)
        attrs: dict[str, Any] = {
            "kernel": kernel,
            "strides": strides,
            "pads": _padding(o, kernel, strides),
            "dilations": (1, 1),
            "ceil_mode": o.flag("ceil_mode"),
        }
        if op == "average_pool":
            attrs["count_include_pad"] = o.flag("count_include_pad")
        return o.add(op, [o.stack.x], attrs)

    return build


def _global_pool(op: str) -> Kind:
    def build(o: Options) -> str:
        _image(o)
        return o.add(op, [o.stack.x], {"axes": (1, 2), "keepdims": o.flag("keepdims")})

    return build


def pad(o: Options) -> str:
    """`pads` [top, left, bottom, right] rows and columns more: `mode` constant (`value`, zero unless given),
    edge (the last one again), reflect (about the last one) or symmetric (with the last one twice)."""
    _image(o)
    top, left, bottom, right = o.wholes("pads", 4)
    attrs: dict[str, Any] = {"pads": ((0, 0), (top, bottom), (left, right), (0, 0))}
    attrs["mode"] = o.choice("mode", ("constant", "edge", "reflect", "symmetric"), "constant")
    attrs["value"] = o.number("value", 0.0)
    return o.add("pad", [o.stack.x], attrs)


def mbconv(o: Options) -> str:
    """Inverted bottleneck: 1x1 `f1` (in, mid), depthwise `f2` (mid, kh, kw), 1x1 `f3` (mid, out); after
    each a scale
    `w1` … and a bias `b1` … as y = (x + b) * w, after the first two relu6; `residual` adds the input."""
    _image(o)
    source, channels = o.stack.x, o.shape[3]
    f1, f2, f3 = o.array("f1", 2), o.array("f2", 3), o.array("f3", 2)
    mid, out = f1.shape[1], f3.shape[1]
    if f1.shape[0] != channels or f2.shape[0] != mid or f3.shape[0] != mid:
        raise o.error(f"f1 {f1.shape}, f2 {f2.shape}, f3 {f3.shape} on {channels} channels", "layers.shape")
    strides = o.wholes("strides", 2, (1, 1))
    kernel = (f2.shape[1], f2.shape[2])
    top, left = kernel[0] // 2, kernel[1] // 2
    x = _scaled(o, source, f1.T.reshape(mid, 1, 1, channels), 1, {})
    spatial = {"strides": strides, "pads": (top, left, top, left), "groups": mid}
    x = _scaled(o, x, f2.reshape(mid, *kernel, 1), 2, spatial)
    x = _scaled(o, x, f3.T.reshape(out, 1, 1, mid), 3, {})
    if o.flag("residual"):
        x = o.add("add", [x, source])
    return x


def _scaled(o: Options, x: str, filters: Floats, stage: int, attrs: Mapping[str, Any]) -> str:
    """A convolution with its scale and bias folded in; relu6 after the first two stages."""
    scale = o.vector(f"w{stage}", filters.shape[0], 1.0)
    bias = o.vector(f"b{stage}", filters.shape[0], 0.0) * scale
    given = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1, **attrs}
    weights = o.constant(filters * scale.reshape(-1, 1, 1, 1), f"f{stage}")
    inputs = [x, weights, o.constant(bias, f"b{stage}")] if np.any(bias) else [x, weights]
    x = o.add("conv", inputs, given)
    return x if stage == 3 else o.add("clip", [x], {"lo": 0.0, "hi": 6.0})


KINDS: Mapping[str, Kind] = {
    "conv": conv,
    "max_pool": _pool("max_pool"),
    "average_pool": _pool("average_pool"),
    "global_average_pool": _global_pool("reduce_mean"),
    "global_max_pool": _global_pool("reduce_max"),
    "pad": pad,
    "mbconv": mbconv,
}
