# SPDX-License-Identifier: Apache-2.0
"""Several memory banks: the cheapest region first, whole buffers spilled to the next where it overflows.

Which to spill: while some section needs more than the region has, the buffer that relieves most
overflowing bytes for its size; then, while the placement itself is too high, the largest buffer that
ends above the capacity. Afterwards each spilled buffer, largest first, comes back if it still fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minun_pio.planner.instance import Answer, instance
from minun_pio.planner.problem import Buffer, Certificate, Region

Solve = Callable[[list[Buffer]], Answer]
Places = dict[str, tuple[str, int]]


def spread(
    regions: Sequence[Region], buffers: list[Buffer], solve: Solve, certificate: Certificate
) -> tuple[Places, str]:
    """A region and offset for every buffer, and why it cannot be done ("" if it can, or nobody knows).

    Where everything does not fit, the last region that a buffer may use holds the rest, over its capacity.
    """
    places: Places = {}
    waiting = [b for b in buffers if b.region is None]
    ordered = sorted(regions, key=lambda r: r.cost)
    for k, region in enumerate(ordered):
        forced = [b for b in buffers if b.region == region.name]
        stay, spilled = waiting, list[Buffer]()
        if region.capacity is not None and k + 1 < len(ordered):
            stay, spilled = _fill(region.capacity, forced, waiting, solve)
        members = forced + stay
        answer = solve(members)
        for b, at in zip(members, answer.offsets, strict=True):
            places[b.id] = (region.name, at)
        waiting = spilled
    return places, _complaint(regions, buffers, certificate)


def _fill(
    capacity: int, forced: list[Buffer], free: list[Buffer], solve: Solve
) -> tuple[list[Buffer], list[Buffer]]:
    """Which of `free` stay beside `forced` within the capacity, and which are spilled."""
    spilled = [b for b in free if b.size > capacity]
    stay = [b for b in free if b.size <= capacity]
    while stay:
        victim = _relief(capacity, forced, stay)
        if victim is None:
            members = forced + stay
            answer = solve(members)
            if answer.height <= capacity:
                break
            high = [b for b, at in zip(members, answer.offsets, strict=True) if at + b.size > capacity]
            movable = [b for b in high if b in stay] or stay
            victim = max(movable, key=lambda b: (b.size, b.id))
        stay.remove(victim)
        spilled.append(victim)
    for b in sorted(spilled, key=lambda b: (-b.size, b.id)):
        if b.size > capacity or _relief(capacity, forced, [*stay, b]) is not None:
            continue
        if solve([*forced, *stay, b]).height <= capacity:
            stay.append(b)
            spilled.remove(b)
    return stay, spilled


def _relief(capacity: int, forced: list[Buffer], stay: list[Buffer]) -> Buffer | None:
    """The buffer of `stay` whose removal takes away most overflow for its size; None if nothing overflows."""
    members = forced + stay
    inst = instance([b.start for b in members], [b.end for b in members], [b.size for b in members])
    over = [max(0, load - capacity) for load in inst.load]
    if not any(over):
        return None
    best, value = None, 0.0
    for i in range(len(forced), len(members)):
        size = members[i].size
        relieved = sum(min(size, x) for x in over[inst.first[i] : inst.last[i]])
        if relieved and (relieved / size, size) > (value, best.size if best else 0):
            best, value = members[i], relieved / size
    return best


def _complaint(regions: Sequence[Region], buffers: list[Buffer], certificate: Certificate) -> str:
    rooms = [r.capacity for r in regions]
    if any(room is None for room in rooms):
        return ""
    total = sum(room for room in rooms if room is not None)
    if certificate.bytes > total:
        return f"step {certificate.step} needs {certificate.bytes} bytes, all regions together have {total}"
    largest = max((room for room in rooms if room is not None), default=0)
    for b in buffers:
        if b.size > largest:
            return f"buffer '{b.id}' needs {b.size} bytes, the largest region has {largest}"
    return ""
