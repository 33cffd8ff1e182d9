# SPDX-License-Identifier: Apache-2.0
"""The default planner: greedy portfolio, then the finder and the prover in turn, until height meets bound.

1. Parts of the problem that are never live together are planned apart, the largest first; what the others
   reached is free for the rest.
2. Greedy orders and restarts; almost every network ends here, at its lower bound.
3. Sizes are divided by their greatest common divisor; then finder and prover work on one capacity in turn,
   in slices measured in work, not time: the answer does not depend on the machine's speed unless time
   runs out. First the goal; if that is proven impossible, bisection between it and the best known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minun_pio.planner.domains import Outcome
from minun_pio.planner.finder import FIRST_NODES as FIRST_RUN
from minun_pio.planner.finder import RANKS, Finder
from minun_pio.planner.greedy import portfolio
from minun_pio.planner.instance import Answer, Budget, Instance, bound, fused, part, scaled, top
from minun_pio.planner.live import parts
from minun_pio.planner.prover import FIRST_NODES, Prover

# Work is in microseconds of an ordinary machine, roughly; only the proportions matter.
FIRST_SLICE = 8_000.0  # of the finder
PROVER_SHARE, SLOW_PROVER_SHARE = 4.0, 0.2
SLOW_PROVER = 600.0  # work for a node
FIRST_PATIENCE = 2e5  # work on one capacity before another is tried


def solve(inst: Instance, budget: Budget) -> Answer:
    """The lowest plan found, and what is proven about it."""
    groups = [list(range(len(inst.sizes)))]
    if inst.count > 1:
        groups = parts(list(zip(inst.starts, inst.ends, inst.sizes, strict=True)))
    if len(groups) == 1:
        return _solve_part(inst, max(budget.target, bound(inst)), budget)
    low = bound(inst)
    offsets = [0] * len(inst.sizes)
    height, proven = 0, low
    pieces = [(part(inst, group), group) for group in groups]
    pieces.sort(key=lambda piece: -bound(piece[0]))
    for piece, group in pieces:
        answer = _solve_part(piece, max(low, height, budget.target), budget)
        for i, at in zip(group, answer.offsets, strict=True):
            offsets[i] = at
        height, proven = max(height, answer.height), max(proven, answer.proven)
    return Answer(offsets, height, proven)


def _solve_part(inst: Instance, goal: int, budget: Budget) -> Answer:
    low = bound(inst)
    if len(inst.sizes) == 1:
        at = inst.pin[0] or 0
        return Answer([at], at + inst.sizes[0], low)
    offsets, height = portfolio(inst, goal, budget)
    if height <= goal or budget.over:
        return Answer(offsets, height, low)
    if inst.leader is not None:
        return _fused(inst, goal, budget, Answer(offsets, height, low))
    small, unit = scaled(inst)
    state = _Gap(offsets, height, low, -(-low // unit) - 1)
    duels: dict[int, Duel] = {}
    patience = max(FIRST_PATIENCE, 2 * RANKS * FIRST_RUN * len(small.sizes) * finder_cost(small))
    # a large instance mostly has its optimum at the bound: work in between would be lost
    between = 1 / 4 if len(small.sizes) < 100 else 1 / 32
    aims = {max(goal, x) // unit for x in (budget.target, budget.capacity or 0) if x > low}

    def attempt(capacity: int, work: float) -> Outcome:
        outcome = duels.setdefault(capacity, Duel(small, capacity, budget)).go_on(work)
        if isinstance(outcome, list):
            state.offsets = [at * unit for at in outcome]
            state.height = top(inst, state.offsets)
        elif outcome is False:
            state.refuted = max(state.refuted, capacity)
            if not inst.gaps:
                state.proven = max(state.proven, (state.refuted + 1) * unit)
        return outcome

    def open_(capacity: int) -> bool:
        return state.refuted < capacity < -(-state.height // unit) and state.height > goal and not budget.over

    while open_(state.refuted + 1):
        # the least capacity that may do, what is good enough, then halfway up to the best known
        attempt(state.refuted + 1, patience / 4 if aims else patience)
        for aim in sorted(aims):
            if open_(aim):
                attempt(aim, patience)
        floor = state.refuted
        while open_(capacity := (floor + 1 + (state.height - 1) // unit) // 2) and capacity > floor:
            if not isinstance(attempt(capacity, patience * between), list):
                floor = capacity
        patience *= 2
    return Answer(state.offsets, state.height, state.proven)


@dataclass
class _Gap:
    """The best placement, the height proven necessary, and the greatest capacity known to be too small."""

    offsets: list[int]
    height: int
    proven: int
    refuted: int  # in units


def _fused(inst: Instance, goal: int, budget: Budget, best: Answer) -> Answer:
    """Compounds that no greedy order brings to the goal: once more as single buffers, to be searched."""
    simple, of = fused(inst)
    if bound(simple) >= best.height:
        return best
    answer = _solve_part(simple, max(goal, bound(simple)), budget)
    if answer.height >= best.height:
        return best
    offsets = [answer.offsets[c] + inst.shift[i] for i, c in enumerate(of)]
    return Answer(offsets, top(inst, offsets), best.proven)


def finder_cost(inst: Instance) -> float:
    """Of one node, in work."""
    return 15 + 3 * sum(map(len, inst.near or ())) / len(inst.sizes)


class Duel:
    """Finder and prover in turn on one capacity. Can be left and gone on with.

    With gaps the finder does not try every plan (see `Separation`): its False is then no proof.
    """

    def __init__(self, inst: Instance, capacity: int, budget: Budget) -> None:
        self.budget = budget
        self.finding = Finder(inst, capacity, budget).runs()
        self.proving = Prover(inst, capacity, budget).runs() if Prover.fits(inst, capacity) else None
        membership = sum(b - a for a, b in zip(inst.first, inst.last, strict=True))
        self.prover_cost = membership * (0.3 + capacity / 1000)  # of one node, in work
        self.finder_cost = finder_cost(inst)
        slow = self.prover_cost > SLOW_PROVER
        self.share = SLOW_PROVER_SHARE if slow else PROVER_SHARE
        self.slice = FIRST_SLICE
        self.balance = 0.0  # work granted and not done yet; a run may overdraw it
        self.prover_balance = -FIRST_NODES * self.prover_cost if slow else 0.0

    def go_on(self, work: float) -> Outcome:
        """Offsets; False if there are none; None if time or the work granted so far ran out."""
        self.balance += work
        while self.balance > 0 and not self.budget.over:
            outcome, spent = self._turn(self.finding, self.slice, self.finder_cost)
            self.balance -= spent
            self.prover_balance += spent * self.share
            if outcome is None and self.proving is not None and self.prover_balance > 0:
                outcome, spent = self._turn(self.proving, self.prover_balance, self.prover_cost)
                self.balance -= spent
                self.prover_balance -= spent
            if outcome is not None:
                return outcome
            self.slice *= 2
        return None

    def _turn(self, runs: Iterator[Outcome], work: float, cost: float) -> tuple[Outcome, float]:
        """Runs until the work is done: what they found, and the work they did."""
        before = self.budget.nodes
        until = before + max(1, int(work / cost))
        outcome: Outcome = None
        while outcome is None and self.budget.nodes < until and not self.budget.over:
            outcome = next(runs)
        return outcome, (self.budget.nodes - before) * cost
