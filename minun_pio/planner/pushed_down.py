# SPDX-License-Identifier: Apache-2.0
"""One run of the finder: a monotone canonical branch and bound over pushed-down plans.

Buffers are placed in the order of their offsets, ties in the order of a rank, each resting on what lies
below it (or at 0): every pushed-down plan is reached exactly once.

This is the planner's hottest code. Its lists are attributes, and each method takes those that it loops over
into local names first.
"""

from __future__ import annotations

from minun_pio.planner.domains import Cut, Outcome, components, smear
from minun_pio.planner.instance import Budget, Instance

FAR = 1 << 60
TIGHT_SLACK = 64  # sections with at most this slack are filtered by subset sums

_LOW, _FLOOR, _PLACED = 0, 1, 2  # what an entry of the trail restores

Pairs = dict[int, list[tuple[int, int, range]]]


class PushedDown:
    """The search for offsets of `inst` within `capacity`. Kept up to date on the way:

    - `low[i]`: the least offset an unplaced buffer can still have; with `domains`, one of its bits;
    - `left[k]`: section k's bytes that are not yet placed;
    - `floor[k]`: the least `low` of section k's unplaced buffers (FAR: there are none). `floor[k] + left[k]`
      may not pass the capacity;
    - `trail`: (what, where, value before) of each change, so that it can be undone.

    `members[k]`: section k's buffers. `saved[i]`: (partner, bytes, sections) of the pairs that may share
    bytes; `load[k]` is without those. `weight[i]` grows with each failure blamed on buffer i, for later runs.
    """

    __slots__ = (
        "align",
        "budget",
        "capacity",
        "domains",
        "failures",
        "first",
        "floor",
        "gaps",
        "inst",
        "last",
        "left",
        "low",
        "members",
        "near",
        "nodes",
        "offset",
        "pin",
        "placed",
        "plain",
        "rank",
        "saved",
        "size",
        "trail",
        "weight",
    )

    def __init__(
        self,
        inst: Instance,
        capacity: int,
        budget: Budget,
        *,
        members: list[list[int]],
        load: list[int],
        domains: list[int] | None,
        saved: Pairs,
        weight: list[float],
    ) -> None:
        assert inst.near is not None
        self.inst, self.capacity, self.budget = inst, capacity, budget
        self.members, self.domains, self.saved, self.weight = members, domains, saved, weight
        self.size, self.first, self.last, self.near = inst.sizes, inst.first, inst.last, inst.near
        self.gaps, self.pin, self.align, self.plain = inst.gaps, inst.pin, inst.align, inst.plain
        n = len(inst.sizes)
        self.offset, self.placed = [-1] * n, [False] * n
        self.low = [0 if p is None else p for p in inst.pin]
        if domains is not None:
            self.low = [(d & -d).bit_length() - 1 for d in domains]
        self.left = load[:]
        self.floor = [min([self.low[i] for i in inside]) for inside in members]
        self.trail: list[tuple[int, int, int]] = []
        self.rank: list[int] = []
        self.nodes = self.failures = 0

    def run(self, ranked: list[int], nodes: int, failures: int) -> Outcome:
        """The search with that rank, cut after so many nodes or failures. To be called once."""
        self.rank = [0] * len(ranked)
        for place, i in enumerate(ranked):
            self.rank[i] = place
        self.nodes, self.failures = nodes, failures
        if any(o + s > self.capacity for o, s in zip(self.low, self.size, strict=True)):
            return False
        if any(f + rest > self.capacity for f, rest in zip(self.floor, self.left, strict=True)):
            return False
        try:
            if all(self.solve(group) for group in components(self.inst, list(range(len(ranked))))):
                return self.offset
        except Cut:
            return None
        return False

    def solve(self, items: list[int]) -> bool:
        """Depth first, with a stack of our own: instances are deeper than Python's."""
        stack = [self.enter(items)]
        while stack:
            frame = stack[-1]
            if frame.groups:  # the last placement held so far: on to the next group it left
                stack.append(self.enter(frame.groups.pop()))
            elif frame.mark >= 0:  # every group is placed: so is this frame, and maybe its parents
                stack.pop()
            elif not self.advance(frame):  # no choice left: the placement above this frame does not hold
                stack.pop()
                if not stack:
                    return False
                self.retreat(stack[-1])
        return True

    def enter(self, items: list[int]) -> _Frame:
        """A frame for `items`, which live together."""
        budget = self.budget
        self.nodes -= 1
        budget.nodes += 1
        if self.nodes <= 0 or (budget.nodes & 31 == 0 and budget.clock() > budget.deadline):
            raise Cut
        choices = self.candidates(items)
        if not choices:
            self.fail()
        return _Frame(items, choices)

    def candidates(self, items: list[int]) -> list[tuple[int, int, int]]:
        """(offset, rank, buffer) worth placing next; empty if none can be."""
        low, floor, left, rank = self.low, self.floor, self.left, self.rank
        size, first, last, capacity = self.size, self.first, self.last, self.capacity
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
        limit = reach - 1
        full = []  # sections without slack: one of each one's buffers must lie at `lowest`
        for k in range(begin, end):
            if floor[k] < FAR:
                highest = capacity - left[k]
                if highest < limit:
                    limit = highest
                if highest == lowest:
                    full.append(k)
        last_rank = self.last_rank(full, lowest) if full else FAR
        choices = []
        for i in items:
            at = low[i]
            if at <= limit and rank[i] <= last_rank and (at == lowest or not full):
                choices.append((at, rank[i], i))
        choices.sort()
        return choices

    def last_rank(self, sections: list[int], at: int) -> int:
        """The last rank to be placed at `at` if each section is to get a buffer there; -1: one cannot."""
        members, low, placed, rank = self.members, self.low, self.placed, self.rank
        last = FAR
        for k in sections:
            worst = -1
            for j in members[k]:
                if low[j] == at and not placed[j] and rank[j] > worst:
                    worst = rank[j]
            if worst < last:
                last = worst
        return last

    def advance(self, frame: _Frame) -> bool:
        """Makes the first of the frame's choices left that holds, and notes what groups it leaves; False if
        none holds."""
        while frame.next < len(frame.choices):
            at, _, i = frame.choices[frame.next]
            frame.next += 1
            frame.mark = len(self.trail)
            good, frame.roofed = self.place(i, at, frame.items)
            if good:
                rest = frame.items[:]
                rest.remove(i)
                if rest:
                    frame.groups = components(self.inst, rest)
                    frame.groups.sort(key=len, reverse=True)
                return True
            self.retreat(frame)
        return False

    def retreat(self, frame: _Frame) -> None:
        """Undoes the frame's placement, which failed."""
        self.undo(frame.mark)
        frame.mark, frame.groups = -1, []
        self.fail()
        if not frame.roofed:  # nothing beside it: another order here changes nothing
            frame.next = len(frame.choices)

    def fail(self) -> None:
        self.failures -= 1
        if self.failures <= 0:
            raise Cut

    def place(self, i: int, at: int, items: list[int]) -> tuple[bool, bool]:
        """Puts i at that offset. Returns (nothing broke, something unplaced lives beside i).

        What lives beside it lies above it from now on; whoever of `items` comes before it in the order of
        offset and rank can no longer lie there either.
        """
        low, placed, rank, left, gaps = self.low, self.placed, self.rank, self.left, self.gaps
        lift = self.lift
        height = self.size[i]
        above, mine = at + height, rank[i]
        placed[i] = True
        self.offset[i] = at
        self.trail.append((_PLACED, i, height))
        sections = range(self.first[i], self.last[i])
        for k in sections:
            left[k] -= height
        if self.saved:
            self.share_pairs(i, +1)
        dirty = set(sections)
        roofed = False
        for j in self.near[i]:
            if placed[j]:
                continue
            roofed = True
            need = at + gaps.get((i, j), height) if gaps else above
            if low[j] < need and not lift(j, need, dirty):
                self.weight[j] += 1
                return False, True
        for j in items:
            lj = low[j]
            if lj <= at and not placed[j]:
                need = at + 1 if rank[j] < mine else at
                if lj < need and not lift(j, need, dirty):
                    self.weight[j] += 1
                    return False, roofed
        return self.settle(dirty), roofed

    def share_pairs(self, i: int, sign: int) -> None:
        """Whoever of a pair with a gap is placed first takes only its own part of the pair's bytes."""
        for j, shared, both in self.saved.get(i, ()):
            if not self.placed[j]:
                for k in both:
                    self.left[k] += sign * shared

    def lift(self, j: int, to: int, dirty: set[int]) -> bool:
        """Raises low[j] to at least `to`; False if it cannot be. Sections whose floor that may change are
        `dirty`."""
        low, domains = self.low, self.domains
        before = low[j]
        if domains is not None:
            rest = domains[j] >> to
            if not rest:
                return False
            to += (rest & -rest).bit_length() - 1
        elif not self.plain:
            if self.pin[j] is not None:
                return to <= before
            align = self.align[j]
            to = -(-to // align) * align
        if to + self.size[j] > self.capacity:
            return False
        self.trail.append((_LOW, j, before))
        low[j] = to
        floor = self.floor
        for k in range(self.first[j], self.last[j]):
            if floor[k] == before:
                dirty.add(k)
        return True

    def settle(self, dirty: set[int]) -> bool:
        """Each dirty section again: its floor, whether the rest still fits, and, where the slack above the
        floor is small, that every offset is a subset sum of the sizes plus at most the slack. False if that
        cannot be."""
        members, placed, low, floor, left = self.members, self.placed, self.low, self.floor, self.left
        size, capacity, filtered = self.size, self.capacity, self.domains is not None
        while dirty:
            k = dirty.pop()
            least, inside = FAR, []
            for j in members[k]:
                if not placed[j]:
                    inside.append(j)
                    if low[j] < least:
                        least = low[j]
            if least != floor[k]:
                self.trail.append((_FLOOR, k, floor[k]))
                floor[k] = least
            if least == FAR:
                continue
            slack = capacity - least - left[k]
            if slack < 0:
                for j in inside:
                    self.weight[j] += 0.2
                return False
            if slack > TIGHT_SLACK or not filtered:
                continue
            sums = 1
            for j in inside:
                sums |= sums << size[j]
            sums = smear(sums, slack) << least
            for j in inside:
                if not sums >> low[j] & 1 and not self.lift_into(sums, j, dirty):
                    self.weight[j] += 1
                    return False
        return True

    def lift_into(self, sums: int, j: int, dirty: set[int]) -> bool:
        """Raises low[j] to the next bit of `sums` that is in its domain; False if there is none."""
        assert self.domains is not None
        before = at = self.low[j]
        rest = (sums >> at) & (self.domains[j] >> at)
        if not rest:
            return False
        at += (rest & -rest).bit_length() - 1
        if at + self.size[j] > self.capacity:
            return False
        self.trail.append((_LOW, j, before))
        self.low[j] = at
        floor = self.floor
        for k in range(self.first[j], self.last[j]):
            if floor[k] == before:
                dirty.add(k)
        return True

    def undo(self, mark: int) -> None:
        """Takes back every change since the trail had that length."""
        trail, low, floor, left = self.trail, self.low, self.floor, self.left
        while len(trail) > mark:
            what, x, value = trail.pop()
            if what == _LOW:
                low[x] = value
            elif what == _FLOOR:
                floor[x] = value
            else:
                self.placed[x] = False
                for k in range(self.first[x], self.last[x]):
                    left[k] += value
                if self.saved:
                    self.share_pairs(x, -1)


class _Frame:
    """Buffers to place, the choices for the lowest of them, and where the search stands among them."""

    __slots__ = ("choices", "groups", "items", "mark", "next", "roofed")

    def __init__(self, items: list[int], choices: list[tuple[int, int, int]]) -> None:
        self.items, self.choices = items, choices
        self.next = 0
        self.mark = -1  # the trail's length before the current placement; -1: none
        self.roofed = False
        self.groups: list[list[int]] = []  # what the current placement left, the next at the end
