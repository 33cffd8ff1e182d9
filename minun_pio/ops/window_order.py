# SPDX-License-Identifier: Apache-2.0
"""How far a convolution's output may run over its input, from the order in which the kernel reads and writes.

The kernels take output positions in raster order and, of one position, group after group; what a group reads
is copied before its first output is written (include/minun/conv.h).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Source = Callable[[int, int], int]  # (output index, kernel index) -> input index, negative: a zero


@dataclass(frozen=True)
class WindowOrder:
    """One convolution's reads: extents, channels, groups, and which rows and columns are read."""

    out_height: int
    out_width: int
    kernel_height: int
    kernel_width: int
    in_width: int
    in_channels: int
    out_channels: int
    groups: int
    row: Source
    column: Source

    def forward_bytes(self, in_width_bytes: int, out_width_bytes: int) -> int:
        """The least input_offset - output_offset that keeps every later read whole, in forward order."""
        rows = [_lowest(self.row, i, self.kernel_height) for i in range(self.out_height)]
        columns = [_lowest(self.column, j, self.kernel_width) for j in range(self.out_width)]
        pixel = self.in_channels * in_width_bytes
        group_in = pixel // self.groups
        group_out = self.out_channels * out_width_bytes // self.groups
        position_out = self.out_channels * out_width_bytes
        ahead: int | None = None  # lowest byte that later positions read
        distance = -(1 << 40)
        for index in range(self.out_height * self.out_width - 1, -1, -1):
            i, j = divmod(index, self.out_width)
            row, column = rows[i], columns[j]
            base = None if row is None or column is None else (row * self.in_width + column) * pixel
            end = (index + 1) * position_out
            if ahead is not None:
                distance = max(distance, end - ahead)
            if base is not None:
                if self.groups > 1:  # within the position, group g+1 is read after group g was written
                    step = group_out - group_in
                    first = index * position_out + group_out - (base + group_in)
                    distance = max(distance, first, first + (self.groups - 2) * step)
                ahead = base if ahead is None else min(ahead, base)
        return distance


def _lowest(source: Source, out: int, kernel: int) -> int | None:
    taken = [at for at in (source(out, k) for k in range(kernel)) if at >= 0]
    return min(taken) if taken else None
