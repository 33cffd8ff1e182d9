# SPDX-License-Identifier: Apache-2.0
"""Bounds on codes: relu, clip, and the clamp that other operators take along (attribute `clip`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics import exact
from minun_pio.numerics.format import Format
from minun_pio.numerics.posit import Posit

Bounds = tuple[float | None, float | None]


def code_bounds(fmt: Format, bounds: Bounds | None) -> tuple[Any, Any]:
    """The codes of two values; where a bound is None, a code that no number lies beyond."""
    lo, hi = bounds or (None, None)
    if np.dtype(fmt.storage) == np.dtype(np.uint16):
        low, high = fmt.encode(np.asarray([-np.inf if lo is None else lo, np.inf if hi is None else hi]))
        return low, high
    return exact.clamp_codes(fmt, lo, hi)


def fused_bounds(attrs: Mapping[str, Any]) -> Bounds | None:
    """The attribute `clip` of an operator, None where it has none."""
    found = attrs.get("clip")
    if found is None:
        return None
    lo, hi = found
    return (None if lo is None else float(lo), None if hi is None else float(hi))


def ordered(codes: NDArray[Any], fmt: Format | None) -> NDArray[Any]:
    """What compares as the device compares codes: 16-bit floats by value, all others as they are."""
    if fmt is not None and np.dtype(fmt.storage) == np.dtype(np.uint16):
        return fmt.decode(codes)
    return codes


def clamp(codes: NDArray[Any], low: Any, high: Any, fmt: Format | None = None) -> NDArray[Any]:
    """`code < low ? low : high < code ? high : code`, in the codes' own dtype; NaR and NaN stay."""
    floor = np.asarray(low, codes.dtype)
    ceiling = np.asarray(high, codes.dtype)
    value = ordered(codes, fmt)
    below = value < ordered(floor.reshape(1), fmt)
    if isinstance(fmt, Posit):
        below &= codes != fmt.nar
    above = ordered(ceiling.reshape(1), fmt) < value
    result: NDArray[Any] = np.where(below, floor, np.where(above, ceiling, codes))
    return result


def fused_clamp(codes: NDArray[Any], fmt: Format, attrs: Mapping[str, Any]) -> NDArray[Any]:
    """`codes` under the attribute `clip`."""
    bounds = fused_bounds(attrs)
    if bounds is None:
        return codes
    low, high = code_bounds(fmt, bounds)
    return clamp(codes, low, high, fmt)


def fused_reference(values: NDArray[np.float64], attrs: Mapping[str, Any]) -> NDArray[np.float64]:
    """Real values under the attribute `clip`."""
    lo, hi = fused_bounds(attrs) or (None, None)
    return clamp(values, -np.inf if lo is None else lo, np.inf if hi is None else hi)
