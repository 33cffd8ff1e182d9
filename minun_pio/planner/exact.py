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

from minun_pio.planner.domains import Outcome
from minun_pio.planner.finder import Finder
from minun_pio.planner.greedy import portfolio
from minun_pio.planner.instance import Answer, Budget, Instance, bound, fused, part, scaled, top
from minun_pio.planner.live import parts
from minun_pio.planner.prover import Prover

# Work is in microseconds of an ordinary machine, roughly; only the proportions matter.
FIRST_SLICE = 30_000.0  # of the finder
PROVER_SHARE = 1.0
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
    proven = low
    refuted = max(goal // unit, -(-low // unit)) - 1  # the greatest capacity known to be too small, in units
    duels: dict[int, Duel] = {}
    patience = FIRST_PATIENCE
    while (refuted + 1) * unit < height and not budget.over:
        # from the goal upwards; a capacity that stays open is passed over and met again with more patience
        floor = refuted
        while (floor + 1) * unit < height and not budget.over:
            below = (height - 1) // unit
            capacity = floor + 1 if floor == refuted else (floor + 1 + below) // 2
            duel = duels.setdefault(capacity, Duel(small, capacity, budget))
            outcome = duel.go_on(patience)
            if isinstance(outcome, list):
                offsets = [at * unit for at in outcome]
                height = top(inst, offsets)
                if height <= goal:
                    return Answer(offsets, height, proven)
                continue
            if outcome is False:
                refuted = max(refuted, capacity)
                if not inst.gaps:
                    proven = max(proven, (refuted + 1) * unit)
            floor = capacity
        patience *= 2
    return Answer(offsets, height, proven)


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


class Duel:
    """Finder and prover in turn on one capacity. Can be left and gone on with.

    With gaps the finder does not try every plan (see `Separation`): its False is then no proof.
    """

    def __init__(self, inst: Instance, capacity: int, budget: Budget) -> None:
        self.budget = budget
        self.finding = Finder(inst, capacity, budget).runs()
        self.proving = Prover(inst, capacity, budget).runs() if Prover.fits(inst, capacity) else None
        membership = sum(b - a for a, b in zip(inst.first, inst.last, strict=True))
        self.prover_cost = membership * (0.15 + capacity / 3000)  # of one node, in work
        self.finder_cost = 15 + 0.01 * len(inst.sizes)
        self.slice = FIRST_SLICE

    def go_on(self, patience: float) -> Outcome:
        """Offsets; False if there are none; None if time or `patience` (work) ran out."""
        while patience > 0:
            patience -= self.slice * (1 + PROVER_SHARE)
            outcome = self._turn(self.finding, self.slice / self.finder_cost)
            if outcome is None and self.proving is not None:
                outcome = self._turn(self.proving, self.slice * PROVER_SHARE / self.prover_cost)
            if outcome is not None or self.budget.over:
                return outcome
            self.slice *= 2
        return None

    def _turn(self, runs: Iterator[Outcome], nodes: float) -> Outcome:
        until = self.budget.nodes + max(1, int(nodes))
        while self.budget.nodes < until and not self.budget.over:
            outcome = next(runs)
            if outcome is not None:
                return outcome
        return None
