# SPDX-License-Identifier: Apache-2.0
"""The planners by name, and `plan`: from a problem to a validated plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from minun_pio.planner import exact, greedy
from minun_pio.planner.cp_sat import cp_sat
from minun_pio.planner.dancing_links import dancing_links
from minun_pio.planner.hill_climb import hill_climb
from minun_pio.planner.instance import Answer, Budget, Instance, fused
from minun_pio.planner.ping_pong import ping_pong
from minun_pio.planner.problem import ARENA, Buffer, Certificate, Plan, Problem, Status, bad, check
from minun_pio.planner.reduce import reduce
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


COMPOUNDS = ("exact", "first-fit", "by-size", "by-conflicts", "hill-climb")  # place buffers in buffers


def plan(
    problem: Problem,
    planner: str = "exact",
    timeout: float = 10.0,
    target: int = 0,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> Plan:
    """Places for every buffer, checked by the independent validator.

    `timeout`: seconds; the best plan known by then is returned as `best-known`. `target`: bytes that are
    good enough (0: go on to the lower bound). `clock`: what seconds are measured with (`time.process_time`
    leaves out what other processes take). Raises MinunError for a problem without meaning, an unknown
    planner, or one that cannot take the problem.
    """
    if planner not in PLANNERS:
        raise bad("unknown-planner", f"there is no planner '{planner}'; there are: {', '.join(PLANNERS)}")
    begin = clock()
    check(problem)
    reduced = reduce(problem)
    budget = Budget(
        deadline=begin + timeout, target=target, capacity=problem.capacity, seed=seed, clock=clock
    )

    def solve(members: list[Buffer]) -> Answer:
        """Offsets run parallel to `members`."""
        if not members:
            return Answer([], 0, 0)
        inst = whole if members is sized else reduced.numbers(members)
        run = PLANNERS[planner] if inst.near is not None else sweep_first_fit
        if inst.leader is None:
            return run(inst, budget)
        if planner not in COMPOUNDS or inst.near is None:
            simple, _ = fused(inst)
            return run(simple, budget)
        answer = run(inst, budget)
        leaders = [answer.offsets[i] for i, lead in enumerate(inst.leader) if i == lead]
        return Answer(leaders, answer.height, answer.proven)

    sized = [b for b in reduced.roots if b.size > 0]
    whole = reduced.numbers(sized)
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
    for b in reduced.roots:
        places.setdefault(b.id, (b.region or spare, b.offset or 0))
    offsets, regions = {}, {}
    heights = {r.name: 0 for r in problem.regions} or {ARENA: 0}
    for b in problem.buffers:
        root, shift = reduced.place[b.id]
        region, at = places[root]
        offsets[b.id], regions[b.id] = at + shift, region
        if at + shift + b.size > heights[region]:
            heights[region] = at + shift + b.size
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
        seconds=clock() - begin,
        notes=(*budget.notes, *([complaint] if complaint else [])),
    )
    wrong = violations(problem, result)
    if wrong:
        raise bad(
            "wrong-plan", f"planner '{planner}' made a wrong plan: {wrong[0]}; please report this problem"
        )
    return result


def _certificate(members: list[Buffer], inst: Instance) -> Certificate:
    """The section that needs most, as a step and the buffers live there."""
    if not members:
        return Certificate(0, (), 0)
    k = max(range(inst.count), key=inst.load.__getitem__)
    number: Sequence[int] = range(len(inst.sizes))
    if inst.leader is not None:
        leads = [i for i, lead in enumerate(inst.leader) if i == lead]
        place = {lead: c for c, lead in enumerate(leads)}
        number = [place[lead] for lead in inst.leader]
    first, last = inst.first, inst.last
    live = {number[i]: inst.starts[i] for i in range(len(inst.sizes)) if first[i] <= k < last[i]}
    here = [members[c] for c in sorted(live)]
    step = max(live.values())
    need = inst.load[k]
    for b in members if not inst.plain else ():
        floor = b.size + (b.offset or 0)
        if floor > need:
            here, need, step = [b], floor, b.start
    return Certificate(step, tuple(b.id for b in here), need)


def _status(problem: Problem, heights: Mapping[str, int], height: int, proven: int, complaint: str) -> Status:
    if complaint:
        return "infeasible"
    rooms = {r.name: r.capacity for r in problem.regions} or {ARENA: problem.capacity}
    fits = all(room is None or heights[name] <= room for name, room in rooms.items())
    return "optimal" if height == proven and fits else "best-known"
