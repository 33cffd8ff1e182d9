# SPDX-License-Identifier: Apache-2.0
"""The prover: good at proving that a height is impossible, by runs of `exact_cover.py`, longer each time.

For plain instances of up to `UNIT_LIMIT` units; alignment and pins only cut the domains.
"""

from __future__ import annotations

from collections.abc import Iterator

from minun_pio.planner.domains import Outcome, members_of, offset_domains
from minun_pio.planner.exact_cover import ExactCover
from minun_pio.planner.instance import Budget, Instance

UNIT_LIMIT = 1 << 15
FIRST_NODES = 40


class Prover:
    """Searches for offsets of `inst` within `capacity`; `runs()` yields after each restart."""

    def __init__(self, inst: Instance, capacity: int, budget: Budget) -> None:
        self.inst, self.capacity, self.budget = inst, capacity, budget
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
        """One search, cut after so many nodes."""
        search = ExactCover(
            self.inst,
            self.capacity,
            self.budget,
            members=self.members,
            domains=self.domains,
            weight=self.weight,
        )
        return search.run(nodes)
