# SPDX-License-Identifier: Apache-2.0
"""Softmax, layer and L2 normalisation up to 16 bits are within one code of the correctly rounded result."""

from __future__ import annotations

import numpy as np
import pytest

from minun_pio.ir import Node
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Format
from minun_pio.numerics.posit import Posit
from minun_pio.ops import REGISTRY


def _differences(op: str, fmt: Format, out: Format, spread: float, seed: int) -> np.ndarray:
    """Codes by which the simulation and the rounded float64 result are apart."""
    rng = np.random.default_rng(seed)
    node = Node("case", op, ("x",), ("y",), {"axis": -1})
    x = fmt.encode(rng.normal(0.0, spread, (1500, 1, 24)))
    found = REGISTRY[op].simulate(node, [x], [fmt], [out])[0]
    wanted = out.encode(REGISTRY[op].reference(node, [fmt.decode(x)])[0])
    return np.abs(found.astype(np.int64) - wanted.astype(np.int64))


@pytest.mark.parametrize(
    "fmt", [Posit(16, 1), Posit(16, 2), Posit(12, 2), Posit(8, 2), Fixed(16, -11), Fixed(8, -4)]
)
@pytest.mark.parametrize("op", ["softmax", "layer_norm", "l2_norm"])
@pytest.mark.parametrize("spread", [0.3, 2.0, 6.0])
def test_normalisations_are_within_one_code(op: str, fmt: Format, spread: float) -> None:
    out = Fixed(fmt.bits, 1 - fmt.bits) if fmt.family == "fixed" and op != "layer_norm" else fmt
    apart = _differences(op, fmt, out, spread, seed=17)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.999


def test_softmax_keeps_its_accuracy_over_the_whole_range_of_a_posit() -> None:
    fmt = Posit(16, 2)
    node = Node("case", "softmax", ("x",), ("y",), {"axis": -1})
    rng = np.random.default_rng(3)
    x = rng.integers(-(2**15) + 1, 2**15, (4000, 1, 8)).astype(np.int16)
    found = REGISTRY["softmax"].simulate(node, [x], [fmt], [fmt])[0].astype(np.int64)
    wanted = fmt.encode(REGISTRY["softmax"].reference(node, [fmt.decode(x)])[0]).astype(np.int64)
    small = wanted < 8  # a float64 exponential is 0 where a posit's is minpos
    assert np.abs(found - wanted)[~small].max() <= 1
