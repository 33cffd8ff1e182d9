# SPDX-License-Identifier: Apache-2.0
"""First-fit by a sweep over time, for instances with too many pairs live together."""

from __future__ import annotations

from bisect import bisect_left, insort

from minun_pio.planner.instance import Answer, Budget, Instance, bound, top
from minun_pio.planner.problem import bad


def sweep_first_fit(inst: Instance, budget: Budget) -> Answer:
    """Buffers in the order of birth, of those born together the largest, each in the lowest hole."""
    if inst.gaps or any(p is not None for p in inst.pin):
        raise bad(
            "too-many-pairs",
            f"{len(inst.sizes)} buffers with pins or overlaps, and millions of pairs live together; "
            f"plan without pins and overlaps",
        )
    budget.notes.append("too many buffers live together for an exact search: first-fit by a sweep over time")
    size, align = inst.sizes, inst.align
    offsets = [0] * len(size)
    events = []
    for i, (a, b) in enumerate(zip(inst.first, inst.last, strict=True)):
        events.append((b, 0, 0, i))
        events.append((a, 1, -size[i], i))
    events.sort()
    live: list[tuple[int, int]] = []  # (offset, end), ascending
    for _, born, _, i in events:
        if not born:
            del live[bisect_left(live, (offsets[i], offsets[i] + size[i]))]
            continue
        at = 0
        for low, high in live:
            if low - at >= size[i]:
                break
            at = max(at, -(-high // align[i]) * align[i])
        offsets[i] = at
        insort(live, (at, at + size[i]))
    return Answer(offsets, top(inst, offsets), bound(inst))
