# SPDX-License-Identifier: Apache-2.0
"""Aliases taken out of a problem: each group of buffers inside one another becomes its outermost one."""

from __future__ import annotations

from dataclasses import replace
from math import lcm

from minun_pio.planner.problem import Buffer, Problem, bad


def roots(problem: Problem) -> tuple[list[Buffer], dict[str, tuple[str, int]]]:
    """The outermost buffers, and for each buffer its outermost one and where it lies in it, in bytes.

    An outermost buffer is live whenever one of its group is, and keeps every one's alignment, pin and region.
    """
    outer = {a.inner: a for a in problem.aliases}
    place: dict[str, tuple[str, int]] = {}
    by_id = {b.id: b for b in problem.buffers}
    group = {b.id: b for b in problem.buffers if b.id not in outer}
    for b in problem.buffers:
        name, shift = b.id, 0
        while name in outer:
            shift += outer[name].at
            name = outer[name].outer
        place[b.id] = (name, shift)
        if name != b.id:
            group[name] = _joined(group[name], by_id[b.id], shift)
    return [group[b.id] for b in problem.buffers if b.id in group], place


def _joined(root: Buffer, inner: Buffer, shift: int) -> Buffer:
    if shift % inner.align:
        raise bad(
            "bad-alias",
            f"'{inner.id}' lies {shift} bytes inside '{root.id}'; expected a multiple of {inner.align}",
        )
    pin = root.offset
    if inner.offset is not None:
        if (pin is not None and pin != inner.offset - shift) or inner.offset < shift:
            raise bad("bad-pin", f"'{inner.id}' is pinned to {inner.offset}, away from '{root.id}' around it")
        pin = inner.offset - shift
    if inner.region is not None and root.region is not None and inner.region != root.region:
        raise bad(
            "bad-alias", f"'{inner.id}' must be in '{inner.region}', '{root.id}' around it in '{root.region}'"
        )
    return replace(
        root,
        start=min(root.start, inner.start),
        end=max(root.end, inner.end),
        align=lcm(root.align, inner.align),
        offset=pin,
        region=root.region or inner.region,
    )


def root_gaps(problem: Problem, place: dict[str, tuple[str, int]]) -> dict[tuple[str, str], int]:
    """The separations, by (lower id, upper id). Raises MinunError for one of a buffer inside another."""
    gaps: dict[tuple[str, str], int] = {}
    for s in problem.separations:
        for name in (s.lower, s.upper):
            if place[name][0] != name:
                raise bad(
                    "bad-separation", f"'{name}' lives inside '{place[name][0]}'; separate that one instead"
                )
        pair = (s.lower, s.upper)
        gaps[pair] = min(s.distance, gaps.get(pair, s.distance))
    sizes = {b.id: b.size for b in problem.buffers}
    return {(i, j): d for (i, j), d in gaps.items() if d < sizes[i]}
