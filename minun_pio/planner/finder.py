# SPDX-License-Identifier: Apache-2.0
"""The finder: a monotone canonical branch and bound, good at finding a plan of a given height.

Buffers are placed in the order of their offsets, ties in the order of a rank, each resting on what lies
below it (or at 0): every pushed-down plan is reached exactly once. Kept up to date on the way:

- `low[i]`: the least offset an unplaced buffer can still have;
- `floor[k]`: the least `low` of section k's unplaced buffers. `floor[k] + left[k]`, left being the bytes not
  yet placed, may not pass the capacity;
- in a section with little slack, offsets are subset sums of what is left (plus the slack), kept as bits.

Runs are cut short by a limit on nodes or on failures, in turn (Luby's sequence), and begun again with
another rank, in which buffers that failed often come earlier.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from minun_pio.planner.domains import Cut, Outcome, components, members_of, offset_domains, smear
from minun_pio.planner.instance import Budget, Instance, common_sections
from minun_pio.planner.live import loads

FAR = 1 << 60
DOMAIN_UNITS = 1 << 14  # capacities up to this keep offset domains as bits
TIGHT_SLACK = 64  # sections with at most this slack are filtered by subset sums
RANKS = 6  # orders to begin with
FIRST_NODES = 3  # a buffer, in a run limited by nodes
FIRST_FAILURES = 12  # in a run limited by failures

_LOW, _FLOOR, _PLACED = 0, 1, 2  # what an entry of the trail restores


def luby(i: int) -> int:
    """The i-th term (from 1) of 1, 1, 2, 1, 1, 2, 4, …"""
    k = i.bit_length()
    while (1 << k) - 1 != i:
        i -= (1 << (k - 1)) - 1
        k = i.bit_length()
    return 1 << (k - 1)


class Finder:
    """Looks for offsets of `inst` within `capacity`; `runs()` yields after each restart."""

    def __init__(self, inst: Instance, capacity: int, budget: Budget) -> None:
        assert inst.near is not None
        self.inst, self.capacity, self.budget, self.near = inst, capacity, budget, inst.near
        self.members = members_of(inst)
        self.weight = [1.0] * len(inst.sizes)  # grows with each failure blamed on the buffer
        self.domains: list[int] | None = None
        self.saved: dict[int, list[tuple[int, int, range]]] = {}  # i -> (partner, bytes, sections)
        self.load = inst.load
        if inst.shared:
            self._pairs()

    def _pairs(self) -> None:
        """Each pair of buffers that may share bytes, with the most they can; loads less all of that."""
        inst = self.inst
        self.load = loads(inst.count, inst.first, inst.last, inst.sizes)
        most: dict[tuple[int, int], int] = {}
        for s in inst.shared:
            pair = (min(s.i, s.j), max(s.i, s.j))
            most[pair] = max(most.get(pair, 0), s.bytes)
        for (i, j), saved in most.items():
            both = common_sections(inst, i, j)
            self.saved.setdefault(i, []).append((j, saved, both))
            self.saved.setdefault(j, []).append((i, saved, both))
            for k in both:
                self.load[k] -= saved

    def runs(self) -> Iterator[Outcome]:
        """One run after the other: offsets (the end), False (proven impossible, the end), or None (go on)."""
        inst = self.inst
        size = inst.sizes
        n = range(len(size))
        if inst.plain and self.capacity <= DOMAIN_UNITS:
            self.domains = offset_domains(inst, self.capacity, self.members, 8)
            if self.domains is None:
                yield False
                return
        width = [b - a for a, b in zip(inst.first, inst.last, strict=True)]
        tight = [max(inst.load[a:b]) for a, b in zip(inst.first, inst.last, strict=True)]
        area = [s * w for s, w in zip(size, width, strict=True)]
        ranks: list[Callable[[int], tuple[int, ...]]] = [
            lambda i: (-tight[i], -area[i], -width[i], i),
            lambda i: (-width[i], -area[i], -tight[i], i),
            lambda i: (-tight[i], -width[i], -area[i], i),
            lambda i: (-area[i], i),
            lambda i: (-size[i], -width[i], i),
            lambda i: (-tight[i], -size[i], i),
        ]
        by_rank = [sorted(n, key=key) for key in ranks]
        nodes = FIRST_NODES * len(size)
        for ranked in by_rank:
            yield self.run(ranked, nodes, FAR)
        for ranked in by_rank:
            yield self.run(ranked, FAR, FIRST_FAILURES)
        peak = float(max(tight) or 1)
        share = [t / peak for t in tight]
        values: list[Callable[[int], float]] = [
            lambda i: share[i] ** 4 * area[i],
            lambda i: area[i],
            lambda i: width[i],
            lambda i: share[i] ** 8 * width[i],
            lambda i: width[i] * area[i],
            lambda i: area[i] * share[i],
            lambda i: width[i] * share[i],
        ]
        chance, weight = random.Random(self.budget.seed), self.weight
        deep = quick = 0
        spent = [0, 0]  # nodes of runs limited by nodes, and by failures: kept at 1 to 8
        while True:
            value = chance.choice(values)
            trust = chance.choice((0.0, 0.0, 0.5, 1.0))
            noise = chance.choice((0.1, 0.3, 0.6))
            score = [-value(i) * weight[i] ** trust * (1 + noise * (chance.random() * 2 - 1)) for i in n]
            ranked = sorted(n, key=score.__getitem__)
            before = self.budget.nodes
            if 8 * spent[0] <= spent[1]:
                deep += 1
                yield self.run(ranked, nodes * luby(deep), FAR)
                spent[0] += self.budget.nodes - before
            else:
                quick += 1
                yield self.run(ranked, FAR, FIRST_FAILURES * luby(quick))
                spent[1] += self.budget.nodes - before

    def run(self, ranked: list[int], nodes: int, failures: int) -> Outcome:
        """One search with that rank, cut after so many nodes or failures.

        One function with inner ones on local names: this is the planner's hottest loop, and attribute
        access would cost a third of its speed.
        """
        inst, capacity, budget = self.inst, self.capacity, self.budget
        size, first, last, near, members = inst.sizes, inst.first, inst.last, self.near, self.members
        gaps, pin, align, plain, saved = inst.gaps, inst.pin, inst.align, inst.plain, self.saved
        domains, weight, deadline, now = self.domains, self.weight, budget.deadline, budget.clock
        n = len(size)
        rank = [0] * n
        for k, i in enumerate(ranked):
            rank[i] = k
        offset, placed = [-1] * n, [False] * n
        low = [0 if p is None else p for p in pin]
        if domains is not None:
            low = [(d & -d).bit_length() - 1 for d in domains]
        left = self.load[:]
        floor = [min([low[i] for i in inside]) for inside in members]
        if any(o + s > capacity for o, s in zip(low, size, strict=True)):
            return False
        if any(f + rest > capacity for f, rest in zip(floor, left, strict=True)):
            return False
        trail: list[tuple[int, int, int]] = []

        def undo(mark: int) -> None:
            while len(trail) > mark:
                what, x, value = trail.pop()
                if what == _LOW:
                    low[x] = value
                elif what == _FLOOR:
                    floor[x] = value
                else:
                    placed[x] = False
                    for k in range(first[x], last[x]):
                        left[k] += value
                    if saved:
                        share_pair(x, -1)

        def share_pair(i: int, sign: int) -> None:
            """Whoever of a pair with a gap is placed first takes only its own part of the pair's bytes."""
            for j, shared, both in saved.get(i, ()):
                if not placed[j]:
                    for k in both:
                        left[k] += sign * shared

        def lift(j: int, to: int, dirty: set[int]) -> bool:
            """Raise low[j] to at least `to`; False if it cannot be."""
            before = low[j]
            if domains is not None:
                rest = domains[j] >> to
                if not rest:
                    return False
                to += (rest & -rest).bit_length() - 1
            elif not plain:
                if pin[j] is not None:
                    return to <= before
                to = -(-to // align[j]) * align[j]
            if to + size[j] > capacity:
                return False
            trail.append((_LOW, j, before))
            low[j] = to
            for k in range(first[j], last[j]):
                if floor[k] == before:
                    dirty.add(k)
            return True

        def put(i: int, at: int, items: list[int]) -> tuple[bool, bool]:
            """Place i. Returns (nothing broke, something unplaced lives beside i)."""
            height = size[i]
            above, mine = at + height, rank[i]
            placed[i] = True
            offset[i] = at
            trail.append((_PLACED, i, height))
            for k in range(first[i], last[i]):
                left[k] -= height
            if saved:
                share_pair(i, +1)
            dirty = set(range(first[i], last[i]))
            roofed = False
            for j in near[i]:
                if placed[j]:
                    continue
                roofed = True
                need = at + gaps.get((i, j), height) if gaps else above
                if low[j] < need and not lift(j, need, dirty):
                    weight[j] += 1
                    return False, True
            for j in items:
                lj = low[j]
                if lj <= at and not placed[j]:
                    need = at + 1 if rank[j] < mine else at
                    if lj < need and not lift(j, need, dirty):
                        weight[j] += 1
                        return False, roofed
            while dirty:
                if not settle(dirty.pop(), dirty):
                    return False, roofed
            return True, roofed

        def settle(k: int, dirty: set[int]) -> bool:
            """Section k again: its floor, whether the rest still fits, and which offsets its slack allows."""
            least, inside = FAR, []
            for j in members[k]:
                if not placed[j]:
                    inside.append(j)
                    if low[j] < least:
                        least = low[j]
            if least != floor[k]:
                trail.append((_FLOOR, k, floor[k]))
                floor[k] = least
            if least == FAR:
                return True
            slack = capacity - least - left[k]
            if slack < 0:
                for j in inside:
                    weight[j] += 0.2
                return False
            if slack > TIGHT_SLACK or domains is None:
                return True
            sums = 1
            for j in inside:
                sums |= sums << size[j]
            sums = smear(sums, slack) << least
            for j in inside:
                at = low[j]
                if sums >> at & 1:
                    continue
                rest = (sums >> at) & (domains[j] >> at)
                if rest:
                    at += (rest & -rest).bit_length() - 1
                if not rest or at + size[j] > capacity:
                    weight[j] += 1
                    return False
                before = low[j]
                trail.append((_LOW, j, before))
                low[j] = at
                for other in range(first[j], last[j]):
                    if floor[other] == before:
                        dirty.add(other)
            return True

        def fail() -> None:
            nonlocal failures
            failures -= 1
            if failures <= 0:
                raise Cut

        def candidates(items: list[int]) -> list[tuple[int, int, int]]:
            """(offset, rank, buffer) worth placing next; empty if none can be."""
            lowest = reach = FAR
            begin, end = FAR, 0
            for i in items:
                at = low[i]
                if at < lowest:
                    lowest = at
                if at + size[i] < reach:
                    reach = at + size[i]
                if first[i] < begin:
                    begin = first[i]
                if last[i] > end:
                    end = last[i]
            # at `reach` or above, some buffer could still slide underneath: not pushed down
            limit, last_rank = reach - 1, FAR
            for k in range(begin, end):
                if floor[k] < FAR:
                    highest = capacity - left[k]
                    if highest < limit:
                        limit = highest
                    if highest == lowest:  # no slack: one of this section's buffers must lie right here
                        worst = -1
                        for j in members[k]:
                            if low[j] == lowest and not placed[j] and rank[j] > worst:
                                worst = rank[j]
                        if worst < last_rank:
                            last_rank = worst
            out = []
            for i in items:
                at = low[i]
                if at <= limit and rank[i] <= last_rank and (at == lowest or last_rank == FAR):
                    out.append((at, rank[i], i))
            out.sort()
            return out

        def enter(items: list[int]) -> _Frame:
            nonlocal nodes
            nodes -= 1
            budget.nodes += 1
            if nodes <= 0 or (budget.nodes & 31 == 0 and now() > deadline):
                raise Cut
            choices = candidates(items)
            if not choices:
                fail()
            return _Frame(items, choices)

        def solve(items: list[int]) -> bool:
            """Depth first, with a stack of our own: instances are deeper than Python's."""
            stack = [enter(items)]
            while stack:
                frame = stack[-1]
                if frame.groups:  # the last placement held so far: on to the next group it left
                    stack.append(enter(frame.groups.pop()))
                    continue
                if frame.mark >= 0:  # every group is placed: so is this frame, and maybe its parents
                    stack.pop()
                    continue
                while frame.next < len(frame.choices):
                    at, _, i = frame.choices[frame.next]
                    frame.next += 1
                    frame.mark = len(trail)
                    good, frame.roofed = put(i, at, frame.items)
                    if good:
                        rest = [j for j in frame.items if j != i]
                        if rest:
                            frame.groups = components(inst, rest)
                            frame.groups.sort(key=len, reverse=True)
                        break
                    retreat(frame)
                else:  # no choice left: the placement above this frame does not hold
                    stack.pop()
                    if not stack:
                        return False
                    retreat(stack[-1])
            return True

        def retreat(frame: _Frame) -> None:
            undo(frame.mark)
            frame.mark, frame.groups = -1, []
            fail()
            if not frame.roofed:  # nothing beside it: another order here changes nothing
                frame.next = len(frame.choices)

        try:
            if all(solve(group) for group in components(inst, list(range(n)))):
                return offset
        except Cut:
            return None
        return False


class _Frame:
    """Buffers to place, the choices for the lowest of them, and where the search stands among them."""

    __slots__ = ("choices", "groups", "items", "mark", "next", "roofed")

    def __init__(self, items: list[int], choices: list[tuple[int, int, int]]) -> None:
        self.items, self.choices = items, choices
        self.next = 0
        self.mark = -1  # the trail's length before the current placement; -1: none
        self.roofed = False
        self.groups: list[list[int]] = []  # what the current placement left, the next at the end
