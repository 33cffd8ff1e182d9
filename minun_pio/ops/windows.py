# SPDX-License-Identifier: Apache-2.0
"""Pooling windows: output extents, which elements each covers, and how a call spells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.ops.shapes import refuse
from minun_pio.planner import raster

_LARGEST = (1 << 15) - 1
"""Of a window's numbers: more than any image that a board holds."""


@dataclass(frozen=True)
class Window:
    """A pooling window over (1, H, W, C). `pads` are top, left, bottom, right."""

    shape: Shape
    out_shape: Shape
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    count_include_pad: bool

    @property
    def call(self) -> str:
        """The C++ expression of this window."""
        numbers = (
            *self.shape[1:],
            *self.out_shape[1:3],
            *self.kernel,
            *self.strides,
            *self.pads,
            *self.dilations,
        )
        listed = ", ".join(str(number) for number in numbers)
        return f"minun::window({listed}, {'true' if self.count_include_pad else 'false'})"

    def raster(self, in_bytes: int, out_bytes: int) -> raster.Window:
        """The kernel's order: channel by channel, as groups of one."""
        channels = self.shape[3]
        return raster.Window(
            *(self.shape[1], self.shape[2], channels),
            *(self.out_shape[1], self.out_shape[2], channels),
            kernel=self.kernel,
            stride=self.strides,
            padding=(self.pads[0], self.pads[1]),
            dilation=self.dilations,
            groups=channels,
            in_bytes=in_bytes,
            out_bytes=out_bytes,
        )

    def rows(self, axis: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Along axis 0 (height) or 1 (width): input index and presence, each (out, kernel)."""
        extent, out = self.shape[1 + axis], self.out_shape[1 + axis]
        starts = np.arange(out) * self.strides[axis] - self.pads[axis]
        indices = starts[:, None] + np.arange(self.kernel[axis])[None, :] * self.dilations[axis]
        present = (indices >= 0) & (indices < extent)
        return np.clip(indices, 0, extent - 1), present

    def patches(self, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Patches (samples, 1, out_h, out_w, C, kh*kw) of x, and which are present (out_h, out_w, kh*kw)."""
        row, row_present = self.rows(0)
        column, column_present = self.rows(1)
        out_h, out_w = self.out_shape[1:3]
        taken = x[:, :, row[:, None, :, None], column[None, :, None, :], :]  # (S, 1, oh, ow, kh, kw, C)
        taken = np.moveaxis(taken, -1, 4)
        present = row_present[:, None, :, None] & column_present[None, :, None, :]
        return (
            taken.reshape(*taken.shape[:5], self.kernel[0] * self.kernel[1]),
            present.reshape(out_h, out_w, -1),
        )

    def divisors(self) -> NDArray[np.int64]:
        """What an average divides by, (out_h, out_w)."""
        counts = []
        for axis in (0, 1):
            before, after = self.pads[axis], self.pads[axis + 2]
            low, high = (
                (-before, self.shape[1 + axis] + after)
                if self.count_include_pad
                else (0, self.shape[1 + axis])
            )
            starts = np.arange(self.out_shape[1 + axis]) * self.strides[axis] - before
            # positions of the kernel before `low` and before `high`
            first, end = (
                np.clip(-((starts - edge) // self.dilations[axis]), 0, self.kernel[axis])
                for edge in (low, high)
            )
            counts.append(end - first)
        return np.asarray(counts[0][:, None] * counts[1][None, :], dtype=np.int64)


def window_of(node: Node, shape: Shape) -> Window:
    """The window that `node` describes over an input of `shape`. Raises MinunError when it does not fit."""
    if len(shape) != 4 or shape[0] != 1:
        raise refuse(node, f"input is {shape}; pooling takes (1, H, W, C)")
    attrs = node.attrs
    kernel = _pair(attrs["kernel"])
    strides = _pair(attrs.get("strides") or (1, 1))
    dilations = _pair(attrs.get("dilations") or (1, 1))
    top, left, bottom, right = (int(pad) for pad in attrs.get("pads") or (0, 0, 0, 0))
    if min(*kernel, *strides, *dilations) < 1 or min(top, left, bottom, right) < 0:
        raise refuse(node, f"kernel {kernel}, strides {strides}, dilations {dilations} must be positive")
    if max(*kernel, *strides, *dilations, top, left, bottom, right) > _LARGEST:
        raise refuse(
            node,
            f"kernel {kernel}, strides {strides}, dilations {dilations}, pads {(top, left, bottom, right)} "
            f"over '{node.inputs[0]}': at most {_LARGEST:,} each; pool in two steps",
        )
    extents = []
    for axis, (before, after) in enumerate(((top, bottom), (left, right))):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        span = shape[1 + axis] + before + after - reach
        if span < 0:
            raise refuse(node, f"a window of {reach} is larger than the padded extent of axis {axis + 1}")
        out = span // strides[axis] + 1
        if attrs.get("ceil_mode", False):
            out = -(-span // strides[axis]) + 1
            if (out - 1) * strides[axis] >= shape[1 + axis] + before:
                out -= 1  # the last window would lie wholly in the padding
        extents.append(out)
    return Window(
        shape,
        (1, extents[0], extents[1], shape[3]),
        kernel,
        strides,
        (top, left, bottom, right),
        dilations,
        bool(attrs.get("count_include_pad", False)),
    )


def _pair(values: Any) -> tuple[int, int]:
    first, second = values
    return int(first), int(second)
