# SPDX-License-Identifier: Apache-2.0
"""Haunter: a width per tensor from a heat map of what low precision does to each (MinUn, section 4).

Stage I chooses the rungs by measured accuracy, stage II scores every group, stage III promotes along the
scores under several soft limits and keeps the most accurate candidate that packs within the limit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from minun_pio.search.promotion import fill
from minun_pio.search.space import Group, Limits, Measure, Outcome, Promoted, Rung, Space
from minun_pio.search.trail import Ties, Trail

NONE: Promoted = frozenset()


def haunter(space: Space, measure: Measure, limits: Limits) -> Outcome:
    """All three stages. Of equally accurate candidates the quicker one, by estimate; then the smaller."""
    return _haunter("haunter", space, measure, limits, "quicker")


def haunter_paper(space: Space, measure: Measure, limits: Limits) -> Outcome:
    """The same as the paper has it: ties in accuracy go to the candidate that was visited first."""
    return _haunter("haunter-paper", space, measure, limits, "earliest")


def _haunter(name: str, space: Space, measure: Measure, limits: Limits, ties: Ties) -> Outcome:
    trail = Trail(space, measure, limits)
    low, high = choose_rung(trail, space.low), choose_rung(trail, space.high)
    heat = heat_map(space, measure, low, high)
    promote(trail, low, high, [name for name, _ in heat])
    return trail.outcome(name, heat, ties=ties)


def choose_rung(trail: Trail, rungs: tuple[Rung, ...]) -> Rung:
    """Stage I: the rung with the best accuracy when every tensor has it; the first of equals."""
    if len(rungs) == 1:
        return rungs[0]
    scores = [trail.accuracy(rung, rung, NONE) for rung in rungs]
    return rungs[scores.index(max(scores))]


def heat_map(space: Space, measure: Measure, low: Rung, high: Rung) -> tuple[tuple[str, float], ...]:
    """Stage II: groups with their scores, highest first; equal scores keep the order of the graph."""
    high_values, low_values = measure.values(high.formats), measure.values(low.formats)
    scores = [(group.name, score(group, high_values, low_values)) for group in space.groups]
    return tuple(sorted(scores, key=lambda item: -item[1]))


def score(
    group: Group, high: Mapping[str, NDArray[np.float64]], low: Mapping[str, NDArray[np.float64]]
) -> float:
    """The 95 % quantile of the absolute differences, divided by the group's static size.

    A difference that is not a number (NaR in one of the runs) counts as infinite: it is the worst there is.
    """
    parts = [
        np.abs(np.asarray(high[name], np.float64) - np.asarray(low[name], np.float64)).ravel()
        for name in group.members
        if name in high and name in low
    ]
    differences = np.concatenate(parts) if parts else np.zeros(0)
    if differences.size == 0:
        return 0.0
    return deviation(differences) / group.elements


def deviation(differences: NDArray[np.float64]) -> float:
    """`sorted(differences)[max(0, int(0.95 * n - 1))]`, without interpolation."""
    position = max(0, int(0.95 * differences.size - 1))
    clean = np.where(np.isnan(differences), np.inf, differences)
    return float(np.partition(clean, position)[position])


def promote(trail: Trail, low: Rung, high: Rung, order: list[str]) -> None:
    """Stage III: adds every candidate to the trail, in the paper's order."""
    for soft in trail.limits.soft:
        soft_ram = None if trail.limits.ram is None else round(trail.limits.ram * soft, 6)  # 1.1 * 50 is 55
        base = fill(trail, low, high, order, NONE, soft_ram)
        trail.add("base", low, high, base.promoted, soft)
        for name in base.overshooting:
            alone = fill(trail, low, high, order, frozenset({name}), soft_ram)
            trail.add(f"overshooting {name}", low, high, alone.promoted, soft)
        if base.overshooting:
            together = fill(trail, low, high, order, frozenset(base.overshooting), soft_ram)
            trail.add("all overshooting", low, high, together.promoted, soft)
        if soft_ram is None:
            break  # without a limit every soft limit gives the same
    trail.add("uniform-low", low, high, NONE)
