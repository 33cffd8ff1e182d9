# SPDX-License-Identifier: Apache-2.0
"""How far an operator's output may run over its own input, from the order in which its kernel works.

A kernel works in turns: it reads some of its input, then writes some of its output. In forward raster order
turns go from the first output element to the last, in reverse order from the last to the first (positions,
groups and channels alike). The output may lie over the input as long as no turn writes a byte that a later
turn still reads:

- forward: `input_offset - output_offset >= forward` bytes;
- reverse: `output_offset - input_offset >= reverse` bytes.

Both distances are exact: one byte less breaks a read (unless the distance is 0). Pure functions of shapes;
the proof by simulating every byte is in `benchmarks/planner.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

_NEVER = 1 << 60  # an address that no turn reads


class Distances(NamedTuple):
    """Bytes the two must be apart, forward and reverse. The output's (the input's) size: no overlap."""

    forward: int
    reverse: int


@dataclass(frozen=True)
class Window:
    """A convolution or pooling over a channels-last `(height, width, channels)` input.

    A turn is one output position and one group: it reads the group's `channels / groups` input channels
    under the window, then writes its `out_channels / groups` outputs. Depthwise convolution and pooling
    channel by channel have `groups == channels`. `gathered`: the turn reads everything before it writes
    anything; otherwise it reads the window anew for each output channel. `*_bytes`: of one element.
    `padding` is (top, left).
    """

    height: int
    width: int
    channels: int
    out_height: int
    out_width: int
    out_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    in_bytes: int = 1
    out_bytes: int = 1
    gathered: bool = True

    @property
    def input_size(self) -> int:
        """Bytes of the input."""
        return self.height * self.width * self.channels * self.in_bytes

    @property
    def output_size(self) -> int:
        """Bytes of the output."""
        return self.out_height * self.out_width * self.out_channels * self.out_bytes


@lru_cache(maxsize=4096)
def window_distances(w: Window) -> Distances:
    """The distances of a convolution, depthwise convolution or pooling."""
    forward = _window_forward(w)
    # in reverse, everything is the forward case of the mirrored operator, measured between the ends
    mirrored = replace(w, padding=(_mirrored_padding(w, 0), _mirrored_padding(w, 1)))
    reverse = _window_forward(mirrored) + w.input_size - w.output_size
    return Distances(min(max(0, forward), w.output_size), min(max(0, reverse), w.input_size))


def _mirrored_padding(w: Window, axis: int) -> int:
    """The padding at the other end, so far as windows reach; negative where the input's end is not read."""
    extent, out = (w.height, w.out_height) if axis == 0 else (w.width, w.out_width)
    reach = (out - 1) * w.stride[axis] + (w.kernel[axis] - 1) * w.dilation[axis] + 1
    return reach - extent - w.padding[axis]


