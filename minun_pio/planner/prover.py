# SPDX-License-Identifier: Apache-2.0
"""The prover: exact cover of the arena's units, good at proving that a height is impossible.

Each buffer has a domain of offsets, the bits of one big integer. In each section the units that can still be
covered are counted; where nothing may be wasted, the lowest and the highest uncovered unit must each be the
end of some buffer. The search branches on the section end with the fewest candidates (for its weight: how
often it failed), as Knuth's Algorithm X does on its columns, but without writing the matrix down.
For plain instances of up to `UNIT_LIMIT` units; alignment and pins only cut the domains.
"""

from __future__ import annotations

from collections.abc import Iterator

from minun_pio.planner.domains import Cut, Outcome, members_of, offset_domains, smear
from minun_pio.planner.instance import Budget, Instance

UNIT_LIMIT = 1 << 15
FIRST_NODES = 40


class Prover:
    """Searches for offsets of `inst` within `capacity`; `runs()` yields after each restart."""

    def __init__(self, inst: Instance, capacity: int, budget: Budget) -> None:
        assert inst.near is not None
        self.inst, self.capacity, self.budget, self.near = inst, capacity, budget, inst.near
        self.members = members_of(inst)
        self.weight = [1.0] * inst.count
        self.domains: list[int] = []

    @staticmethod
    def fits(inst: Instance, capacity: int) -> bool:
        """Whether this engine can take the instance on."""
        return capacity <= UNIT_LIMIT and inst.plain

    def runs(self) -> Iterator[Outcome]:
        """One run after the other: offsets (the end), False (proven impossible, the end), or None (go on)."""
        domains = offset_domains(self.inst, self.capacity, self.members, 4)
        if domains is None:
            yield False
            return
        self.domains = domains
        nodes = FIRST_NODES
        while True:
            yield self.run(nodes)
            nodes = nodes * 3 // 2

    def run(self, nodes: int) -> Outcome:
        """One search, cut after so many nodes. One function, as in the finder, for speed."""
        inst, capacity, budget = self.inst, self.capacity, self.budget
        size, first, last, near, members = inst.sizes, inst.first, inst.last, self.near, self.members
        weight, deadline, now = self.weight, budget.deadline, budget.clock
        n = len(size)
        full = (1 << capacity) - 1
        domain = self.domains[:]
        area = [s * (b - a) for s, a, b in zip(size, first, last, strict=True)]
        largest = max(range(n), key=area.__getitem__)
        domain[largest] &= (1 << ((capacity - size[largest]) // 2 + 1)) - 1  # a plan upside down is a plan
        if not domain[largest]:
            return False
        offset = [-1] * n
        taken = [0] * inst.count  # units of each section covered by fixed buffers
        spread = [0] * n  # the units buffer i can cover from the domain `spread_of[i]`
        spread_of = [0] * n
        unknown: list[tuple[list[int], int, int] | None] = [None] * inst.count
        reached = unknown[:]  # what `reach` last found
        slack = any(load < capacity for load in inst.load)
        trail: list[tuple[int, int, int]] = []  # (i, domain, offset before) or (~section, taken before, 0)

        def narrow(i: int, to: int, dirty: set[int], single: list[int]) -> bool:
            """A smaller domain for i; False if it is empty."""
            trail.append((i, domain[i], offset[i]))
            domain[i] = to
            if not to:
                return False
            dirty.update(range(first[i], last[i]))
            reached[first[i] : last[i]] = unknown[first[i] : last[i]]
            if not to & (to - 1) and offset[i] < 0:
                single.append(i)
            return True

        def undo(mark: int) -> None:
            while len(trail) > mark:
                i, before, at = trail.pop()
                if i < 0:
                    taken[~i] = before
                    reached[~i] = None
                else:
                    domain[i], offset[i] = before, at
                    reached[first[i] : last[i]] = unknown[first[i] : last[i]]

        def blame(i: int) -> None:
            for k in range(first[i], last[i]):
                weight[k] += 0.3

        def fix(i: int, dirty: set[int], single: list[int]) -> bool:
            """i's domain has one offset: take its units, and forbid them to whoever lives beside it."""
            at = domain[i].bit_length() - 1
            trail.append((i, domain[i], -1))
            offset[i] = at
            block = ((1 << size[i]) - 1) << at
            for k in range(first[i], last[i]):
                if taken[k] & block:
                    return False
                trail.append((~k, taken[k], 0))
                taken[k] |= block
                reached[k] = None
                dirty.add(k)
            above = at + size[i]
            for j in near[i]:
                if offset[j] < 0:
                    below = at - size[j] + 1
                    banned = ((1 << (above - below)) - 1) << below if below >= 0 else (1 << above) - 1
                    rest = domain[j] & ~banned
                    if rest != domain[j] and not narrow(j, rest, dirty, single):
                        blame(j)
                        return False
            return True

        def reach(k: int) -> tuple[list[int], int, int]:
            """Section k's unfixed buffers, the units they can cover, and how many of those may be wasted."""
            known = reached[k]
            if known is not None:
                return known
            inside, covered, total = [], 0, 0
            for j in members[k]:
                if offset[j] < 0:
                    inside.append(j)
                    if spread_of[j] != domain[j]:
                        spread[j], spread_of[j] = smear(domain[j], size[j] - 1), domain[j]
                    covered |= spread[j]
                    total += size[j]
            covered &= full & ~taken[k]
            reached[k] = known = (inside, covered, covered.bit_count() - total)
            return known

        def propagate(dirty: set[int], single: list[int]) -> bool:
            """To the fixed point; False on a contradiction."""
            if not slack:
                return fill(dirty, single)
            changed = len(trail)
            while fill(dirty, single):
                moved = {i for i, _, _ in trail[changed:] if i >= 0}
                if not moved:
                    return True
                changed = len(trail)
                for i in {j for m in moved for j in near[m]}:
                    resting = 1  # on the floor, or on somebody's top
                    for j in near[i]:
                        resting |= domain[j] << size[j]
                    rest = domain[i] & resting
                    if rest != domain[i] and not narrow(i, rest, dirty, single):
                        blame(i)
                        return False
            return False

        def fill(dirty: set[int], single: list[int]) -> bool:
            """What must begin or end where, to the fixed point."""
            while True:
                while single:
                    i = single.pop()
                    if offset[i] < 0 and not fix(i, dirty, single):
                        return False
                if not dirty:
                    return True
                k = dirty.pop()
                inside, covered, waste = reach(k)
                if not inside:
                    continue
                if waste < 0:
                    weight[k] += 1
                    return False
                if waste > 0:
                    continue
                bottom, end = (covered & -covered).bit_length() - 1, covered.bit_length()
                lowest = [j for j in inside if domain[j] >> bottom & 1]
                highest = [j for j in inside if end >= size[j] and domain[j] >> (end - size[j]) & 1]
                if not lowest or not highest:
                    weight[k] += 1
                    return False
                if len(lowest) == 1:
                    if not narrow(lowest[0], 1 << bottom, dirty, single):
                        return False
                elif len(highest) == 1:
                    j = highest[0]
                    only = 1 << (end - size[j])
                    if domain[j] != only and not narrow(j, only, dirty, single):
                        return False

        def choose() -> tuple[int, list[tuple[int, int]], int] | None:
            """The section end with the fewest (buffer, offset) candidates: (section, candidates, waste)."""
            best, least = None, 1e18
            for k in range(inst.count):
                inside, covered, waste = reach(k)
                if not inside:
                    continue
                bottom = (covered & -covered).bit_length() - 1
                lowest = [(j, bottom) for j in inside if domain[j] >> bottom & 1]
                score = len(lowest) / weight[k]
                if waste > 0:
                    score = (len(lowest) + 1.5) / weight[k] * (1 + waste * 8.0 / capacity)
                if score < least:
                    best, least = (k, lowest, waste), score
                if waste == 0:
                    end = covered.bit_length()
                    highest = [
                        (j, end - size[j])
                        for j in inside
                        if end >= size[j] and domain[j] >> (end - size[j]) & 1
                    ]
                    if len(highest) / weight[k] < least:
                        best, least = (k, highest, 0), len(highest) / weight[k]
            return best

        def enter() -> _Frame | None:
            """The next place to branch; None if every buffer has its offset."""
            nonlocal nodes
            nodes -= 1
            budget.nodes += 1
            if nodes <= 0 or (nodes & 15 == 0 and now() > deadline):
                raise Cut
            return branch()

        def branch() -> _Frame | None:
            choice = choose()
            if choice is None:
                return None
            section, options, waste = choice
            options.sort(key=lambda option: area[option[0]])
            return _Frame(section, options, waste)

        def put(j: int, at: int) -> bool:
            dirty: set[int] = set()
            single: list[int] = []
            return (
                bool(domain[j] >> at & 1) and narrow(j, 1 << at, dirty, single) and propagate(dirty, single)
            )

        def leave_open(options: list[tuple[int, int]]) -> bool:
            """Nobody begins there: that unit is wasted."""
            dirty: set[int] = set()
            single: list[int] = []
            for j, at in options:
                if not narrow(j, domain[j] & ~(1 << at), dirty, single):
                    return False
            return propagate(dirty, single)

        def solve() -> bool:
            """Depth first, with a stack of our own: instances are deeper than Python's."""
            frame = enter()
            if frame is None:
                return True
            stack = [frame]
            while stack:
                frame = stack[-1]
                child: _Frame | None = None
                while frame.untried:
                    j, at = frame.untried.pop()
                    kind = (first[j], last[j], size[j])
                    if kind in frame.twins:
                        continue
                    frame.twins.add(kind)
                    frame.mark = len(trail)
                    if put(j, at):
                        child = enter()
                        if child is None:
                            return True
                        stack.append(child)
                        break
                    undo(frame.mark)
                if child is not None:
                    continue
                weight[frame.section] += 1
                stack.pop()
                if frame.waste > 0 and leave_open(frame.options):
                    again = branch()
                    if again is None:
                        return True
                    stack.append(again)
                elif stack:
                    undo(stack[-1].mark)
            return False

        try:
            alone = [i for i in range(n) if not domain[i] & (domain[i] - 1)]
            if not propagate(set(range(inst.count)), alone):
                return False
            return offset if solve() else False
        except Cut:
            return None


class _Frame:
    """One section end and the buffers that may lie there, the next to try at the end of `untried`."""

    __slots__ = ("mark", "options", "section", "twins", "untried", "waste")

    def __init__(self, section: int, options: list[tuple[int, int]], waste: int) -> None:
        self.section, self.options, self.waste = section, options, waste
        self.untried = list(options)
        self.twins: set[tuple[int, int, int]] = set()
        self.mark = 0
