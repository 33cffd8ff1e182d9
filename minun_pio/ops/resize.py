# SPDX-License-Identifier: Apache-2.0
"""resize: x to the full shape `sizes`, nearest or linear.

Attributes: mode 'nearest' | 'linear'; coordinate 'half_pixel' | 'pytorch_half_pixel' | 'half_pixel_symmetric'
| 'asymmetric' | 'align_corners' | 'tf_half_pixel_for_nn'; nearest_mode 'round_prefer_floor' |
'round_prefer_ceil' | 'floor' | 'ceil'; optionally `scales` per axis where they are not sizes / shape.

Nearest moves codes. Linear (at most two axes change, their neighbours are weighted): posit and fixed-point
take the weights in 1/32768ths and round the exact sum once; float32 interpolates along the last axis, then
along the other; affine is TensorFlow Lite's ResizeBilinearInteger (weights in 1/1024ths, halves away from
zero).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.elementwise import sum_of_values
from minun_pio.numerics.format import Codes, Format, element_bytes
from minun_pio.ops.calling import activation, code_type, in_flash, input_format, input_shape, shape_table
from minun_pio.ops.operator import Binding, Call, Floats, Overlap, Table, Traits
from minun_pio.ops.shapes import elements, refuse, required
from minun_pio.planner import raster

_WEIGHT_BITS = 15
_AFFINE_BITS = 10


@dataclass(frozen=True)
class Line:
    """Along one axis: for each output index its two neighbours and the upper one's weight."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    weight: NDArray[np.float64]


def _position(node: Node, index: int, extent: int, out: int, scale: float) -> float:
    kind = node.attrs.get("coordinate", "half_pixel")
    if kind == "pytorch_half_pixel":
        return (index + 0.5) / scale - 0.5 if out > 1 else 0.0
    if kind == "half_pixel":
        return (index + 0.5) / scale - 0.5
    if kind == "half_pixel_symmetric":
        adjusted = out / (extent * scale)
        return (extent / 2) * (1 - adjusted) + (index + 0.5) / scale - 0.5
    if kind == "asymmetric":
        return index / scale
    if kind == "align_corners":
        return index * (extent - 1) / (out - 1) if out > 1 else 0.0
    if kind == "tf_half_pixel_for_nn":
        return (index + 0.5) / scale
    raise refuse(node, f"coordinate '{kind}' is not known; use half_pixel, asymmetric or align_corners")


def _nearest(node: Node, position: float) -> int:
    kind = node.attrs.get("nearest_mode", "round_prefer_floor")
    if kind == "round_prefer_floor":
        return math.ceil(position - 0.5)
    if kind == "round_prefer_ceil":
        return math.floor(position + 0.5)
    if kind == "floor":
        return math.floor(position)
    if kind == "ceil":
        return math.ceil(position)
    raise refuse(node, f"nearest_mode '{kind}' is not known; use floor, ceil or round_prefer_floor")


def _line(node: Node, axis: int, extent: int, out: int) -> Line:
    """Neighbours along one axis; in nearest mode both are the chosen element."""
    scales = node.attrs.get("scales")
    scale = out / extent if scales is None else float(scales[axis])
    low, high, weight = [], [], []
    for index in range(out):
        position = _position(node, index, extent, out, scale)
        if node.attrs.get("mode", "nearest") == "nearest":
            chosen = min(max(_nearest(node, position), 0), extent - 1)
            low.append(chosen)
            high.append(chosen)
            weight.append(0.0)
            continue
        position = min(max(position, 0.0), extent - 1.0)
        base = min(math.floor(position), extent - 1)
        low.append(base)
        high.append(min(base + 1, extent - 1))
        weight.append(position - base)
    return Line(np.array(low), np.array(high), np.array(weight))