def _first_read(extent: int, out: int, kernel: int, stride: int, padding: int, dilation: int) -> list[int]:
    """For each output index along one axis, the first input index under its window, or _NEVER."""
    found = []
    for o in range(out):
        at = o * stride - padding
        if at < 0:
            at += -(at // dilation) * dilation
        reads = at < extent and at <= o * stride - padding + (kernel - 1) * dilation
        found.append(at if reads else _NEVER)
    return found


def _suffix_minimum(values: list[int]) -> list[int]:
    """`out[k] = min(values[k:])`, with `out[len(values)] = _NEVER`."""
    out = [_NEVER] * (len(values) + 1)
    for k in range(len(values) - 1, -1, -1):
        out[k] = min(values[k], out[k + 1])
    return out


def _window_forward(w: Window) -> int:
    rows = _first_read(w.height, w.out_height, w.kernel[0], w.stride[0], w.padding[0], w.dilation[0])
    columns = _first_read(w.width, w.out_width, w.kernel[1], w.stride[1], w.padding[1], w.dilation[1])
    return _lead(
        rows,
        columns,
        w.width,
        w.channels * w.in_bytes,
        w.out_channels * w.out_bytes,
        w.groups,
        w.out_bytes if not w.gathered else 0,
    )


def _lead(
    rows: list[int], columns: list[int], width: int, pixel_in: int, pixel_out: int, groups: int, output: int
) -> int:
    """The largest lead of what is written over what is still to be read.

    Position (r, c) ends at byte `(r * out_width + c + 1) * pixel_out`; the next read in the same row of
    windows is at `(row[r] * width + column) * pixel_in`: both are sums of a part of r and a part of c, so
    that their largest difference is found in each apart. `output`: bytes of one output where a kernel
    reads the window anew for each, else 0.
    """
    rows_later, columns_later = _suffix_minimum(rows), _suffix_minimum(columns)
    group_in, group_out = pixel_in // groups, pixel_out // groups
    out_height, out_width = len(rows), len(columns)
    by_row = [
        (r * out_width * pixel_out - first * width * pixel_in)
        for r, first in enumerate(rows)
        if first < _NEVER
    ]
    lead = -_NEVER
    if by_row:
        next_columns = [
            (c + 1) * pixel_out - columns_later[c + 1] * pixel_in
            for c in range(out_width)
            if columns_later[c + 1] < _NEVER
        ]
        if next_columns:
            lead = max(lead, max(by_row) + max(next_columns))
        here = [c * pixel_out - first * pixel_in for c, first in enumerate(columns) if first < _NEVER]
        if here:
            position = max(by_row) + max(here)
            if groups > 1:  # group g is written, group g + 1 is still to be read
                lead = max(lead, position + group_out - group_in)
                lead = max(lead, position + (groups - 1) * (group_out - group_in))
            if output and group_out > output:  # all but the last output, and the window once more
                before_last = group_out - output
                lead = max(lead, position + before_last)
                lead = max(lead, position + before_last + (groups - 1) * (group_out - group_in))
    for r in range(out_height - 1):  # a row of windows is done, the next ones begin
        if rows_later[r + 1] < _NEVER and columns_later[0] < _NEVER:
            next_read = (rows_later[r + 1] * width + columns_later[0]) * pixel_in
            lead = max(lead, (r + 1) * out_width * pixel_out - next_read)
    return lead


def row_distances(rows: int, in_row: int, out_row: int) -> Distances:
    """Of a kernel that reads a row of `in_row` bytes whole, then writes its `out_row` bytes."""
    grows = out_row - in_row
    lead = max(grows, (rows - 1) * grows) if rows > 1 else -_NEVER
    return Distances(
        min(max(0, lead), rows * out_row),
        min(max(0, lead - rows * grows), rows * in_row),
    )


def dense_distances(
    rows: int, inputs: int, outputs: int, in_bytes: int = 1, out_bytes: int = 1, gathered: bool = True
) -> Distances:
    """Of a matrix times `rows` vectors. Not `gathered`: the vector is read anew for each output."""
    if gathered:
        return row_distances(rows, inputs * in_bytes, outputs * out_bytes)
    return window_distances(
        Window(
            rows, 1, inputs, rows, 1, outputs, (1, 1), in_bytes=in_bytes, out_bytes=out_bytes, gathered=False
        )
    )


def elementwise_distances(elements: int, in_bytes: int = 1, out_bytes: int = 1) -> Distances:
    """Of a kernel that reads element i of an input as large as the output, then writes element i."""
    return row_distances(elements, in_bytes, out_bytes)


def resize_distances(
    height: int,
    width: int,
    channels: int,
    rows: Sequence[tuple[int, int]],
    columns: Sequence[tuple[int, int]],
    in_bytes: int = 1,
    out_bytes: int = 1,
) -> Distances:
    """Of a kernel that makes output (y, x, c) of channel c of the input rows and columns in given ranges.

    `rows[y]`, `columns[x]`: the first and the last input index that the output index reads (equal for
    nearest-neighbour upsampling).
    """
    pixel_in, pixel_out = channels * in_bytes, channels * out_bytes
    first_rows, first_columns = [r for r, _ in rows], [c for c, _ in columns]
    last_rows = [height - 1 - r for _, r in reversed(rows)]
    last_columns = [width - 1 - c for _, c in reversed(columns)]
    input_size, output_size = height * width * pixel_in, len(rows) * len(columns) * pixel_out
    forward = _lead(first_rows, first_columns, width, pixel_in, pixel_out, channels, 0)
    lead = _lead(last_rows, last_columns, width, pixel_in, pixel_out, channels, 0)
    reverse = lead + input_size - output_size
    return Distances(min(max(0, forward), output_size), min(max(0, reverse), input_size))


def concat_first_distance(rows: int, run_bytes: int, stride_bytes: int) -> int:
    """Forward distance of a concat's first input, of a kernel that copies input after input, row by row.

    Each of its `rows` runs of `run_bytes` is copied as a whole to a row of `stride_bytes` of the output.
    Later inputs are read when the first one is written: they may not be overrun.
    """
    return max(0, (rows - 2) * (stride_bytes - run_bytes)) if rows > 1 else 0
