# SPDX-License-Identifier: Apache-2.0
"""What a number format is: a finite set of values, each with a code, and one rounding into it.

Codes are signed integers of the storage width on host and board (posits order as signed integers;
NaR is the most negative code). `float32` and its 16-bit storage relatives store IEEE bits.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[Any]
Values = NDArray[np.float64]


@runtime_checkable
class Format(Protocol):
    """A number format. Implementations are frozen, hashable dataclasses; equal means same bits."""

    @property
    def name(self) -> str:
        """As people write it: `posit<8,2>`, `fixed<16,-12>`, `int8`, `float32`."""

    @property
    def family(self) -> str:
        """`posit`, `fixed`, `affine` or `float`. Widths of one family mix freely in an operator."""

    @property
    def bits(self) -> int:
        """The width of the number (9, 10 and 12 bit posits are stored in 16)."""

    @property
    def storage(self) -> np.dtype[Any]:
        """The dtype of a code: int8, int16, int32, float32 or uint16 (float16, bfloat16)."""

    @property
    def cpp(self) -> str:
        """The device type: `minun::Posit<8, 2>`, `minun::Fixed<16, -12>`, `minun::Float32`."""

    def encode(self, values: NDArray[Any]) -> Codes:
        """The code nearest to each value by this format's rounding; floats are taken as exact."""

    def decode(self, codes: Codes) -> Values:
        """The exact value of each code as float64 (NaR decodes to NaN)."""


def element_bytes(fmt: Format) -> int:
    """Bytes that one code takes in memory, also its alignment."""
    return int(fmt.storage.itemsize)


def signed_storage(bits: int) -> np.dtype[Any]:
    """The dtype of integer codes of 2 to 32 bits: int8, int16 or int32."""
    return np.dtype(np.int8 if bits <= 8 else np.int16 if bits <= 16 else np.int32)
