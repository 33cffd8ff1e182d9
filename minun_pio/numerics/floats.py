# SPDX-License-Identifier: Apache-2.0
"""IEEE floats: float32, and float16 and bfloat16 as storage for float32 arithmetic.

Rounding is to nearest, ties to even. A float32 code is the float itself; 16-bit codes are the bit patterns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.format import Codes, Values


class _FloatFormat:
    """What the three have. Arithmetic on every one of them is float32 arithmetic."""

    family: ClassVar[str] = "float"
    name: ClassVar[str]
    bits: ClassVar[int]
    storage: ClassVar[np.dtype[Any]]
    cpp: ClassVar[str]


@dataclass(frozen=True)
class Float32(_FloatFormat):
    name = "float32"
    bits = 32
    storage = np.dtype(np.float32)
    cpp = "minun::Float32"

    def encode(self, values: NDArray[Any]) -> Codes:
        with np.errstate(over="ignore"):
            return np.asarray(values).astype(np.float32)

    def decode(self, codes: Codes) -> Values:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return np.asarray(codes).astype(np.float64)


@dataclass(frozen=True)
class Float16(_FloatFormat):
    name = "float16"
    bits = 16
    storage = np.dtype(np.uint16)
    cpp = "minun::Float16"

    def encode(self, values: NDArray[Any]) -> Codes:
        """NaN keeps its sign and loses its payload, as on the device."""
        with np.errstate(over="ignore", invalid="ignore"):
            codes: Codes = np.asarray(values).astype(np.float16).view(np.uint16)
        return np.where((codes & 0x7FFF) > 0x7C00, codes & 0x8000 | np.uint16(0x7E00), codes)

    def decode(self, codes: Codes) -> Values:
        with np.errstate(invalid="ignore"):
            return np.asarray(codes).astype(np.uint16).view(np.float16).astype(np.float64)


@dataclass(frozen=True)
class BFloat16(_FloatFormat):
    name = "bfloat16"
    bits = 16
    storage = np.dtype(np.uint16)
    cpp = "minun::BFloat16"

    def encode(self, values: NDArray[Any]) -> Codes:
        """Through float32 rounded to odd when `values` are float64, so that nothing is rounded twice."""
        given = np.asarray(values)
        single = _float32_to_odd(given) if given.dtype == np.float64 else given.astype(np.float32)
        pattern = np.ascontiguousarray(single).view(np.uint32).astype(np.uint64)
        half = np.uint64(0x7FFF) + ((pattern >> np.uint64(16)) & np.uint64(1))
        rounded = ((pattern + half) >> np.uint64(16)).astype(np.uint16)
        codes: Codes = np.where(np.isnan(single), np.uint16(0x7FC0), rounded)
        return codes

    def decode(self, codes: Codes) -> Values:
        pattern = np.asarray(codes).astype(np.uint32) << np.uint32(16)
        with np.errstate(invalid="ignore"):
            values: Values = pattern.view(np.float32).astype(np.float64)
        return values


def _float32_to_odd(values: Values) -> Codes:
    """float64 to float32 so that a second rounding to fewer bits comes out right."""
    with np.errstate(over="ignore"):
        single = np.atleast_1d(values).astype(np.float32)
    back = single.astype(np.float64)
    pattern = single.view(np.int32)
    even = ((pattern & 1) == 0) & (back != values) & np.isfinite(single)
    toward_zero = np.abs(back) > np.abs(values)
    moved = np.where(even, pattern + np.where(toward_zero, -1, 1).astype(np.int32), pattern)
    return moved.astype(np.int32).view(np.float32).reshape(np.shape(values))
