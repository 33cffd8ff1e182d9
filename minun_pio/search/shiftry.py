# SPDX-License-Identifier: Apache-2.0
"""Shiftry's demotion (Kumar et al., OOPSLA 2020), a baseline: all high, demoted while it is harmless."""

from __future__ import annotations

from minun_pio.search.haunter import choose_rung
from minun_pio.search.space import Limits, Measure, Outcome, Space
from minun_pio.search.trail import Trail

LARGE_ELEMENTS = 50_000  # groups of this size and more are demoted first


def shiftry(space: Space, measure: Measure, limits: Limits) -> Outcome:
    """Demote cumulatively, in the order of the accuracy each group keeps when it alone is low; stop at the
    first step that loses more than the tolerance against float32. The RAM is what comes out of it."""
    trail = Trail(space, measure, limits)
    low, high = choose_rung(trail, space.low), choose_rung(trail, space.high)
    everything = frozenset(group.name for group in space.groups)
    alone = {name: trail.accuracy(low, high, everything - {name}) for name in everything}
    order = sorted(space.groups, key=lambda group: (group.elements < LARGE_ELEMENTS, -alone[group.name]))
    promoted = everything
    trail.add("uniform-high", low, high, promoted)
    for group in order:
        trial = promoted - {group.name}
        if measure.float_accuracy - trail.accuracy(low, high, trial) > limits.tolerated_drop:
            break
        promoted = trial
        trail.add(f"demoted {group.name}", low, high, promoted)
    ranking = tuple((group.name, alone[group.name]) for group in order)
    return trail.take(len(trail.candidates) - 1, "shiftry", ranking)
