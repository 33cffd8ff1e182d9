# SPDX-License-Identifier: Apache-2.0
"""The independent check of a plan. It shares no code with the planners."""

from __future__ import annotations

from minun_pio.planner.problem import ARENA, Buffer, Plan, Problem


def violations(problem: Problem, plan: Plan, limit: int = 5) -> list[str]:
    """What is wrong with a plan: an empty list if nothing is. One sentence each, at most `limit`."""
    wrong: list[str] = []
    capacity = {r.name: r.capacity for r in problem.regions} or {ARENA: problem.capacity}
    tops = dict.fromkeys(capacity, 0)
    offsets, regions = plan.offsets, plan.regions
    for b in problem.buffers:
        at, region = offsets.get(b.id), regions.get(b.id)
        if at is None or region is None or region not in capacity:
            wrong.append(f"'{b.id}' has no place")
            continue
        if at < 0 or at % b.align:
            wrong.append(f"'{b.id}' at {at} is not a multiple of {b.align}")
        if b.offset is not None and at != b.offset:
            wrong.append(f"'{b.id}' at {at} is pinned to {b.offset}")
        if b.region is not None and region != b.region:
            wrong.append(f"'{b.id}' is in '{region}' and must be in '{b.region}'")
        if at + b.size > tops[region]:
            tops[region] = at + b.size
    if wrong:
        return wrong[:limit]
    for name, top in tops.items():
        if plan.heights.get(name, 0) != top:
            wrong.append(f"region '{name}' is used up to {top}, the plan says {plan.heights.get(name, 0)}")
        room = capacity[name]
        if plan.status == "optimal" and room is not None and top > room:
            wrong.append(f"region '{name}' is used up to {top} and has {room}")
    if plan.height != sum(tops.values()):
        wrong.append(f"the height is {sum(tops.values())}, the plan says {plan.height}")
    wrong += _shared_bytes(problem, plan, limit)
    return wrong[:limit]


def _shared_bytes(problem: Problem, plan: Plan, limit: int) -> list[str]:
    wrong: list[str] = []
    may: dict[tuple[str, str], int] = {}
    for s in problem.separations:
        may[s.lower, s.upper] = min(s.distance, may.get((s.lower, s.upper), s.distance))
    outer = {a.inner: a.outer for a in problem.aliases}
    for a in problem.aliases:
        if (
            plan.offsets[a.inner] != plan.offsets[a.outer] + a.at
            or plan.regions[a.inner] != plan.regions[a.outer]
        ):
            wrong.append(f"'{a.inner}' is not {a.at} bytes into '{a.outer}'")

    def root(name: str) -> str:
        while name in outer:
            name = outer[name]
        return name

    live: list[Buffer] = []
    offsets, regions = plan.offsets, plan.regions
    for b in sorted(problem.buffers, key=lambda b: b.start):
        live = [x for x in live if x.end > b.start]
        low, high, region = offsets[b.id], offsets[b.id] + b.size, regions[b.id]
        for x in live:
            at = offsets[x.id]
            if at >= high or low >= at + x.size or regions[x.id] != region or not b.size or not x.size:
                continue
            if at - low >= may.get((b.id, x.id), b.size) or low - at >= may.get((x.id, b.id), x.size):
                continue
            if outer and root(b.id) == root(x.id):
                continue
            wrong.append(f"'{b.id}' at {low} and '{x.id}' at {at} share bytes while both are live")
            if len(wrong) >= limit:
                return wrong
        live.append(b)
    return wrong
