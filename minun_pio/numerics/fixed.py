# SPDX-License-Identifier: Apache-2.0
"""Fixed-point numbers with a power-of-two scale: value = code * 2^scale_exp.

Rounding is half up, floor(v / 2^scale_exp + 1/2), and results saturate. NaN has no code; it encodes to 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.numerics.format import Codes, Values, signed_storage
from minun_pio.numerics.posit import lowest_bit_exponents


@dataclass(frozen=True)
class Fixed:
    """A signed fixed-point format of 2 to 32 bits; stored in 8, 16 or 32."""

    width: int
    scale_exp: int

    def __post_init__(self) -> None:
        if not (2 <= self.width <= 32 and -128 <= self.scale_exp <= 127):
            raise MinunError(
                "format.fixed",
                f"fixed<{self.width},{self.scale_exp}> found; expected 2 to 32 bits, scales 2^-128 to 2^127, "
                "as in fixed<16,-12>",
            )

    @property
    def name(self) -> str:
        return f"fixed<{self.width},{self.scale_exp}>"

    @property
    def family(self) -> str:
        return "fixed"

    @property
    def bits(self) -> int:
        return self.width

    @property
    def storage(self) -> np.dtype[Any]:
        return signed_storage(self.width)

    @property
    def cpp(self) -> str:
        return f"minun::Fixed<{self.width}, {self.scale_exp}>"

    @property
    def min_code(self) -> int:
        return -(1 << (self.width - 1))

    @property
    def max_code(self) -> int:
        return (1 << (self.width - 1)) - 1

    @property
    def nar(self) -> None:
        return None

    @property
    def unit_exponent(self) -> int:
        return self.scale_exp

    def decode(self, codes: Codes) -> Values:
        return np.asarray(codes).astype(np.float64) * 2.0**self.scale_exp

    def unit_exponents(self, codes: Codes) -> NDArray[np.int64]:
        """The exponent of each value's lowest set bit; NO_UNIT for zero."""
        return lowest_bit_exponents(self.decode(codes))

    def encode(self, values: NDArray[Any]) -> Codes:
        with np.errstate(over="ignore"):
            scaled = np.asarray(values, dtype=np.float64) * 2.0**-self.scale_exp
        scaled = np.clip(scaled, float(self.min_code), float(self.max_code))
        whole = np.floor(scaled)
        whole += (scaled - whole) >= 0.5
        return np.nan_to_num(whole, nan=0.0).astype(self.storage)

    def encode_integer(self, numerator: int, exponent: int) -> int:
        """The code of the exact number numerator * 2^exponent, in Python integers."""
        shift = exponent - self.scale_exp
        code = numerator << shift if shift >= 0 else (numerator + (1 << (-shift - 1))) >> -shift
        return max(self.min_code, min(code, self.max_code))


def fixed_for_range(largest: float, width: int, offset: int = 0) -> Fixed:
    """The format Shiftry gives a tensor whose largest magnitude is `largest`.

    scale = ceil(log2 m) - (bits - 1), one more where m is an exact power of two; `offset` (0, -1, -2) trades
    range for resolution in low widths. The finest scale is 2^-128: a tensor of almost nothing gets that.
    """
    if not (largest > 0 and math.isfinite(largest)):
        return Fixed(width, 1 - width)
    exponent = math.frexp(largest)[1]  # largest = fraction * 2^exponent, fraction in [1/2, 1)
    # ceil(log2 m) is exponent, or exponent - 1 at a power of two, which then gets one more.
    return Fixed(width, max(-128, exponent - (width - 1) + offset))
