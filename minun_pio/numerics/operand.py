# SPDX-License-Identifier: Apache-2.0
"""Matrices of codes made ready for BLAS: values as floats, with what proves a product exact.

A float GEMM computes sums of products exactly, in any order, when every partial sum is a multiple of one unit
and smaller than 2^24 (float32) or 2^53 (float64) units. Each row therefore carries an upper bound of its
Euclidean norm (a sum of products is at most |x||w|, Cauchy-Schwarz) and the exponent of its finest unit.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Codes
from minun_pio.numerics.posit import NO_UNIT, Posit, bit_index, unit_table, value_table

Exact = Posit | Fixed
"""Formats whose products are exact dyadic numbers."""

_SINGLE_SCALE = 56  # values within 2^±56 keep squares and sums of squares in float32's normal range
_NORM_SLACK = 1.0 + 2.0**-10  # covers the rounding of a norm that was summed in float32
_NO_UNIT8 = 127


@dataclass(frozen=True)
class Operand:
    """`values` (rows, K), float32 where the format fits it, else float64; NaR rows hold zeros and are
    marked.
    """

    values: NDArray[Any]
    norm: NDArray[np.float64]
    unit: NDArray[np.float64]
    nar: NDArray[np.bool_] | None

    @property
    def rows(self) -> int:
        return int(self.values.shape[0])

    def block(self, start: int, stop: int) -> Operand:
        nar = None if self.nar is None else self.nar[start:stop]
        return Operand(self.values[start:stop], self.norm[start:stop], self.unit[start:stop], nar)


def operand(codes: Codes, fmt: Exact) -> Operand:
    """`codes` (rows, K) of `fmt`, ready for a product."""
    values = decode_compact(codes, fmt)
    nar = nar_rows(codes, fmt, axis=1)
    energy = np.einsum("ij,ij->i", values, values).astype(np.float64)
    return Operand(values, np.sqrt(energy) * _NORM_SLACK, finest_units(codes, fmt, axis=1), nar)


@dataclass(frozen=True)
class Window:
    """A sliding window over (samples, H, W, C): kernel, strides, dilations, pads (top, left, bottom,
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
            image = np.pad(image, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
        spread = tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))
        windows = sliding_window_view(image, spread, axis=(1, 2))
        return windows[
            :, :: self.strides[0], :: self.strides[1], :, :: self.dilations[0], :: self.dilations[1]
        ]


def patches(image: NDArray[Any], window: Window, fill: Any = 0) -> NDArray[Any]:
    """im2col: (samples, H, W, C) to (samples, out_h, out_w, kh * kw * C), taps in raster order, channels
    last.
    """
    windows = window.over(image, fill).transpose(0, 1, 2, 4, 5, 3)
    result: NDArray[Any] = windows.reshape(*windows.shape[:3], -1)
    return result


def patch_operand(image: Codes, fmt: Exact, window: Window) -> Operand:
    """The patches of `image` (samples, H, W, C) as rows; decoded once a pixel, not once a patch."""
    values = decode_compact(image, fmt)
    rows = patches(values, window)
    energy = np.einsum("nhwc,nhwc->nhw", values, values).astype(np.float64)[..., None]
    norm = np.sqrt(patches(energy, window).sum(axis=-1)) * _NORM_SLACK
    unit = patches(finest_units(image, fmt, axis=3)[..., None], window, fill=NO_UNIT).min(axis=-1)
    marked = nar_rows(image, fmt, axis=3)
    nar = None if marked is None else patches(marked[..., None], window, fill=False).any(axis=-1).ravel()
    return Operand(rows.reshape(-1, rows.shape[-1]), norm.ravel(), unit.ravel(), nar)


def decode_compact(codes: Codes, fmt: Exact) -> NDArray[Any]:
    """Exact values, NaR as 0, in float32 where every value and its square fit, else in float64."""
    if isinstance(fmt, Fixed):
        if fmt.width <= 16 and abs(fmt.scale_exp) <= _SINGLE_SCALE:
            result: NDArray[Any] = np.asarray(codes).astype(np.float32) * np.float32(2.0**fmt.scale_exp)
            return result
        return fmt.decode(codes)
    if fmt.n > 16:
        return np.nan_to_num(fmt.decode(codes))
    return np.take(_compact_table(fmt), bit_index(fmt, codes))


def finest_units(codes: Codes, fmt: Exact, axis: int) -> NDArray[np.float64]:
    """The exponent of the finest unit along `axis`: all those values are multiples of 2^unit."""
    array = np.asarray(codes)
    if isinstance(fmt, Fixed):
        shape = tuple(extent for i, extent in enumerate(array.shape) if i != axis)
        return np.full(shape, float(fmt.scale_exp))
    if fmt.n > 16:
        result: NDArray[np.float64] = (
            fmt.unit_exponents(array).min(axis=axis, initial=NO_UNIT).astype(np.float64)
        )
        return result
    units = np.take(_unit_table8(fmt), bit_index(fmt, array)).min(axis=axis, initial=_NO_UNIT8)
    return np.where(units == _NO_UNIT8, NO_UNIT, units).astype(np.float64)


def nar_rows(codes: Codes, fmt: Exact, axis: int) -> NDArray[np.bool_] | None:
    """Where NaR occurs along `axis`; None when it does not occur at all."""
    array = np.asarray(codes)
    if isinstance(fmt, Fixed) or array.size == 0 or array.min() > fmt.nar:
        return None
    marked: NDArray[np.bool_] = (array == fmt.nar).any(axis=axis)
    return marked


@functools.cache
def _compact_table(fmt: Posit) -> NDArray[Any]:
    table = np.nan_to_num(value_table(fmt))
    return table.astype(np.float32) if fmt.max_scale <= _SINGLE_SCALE else table


@functools.cache
def _unit_table8(fmt: Posit) -> NDArray[np.int8]:
    return np.minimum(unit_table(fmt), _NO_UNIT8).astype(np.int8)
