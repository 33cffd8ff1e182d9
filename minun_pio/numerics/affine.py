# SPDX-License-Identifier: Apache-2.0
"""Affine integers as TensorFlow Lite defines them: value = (code - zero_point) * scale.

int8 and int16 tensors have one scale, weights may have one per output channel (`axis`), biases are int32
with zero point 0. Encoding rounds half away from zero and saturates; NaN becomes the zero point. `encode`
divides in float64 and is for constants: codes that a file came with are found again from their values. What
enters a network as float32 is divided in float32, as TensorFlow Lite's quantiser does (`exact.convert`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.numerics.format import Codes, Values, signed_storage


@dataclass(frozen=True)
class Affine:
    """`width` 8, 16, 32 or 64 (biases); `scales` has one entry, or one per index of `axis`."""

    width: int
    scales: tuple[float, ...]
    zero_point: int = 0
    axis: int | None = None
    narrow: bool = False  # weights: -127 to 127 only

    def __post_init__(self) -> None:
        if self.width not in (8, 16, 32, 64):
            raise MinunError(
                "format.affine", f"an affine width of {self.width} found, 8, 16, 32 or 64 expected"
            )
        if not self.scales or (len(self.scales) > 1 and self.axis is None):
            raise MinunError(
                "format.affine", f"{len(self.scales)} scales and no axis found, one scale expected"
            )
        if not all(np.isfinite(scale) and scale > 0 for scale in self.scales):
            raise MinunError("format.affine", "a scale that is not positive found; quantise the model again")
        if not self.min_code <= self.zero_point <= self.max_code:
            raise MinunError("format.affine", f"zero point {self.zero_point} is outside int{self.width}")

    @property
    def name(self) -> str:
        channels = "" if self.axis is None else f" per channel of axis {self.axis}"
        low, high = min(self.scales), max(self.scales)
        scale = f"{low:.9g}" if low == high else f"{low:.3g}..{high:.3g}"
        return f"int{self.width}(scale {scale}, zero {self.zero_point}{channels})"

    @property
    def family(self) -> str:
        return "affine"

    @property
    def bits(self) -> int:
        return self.width

    @property
    def storage(self) -> np.dtype[Any]:
        return signed_storage(self.width)

    @property
    def cpp(self) -> str:
        return f"minun::Affine<{self.width}>"

    @property
    def scale(self) -> float:
        """The one scale of a per-tensor format."""
        if len(self.scales) != 1:
            raise MinunError("format.affine", f"{self.name} found where one scale per tensor was expected")
        return self.scales[0]

    @property
    def min_code(self) -> int:
        return -(1 << (self.width - 1)) + int(self.narrow)

    @property
    def max_code(self) -> int:
        return (1 << (self.width - 1)) - 1

    @property
    def nar(self) -> None:
        return None

    def channel_scales(self, ndim: int) -> NDArray[np.float64]:
        """The scales shaped to broadcast against an array of `ndim` axes."""
        scales = np.asarray(self.scales, dtype=np.float64)
        if self.axis is None or len(self.scales) == 1:
            return scales.reshape((1,) * ndim)
        shape = [1] * ndim
        shape[self.axis] = len(self.scales)
        return scales.reshape(shape)

    def encode(self, values: NDArray[Any]) -> Codes:
        """`axis` counts the axes of the array that is given, so a format per channel takes no sample
        axis.
        """
        given = np.asarray(values, dtype=np.float64)
        scaled = given / self.channel_scales(given.ndim)
        rounded = np.trunc(scaled + np.copysign(0.5, scaled))
        rounded = np.where(np.abs(scaled) == 0.49999999999999994, 0.0, rounded) + self.zero_point
        clipped = np.clip(rounded, self.min_code, self.max_code)
        return np.where(np.isnan(clipped), self.zero_point, clipped).astype(self.storage)

    def decode(self, codes: Codes) -> Values:
        array = np.asarray(codes)
        return (array.astype(np.float64) - self.zero_point) * self.channel_scales(array.ndim)


def affine_for_range(low: float, high: float, width: int = 8) -> Affine:
    """The format of an activation seen between `low` and `high`: 0 is exactly representable.

    8 bits: asymmetric, scale = (high - low) / 255 in float32, the zero point nudged to an integer.
    16 bits: symmetric, zero point 0.
    """
    low, high = min(0.0, low), max(0.0, high)
    if width == 16:
        return Affine(16, (float(np.float32(max(-low, high) / 32767.0)) or 1.0,))
    scale = float(np.float32((high - low) / 255.0)) or 1.0
    zero = int(np.clip(np.floor(-128 - low / scale + 0.5), -128, 127))
    return Affine(8, (scale,), zero)


def affine_for_weights(weights: Values, axis: int | None = 0, width: int = 8) -> Affine:
    """Symmetric weights (-127 to 127), one scale per index of `axis`, or one for all when it is None."""
    magnitudes = np.abs(np.asarray(weights, dtype=np.float64))
    top = float((1 << (width - 1)) - 1)
    if axis is None:
        largest = np.atleast_1d(magnitudes.max(initial=0.0))
    else:
        largest = magnitudes.max(axis=tuple(i for i in range(magnitudes.ndim) if i != axis), initial=0.0)
    scales = tuple(float(np.float32(value / top)) or 1.0 for value in largest)
    return Affine(width, scales, 0, axis, narrow=True)


def affine_bias(x: Affine, w: Affine) -> Affine:
    """The bias format of a product of `x` and `w`: int32, scale = product of scales."""
    return Affine(32, tuple(x.scale * scale for scale in w.scales), 0, 0 if len(w.scales) > 1 else None)
