# SPDX-License-Identifier: Apache-2.0
"""Put a scale, a shift or a clamp into the operator before it, a pad into the convolution after it, so that
there is one rounding and one tensor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node
from minun_pio.passes.sweep import Sweep

LINEAR = frozenset({"dense", "conv", "conv_transpose"})
CLAMPS = frozenset({*LINEAR, "add", "mul", "average_pool", "scale_shift"})


def _linear_before(sweep: Sweep, name: str) -> Node | None:
    """The dense or convolution that makes `name` for this one reader and has no clamp or codes of its own."""
    before = sweep.producer(name)
    if before is None or before.op not in LINEAR or before.attrs.get("clip") is not None:
        return None
    if not sweep.only_user(name) or any(n in sweep.quantised for n in (name, *before.inputs[1:])):
        return None
    return before if sweep.value(before.inputs[1]) is not None else None


def _per_channel(values: NDArray[Any] | None, channels: int) -> NDArray[Any] | None:
    """A constant as one number a channel, when it is that: one value, or (..., 1, channels)."""
    if values is None or values.dtype.kind != "f":
        return None
    if values.size == 1:
        return np.full(channels, values.reshape(-1)[0])
    return values.reshape(-1) if values.size == channels == values.shape[-1] else None


def scale_into_linear(sweep: Sweep, node: Node) -> bool:
    """Batch norm, a product with or a sum with constants per channel, after a dense or convolution."""
    if node.op not in ("scale_shift", "mul", "add", "sub") or len(node.inputs) < 2:
        return False
    x, second = node.inputs[0], node.inputs[1]
    if node.op in ("mul", "add") and sweep.value(x) is not None:
        x, second = second, x
    before = _linear_before(sweep, x)
    if before is None or sweep.shape(node.outputs[0]) != sweep.shape(x):
        return False
    w = sweep.constants[before.inputs[1]]
    channels = w.shape[0]
    first = _per_channel(sweep.value(second), channels)
    third = _per_channel(sweep.value(node.inputs[2]), channels) if node.op == "scale_shift" else None
    if first is None or (node.op == "scale_shift" and third is None):
        return False
    scale, shift = np.ones(channels), np.zeros(channels)
    if node.op == "add":
        shift = first
    elif node.op == "sub":
        shift = -first
    else:
        scale = first
        shift = shift if third is None else third
    bias = np.zeros(channels)
    if len(before.inputs) > 2 and before.inputs[2]:
        known = sweep.value(before.inputs[2])
        if known is None:
            return False
        bias = known
    inputs = [before.inputs[0], before.inputs[1]]
    if node.op not in ("add", "sub"):
        inputs[1] = sweep.constant(w * scale.reshape(-1, *(1,) * (w.ndim - 1)), f"{before.name}_w")
    new_bias = bias * scale + shift
    if np.any(new_bias):
        inputs.append(sweep.constant(new_bias, f"{before.name}_b"))
    attrs = dict(before.attrs)
    if node.attrs.get("clip") is not None:
        attrs["clip"] = node.attrs["clip"]
    sweep.keep(replace(node, op=before.op, inputs=tuple(inputs), attrs=attrs))
    return True


def scales_together(sweep: Sweep, node: Node) -> bool:
    """`x * a + b` with constants per channel is one scale_shift."""
    if node.op != "add" or len(node.inputs) != 2:
        return False
    x, other = node.inputs if sweep.value(node.inputs[0]) is None else node.inputs[::-1]
    before = sweep.producer(x)
    if before is None or before.op != "mul" or before.attrs.get("clip") is not None or not sweep.only_user(x):
        return False
    y, factor = before.inputs if sweep.value(before.inputs[0]) is None else before.inputs[::-1]
    shape = sweep.shape(node.outputs[0])
    if not shape or sweep.value(y) is not None or sweep.shape(y) != shape or x in sweep.quantised:
        return False
    scale, shift = _per_channel(sweep.value(factor), shape[-1]), _per_channel(sweep.value(other), shape[-1])
    if scale is None or shift is None:
        return False
    inputs = (y, sweep.constant(scale, f"{node.name}_scale"), sweep.constant(shift, f"{node.name}_shift"))
    sweep.keep(replace(node, op="scale_shift", inputs=inputs))
    return True


def clamp_into_producer(sweep: Sweep, node: Node) -> bool:
    """relu and clip become the attribute `clip` of the operator before them."""
    if node.op not in ("relu", "clip"):
        return False
    before = sweep.producer(node.inputs[0])
    if before is None or before.op not in CLAMPS or not sweep.only_user(node.inputs[0]):
        return False
    if node.inputs[0] in sweep.quantised and node.inputs[0] != node.outputs[0]:
        return False
    low, high = (0.0, None) if node.op == "relu" else (node.attrs.get("lo"), node.attrs.get("hi"))
    old = before.attrs.get("clip")
    if old is not None:
        low, high = _tighter(old, low, high)
    sweep.keep(
        replace(before, name=node.name, outputs=node.outputs, attrs={**before.attrs, "clip": (low, high)})
    )
    return True


def pad_into_conv(sweep: Sweep, node: Node) -> bool:
    """Zeros around an image are the convolution's own: Keras's ZeroPadding2D, ONNX's Pad."""
    if node.op != "conv":
        return False
    before = sweep.producer(node.inputs[0])
    turn = before if before is not None and before.op == "transpose" else None
    before = sweep.producer(turn.inputs[0]) if turn is not None else before
    if before is None or before.op != "pad" or before.attrs.get("mode", "constant") != "constant":
        return False
    x, pads = before.inputs[0], [(int(first), int(last)) for first, last in before.attrs["pads"]]
    if turn is not None:  # of an image that comes with its channels first
        pads = [pads[axis] for axis in turn.attrs["perm"]]
    if float(before.attrs.get("value", 0.0)) != 0.0 or len(pads) != 4 or any((*pads[0], *pads[3])):
        return False
    if sweep.quantised.get(x) != sweep.quantised.get(node.inputs[0]):
        return False
    if turn is not None:
        plain, x = x, sweep.make("transpose", [x], dict(turn.attrs), f"{turn.name}_before")
        if plain in sweep.quantised:
            sweep.quantised[x] = sweep.quantised[plain]
    old = node.attrs.get("pads") or (0, 0, 0, 0)
    more = (pads[1][0], pads[2][0], pads[1][1], pads[2][1])
    attrs = {**node.attrs, "pads": tuple(int(a) + b for a, b in zip(old, more, strict=True))}
    sweep.keep(replace(node, inputs=(x, *node.inputs[1:]), attrs=attrs))
    return True


def _tighter(old: Any, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """Clamping to `old` and then to (low, high), as one clamp."""
    old_low, old_high = old
    lows = [bound for bound in (old_low, low) if bound is not None]
    highs = [bound for bound in (old_high, high) if bound is not None]
    new_low, new_high = max(lows, default=None), min(highs, default=None)
    if new_low is not None and new_high is not None and new_low > new_high:
        only = high if high is not None and old_low is not None and old_low > high else low
        return only, only
    return new_low, new_high
