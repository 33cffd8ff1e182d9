# SPDX-License-Identifier: Apache-2.0
"""Matrices of codes made ready for BLAS: values as floats, with what proves a product exact.

A float GEMM computes sums of products exactly, in any order, when every partial sum is a multiple of one
unit and smaller than 2^24 (float32) or 2^53 (float64) units. A sum of products is at most |x||w|
(Cauchy-Schwarz), so upper bounds of the Euclidean norms are kept.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Codes
from minun_pio.numerics.posit import NO_UNIT, Posit, bit_index, unit_table, value_table

Exact = Posit | Fixed
"""Formats whose products are exact dyadic numbers."""

_NORM_SLACK = 1.0 + 2.0**-20
_TILE_BYTES = 1 << 19  # decoded values multiplied at a time


@dataclass(frozen=True)
class Columns:
    """The second factor: `values` (columns, K), NaR as 0 and marked; all are multiples of 2^unit."""

    values: NDArray[Any]
    norm: NDArray[np.float64]
    unit: int
    nar: NDArray[np.bool_] | None


def columns_of(codes: Codes, fmt: Exact, single: bool) -> Columns:
    """`codes` (columns, K) in float32 (`single`) or float64."""
    values = decode_finite(codes, fmt, np.float32 if single else np.float64)
    return Columns(values, row_norms(values), finest_unit(codes, fmt), nar_rows(codes, fmt, axis=1))


def finest_unit(codes: Codes, fmt: Exact) -> int:
    """The unit of all of `codes`: the finest that occurs in posits of up to 16 bits, else the format's."""
    array = np.asarray(codes)
    if isinstance(fmt, Fixed) or fmt.n > 16 or array.size == 0:
        return fmt.unit_exponent
    finest = int(np.take(unit_table(fmt), bit_index(fmt, array), mode="clip").min())
    return 0 if finest == NO_UNIT else finest


def row_norms(values: NDArray[Any]) -> NDArray[np.float64]:
    """Upper bounds of the Euclidean norms of the rows."""
    wide = values.astype(np.float64, copy=False)
    norms: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", wide, wide)) * _NORM_SLACK
    return norms


class Rows(Protocol):
    """The first factor: many rows, multiplied a tile at a time."""

    @property
    def rows(self) -> int: ...

    @property
    def unit(self) -> int:
        """All values are multiples of 2^unit."""

    @property
    def nar(self) -> NDArray[np.bool_] | None:
        """Rows that hold a NaR."""

    def multiply(
        self, start: int, stop: int, columns: NDArray[Any], total: NDArray[Any]
    ) -> NDArray[np.float64] | None:
        """rows[start:stop] @ columns (K, N) into `total`; the rows' norms, or None where sums are exact."""

    def some(self, index: NDArray[np.intp]) -> NDArray[np.float64]:
        """The values of some rows, (len(index), K)."""


@dataclass(frozen=True)
class CodeRows:
    """Rows of a matrix of codes (rows, K)."""

    codes: Codes
    fmt: Exact
    single: bool

    @property
    def rows(self) -> int:
        return int(self.codes.shape[0])

    @property
    def unit(self) -> int:
        return self.fmt.unit_exponent

    @property
    def nar(self) -> NDArray[np.bool_] | None:
        return nar_rows(self.codes, self.fmt, axis=1)

    def multiply(
        self, start: int, stop: int, columns: NDArray[Any], total: NDArray[Any]
    ) -> NDArray[np.float64] | None:
        dtype = np.float32 if self.single else np.float64
        norms = None if self.single else np.empty(stop - start)
        tile = max(1, _TILE_BYTES // max(1, columns.shape[0] * np.dtype(dtype).itemsize))
        for first in range(start, stop, tile):
            last = min(first + tile, stop)
            values = decode_finite(self.codes[first:last], self.fmt, dtype)
            np.matmul(values, columns, out=total[first - start : last - start])
            if norms is not None:
                norms[first - start : last - start] = row_norms(values)
        return norms

    def some(self, index: NDArray[np.intp]) -> NDArray[np.float64]:
        return decode_finite(self.codes[index], self.fmt, np.float64)


@dataclass(frozen=True)
class ValueRows:
    """Rows of exact float64 values (rows, K), NaR as 0 and marked."""

    values: NDArray[np.float64]
    unit: int
    nar: NDArray[np.bool_] | None

    @property
    def rows(self) -> int:
        return int(self.values.shape[0])

    def multiply(
        self, start: int, stop: int, columns: NDArray[Any], total: NDArray[Any]
    ) -> NDArray[np.float64] | None:
        np.matmul(self.values[start:stop], columns, out=total)
        return row_norms(self.values[start:stop])

    def some(self, index: NDArray[np.intp]) -> NDArray[np.float64]:
        return self.values[index]


def fits_single(x: Codes, fx: Exact, w: Codes, fw: Exact, depth: int) -> bool:
    """Whether sums of `depth` products are exact in float32, judged by the largest codes. For up to 8
    bits.
    """
    if fx.bits > 8 or fw.bits > 8 or fx.unit_exponent + fw.unit_exponent < -100:
        return False
    largest = depth * largest_magnitude(x, fx) * largest_magnitude(w, fw)
    return largest <= 2.0 ** (24 + fx.unit_exponent + fw.unit_exponent)


def largest_magnitude(codes: Codes, fmt: Exact) -> float:
    """The largest finite |value|, or more."""
    array = np.asarray(codes)
    if array.size == 0:
        return 0.0
    size = min(max(int(array.max()), -int(array.min())), fmt.max_code)
    return float(abs(fmt.decode(np.array(size, fmt.storage)))) if size or isinstance(fmt, Posit) else 0.0


@dataclass(frozen=True)
class Window:
    """A window sliding over (samples, H, W, C): kernel, strides, dilations, pads (top, left, bottom,
    right).
    """

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)

    def over(self, image: NDArray[Any], fill: Any = 0) -> NDArray[Any]:
        """View of all windows: (samples, out_h, out_w, C, kh, kw), borders holding `fill`."""
        top, left, bottom, right = self.pads
        if any(self.pads):
            samples, height, width, channels = image.shape
            padded = np.full(
                (samples, height + top + bottom, width + left + right, channels), fill, image.dtype
            )
            padded[:, top : top + height, left : left + width] = image
            image = padded
        spread = tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))
        windows = sliding_window_view(image, spread, axis=(1, 2))
        return windows[
            :, :: self.strides[0], :: self.strides[1], :, :: self.dilations[0], :: self.dilations[1]
        ]


