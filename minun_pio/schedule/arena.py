# SPDX-License-Identifier: Apache-2.0
"""Gives a schedule's buffers their places, by the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minun_pio.config.model import Memory
from minun_pio.planner import Buffer as PlannedBuffer
from minun_pio.planner import Plan, Problem, plan
from minun_pio.schedule.model import Schedule

DEFAULT_MEMORY = Memory()


@dataclass(frozen=True)
class StagePeak:
    """The arena's height when the planner may do this much, and the buffers live at the peak."""

    name: str
    peak: int
    live: tuple[str, ...]


@dataclass(frozen=True)
class Placement:
    """Offsets of a schedule's buffers. `align`: what the arena's address must be a multiple of.

    `reverse`: calls (by index) that write in reverse raster order.
    """

    schedule: Schedule
    plan: Plan
    align: int
    offsets: Mapping[str, int]
    stages: tuple[StagePeak, ...] = ()
    reverse: frozenset[int] = frozenset()

    @property
    def bytes(self) -> int:
        return self.plan.height


def problem_of(schedule: Schedule, capacity: int | None = None) -> Problem:
    """The schedule's buffers as a planning problem."""
    buffers = tuple(
        PlannedBuffer(id=b.id, start=b.start, end=b.end, size=b.size, align=b.align) for b in schedule.buffers
    )
    return Problem(buffers, capacity=capacity)


def place(schedule: Schedule, memory: Memory = DEFAULT_MEMORY) -> Placement:
    """Places the buffers, each at a multiple of its element's size. The plan is validated.

    AVR reads any width at any address, so the arena itself needs no alignment there.
    """
    found = plan(problem_of(schedule), planner=memory.planner, timeout=memory.timeout_s)
    align = 1 if schedule.core == "avr" else max((b.align for b in schedule.buffers), default=1)
    stage = StagePeak("placed", found.height, found.certificate.live)
    return Placement(schedule, found, align, dict(found.offsets), (stage,))


def estimate_bytes(schedule: Schedule) -> int:
    """The lower bound of the arena: what is live at the fullest step. Quick, for searches."""
    change: dict[int, int] = {}
    for b in schedule.buffers:
        change[b.start] = change.get(b.start, 0) + b.size
        change[b.end] = change.get(b.end, 0) - b.size
    live = peak = 0
    for step in sorted(change):
        live += change[step]
        peak = max(peak, live)
    return peak
