# SPDX-License-Identifier: Apache-2.0
"""Offset domains from subset sums, kept as the bits of one big integer, and small helpers of both engines."""

from __future__ import annotations

from minun_pio.planner.instance import Instance

Outcome = list[int] | bool | None  # offsets; False: proven impossible; None: not known yet


class Cut(Exception):
    """A run has used up its failures or its time."""


def smear(bits: int, width: int) -> int:
    """All sums of a set bit and 0 … width."""
    step = 1
    while width > 0:
        shift = step if step < width else width
        bits |= bits << shift
        width -= shift
        step += step
    return bits


def members_of(inst: Instance) -> list[list[int]]:
    """The buffers of each section."""
    members: list[list[int]] = [[] for _ in range(inst.count)]
    for i, (a, b) in enumerate(zip(inst.first, inst.last, strict=True)):
        for k in range(a, b):
            members[k].append(i)
    return members


def components(inst: Instance, items: list[int]) -> list[list[int]]:
    """`items` (at least one), split where no two of them live together."""
    first, last = inst.first, inst.last
    ordered = sorted(items, key=first.__getitem__)
    out: list[list[int]] = []
    begin, end = 0, last[ordered[0]]
    for place, i in enumerate(ordered):
        if first[i] >= end:
            out.append(ordered[begin:place])
            begin, end = place, last[i]
        elif last[i] > end:
            end = last[i]
    out.append(ordered[begin:])
    return out


def offset_domains(inst: Instance, capacity: int, members: list[list[int]], share: int) -> list[int] | None:
    """For each buffer the offsets it may have, as bits; None if one has none. For plain instances.

    In a section whose slack is at most `capacity / share`, a buffer's offset is a sum of other buffers'
    sizes plus at most the slack.
    """
    sizes = inst.sizes
    full = (1 << (capacity + 1)) - 1
    domains = [full >> s if s <= capacity else 0 for s in sizes]
    for k, inside in enumerate(members):
        slack = capacity - inst.load[k]
        if slack < 0:
            return None
        if slack > capacity // share:
            continue
        before = [1]
        for i in inside:
            before.append(before[-1] | (before[-1] << sizes[i]))
        for a, i in enumerate(inside):
            sums = before[a]
            for j in inside[a + 1 :]:
                sums |= sums << sizes[j]
            domains[i] &= smear(sums, slack)
            if not domains[i]:
                return None
    return domains
