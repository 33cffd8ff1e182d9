# SPDX-License-Identifier: Apache-2.0
"""The finder: good at finding a plan of a given height, by runs of `pushed_down.py`.

Runs are cut short by a limit on nodes or on failures, in turn (Luby's sequence), and begun again with
another rank, in which buffers that failed often come earlier.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from minun_pio.planner.domains import Outcome, members_of, offset_domains
from minun_pio.planner.instance import Budget, Instance, common_sections
from minun_pio.planner.live import loads
from minun_pio.planner.pushed_down import FAR, Pairs, PushedDown

DOMAIN_UNITS = 1 << 14  # capacities up to this keep offset domains as bits
RANKS = 6  # orders to begin with
FIRST_NODES = 3  # a buffer, in a run limited by nodes
FIRST_FAILURES = 12  # in a run limited by failures


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
        self.inst, self.capacity, self.budget = inst, capacity, budget
        self.members = members_of(inst)
        self.weight = [1.0] * len(inst.sizes)  # grows with each failure blamed on the buffer
        self.domains: list[int] | None = None
        self.saved: Pairs = {}
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
        """One search with that rank, cut after so many nodes or failures."""
        search = PushedDown(
            self.inst,
            self.capacity,
            self.budget,
            members=self.members,
            load=self.load,
            domains=self.domains,
            saved=self.saved,
            weight=self.weight,
        )
        return search.run(ranked, nodes, failures)
