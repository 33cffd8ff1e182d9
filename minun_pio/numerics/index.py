# SPDX-License-Identifier: Apache-2.0
"""Plain 32-bit integers: indices (argmax, gather) that no format assignment touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.format import Codes, Values


@dataclass(frozen=True)
class Index32:
    """The value is the code."""

    @property
    def name(self) -> str:
        return "index32"

    @property
    def family(self) -> str:
        return "index"

    @property
    def bits(self) -> int:
        return 32

    @property
    def storage(self) -> np.dtype[Any]:
        return np.dtype(np.int32)

    @property
    def cpp(self) -> str:
        return "minun::Index32"

    def encode(self, values: NDArray[Any]) -> Codes:
        """Numbers are cut to integers, toward zero, and saturate; NaN is 0."""
        with np.errstate(invalid="ignore"):  # signalling NaNs
            whole = np.clip(np.trunc(np.asarray(values).astype(np.float64)), -(2.0**31), 2.0**31 - 1)
        result: Codes = np.where(np.isnan(whole), 0.0, whole).astype(np.int32)
        return result

    def decode(self, codes: Codes) -> Values:
        return np.asarray(codes).astype(np.float64)
