# SPDX-License-Identifier: Apache-2.0
"""The whole arena of a network: order, sharing and placement, searched together.

`arrange` goes through the stages first-fit, by size, optimal, in-place, concat, overlap, reorder, each with
what the ones before allow, and reports every stage's peak and who is live there. Each of the last four can
be switched off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from minun_pio.planner.layout import Layout, Sharing, lay_out
from minun_pio.planner.memory_graph import MemoryGraph, check_graph
from minun_pio.planner.planners import plan
from minun_pio.planner.problem import Plan, Problem, Region, Status, bad
from minun_pio.planner.reduce import reduce
from minun_pio.planner.reorder import best_order
from minun_pio.planner.safety import Placed, hazards

TOGGLES = 40  # graphs with more interleaved views take all of them or none
REVERSED = 12  # of so many steps in reverse order, each is tried in forward order


@dataclass(frozen=True)
class Sharings:
    """What may be used below plain placement."""

    in_place: bool = True
    concat: bool = True
    overlap: bool = True
    reorder: bool = True


@dataclass(frozen=True)
class Stage:
    """The peak, in bytes, with the stages so far; the step at the peak, and the buffers live there."""

    name: str
    peak: int
    lower_bound: int
    step: str
    live: tuple[str, ...]


@dataclass(frozen=True)
class Arena:
    """The answer. `order`: step names. `offsets`: tensor name -> byte offset (`regions`: in which region).
    `scratch`: step name -> offset of its scratch. `reverse`: the steps that must run in reverse raster order.
    `aliases`: tensor -> (the tensor it shares bytes with, byte offset in it), in-place steps and views.
    `interleaved`: those of `aliases` whose bytes are runs spread over the other."""

    order: tuple[str, ...]
    offsets: Mapping[str, int]
    regions: Mapping[str, str]
    scratch: Mapping[str, int]
    reverse: frozenset[str]
    aliases: Mapping[str, tuple[str, int]]
    interleaved: frozenset[str]
    plan: Plan
    problem: Problem
    stages: tuple[Stage, ...]

    @property
    def height(self) -> int:
        """Bytes of the arena."""
        return self.plan.height


@dataclass(frozen=True)
class _Choice:
    order: tuple[int, ...]
    views: frozenset[int]
    in_place: bool
    overlap: bool


def arrange(
    graph: MemoryGraph,
    use: Sharings | None = None,
    capacity: int | None = None,
    regions: tuple[Region, ...] = (),
    timeout: float = 10.0,
    planner: str = "exact",
) -> Arena:
    """Places for every tensor and scratch of a graph. Raises MinunError for a graph without meaning.

    `timeout`: seconds for each stage's placement. The result is checked twice: as a plan, and by following
    every step's writes (`safety.hazards`).
    """
    use = use or Sharings()
    check_graph(graph)
    search = _Search(graph, capacity, regions, timeout, planner)
    given = tuple(range(len(graph.steps)))
    plain = _Choice(given, frozenset(), False, False)
    stages = [search.stage("first-fit", plain, "first-fit"), search.stage("by size", plain, "by-size")]
    best = search.solve(plain)
    stages.append(search.describe("optimal", best))
    choices = [("in-place", use.in_place), ("concat", use.concat), ("overlap", use.overlap)]
    flags: set[str] = set()
    for name, wanted in choices:
        if not wanted:
            continue
        flags.add(name)
        views = search.views_for(given, flags) if "concat" in flags else frozenset[int]()
        choice = _Choice(given, views, "in-place" in flags, "overlap" in flags)
        best = search.better(best, choice)
        stages.append(search.describe(f"+ {name}", best))
    if use.reorder:
        best = search.reordered(best, flags)
        stages.append(search.describe("+ reorder", best))
    best = search.forward(best)
    stages[-1] = search.describe(stages[-1].name, best)
    return search.arena(best, tuple(stages))


@dataclass(frozen=True)
class _Solved:
    choice: _Choice
    sharing: Sharing
    layout: Layout
    plan: Plan


def _bounded_as(known: Plan, found: Plan) -> Plan:
    """`found`, a plan of a narrower problem, with the bound of all that `known` might have used."""
    status: Status = "optimal" if found.height == known.proven else "best-known"
    return replace(
        found,
        lower_bound=known.lower_bound,
        proven=known.proven,
        certificate=known.certificate,
        status=status,
    )


class _Search:
    def __init__(
        self,
        graph: MemoryGraph,
        capacity: int | None,
        regions: tuple[Region, ...],
        timeout: float,
        planner: str,
    ) -> None:
        self.graph, self.capacity, self.regions = graph, capacity, regions
        self.timeout, self.planner = timeout, planner
        self.view_steps = [k for k, step in enumerate(graph.steps) if step.views]
        # what lies inside something else in one run never raises the bound; what is interleaved may
        self.toggles = [k for k in self.view_steps if any(v.interleaved for v in graph.steps[k].views)]
        self.sharings: dict[frozenset[int], Sharing] = {}
        self.solved: dict[_Choice, _Solved] = {}

    def sharing(self, views: frozenset[int]) -> Sharing:
        if views not in self.sharings:
            self.sharings[views] = Sharing(self.graph, views)
        return self.sharings[views]

    def layout(self, choice: _Choice) -> Layout:
        return lay_out(self.sharing(choice.views), choice.order, choice.in_place, choice.overlap)

    def low(self, choice: _Choice) -> int:
        """The lower bound of a choice's placement problem."""
        return self.least(self.layout(choice))

    def least(self, layout: Layout) -> int:
        """The lower bound of a placement problem."""
        reduced = reduce(layout.problem)
        inst = reduced.numbers([b for b in reduced.roots if b.size])
        return max(inst.load, default=0)

    def problem(self, layout: Layout) -> Problem:
        made = layout.problem
        return Problem(made.buffers, self.capacity, self.regions, made.separations, made.aliases)

    def solve(self, choice: _Choice, planner: str = "") -> _Solved:
        if not planner and choice in self.solved:
            return self.solved[choice]
        layout = self.layout(choice)
        answer = plan(self.problem(layout), planner or self.planner, timeout=self.timeout)
        solved = _Solved(choice, self.sharing(choice.views), layout, answer)
        if not planner:
            self.solved[choice] = solved
        return solved

    def better(self, known: _Solved, choice: _Choice) -> _Solved:
        """The lower of the two; the new one if they are equal."""
        if self.low(choice) > known.plan.height:
            return known
        new = self.solve(choice)
        return new if new.plan.height <= known.plan.height else known

    def views_for(
        self, order: tuple[int, ...], flags: set[str], start: frozenset[int] | None = None
    ) -> frozenset[int]:
        """Which views to take: from none, all or `start`, changing one at a time while the bound falls."""

        def low(views: frozenset[int]) -> int:
            return self.low(_Choice(order, views, "in-place" in flags, "overlap" in flags))

        begin = [frozenset(self.view_steps), frozenset(self.view_steps) - frozenset(self.toggles)]
        begin += [start] if start is not None else []
        best = min(begin, key=low)
        least = low(best)
        while len(self.toggles) <= TOGGLES:
            trials = [best ^ {k} for k in self.toggles]
            trial = min(trials, key=low, default=best)
            if low(trial) >= least:
                break
            best, least = trial, low(trial)
        return best

    def reordered(self, best: _Solved, flags: set[str]) -> _Solved:
        """Orders and views in turn, from every set of views that is of interest, while the peak falls."""
        in_place, overlap = "in-place" in flags, "overlap" in flags
        starts = {best.choice.views}
        if "concat" in flags:
            starts |= {frozenset(self.view_steps), frozenset(self.view_steps) - frozenset(self.toggles)}
        for views in sorted(starts, key=lambda v: (v != best.choice.views, len(v))):
            while True:
                order, _ = best_order(self.sharing(views), in_place, overlap)
                choice = _Choice(tuple(order), views, in_place, overlap)
                found = self.better(best, choice)
                improved = found.plan.height < best.plan.height
                best = found
                if "concat" not in flags:
                    break
                again = self.views_for(choice.order, flags, views)
                if again == views or not improved:
                    best = self.better(best, _Choice(choice.order, again, in_place, overlap))
                    break
                views = again
        return best

    def forward(self, best: _Solved) -> _Solved:
        """The same height with as few steps in reverse as can be: a kernel in both directions is code twice.

        First all steps in forward order; then one after the other.
        """
        everything = self.backwards(best)
        for dropped in [everything, *(frozenset({k}) for k in sorted(everything)[:REVERSED])]:
            now = self.backwards(best)
            if not now & dropped:
                continue
            layout = best.layout.forward_but(now - dropped)
            height = best.plan.height
            if self.least(layout) > height:
                continue
            timeout = min(1.0, self.timeout)
            found = plan(self.problem(layout), self.planner, timeout=timeout, target=height)
            if found.offsets and found.height <= height:
                best = replace(best, layout=layout, plan=_bounded_as(best.plan, found))
        return best

    def stage(self, name: str, choice: _Choice, planner: str) -> Stage:
        return self.describe(name, self.solve(choice, planner))

    def describe(self, name: str, solved: _Solved) -> Stage:
        answer = solved.plan
        order = solved.choice.order
        at = answer.certificate.step
        step = self.graph.steps[order[at]].name if order else ""
        return Stage(name, answer.height, answer.lower_bound, step, answer.certificate.live)

    def places(self, solved: _Solved) -> tuple[dict[str, int], dict[str, str]]:
        """Byte offset and region of every tensor."""
        sharing, answer = solved.sharing, solved.plan
        offsets, regions = {}, {}
        for t in self.graph.tensors:
            name, at = t.name, 0
            while name in sharing.melted:
                name, shift = sharing.melted[name]
                at += shift
            if name in answer.offsets:
                offsets[t.name] = answer.offsets[name] + at
                regions[t.name] = answer.regions[name]
        return offsets, regions

    def backwards(self, solved: _Solved) -> frozenset[int]:
        """The steps that must run in reverse raster order."""
        offsets, regions = self.places(solved)
        size, found = solved.sharing.tensor, set()
        for p in solved.layout.pairs:
            source, target = offsets[p.source], offsets[p.target]
            if regions[p.source] != regions[p.target]:
                continue
            apart = source + size[p.source].size <= target or target + size[p.target].size <= source
            if not apart and not (p.forward is not None and source - target >= p.forward):
                found.add(p.step)
        return frozenset(found)

    def arena(self, solved: _Solved, stages: tuple[Stage, ...]) -> Arena:
        sharing, answer, steps = solved.sharing, solved.plan, self.graph.steps
        offsets, regions = self.places(solved)
        scratch = {step.name: answer.offsets[f"{step.name}#scratch"] for step in steps if step.scratch}
        aliases = {a.inner: (a.outer, a.at) for a in solved.layout.problem.aliases} | sharing.melted
        result = Arena(
            order=tuple(steps[k].name for k in solved.choice.order),
            offsets=offsets,
            regions=regions,
            scratch=scratch,
            reverse=frozenset(steps[k].name for k in self.backwards(solved)),
            aliases=aliases,
            interleaved=frozenset(sharing.melted),
            plan=answer,
            problem=self.problem(solved.layout),
            stages=stages,
        )
        everywhere = {**regions, **answer.regions}
        placed = Placed(
            result.order, offsets, everywhere, scratch, result.reverse, aliases, result.interleaved
        )
        wrong = hazards(self.graph, placed)
        if wrong:
            raise bad("unsafe-plan", f"{wrong[0]}; please report this network")
        return result