def patches(image: NDArray[Any], window: Window, fill: Any = 0) -> NDArray[Any]:
    """im2col: (samples, H, W, C) to (samples, out_h, out_w, kh * kw * C): taps in raster order, channels
    last.
    """
    windows = window.over(image, fill).transpose(0, 1, 2, 4, 5, 3)
    rows: NDArray[Any] = windows.reshape(*windows.shape[:3], -1)
    return rows


class PatchRows:
    """The patches of an image of codes (samples, H, W, C) as rows (samples * out_h * out_w, kh * kw * C):
    decoded once a pixel, laid out a few lines of the output at a time."""

    def __init__(self, image: Codes, fmt: Exact, window: Window, single: bool) -> None:
        values = decode_finite(image, fmt, np.float32 if single else np.float64)
        self._windows = window.over(values).transpose(0, 1, 2, 4, 5, 3)
        self.shape = self._windows.shape[:3]
        self.rows = math.prod(self.shape)
        self.unit = finest_unit(image, fmt)
        marked = nar_rows(image, fmt, axis=3)
        self.nar = None
        if marked is not None:
            self.nar = window.over(marked[..., None]).any(axis=(3, 4, 5)).ravel()
        self._norms = None
        if not single:
            energy = window.over(np.einsum("nhwc,nhwc->nhw", values, values)[..., None])
            total = np.zeros(self.shape)
            for tap in np.ndindex(*window.kernel):
                total += energy[:, :, :, 0, tap[0], tap[1]]
            self._norms = np.sqrt(total).ravel() * _NORM_SLACK

    def multiply(
        self, start: int, stop: int, columns: NDArray[Any], total: NDArray[Any]
    ) -> NDArray[np.float64] | None:
        height, width = self.shape[1:]
        tile = max(1, _TILE_BYTES // (columns.shape[0] * width * self._windows.itemsize))
        if start % width or stop % width:
            raise ValueError("a block of patches is made of whole lines")
        line = start // width
        while line < stop // width:
            sample, first = divmod(line, height)
            count = min(tile, height - first, stop // width - line)
            patch = self._windows[sample, first : first + count].reshape(count * width, -1)
            place = line * width - start
            np.matmul(patch, columns, out=total[place : place + count * width])
            line += count
        return None if self._norms is None else self._norms[start:stop]

    def some(self, index: NDArray[np.intp]) -> NDArray[np.float64]:
        places = np.unravel_index(index, self.shape)
        rows: NDArray[np.float64] = self._windows[places].reshape(len(index), -1).astype(np.float64)
        return rows


def decode_finite(codes: Codes, fmt: Exact, dtype: Any) -> NDArray[Any]:
    """Exact values, NaR as 0, in float64 or (up to 8 bits) float32."""
    array = np.asarray(codes)
    if isinstance(fmt, Fixed):
        values = array.astype(dtype)
        values *= dtype(2.0**fmt.scale_exp)
        return values
    if fmt.n > 16:
        return np.nan_to_num(fmt.decode(array))
    return np.take(_finite_table(fmt, np.dtype(dtype)), bit_index(fmt, array), mode="clip")


def nar_rows(codes: Codes, fmt: Exact, axis: int) -> NDArray[np.bool_] | None:
    """Where NaR occurs along `axis`; None when it does not occur at all."""
    array = np.asarray(codes)
    if isinstance(fmt, Fixed) or array.size == 0 or array.min() > fmt.nar:
        return None
    marked: NDArray[np.bool_] = (array == fmt.nar).any(axis=axis)
    return marked


@functools.cache
def _finite_table(fmt: Posit, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.nan_to_num(value_table(fmt)).astype(dtype)
