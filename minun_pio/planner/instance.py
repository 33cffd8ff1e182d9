# SPDX-License-Identifier: Apache-2.0
"""What a planner works on: buffers as numbers, sections, neighbours; and what it gives back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

from minun_pio.planner.live import loads, neighbours, sections

PAIR_LIMIT = 3_000_000  # above this many pairs live together, only planners that need no pairs run

# (lower, upper) -> bytes their offsets must be apart, where that is not lower's size
Gaps = dict[tuple[int, int], int]


@dataclass
class Instance:
    """Buffers `0 … n-1` of one region.

    `first[i], last[i]`: the half-open range of sections buffer i lives in; `load[k]`: bytes live in section
    k (less what `gaps` may save); `near[i]`: who lives together with i; None when there are too many pairs.
    `align[i]`: alignment; `pin[i]`: fixed offset or None; `gaps`: see `Separation`.
    """

    starts: list[int]
    ends: list[int]
    sizes: list[int]
    align: list[int]
    pin: list[int | None]
    gaps: Gaps
    count: int
    first: list[int]
    last: list[int]
    load: list[int]
    near: list[list[int]] | None
    plain: bool  # no alignment, no pins, no gaps: sizes and live ranges say it all


def instance(
    starts: list[int],
    ends: list[int],
    sizes: list[int],
    align: list[int] | None = None,
    pin: list[int | None] | None = None,
    gaps: Gaps | None = None,
) -> Instance:
    """An instance from live ranges `[start, end)` and sizes in bytes."""
    count, first, last = sections(list(zip(starts, ends, sizes, strict=True)))
    load = loads(count, first, last, sizes)
    gaps = gaps or {}
    align = align or [1] * len(sizes)
    pin = pin or [None] * len(sizes)
    for (i, j), saved in savings(sizes, gaps).items():
        for k in range(max(first[i], first[j]), min(last[i], last[j])):
            load[k] -= saved
    return Instance(
        starts=starts,
        ends=ends,
        sizes=sizes,
        align=align,
        pin=pin,
        gaps=gaps,
        count=count,
        first=first,
        last=last,
        load=load,
        near=neighbours(first, last, PAIR_LIMIT),
        plain=not gaps and set(align) <= {1} and set(pin) <= {None},
    )


def savings(sizes: Sequence[int], gaps: Gaps) -> dict[tuple[int, int], int]:
    """For each pair i < j with a gap: the most bytes the two can share."""
    out: dict[tuple[int, int], int] = {}
    for (lower, upper), distance in gaps.items():
        shared = min(sizes[lower] - distance, sizes[upper])
        if shared > 0:
            pair = (min(lower, upper), max(lower, upper))
            out[pair] = max(out.get(pair, 0), shared)
    return out


def part(whole: Instance, members: list[int]) -> Instance:
    """The instance of some of the buffers, numbered as in `members`."""
    place = {i: k for k, i in enumerate(members)}
    return instance(
        [whole.starts[i] for i in members],
        [whole.ends[i] for i in members],
        [whole.sizes[i] for i in members],
        [whole.align[i] for i in members],
        [whole.pin[i] for i in members],
        {(place[i], place[j]): d for (i, j), d in whole.gaps.items() if i in place and j in place},
    )


def scaled(whole: Instance) -> tuple[Instance, int]:
    """The instance with all sizes divided by their greatest common divisor, and that divisor.

    Every alignment that divides the divisor falls away: without pins and gaps, offsets of a pushed-down plan
    are sums of sizes.
    """
    if whole.gaps or any(p is not None for p in whole.pin):
        return whole, 1
    unit = gcd(*whole.sizes) if whole.sizes else 1
    if unit <= 1:
        return whole, 1
    if any(unit % a for a in whole.align):
        return whole, 1
    return (
        Instance(
            starts=whole.starts,
            ends=whole.ends,
            sizes=[s // unit for s in whole.sizes],
            align=[1] * len(whole.sizes),
            pin=whole.pin,
            gaps={},
            count=whole.count,
            first=whole.first,
            last=whole.last,
            load=[x // unit for x in whole.load],
            near=whole.near,
            plain=True,
        ),
        unit,
    )


@dataclass
class Budget:
    """How long a planner may go on, and what is good enough.

    `deadline`: a `time.perf_counter()` value. `target`: stop at the first plan no higher than this; 0 goes
    on to the lower bound. `nodes` counts the search nodes visited.
    """

    deadline: float
    target: int = 0
    seed: int = 0
    nodes: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return time.perf_counter() > self.deadline


@dataclass(frozen=True)
class Answer:
    """Offsets by buffer number, the height, and the greatest height proven necessary."""

    offsets: list[int]
    height: int
    proven: int


def bound(inst: Instance) -> int:
    """The lower bound: the largest section load, and the top of every pinned buffer."""
    low = max(inst.load, default=0)
    for i, at in enumerate(inst.pin):
        if at is not None:
            low = max(low, at + inst.sizes[i])
    return max(low, max(inst.sizes, default=0))


def top(inst: Instance, offsets: Sequence[int]) -> int:
    """The height of a placement."""
    return max((o + s for o, s in zip(offsets, inst.sizes, strict=True)), default=0)