def _affine_line(node: Node, axis: int, extent: int, out: int) -> Line:
    """TensorFlow Lite's neighbours and weights (in units of 2^-10)."""
    kind = node.attrs.get("coordinate", "half_pixel")
    unit = 1 << _AFFINE_BITS
    if kind == "align_corners" and out > 1:
        scale = (unit * (extent - 1) + (out - 1) // 2) // (out - 1)
    else:
        scale = (unit * extent + out // 2) // out
    low, high, weight = [], [], []
    for index in range(out):
        at = index * scale + (scale // 2 - unit // 2 if "half_pixel" in kind else 0)
        base = max(int(at / unit), 0)
        low.append(base)
        high.append(min((at + unit - 1) // unit if at > 0 else 0, extent - 1))
        weight.append((at - unit * base) / unit)
    return Line(np.array(low), np.array(high), np.array(weight))


class Resize:
    name = "resize"
    families = frozenset({"posit", "fixed", "affine", "float"})
    policy = "same"

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        sizes = tuple(int(size) for size in node.attrs["sizes"])
        if len(sizes) != len(shape) or min(sizes, default=1) < 1:
            raise refuse(node, f"sizes {sizes} for {shape}; give one positive extent per axis")
        if node.attrs.get("mode", "nearest") not in ("nearest", "linear"):
            raise refuse(
                node, f"mode '{node.attrs['mode']}'; nearest and linear can be taken", "op.attribute"
            )
        if not _is_nearest(node) and len(_changed(shape, sizes)) > 2:
            raise refuse(
                node, f"linear resize of {shape} to {sizes} changes more than two axes; split it in two"
            )
        for axis in _changed(shape, sizes):
            _line(node, axis, shape[axis], sizes[axis])
        return [sizes]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        assert inputs[0] is not None
        x = inputs[0]
        shape, sizes = x.shape[1:], tuple(node.attrs["sizes"])
        for axis in _changed(shape, sizes):
            line = _line(node, axis, shape[axis], sizes[axis])
            weight = line.weight.reshape((-1,) + (1,) * (len(sizes) - axis - 1))
            low, high = x.take(line.low, axis + 1), x.take(line.high, axis + 1)
            x = low if _is_nearest(node) else low * (1 - weight) + high * weight
        return [x]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        assert inputs[0] is not None
        x, fmt = inputs[0], out_formats[0]
        shape, sizes = x.shape[1:], tuple(int(size) for size in node.attrs["sizes"])
        if _is_nearest(node):
            for axis in _changed(shape, sizes):
                x = x.take(_line(node, axis, shape[axis], sizes[axis]).low, axis + 1)
            return [np.ascontiguousarray(x)]
        grid = _grid(node, shape, sizes, fmt)
        blocks = x.reshape(x.shape[0], *grid.blocks)  # (samples, outer, rows, middle, columns, inner)
        corners = [
            blocks.take(rows, axis=2).take(columns, axis=4)
            for rows in (grid.rows.low, grid.rows.high)
            for columns in (grid.columns.low, grid.columns.high)
        ]
        return [_interpolate(corners, grid, fmt).reshape(x.shape[0], *sizes)]

    def traits(self, binding: Binding) -> Traits:
        """Outputs are made one after the other; two changed axes with nothing before or between them."""
        shape, sizes = input_shape(binding, 0), binding.out_shapes[0]
        changed = _changed(shape, sizes)
        if not changed or len(changed) > 2 or in_flash(binding, 0):
            return Traits()
        first, second = changed[0], changed[-1]
        outer, middle = elements(shape[:first]), elements(shape[first + 1 : second])
        if len(changed) == 2 and (outer, middle) != (1, 1):
            return Traits()
        fmt = input_format(binding, 0)
        line = _affine_line if isinstance(fmt, Affine) and not _is_nearest(binding.node) else _line
        columns = _reads(line(binding.node, second, shape[second], sizes[second]))
        if len(changed) == 1:
            rows = [(row, row) for row in range(outer)]
        else:
            rows = _reads(line(binding.node, first, shape[first], sizes[first]))
        inner = elements(shape[second + 1 :])
        width = element_bytes(fmt)
        height = outer if len(changed) == 1 else shape[first]
        distances = raster.resize_distances(height, shape[second], inner, rows, columns, width, width)
        return Traits(overlaps=(Overlap(0, 0, *distances),))

    def emit(self, binding: Binding) -> Call:
        activation(binding, 0)
        node, fmt = binding.node, input_format(binding, 0)
        shape, sizes = input_shape(binding, 0), binding.out_shapes[0]
        if _is_nearest(node):
            return _emit_nearest(node, shape, sizes, fmt)
        grid = _grid(node, shape, sizes, fmt)
        outer, rows, middle, columns, inner = grid.blocks
        numbers = (outer, rows, middle, columns, inner, len(grid.rows.low), len(grid.columns.low))
        tables = (_neighbours(grid.rows, fmt), _neighbours(grid.columns, fmt))
        return Call(
            header="minun/resize.h",
            function=f"minun::resize_linear<{fmt.cpp}, {{reverse}}>",
            args=("{in0}", "{out0}", *(str(number) for number in numbers), "{table0}", "{table1}"),
            tables=tables,
            variant="linear",
        )


def _reads(line: Line) -> list[tuple[int, int]]:
    """The first and the last input index of each output index."""
    pairs = np.stack([line.low, line.high])
    return [(int(first), int(last)) for first, last in zip(pairs.min(axis=0), pairs.max(axis=0), strict=True)]


def _is_nearest(node: Node) -> bool:
    return bool(node.attrs.get("mode", "nearest") == "nearest")


def _changed(shape: Shape, sizes: Shape) -> list[int]:
    return [axis for axis, (have, want) in enumerate(zip(shape, sizes, strict=True)) if have != want]


@dataclass(frozen=True)
class Grid:
    """The two axes that change: `blocks` = (outer, rows, middle, columns, inner) extents of the input."""

    blocks: tuple[int, int, int, int, int]
    rows: Line
    columns: Line


def _grid(node: Node, shape: Shape, sizes: Shape, fmt: Format) -> Grid:
    changed = _changed(shape, sizes)
    line = _affine_line if isinstance(fmt, Affine) else _line
    still = Line(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1))
    if not changed:
        return Grid((1, 1, 1, 1, elements(shape)), still, still)
    second = changed[-1]
    columns = line(node, second, shape[second], sizes[second])
    inner = elements(shape[second + 1 :])
    if len(changed) == 1:
        return Grid((elements(shape[:second]), 1, 1, shape[second], inner), still, columns)
    first = changed[0]
    rows = line(node, first, shape[first], sizes[first])
    middle = elements(shape[first + 1 : second])
    return Grid((elements(shape[:first]), shape[first], middle, shape[second], inner), rows, columns)


def _steps(weights: NDArray[np.float64], fmt: Format) -> NDArray[np.int64]:
    """Weights as integers, in units of 2^-15 (affine: 2^-10)."""
    bits = _AFFINE_BITS if isinstance(fmt, Affine) else _WEIGHT_BITS
    return np.floor(weights * (1 << bits) + 0.5).astype(np.int64)


def _interpolate(corners: list[Codes], grid: Grid, fmt: Format) -> Codes:
    """Corners low-low, low-high, high-low, high-high: (samples, outer, rows, middle, columns, inner) each."""
    if fmt.family == "float":
        return _interpolate_float(corners, grid, fmt)
    unit = 1 << (_AFFINE_BITS if isinstance(fmt, Affine) else _WEIGHT_BITS)
    down = _steps(grid.rows.weight, fmt)[:, None, None, None]
    right = _steps(grid.columns.weight, fmt)[None, None, :, None]
    factors = [(unit - down) * (unit - right), (unit - down) * right, down * (unit - right), down * right]
    if isinstance(fmt, Affine):
        total = sum(c.astype(np.int64) * f for c, f in zip(corners, factors, strict=True))
        assert isinstance(total, np.ndarray)
        half = np.where(total > 0, unit * unit // 2, -(unit * unit // 2))
        nudged = total + half
        codes: Codes = (np.sign(nudged) * (np.abs(nudged) // (unit * unit))).astype(fmt.storage)
        return codes
    # Each product in two parts, so that even 32-bit numbers times 30-bit weights are exact in float64.
    unit_value = 2.0 ** (-2 * _WEIGHT_BITS)
    terms = []
    for corner, factor in zip(corners, factors, strict=True):
        values = fmt.decode(corner)
        upper = (factor >> _WEIGHT_BITS) << _WEIGHT_BITS
        terms += [values * (upper * unit_value), values * ((factor - upper) * unit_value)]
    return sum_of_values(np.stack(terms, axis=-1), fmt)


def _interpolate_float(corners: list[Codes], grid: Grid, fmt: Format) -> Codes:
    one = np.float32(1)
    down = grid.rows.weight.astype(np.float32)[:, None, None, None]
    right = grid.columns.weight.astype(np.float32)[None, None, :, None]
    a, b, c, d = (fmt.decode(corner).astype(np.float32) for corner in corners)
    with np.errstate(all="ignore"):
        top = a * (one - right) + b * right
        bottom = c * (one - right) + d * right
        return fmt.encode(top * (one - down) + bottom * down)


def _neighbours(line: Line, fmt: Format) -> Table:
    """Triples low, high, weight; the weight's bits as an integer for floats."""
    if fmt.family == "float":
        weights = line.weight.astype(np.float32).view(np.int32).tolist()
    else:
        weights = _steps(line.weight, fmt).tolist()
    triples = zip(line.low.tolist(), line.high.tolist(), weights, strict=True)
    return shape_table([number for triple in triples for number in triple], "neighbours")


def _emit_nearest(node: Node, shape: Shape, sizes: Shape, fmt: Format) -> Call:
    """Axes that stay are joined with their neighbours, so that runs are copied whole."""
    extents: list[int] = []
    picks: list[list[int]] = []
    changed = set(_changed(shape, sizes))
    joinable = False
    for axis, extent in enumerate(shape):
        if axis not in changed and joinable:
            extents[-1] *= extent
            picks[-1] = list(range(extents[-1]))
            continue
        extents.append(extent)
        picks.append(
            _line(node, axis, extent, sizes[axis]).low.tolist() if axis in changed else list(range(extent))
        )
        joinable = axis not in changed
    if len(extents) > 8:
        raise refuse(node, f"resize over {len(extents)} axes; the kernel takes up to 8")
    numbers = [*extents, *(len(pick) for pick in picks), *(index for pick in picks[:-1] for index in pick)]
    last_kept = len(shape) - 1 not in changed
    numbers += [] if last_kept else picks[-1]
    return Call(
        header="minun/resize.h",
        function=f"minun::resize_nearest<{code_type(fmt)}, {{reverse}}>",
        args=("{in0}", "{out0}", str(len(extents)), "{table0}", "true" if last_kept else "false"),
        tables=(shape_table(numbers, "resize"),),
        variant="nearest",
    )


OPERATOR = Resize()
