# SPDX-License-Identifier: Apache-2.0
"""One width for everything: the strategies that do not choose."""

from __future__ import annotations

from minun_pio.search.haunter import NONE, choose_rung
from minun_pio.search.space import Limits, Measure, Outcome, Rung, Space
from minun_pio.search.trail import Trail


def uniform_low(space: Space, measure: Measure, limits: Limits) -> Outcome:
    """Every tensor in the low format, the exponent size or scale chosen by stage I."""
    return _uniform("uniform-low", space, measure, limits, space.low)


def uniform_high(space: Space, measure: Measure, limits: Limits) -> Outcome:
    """Every tensor in the high format."""
    return _uniform("uniform-high", space, measure, limits, space.high)


def float32(space: Space, measure: Measure, limits: Limits) -> Outcome:
    """Every tensor in float32, computed on the board as the board computes it."""
    return _uniform("float32", space, measure, limits, (space.float32,))


def _uniform(name: str, space: Space, measure: Measure, limits: Limits, rungs: tuple[Rung, ...]) -> Outcome:
    trail = Trail(space, measure, limits)
    rung = choose_rung(trail, rungs)
    trail.add(name, rung, rung, NONE)
    return trail.take(0, name)
