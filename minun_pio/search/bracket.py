# SPDX-License-Identifier: Apache-2.0
"""The experiment of several widths: find the two uniform widths that bracket float32's accuracy, then Haunter
between them."""

from __future__ import annotations

from dataclasses import replace

from minun_pio.search.haunter import NONE, choose_rung, haunter
from minun_pio.search.space import Limits, Measure, Outcome, Rung, Space
from minun_pio.search.trail import Trail

WIDTHS = (8, 9, 10, 12, 16)


def bracket(space: Space, measure: Measure, limits: Limits) -> Outcome:
    """Haunter between the bracketing widths of all the space's rungs; the uniform runs stay in the trail."""
    trail = Trail(space, measure, limits)
    by_bits: dict[int, list[Rung]] = {}
    for rung in (*space.low, *space.high):
        by_bits.setdefault(rung.bits, []).append(rung)
    chosen = [choose_rung(trail, tuple(rungs)) for _, rungs in sorted(by_bits.items())]
    for rung in chosen:
        trail.add(f"uniform {rung.name}", rung, rung, NONE)
    accuracies = [(trail.accuracy(rung, rung, NONE), rung) for rung in chosen]
    low, high = bracketing(accuracies, measure.float_accuracy)
    found = haunter(replace(space, low=(low,), high=(high,)), measure, limits)
    return replace(
        found,
        strategy="bracket",
        candidates=(*trail.candidates, *found.candidates),
        evaluations=trail.evaluations + found.evaluations,
        notes=(f"{low.name} and {high.name} bracket float32",),
    )


def bracketing(accuracies: list[tuple[float, Rung]], float_accuracy: float) -> tuple[Rung, Rung]:
    """The two neighbours, in order of accuracy, between which float32's lies; ties go to the narrower width.

    Where float32 is below or above them all, the two nearest to it. The narrower of the two is the low rung.
    """
    best: dict[float, Rung] = {}
    for accuracy, rung in sorted(accuracies, key=lambda item: item[1].bits):
        best.setdefault(accuracy, rung)
    ordered = sorted(best.items())
    if len(ordered) == 1:
        return ordered[0][1], ordered[0][1]
    above = next(
        (k for k, (accuracy, _) in enumerate(ordered) if accuracy >= float_accuracy), len(ordered) - 1
    )
    above = max(1, above)
    pair = sorted((ordered[above - 1][1], ordered[above][1]), key=lambda rung: rung.bits)
    return pair[0], pair[1]
