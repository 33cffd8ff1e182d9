# SPDX-License-Identifier: Apache-2.0
"""Haunter's rivals that rank differently and fill the same RAM: by accuracy of each group alone, by size."""

from __future__ import annotations

from minun_pio.search.haunter import NONE, choose_rung
from minun_pio.search.promotion import fill
from minun_pio.search.space import Limits, Measure, Outcome, Rung, Space
from minun_pio.search.trail import Trail


def accuracy_based(space: Space, measure: Measure, limits: Limits) -> Outcome:
    """Rank by the measured accuracy of promoting each group alone, best first."""
    trail = Trail(space, measure, limits)
    low, high = choose_rung(trail, space.low), choose_rung(trail, space.high)
    gains = [(group.name, trail.accuracy(low, high, frozenset({group.name}))) for group in space.groups]
    order = sorted(gains, key=lambda item: -item[1])
    return _filled(trail, "accuracy-based", low, high, tuple(order))


def size_based(space: Space, measure: Measure, limits: Limits) -> Outcome:
    """Rank by the number of elements, smallest first: the most groups high for the bytes."""
    trail = Trail(space, measure, limits)
    low, high = choose_rung(trail, space.low), choose_rung(trail, space.high)
    order = sorted(((group.name, float(group.elements)) for group in space.groups), key=lambda item: item[1])
    return _filled(trail, "size-based", low, high, tuple(order))


def _filled(
    trail: Trail, strategy: str, low: Rung, high: Rung, order: tuple[tuple[str, float], ...]
) -> Outcome:
    limit = trail.limits.ram
    soft_ram = None if limit is None else float(limit)
    filled = fill(trail, low, high, [name for name, _ in order], NONE, soft_ram)
    trail.add("base", low, high, filled.promoted, 1.0)
    trail.add("uniform-low", low, high, NONE)
    return trail.take(0, strategy, order) if trail.candidates[0].fits else trail.outcome(strategy, order)
