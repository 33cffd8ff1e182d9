# SPDX-License-Identifier: Apache-2.0
"""The planners by name, and `plan`: from a problem to a validated plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from minun_pio.planner import exact, greedy
from minun_pio.planner.cp_sat import cp_sat
from minun_pio.planner.dancing_links import dancing_links
from minun_pio.planner.hill_climb import hill_climb
from minun_pio.planner.instance import Answer, Budget, Instance, instance
from minun_pio.planner.ping_pong import ping_pong
from minun_pio.planner.problem import ARENA, Buffer, Certificate, Plan, Problem, Status, bad, check
from minun_pio.planner.reduce import root_gaps, roots
from minun_pio.planner.regions import spread
from minun_pio.planner.sweep import sweep_first_fit
from minun_pio.planner.validate import violations

Planner = Callable[[Instance, Budget], Answer]

PLANNERS: Mapping[str, Planner] = {
    "exact": exact.solve,
    "dancing-links": dancing_links,
    "first-fit": greedy.first_fit,
    "by-size": greedy.by_size,
    "by-conflicts": greedy.by_conflicts,
    "hill-climb": hill_climb,
    "ping-pong": ping_pong,
    "cp-sat": cp_sat,
}


def plan(
    problem: Problem, planner: str = "exact", timeout: float = 10.0, target: int = 0, seed: int = 0
) -> Plan:
    """Places for every buffer, checked by the independent validator.

    `timeout`: seconds; the best plan known by then is returned as `best-known`. `target`: bytes that are
    good enough (0: go on to the lower bound). Raises MinunError for a problem without meaning, an unknown
    planner, or one that cannot take the problem.
    """
    if planner not in PLANNERS:
        raise bad("unknown-planner", f"there is no planner '{planner}'; there are: {', '.join(PLANNERS)}")
    begin = time.perf_counter()
    check(problem)
    outermost, inside = roots(problem)
    gaps = root_gaps(problem, inside) if problem.separations else {}
    budget = Budget(deadline=begin + timeout, target=target, seed=seed)

    def solve(members: list[Buffer]) -> Answer:
        inst = _instance(members, gaps)
        run = PLANNERS[planner] if inst.near is not None else sweep_first_fit
        return run(inst, budget) if members else Answer([], 0, 0)

    sized = [b for b in outermost if b.size > 0]
    whole = _instance(sized, gaps)
    certificate = _certificate(sized, whole)
    proven = certificate.bytes
    if problem.regions:
        places, complaint = spread(problem.regions, sized, solve, certificate)
    else:
        answer = solve(sized)
        proven = max(proven, answer.proven)
        places = {b.id: (ARENA, at) for b, at in zip(sized, answer.offsets, strict=True)}
        complaint = ""
        if problem.capacity is not None and answer.height > problem.capacity and proven > problem.capacity:
            complaint = f"needs {proven} bytes, {problem.capacity} are there"
    spare = problem.regions[0].name if problem.regions else ARENA
    for b in outermost:
        places.setdefault(b.id, (b.region or spare, b.offset or 0))
    offsets, regions = {}, {}
    heights = {r.name: 0 for r in problem.regions} or {ARENA: 0}
    for b in problem.buffers:
        root, shift = inside[b.id]
        region, at = places[root]
        offsets[b.id], regions[b.id] = at + shift, region
        heights[region] = max(heights[region], at + shift + b.size)
    height = sum(heights.values())
    result = Plan(
        offsets=offsets,
        regions=regions,
        heights=heights,
        height=height,
        lower_bound=certificate.bytes,
        proven=proven,
        certificate=certificate,
        status=_status(problem, heights, height, proven, complaint),
        planner=planner,
        nodes=budget.nodes,
        seconds=time.perf_counter() - begin,
        notes=(*budget.notes, *([complaint] if complaint else [])),
    )
    wrong = violations(problem, result)
    if wrong:
        raise bad(
            "wrong-plan", f"planner '{planner}' made a wrong plan: {wrong[0]}; please report this problem"
        )
    return result


def _instance(members: list[Buffer], gaps: Mapping[tuple[str, str], int]) -> Instance:
    index = {b.id: i for i, b in enumerate(members)} if gaps else {}
    return instance(
        [b.start for b in members],
        [b.end for b in members],
        [b.size for b in members],
        [b.align for b in members],
        [b.offset for b in members],
        {(index[i], index[j]): d for (i, j), d in gaps.items() if i in index and j in index},
    )


def _certificate(members: list[Buffer], inst: Instance) -> Certificate:
    """The section that needs most, as a step and the buffers live there."""
    if not members:
        return Certificate(0, (), 0)
    k = max(range(inst.count), key=inst.load.__getitem__)
    here = [b for b, first, last in zip(members, inst.first, inst.last, strict=True) if first <= k < last]
    need = inst.load[k]
    for b in members:
        floor = b.size + (b.offset or 0)
        if floor > need:
            here, need = [b], floor
    return Certificate(max(b.start for b in here), tuple(b.id for b in here), need)


def _status(problem: Problem, heights: Mapping[str, int], height: int, proven: int, complaint: str) -> Status:
    if complaint:
        return "infeasible"
    rooms = {r.name: r.capacity for r in problem.regions} or {ARENA: problem.capacity}
    fits = all(room is None or heights[name] <= room for name, room in rooms.items())
    return "optimal" if height == proven and fits else "best-known"
