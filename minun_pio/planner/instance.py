# SPDX-License-Identifier: Apache-2.0
"""What a planner works on: buffers as numbers, sections, neighbours; and what it gives back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from operator import add
from typing import NamedTuple

from minun_pio.planner.live import loads, neighbours, sections

PAIR_LIMIT = 3_000_000  # above this many pairs live together, only planners that need no pairs run

# (lower, upper) -> bytes their offsets must be apart at least, where that is less than lower's size
Gaps = dict[tuple[int, int], int]


class Shared(NamedTuple):
    """Buffers i and j can share at most `bytes`; names of the separated pair they come from."""

    i: int
    j: int
    bytes: int
    lower: str
    upper: str


@dataclass
class Instance:
    """Buffers `0 … n-1` of one region.

    `first[i], last[i]`: the half-open range of sections buffer i lives in; `load[k]`: bytes live in section
    k, less what may be shared; `near[i]`: who lives together with i (None: too many pairs to list).
    `align[i]`: alignment; `pin[i]`: fixed offset or None; `gaps`, `shared`: see `Separation`. `leader[i]`,
    `shift[i]`: i lies `shift[i]` bytes behind its leader (None: each buffer leads itself).
    """

    starts: list[int]
    ends: list[int]
    sizes: list[int]
    align: list[int]
    pin: list[int | None]
    gaps: Gaps
    shared: list[Shared]
    leader: list[int] | None
    shift: list[int]
    count: int
    first: list[int]
    last: list[int]
    load: list[int]
    near: list[list[int]] | None
    plain: bool  # no alignment, pins, gaps or leaders: sizes and live ranges say it all


def instance(
    starts: list[int],
    ends: list[int],
    sizes: list[int],
    align: list[int] | None = None,
    pin: list[int | None] | None = None,
    gaps: Gaps | None = None,
    shared: list[Shared] | None = None,
    leader: list[int] | None = None,
    shift: list[int] | None = None,
) -> Instance:
    """An instance from live ranges `[start, end)` and sizes in bytes."""
    count, first, last = sections(list(zip(starts, ends, sizes, strict=True)))
    gaps, shared = gaps or {}, shared or []
    align = align or [1] * len(sizes)
    pin = pin or [None] * len(sizes)
    inst = Instance(
        starts=starts,
        ends=ends,
        sizes=sizes,
        align=align,
        pin=pin,
        gaps=gaps,
        shared=shared,
        leader=leader,
        shift=shift or [0] * len(sizes),
        count=count,
        first=first,
        last=last,
        load=loads(count, first, last, sizes),
        near=neighbours(first, last, PAIR_LIMIT),
        plain=not gaps and leader is None and set(align) <= {1} and set(pin) <= {None},
    )
    if shared:
        _subtract_shared(inst)
    return inst


def common_sections(inst: Instance, i: int, j: int) -> range:
    """The sections in which both i and j live."""
    return range(max(inst.first[i], inst.first[j]), min(inst.last[i], inst.last[j]))


def _subtract_shared(inst: Instance) -> None:
    """Takes off the load what pairs may share: the better of a pair's two orders, over all pairs of a buffer
    no more than the buffer itself (it has no byte twice)."""
    pairs: dict[tuple[str, str], Shared] = {}
    for s in inst.shared:
        key = (min(s.lower, s.upper), max(s.lower, s.upper))
        if key not in pairs or pairs[key].bytes < s.bytes:
            pairs[key] = s
    degree: dict[str, int] = {}
    for a, b in pairs:
        degree[a], degree[b] = degree.get(a, 0) + 1, degree.get(b, 0) + 1
    hubs: dict[str, list[Shared]] = {}
    for (a, b), s in pairs.items():
        hubs.setdefault(a if degree[a] > degree[b] else b, []).append(s)
    for group in hubs.values():
        saved: dict[int, int] = {}
        for s in group:
            for k in common_sections(inst, s.i, s.j):
                saved[k] = saved.get(k, 0) + s.bytes
        most = max(s.bytes for s in group) if len(group) == 1 else _hub_size(inst, group)
        for k, amount in saved.items():
            inst.load[k] -= min(amount, most)


def _hub_size(inst: Instance, group: list[Shared]) -> int:
    """The size of the buffer all pairs of a group have in common, or their sum if it is cut in pieces."""
    common = set.intersection(*({s.i, s.j} for s in group))
    return (
        inst.sizes[common.pop()] if len(common) == 1 and inst.leader is None else sum(s.bytes for s in group)
    )


def part(whole: Instance, members: list[int]) -> Instance:
    """The instance of some of the buffers, numbered as in `members`; compounds must be there wholly."""
    place = {i: k for k, i in enumerate(members)}
    return instance(
        [whole.starts[i] for i in members],
        [whole.ends[i] for i in members],
        [whole.sizes[i] for i in members],
        [whole.align[i] for i in members],
        [whole.pin[i] for i in members],
        {(place[i], place[j]): d for (i, j), d in whole.gaps.items() if i in place and j in place},
        [s._replace(i=place[s.i], j=place[s.j]) for s in whole.shared if s.i in place and s.j in place],
        None if whole.leader is None else [place[whole.leader[i]] for i in members],
        [whole.shift[i] for i in members],
    )


def scaled(whole: Instance) -> tuple[Instance, int]:
    """The instance with all sizes divided by their greatest common divisor, and that divisor.

    Every alignment that divides the divisor falls away: without pins and gaps, offsets of a pushed-down plan
    are sums of sizes.
    """
    if whole.gaps or whole.leader is not None or any(p is not None for p in whole.pin):
        return whole, 1
    unit = gcd(*whole.sizes) if whole.sizes else 1
    if unit <= 1 or any(unit % a for a in whole.align):
        return whole, 1
    small = replace(
        whole,
        sizes=[s // unit for s in whole.sizes],
        align=[1] * len(whole.sizes),
        load=[x // unit for x in whole.load],
        plain=True,
    )
    return small, unit


def fused(whole: Instance) -> tuple[Instance, list[int]]:
    """Each compound as one buffer, live as long as any piece of it: simpler, but not lower. And for each
    buffer of `whole` the number of its compound. Gaps of compounds of several pieces are lost."""
    assert whole.leader is not None
    numbers: dict[int, int] = {}
    of = [numbers.setdefault(lead, len(numbers)) for lead in whole.leader]
    n = len(numbers)
    starts, ends, sizes = [1 << 60] * n, [0] * n, [0] * n
    align, pieces = [1] * n, [0] * n
    pin: list[int | None] = [None] * n
    for i, c in enumerate(of):
        starts[c], ends[c] = min(starts[c], whole.starts[i]), max(ends[c], whole.ends[i])
        sizes[c] = max(sizes[c], whole.shift[i] + whole.sizes[i])
        pieces[c] += 1
        if not whole.shift[i]:
            align[c], pin[c] = whole.align[i], whole.pin[i]
    gaps = {
        (of[i], of[j]): d
        for (i, j), d in whole.gaps.items()
        if pieces[of[i]] == 1 and pieces[of[j]] == 1 and d >= 0
    }
    shared = [s._replace(i=of[s.i], j=of[s.j]) for s in whole.shared if (of[s.i], of[s.j]) in gaps]
    return instance(starts, ends, sizes, align, pin, gaps, shared), of


@dataclass
class Budget:
    """How long a planner may go on, and what is good enough.

    `deadline`: a value of `clock`, in seconds. `target`: stop at the first plan no higher than this; 0 goes
    on to the lower bound. `capacity`: what there is; a plan that fits is looked for beside the lowest one.
    `nodes` counts the search nodes visited.
    """

    deadline: float
    target: int = 0
    capacity: int | None = None
    seed: int = 0
    clock: Callable[[], float] = time.perf_counter
    nodes: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.clock() > self.deadline


@dataclass(frozen=True)
class Answer:
    """Offsets by buffer number, the height, and the greatest height proven necessary."""

    offsets: list[int]
    height: int
    proven: int


def bound(inst: Instance) -> int:
    """The lower bound: the largest section load, and the top of every pinned buffer and compound."""
    low = max(inst.load, default=0)
    if inst.plain:
        return low
    for shift, size, at in zip(inst.shift, inst.sizes, inst.pin, strict=True):
        low = max(low, size + (shift if at is None else at))
    return low


def top(inst: Instance, offsets: Sequence[int]) -> int:
    """The height of a placement."""
    return max(map(add, offsets, inst.sizes), default=0)
