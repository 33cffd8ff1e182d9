# SPDX-License-Identifier: Apache-2.0
"""float64 results rounded to odd, so that a second rounding to a narrow format is the only one that counts.

The nearest float64 s of an exact result and the exact remainder's sign are enough: where the result is
inexact and s has an even last bit, the neighbour on the remainder's side is the odd one. A number rounded to
odd with 53 bits lies strictly between the same codes, and on the same side of every tie, as the exact number
does, for any format of up to 51 significant bits (Boldo and Melquiond 2008).
"""

from __future__ import annotations

import numpy as np

from minun_pio.numerics.format import Values

_SPLIT = 134217729.0  # 2^27 + 1


def to_odd(nearest: Values, remainder: Values) -> Values:
    """`nearest` moved to the odd neighbour where `remainder` (exact minus nearest; its sign counts) is not
    0.
    """
    value = np.ascontiguousarray(nearest, dtype=np.float64)
    pattern = value.view(np.int64)
    upward = np.signbit(value) == np.signbit(remainder)
    moved = (pattern & 1 == 0) & (remainder != 0) & np.isfinite(value) & (value != 0)
    result: Values = np.where(moved, pattern + np.where(upward, 1, -1), pattern).view(np.float64)
    return result


def two_sum(x: Values, y: Values) -> tuple[Values, Values]:
    """Nearest sum and its exact error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def two_product(x: Values, y: Values) -> tuple[Values, Values]:
    """Nearest product and its exact error (Dekker); exact for magnitudes between 2^-480 and 2^480."""
    product = x * y
    x_high, x_low = _halves(x)
    y_high, y_low = _halves(y)
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, error


def _halves(x: Values) -> tuple[Values, Values]:
    scaled = _SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


def add_odd(x: Values, y: Values) -> Values:
    return to_odd(*two_sum(x, y))


def multiply_odd(x: Values, y: Values) -> Values:
    return to_odd(*two_product(x, y))


def divide_odd(x: Values, y: Values) -> Values:
    """x / y; NaN where y is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.where(y == 0, np.nan, x / y)
        product, error = two_product(quotient, y)
        remainder = (x - product) - error  # exact: the remainder of a division is a float
        return to_odd(quotient, np.where(np.signbit(y), -remainder, remainder))
