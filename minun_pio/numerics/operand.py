# SPDX-License-Identifier: Apache-2.0
"""Matrices of codes made ready for BLAS: values as floats, with what proves a product exact.

A float GEMM computes sums of products exactly, in any order, when every partial sum is a multiple of one
unit and smaller than 2^24 (float32) or 2^53 (float64) units. A sum of products is at most |x||w|
(Cauchy-Schwarz), so each row carries an upper bound of its Euclidean norm.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Codes
from minun_pio.numerics.posit import NO_UNIT, Posit, bit_index, lowest_bit_exponents, value_table

Exact = Posit | Fixed
"""Formats whose products are exact dyadic numbers."""

_NORM_SLACK = 1.0 + 2.0**-20


@dataclass(frozen=True)
class Operand:
    """`values` (rows, K), NaR as 0 and its rows marked; all are multiples of 2^unit. `norm` bounds each
    row's norm; one entry stands for all rows."""

    values: NDArray[Any]
    norm: NDArray[np.float64]
    unit: int
    nar: NDArray[np.bool_] | None

    @property
    def rows(self) -> int:
        return int(self.values.shape[0])

    def block(self, start: int, stop: int) -> Operand:
        norm = self.norm if len(self.norm) == 1 else self.norm[start:stop]
        return replace(
            self,
            values=self.values[start:stop],
            norm=norm,
            nar=None if self.nar is None else self.nar[start:stop],
        )

    def norms(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        return np.broadcast_to(self.norm, (self.rows,))[rows]

    def finest_units(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """The finest unit that really occurs in each of `rows`; NO_UNIT in rows of zeros."""
        distinct, place = np.unique(rows, return_inverse=True)
        exponents = lowest_bit_exponents(self.values[distinct].astype(np.float64))
        result: NDArray[np.int64] = exponents.min(axis=1, initial=NO_UNIT)[place]
        return result


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


def single_operand(codes: Codes, fmt: Exact) -> Operand:
    """In float32, with one bound for all rows."""
    array = np.asarray(codes)
    norm = np.array([largest_magnitude(array, fmt) * math.sqrt(array.shape[-1])])
    return Operand(
        decode_finite(array, fmt, np.float32), norm, fmt.unit_exponent, nar_rows(array, fmt, axis=1)
    )


def operand(codes: Codes, fmt: Exact) -> Operand:
    """In float64."""
    values = decode_finite(codes, fmt, np.float64)
    return value_operand(values, fmt.unit_exponent, nar_rows(codes, fmt, axis=1))


def value_operand(values: NDArray[np.float64], unit: int, nar: NDArray[np.bool_] | None) -> Operand:
    """Finite float64 `values` (rows, K), all multiples of 2^unit."""
    return Operand(values, np.sqrt(np.einsum("ij,ij->i", values, values)) * _NORM_SLACK, unit, nar)


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
    return windows.reshape(*windows.shape[:3], -1)


def patch_operand(image: Codes, fmt: Exact, window: Window, single: bool) -> Operand:
    """The patches of `image` (samples, H, W, C) as rows; decoded once a pixel, not once a patch."""
    values = decode_finite(image, fmt, np.float32 if single else np.float64)
    rows = patches(values, window)
    rows = rows.reshape(-1, rows.shape[-1])
    marked = nar_rows(image, fmt, axis=3)
    nar = None if marked is None else patches(marked[..., None], window, fill=False).any(axis=-1).ravel()
    if single:
        norm = np.array([largest_magnitude(image, fmt) * math.sqrt(rows.shape[-1])])
    else:
        energy = np.einsum("nhwc,nhwc->nhw", values, values)[..., None]
        norm = np.sqrt(patches(energy, window).sum(axis=-1)).ravel() * _NORM_SLACK
    return Operand(rows, norm, fmt.unit_exponent, nar)


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
