# SPDX-License-Identifier: Apache-2.0
"""Rounding of whole matrices of sums, a few nanoseconds an element, and what it cannot decide.

A posit's code, taken as a real number before rounding, is a piecewise linear function of the value: in each
binade code = slope * v + offset, with the bits that do not fit as its fraction. Rounding it half to even is
the posit rule, for the code's parity is the bit string's. Fixed-point is the same with one slope, rounding
half up.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Codes
from minun_pio.numerics.posit import Posit, regime_string

ERROR_FACTOR = 4.0
"""`round_sums` wants four times the bound of a sum's error: the slope grows at most fourfold to the next
binade.
"""


def round_sums(
    total: NDArray[np.float64], error: NDArray[np.float64] | None, fmt: Posit | Fixed
) -> tuple[Codes, NDArray[np.bool_] | None]:
    """Codes of `total`, and where they may be wrong (None: nowhere).

    `error` is ERROR_FACTOR times a bound of |total - exact sum|, or None where total is exact. Doubtful
    entries lie too close to a tie, to zero or to saturation. `total` is finite.
    """
    if isinstance(fmt, Fixed):
        return _round_fixed(total, error, fmt)
    lines = _lines(fmt)
    binade = (total.view(np.uint64) >> np.uint64(52)).view(np.int64)
    slope = np.take(lines.slope, binade, mode="clip")
    position = total * slope
    position += np.take(lines.offset, binade, mode="clip")
    nearest = np.rint(position)
    position -= nearest
    np.abs(position, out=position)
    if error is not None:
        slope *= error
        position += slope
    # The position itself is rounded to 53 bits: a tie may be false within 2^(n - 53).
    doubtful = position > 0.5 - 2.0 ** (fmt.n - 50)
    if error is not None:
        size = np.abs(nearest)
        doubtful |= size <= 1
        doubtful |= size >= fmt.max_code
    return nearest.astype(fmt.storage), doubtful


def positions(values: NDArray[np.float64], fmt: Posit | Fixed) -> NDArray[np.float64]:
    """The code of each finite value before rounding, as a real number; saturated."""
    if isinstance(fmt, Fixed):
        scaled: NDArray[np.float64] = np.clip(values * 2.0**-fmt.scale_exp, fmt.min_code, fmt.max_code)
        return scaled
    lines = _lines(fmt)
    binade = (np.ascontiguousarray(values).view(np.uint64) >> np.uint64(52)).view(np.int64)
    result: NDArray[np.float64] = values * lines.slope[binade] + lines.offset[binade]
    return result


def _round_fixed(
    total: NDArray[np.float64], error: NDArray[np.float64] | None, fmt: Fixed
) -> tuple[Codes, NDArray[np.bool_] | None]:
    position = total * 2.0**-fmt.scale_exp
    np.clip(position, fmt.min_code - 1.0, fmt.max_code + 1.0, out=position)
    nearest = position + 0.5
    np.floor(nearest, out=nearest)
    codes = np.clip(nearest, fmt.min_code, fmt.max_code).astype(fmt.storage)
    if error is None:
        return codes, None
    position -= nearest
    np.abs(position, out=position)
    position += error * 2.0**-fmt.scale_exp
    return codes, position > 0.5 - 2.0 ** (fmt.width - 50)


def round_singles(total: NDArray[np.float32], fmt: Posit) -> Codes:
    """Codes of exact float32 sums for posits of up to 8 bits: a table over the upper 16 bits, the last of
    which also says that something follows."""
    pattern = total.view(np.uint32)
    sticky = pattern & np.uint32(0xFFFF)
    sticky += np.uint32(0xFFFF)
    sticky |= pattern
    codes: Codes = np.take(_upper_half_table(fmt), sticky.view(np.uint16)[..., 1::2], mode="clip")
    return codes


@dataclass(frozen=True)
class _Lines:
    """Indexed by the upper 12 bits of a float64: sign and biased exponent."""

    slope: NDArray[np.float64]
    offset: NDArray[np.float64]


@functools.cache
def _lines(fmt: Posit) -> _Lines:
    slope, offset = np.zeros(2048), np.zeros(2048)
    offset[1 : 1023 - fmt.max_scale] = 1.0  # below minpos: minpos; zero alone has exponent bits 0
    offset[1023 + fmt.max_scale :] = fmt.max_code
    for scale in range(-fmt.max_scale, fmt.max_scale):
        regime, regime_bits = regime_string(scale >> fmt.es)
        head = (regime << fmt.es) | (scale & ((1 << fmt.es) - 1))
        unit = 2.0 ** (fmt.n - 1 - regime_bits - fmt.es)  # what one step of the head counts in codes
        slope[scale + 1023] = unit * 2.0**-scale
        offset[scale + 1023] = (head - 1) * unit
    tables = _Lines(np.concatenate([slope, slope]), np.concatenate([offset, -offset]))
    tables.slope.flags.writeable = tables.offset.flags.writeable = False
    return tables


@functools.cache
def _upper_half_table(fmt: Posit) -> NDArray[Any]:
    values = (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(invalid="ignore"):
        return fmt.encode(values)
