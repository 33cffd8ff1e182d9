# SPDX-License-Identifier: Apache-2.0
"""Codes as C++ literals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minun_pio.numerics.format import Format


def code_literal(code: Any, fmt: Format) -> str:
    """One code of `fmt` as a C++ expression of its code type."""
    if np.dtype(fmt.storage) == np.dtype(np.float32):
        return float_literal(float(code))
    value = int(code)
    return "INT32_MIN" if value == -(2**31) else str(value)


def float_literal(value: float) -> str:
    """A float32 as a C++ literal that reads back to the same bits; infinities and NaN as expressions."""
    narrowed = np.float32(value)
    if math.isnan(narrowed):
        return "(0.0f / 0.0f)"
    if math.isinf(narrowed):
        return "(1.0f / 0.0f)" if narrowed > 0 else "(-1.0f / 0.0f)"
    text = f"{narrowed!s}"
    return text + "f" if any(mark in text for mark in ".en") else text + ".0f"
