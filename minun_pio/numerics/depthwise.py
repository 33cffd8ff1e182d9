# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution: sums of a few taps, one rounding, without a matrix product per channel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.format import Codes
from minun_pio.numerics.operand import Exact, Window, decode_finite, finest_unit
from minun_pio.numerics.posit import Posit
from minun_pio.numerics.product import BLOCK_ENTRIES, Bias, code_of_sum, relative_error
from minun_pio.numerics.rounding import ERROR_FACTOR, round_sums


def depthwise(
    image: Codes, fx: Exact, kernels: Codes, fw: Exact, bias: Bias | None, out: Exact, window: Window
) -> Codes:
    """image (samples, H, W, C), kernels (C * m, kh, kw, 1); output channel c reads input channel c // m."""
    channels = kernels.shape[0]
    weights = decode_finite(kernels[..., 0], fw, np.float64)
    unit = finest_unit(image, fx) + finest_unit(kernels, fw)
    if bias is not None:
        unit = min(unit, bias.unit)
    shape = (*window.over(image).shape[:3], channels)
    result = np.empty(shape, out.storage)
    step = max(1, BLOCK_ENTRIES // max(1, shape[1] * shape[2] * shape[3]))
    for start in range(0, shape[0], step):
        spread = np.repeat(image[start : start + step], channels // image.shape[3], axis=3)
        windows = window.over(decode_finite(spread, fx, np.float64))
        part = result[start : start + step]
        _block(windows, weights, unit, bias, out, part)
        if isinstance(fx, Posit) and isinstance(out, Posit) and spread.min() == fx.nar:
            part[window.over(spread == fx.nar, fill=False).any(axis=(4, 5))] = out.nar
    if isinstance(fw, Posit) and isinstance(out, Posit):
        result[..., (kernels == fw.nar).any(axis=(1, 2, 3))] = out.nar
        if bias is not None and bias.nar is not None:
            result[..., bias.nar] = out.nar
    return result


def _block(
    windows: NDArray[np.float64],
    weights: NDArray[np.float64],
    unit: int,
    bias: Bias | None,
    out: Exact,
    result: Codes,
) -> None:
    addend = np.zeros(weights.shape[0]) if bias is None else bias.values
    total = np.empty(windows.shape[:4])
    total[...] = addend
    bound = np.abs(total)
    for tap in np.ndindex(*weights.shape[1:]):
        term = windows[..., tap[0], tap[1]] * weights[:, tap[0], tap[1]]
        total += term
        np.abs(term, out=term)
        bound += term
    depth = weights.shape[1] * weights.shape[2]
    bits = 53 if isinstance(out, Posit) else 52
    exact = float(bound.max(initial=0.0)) * (1 + 2.0**-20) <= 2.0 ** min(bits + unit, 1000)
    error = None if exact else bound * (ERROR_FACTOR * relative_error(depth))
    codes, doubtful = round_sums(total, error, out)
    result[...] = codes
    if doubtful is None or not doubtful.any():
        return
    result[doubtful] = out.encode(total[doubtful])
    if exact:
        return
    slack = bound[doubtful] * relative_error(depth)
    low, high = total[doubtful] - slack, total[doubtful] + slack
    undecided = (out.encode(low) != out.encode(high)) | ((low <= 0) & (high >= 0) & (slack > 0))
    for place in np.argwhere(doubtful)[undecided]:
        taps = windows[tuple(place)].ravel()
        channel = int(place[3])
        result[tuple(place)] = code_of_sum(taps, weights[channel].ravel(), float(addend[channel]), out)
