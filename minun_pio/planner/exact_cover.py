# SPDX-License-Identifier: Apache-2.0
"""One run of the prover: an exact cover of the arena's units, from both ends of the sections.

In each section the units that can still be covered are counted; where nothing may be wasted, the lowest and
the highest uncovered unit must each be the end of some buffer. The search branches on the section end with
the fewest candidates (for its weight: how often it failed), as Knuth's Algorithm X does on its columns, but
without writing the matrix down.

This is hot code. Its lists are attributes, and each method takes those that it loops over into local names
first.
"""

from __future__ import annotations

from minun_pio.planner.domains import Cut, Outcome, smear
from minun_pio.planner.instance import Budget, Instance

Reach = tuple[list[int], int, int]
"""A section's unfixed buffers, the units they can cover, and how many of those may be wasted."""


class ExactCover:
    """The search for offsets of `inst` within `capacity`. Kept up to date on the way:

    - `domain[i]`: the offsets buffer i may have, as bits; `offset[i]`: -1 until it is fixed to the last one;
    - `taken[k]`: the units of section k that fixed buffers cover;
    - `reached[k]`: what `reach` last found of section k, None since that changed;
    - `spread[i]`: the units buffer i can cover from the domain `spread_of[i]`;
    - `trail`: (i, domain, offset before) or (~section, taken before, 0) of each change, to undo it.

    `members[k]`: section k's buffers. `weight[k]` grows with each failure of section k, for later runs.
    """

    __slots__ = (
        "area",
        "budget",
        "capacity",
        "domain",
        "first",
        "full",
        "last",
        "members",
        "near",
        "nodes",
        "offset",
        "reached",
        "sections",
        "size",
        "slack",
        "spread",
        "spread_of",
        "taken",
        "trail",
        "unknown",
        "weight",
    )

    def __init__(
        self,
        inst: Instance,
        capacity: int,
        budget: Budget,
        *,
        members: list[list[int]],
        domains: list[int],
        weight: list[float],
    ) -> None:
        assert inst.near is not None
        self.capacity, self.budget, self.members, self.weight = capacity, budget, members, weight
        self.size, self.first, self.last, self.near = inst.sizes, inst.first, inst.last, inst.near
        self.sections = inst.count
        self.full = (1 << capacity) - 1
        self.area = [s * (b - a) for s, a, b in zip(inst.sizes, inst.first, inst.last, strict=True)]
        self.slack = any(load < capacity for load in inst.load)
        n = len(inst.sizes)
        self.domain = domains[:]
        self.offset = [-1] * n
        self.taken = [0] * inst.count
        self.spread, self.spread_of = [0] * n, [0] * n
        self.unknown: list[Reach | None] = [None] * inst.count
        self.reached = self.unknown[:]
        self.trail: list[tuple[int, int, int]] = []
        self.nodes = 0

    def run(self, nodes: int) -> Outcome:
        """The search, cut after so many nodes. To be called once."""
        self.nodes = nodes
        domain = self.domain
        largest = max(range(len(domain)), key=self.area.__getitem__)
        # a plan upside down is a plan
        domain[largest] &= (1 << ((self.capacity - self.size[largest]) // 2 + 1)) - 1
        if not domain[largest]:
            return False
        alone = [i for i, offsets in enumerate(domain) if not offsets & (offsets - 1)]
        try:
            if not self.propagate(set(range(self.sections)), alone):
                return False
            return self.offset if self.solve() else False
        except Cut:
            return None

    def solve(self) -> bool:
        """Depth first, with a stack of our own: instances are deeper than Python's."""
        frame = self.enter()
        if frame is None:
            return True
        stack = [frame]
        while stack:
            frame = stack[-1]
            child: _Frame | None
            if self.advance(frame):
                child = self.enter()
            else:
                self.weight[frame.section] += 1
                stack.pop()
                if not (frame.waste > 0 and self.leave_open(frame.options)):
                    if stack:
                        self.undo(stack[-1].mark)
                    continue
                child = self.branch()
            if child is None:
                return True
            stack.append(child)
        return False

    def enter(self) -> _Frame | None:
        """The next place to branch; None if every buffer has its offset."""
        self.nodes -= 1
        budget = self.budget
        budget.nodes += 1
        if self.nodes <= 0 or (self.nodes & 15 == 0 and budget.clock() > budget.deadline):
            raise Cut
        return self.branch()

    def branch(self) -> _Frame | None:
        """The same, without counting it."""
        choice = self.choose()
        if choice is None:
            return None
        section, options, waste = choice
        area = self.area
        options.sort(key=lambda option: area[option[0]])
        return _Frame(section, options, waste)

    def choose(self) -> tuple[int, list[tuple[int, int]], int] | None:
        """The section end with the fewest candidates: (section, candidates, waste); None if all are fixed."""
        reached, reach, domain, size = self.reached, self.reach, self.domain, self.size
        weight, capacity = self.weight, self.capacity
        best, upper, least = -1, False, 1e18
        for k in range(self.sections):
            inside, covered, waste = reached[k] or reach(k)
            if not inside:
                continue
            bottom, count = (covered & -covered).bit_length() - 1, 0
            for j in inside:
                count += domain[j] >> bottom & 1
            score = count / weight[k]
            if waste > 0:
                score = (count + 1.5) / weight[k] * (1 + waste * 8.0 / capacity)
            if score < least:
                best, upper, least = k, False, score
            if waste == 0:
                end, count = covered.bit_length(), 0
                for j in inside:
                    if end >= size[j]:
                        count += domain[j] >> (end - size[j]) & 1
                score = count / weight[k]
                if score < least:
                    best, upper, least = k, True, score
        if best < 0:
            return None
        return best, self.candidates(best, upper), reach(best)[2]

    def candidates(self, k: int, upper: bool) -> list[tuple[int, int]]:
        """(buffer, offset) of all that may cover section k's lowest unit, or its highest, from its end."""
        inside, covered, _ = self.reach(k)
        end = covered.bit_length()
        if upper:
            ends = [(j, end - self.size[j]) for j in inside]
            return [(j, at) for j, at in ends if at >= 0 and self.domain[j] >> at & 1]
        bottom = (covered & -covered).bit_length() - 1
        return [(j, bottom) for j in inside if self.domain[j] >> bottom & 1]

    def advance(self, frame: _Frame) -> bool:
        """Makes the first of the frame's candidates left that holds; False if none does."""
        first, last, size = self.first, self.last, self.size
        while frame.untried:
            j, at = frame.untried.pop()
            kind = (first[j], last[j], size[j])
            if kind in frame.twins:
                continue
            frame.twins.add(kind)
            frame.mark = len(self.trail)
            if self.put(j, at):
                return True
            self.undo(frame.mark)
        return False

    def put(self, j: int, at: int) -> bool:
        """j lies at that offset. False on a contradiction."""
        dirty: set[int] = set()
        single: list[int] = []
        return (
            bool(self.domain[j] >> at & 1)
            and self.narrow(j, 1 << at, dirty, single)
            and self.propagate(dirty, single)
        )

    def leave_open(self, options: list[tuple[int, int]]) -> bool:
        """Nobody begins there: that unit is wasted. False on a contradiction."""
        dirty: set[int] = set()
        single: list[int] = []
        for j, at in options:
            if not self.narrow(j, self.domain[j] & ~(1 << at), dirty, single):
                return False
        return self.propagate(dirty, single)

    def propagate(self, dirty: set[int], single: list[int]) -> bool:
        """To the fixed point, from the sections that are dirty and the buffers with a single offset left.
        False on a contradiction."""
        if not self.slack:
            return self.fill(dirty, single)
        trail, near = self.trail, self.near
        changed = len(trail)
        while self.fill(dirty, single):
            moved = {i for i, _, _ in trail[changed:] if i >= 0}
            if not moved:
                return True
            changed = len(trail)
            if not self.rest_on_tops({j for m in moved for j in near[m]}, dirty, single):
                return False
        return False

    def rest_on_tops(self, buffers: set[int], dirty: set[int], single: list[int]) -> bool:
        """A pushed-down plan is enough: each of the buffers lies on the floor or on somebody's top."""
        domain, size, near = self.domain, self.size, self.near
        for i in buffers:
            resting = 1
            for j in near[i]:
                resting |= domain[j] << size[j]
            rest = domain[i] & resting
            if rest != domain[i] and not self.narrow(i, rest, dirty, single):
                self.blame(i)
                return False
        return True

    def fill(self, dirty: set[int], single: list[int]) -> bool:
        """What must begin or end where, to the fixed point. False on a contradiction."""
        domain, size, offset, weight = self.domain, self.size, self.offset, self.weight
        reached, reach, narrow, fix = self.reached, self.reach, self.narrow, self.fix
        while True:
            while single:
                i = single.pop()
                if offset[i] < 0 and not fix(i, dirty, single):
                    return False
            if not dirty:
                return True
            k = dirty.pop()
            inside, covered, waste = reached[k] or reach(k)
            if not inside:
                continue
            if waste < 0:
                weight[k] += 1
                return False
            if waste > 0:
                continue
            bottom, end = (covered & -covered).bit_length() - 1, covered.bit_length()
            lows = highs = 0  # how many may lie at either end, and one of them
            for j in inside:
                if domain[j] >> bottom & 1:
                    lows += 1
                    lowest = j
                if end >= size[j] and domain[j] >> (end - size[j]) & 1:
                    highs += 1
                    highest = j
            if not lows or not highs:
                weight[k] += 1
                return False
            if lows == 1:
                if not narrow(lowest, 1 << bottom, dirty, single):
                    return False
            elif highs == 1:
                only = 1 << (end - size[highest])
                if domain[highest] != only and not narrow(highest, only, dirty, single):
                    return False

    def reach(self, k: int) -> Reach:
        """Section k's unfixed buffers, the units they can cover, and how many of those may be wasted."""
        known = self.reached[k]
        if known is not None:
            return known
        domain, size, offset = self.domain, self.size, self.offset
        spread, spread_of = self.spread, self.spread_of
        inside, covered, total = [], 0, 0
        for j in self.members[k]:
            if offset[j] < 0:
                inside.append(j)
                if spread_of[j] != domain[j]:
                    spread[j], spread_of[j] = smear(domain[j], size[j] - 1), domain[j]
                covered |= spread[j]
                total += size[j]
        covered &= self.full & ~self.taken[k]
        self.reached[k] = known = (inside, covered, covered.bit_count() - total)
        return known

    def narrow(self, i: int, to: int, dirty: set[int], single: list[int]) -> bool:
        """A smaller domain for i; False if it is empty."""
        domain, first, last = self.domain, self.first[i], self.last[i]
        self.trail.append((i, domain[i], self.offset[i]))
        domain[i] = to
        if not to:
            return False
        dirty.update(range(first, last))
        self.reached[first:last] = self.unknown[first:last]
        if not to & (to - 1) and self.offset[i] < 0:
            single.append(i)
        return True

    def fix(self, i: int, dirty: set[int], single: list[int]) -> bool:
        """i's domain has one offset: take its units, and forbid them to whoever lives beside it."""
        domain, size, offset, taken = self.domain, self.size, self.offset, self.taken
        trail, reached, narrow = self.trail, self.reached, self.narrow
        at = domain[i].bit_length() - 1
        trail.append((i, domain[i], -1))
        offset[i] = at
        block = ((1 << size[i]) - 1) << at
        for k in range(self.first[i], self.last[i]):
            if taken[k] & block:
                return False
            trail.append((~k, taken[k], 0))
            taken[k] |= block
            reached[k] = None
            dirty.add(k)
        above = at + size[i]
        for j in self.near[i]:
            if offset[j] < 0:
                below = at - size[j] + 1
                banned = ((1 << (above - below)) - 1) << below if below >= 0 else (1 << above) - 1
                rest = domain[j] & ~banned
                if rest != domain[j] and not narrow(j, rest, dirty, single):
                    self.blame(j)
                    return False
        return True

    def undo(self, mark: int) -> None:
        """Takes back every change since the trail had that length."""
        trail, domain, offset, taken = self.trail, self.domain, self.offset, self.taken
        reached, unknown, first, last = self.reached, self.unknown, self.first, self.last
        while len(trail) > mark:
            i, before, at = trail.pop()
            if i < 0:
                taken[~i] = before  # whoever took them stands before this on the trail
            else:
                domain[i], offset[i] = before, at
                reached[first[i] : last[i]] = unknown[first[i] : last[i]]

    def blame(self, i: int) -> None:
        """The sections that i lives in failed, a little."""
        for k in range(self.first[i], self.last[i]):
            self.weight[k] += 0.3


class _Frame:
    """One section end and the buffers that may lie there, the next to try at the end of `untried`."""

    __slots__ = ("mark", "options", "section", "twins", "untried", "waste")

    def __init__(self, section: int, options: list[tuple[int, int]], waste: int) -> None:
        self.section, self.options, self.waste = section, options, waste
        self.untried = list(options)
        self.twins: set[tuple[int, int, int]] = set()
        self.mark = 0
