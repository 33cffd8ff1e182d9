# SPDX-License-Identifier: Apache-2.0
"""Aliases and separations worked into numbers.

Buffers inside one another form a compound: its outermost buffer, the root, is cut at every member's ends into
pieces; a piece is live as long as any member over it. Pieces of a compound are placed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import lcm

from minun_pio.planner.instance import Instance, Shared, instance
from minun_pio.planner.problem import Buffer, Problem, Separation, bad


@dataclass(frozen=True)
class Piece:
    """`size` bytes of a root, `shift` bytes from its beginning, live in `[start, end)`."""

    shift: int
    size: int
    start: int
    end: int


@dataclass(frozen=True)
class Reduced:
    """`roots`: the outermost buffers, live as long as any of theirs, with every one's alignment, pin and
    region. `place`: buffer id -> (root id, byte offset in it). `pieces`: root id -> its pieces, ascending."""

    problem: Problem
    roots: tuple[Buffer, ...]
    place: dict[str, tuple[str, int]]
    pieces: dict[str, tuple[Piece, ...]]

    def numbers(self, members: Sequence[Buffer]) -> Instance:
        """The instance of some of the roots."""
        if not self.problem.aliases and not self.problem.separations:
            return instance(
                [b.start for b in members],
                [b.end for b in members],
                [b.size for b in members],
                [b.align for b in members],
                [b.offset for b in members],
            )
        first: dict[str, int] = {}
        pieces: list[Piece] = []
        align: list[int] = []
        pin: list[int | None] = []
        leader: list[int] = []
        for root in members:
            first[root.id] = len(pieces)
            for p in self.pieces[root.id]:
                leader.append(first[root.id])
                align.append(root.align if not p.shift else 1)
                pin.append(None if root.offset is None else root.offset + p.shift)
                pieces.append(p)
        gaps: dict[tuple[int, int], int] = {}
        shared: list[Shared] = []
        if self.problem.separations:
            by_id = {b.id: b for b in self.problem.buffers}
            for s in self.problem.separations:
                if self.place[s.lower][0] in first and self.place[s.upper][0] in first:
                    self._separate(s, by_id, first, gaps, shared)
        return instance(
            [p.start for p in pieces],
            [p.end for p in pieces],
            [p.size for p in pieces],
            align,
            pin,
            gaps,
            shared,
            leader if len(pieces) > len(members) else None,
            [p.shift for p in pieces],
        )

    def _separate(
        self,
        s: Separation,
        by_id: dict[str, Buffer],
        first: dict[str, int],
        gaps: dict[tuple[int, int], int],
        shared: list[Shared],
    ) -> None:
        lower, upper = by_id[s.lower], by_id[s.upper]
        begin, end = max(lower.start, upper.start), min(lower.end, upper.end)
        touching: tuple[int, int] | None = None
        for i, p, p_in in self._over(lower, first):
            for j, q, q_in in self._over(upper, first):
                if max(p.start, q.start) >= begin and min(p.end, q.end) <= end:
                    distance = s.distance + q_in - p_in
                    if distance < p.size:
                        gaps[i, j] = min(distance, gaps.get((i, j), distance))
                        touching = (i, j)
        saved = min(lower.size - s.distance, lower.size, upper.size)
        if touching is not None and saved > 0:
            shared.append(Shared(*touching, saved, s.lower, s.upper))

    def _over(self, b: Buffer, first: dict[str, int]) -> list[tuple[int, Piece, int]]:
        """The pieces over a buffer: (number, piece, its offset in the buffer)."""
        root, at = self.place[b.id]
        return [
            (first[root] + k, p, p.shift - at)
            for k, p in enumerate(self.pieces[root])
            if at <= p.shift < at + b.size
        ]


def reduce(problem: Problem) -> Reduced:
    """Raises MinunError where alignment, pins or regions of a compound contradict each other."""
    if not problem.aliases and not problem.separations:
        return Reduced(problem, problem.buffers, {b.id: (b.id, 0) for b in problem.buffers}, {})
    outer = {a.inner: a for a in problem.aliases}
    place: dict[str, tuple[str, int]] = {}
    group = {b.id: b for b in problem.buffers if b.id not in outer}
    members: dict[str, list[tuple[int, Buffer]]] = {}
    for b in problem.buffers:
        name, shift = b.id, 0
        while name in outer:
            shift += outer[name].at
            name = outer[name].outer
        place[b.id] = (name, shift)
        if outer:
            members.setdefault(name, []).append((shift, b))
        if name != b.id:
            group[name] = _joined(group[name], b, shift)
    roots = tuple(group[b.id] for b in problem.buffers if b.id in group)
    separated = {place[name][0] for s in problem.separations for name in (s.lower, s.upper)}
    pieces: dict[str, tuple[Piece, ...]] = {}
    for root in roots:
        if root.size and len(members.get(root.id, ())) > 1:
            pieces[root.id] = _pieces(members[root.id], root.id in separated)
        else:
            pieces[root.id] = (Piece(0, root.size, root.start, root.end),)
    return Reduced(problem, roots, place, pieces)


def _pieces(members: list[tuple[int, Buffer]], keep_cuts: bool) -> tuple[Piece, ...]:
    """The compound cut at its members' ends; neighbours with the same live range are joined unless kept."""
    cuts = sorted({at for shift, b in members for at in (shift, shift + b.size)})
    out: list[Piece] = []
    for low, high in pairwise(cuts):
        over = [b for shift, b in members if shift <= low < shift + b.size]
        start, end = min(b.start for b in over), max(b.end for b in over)
        if out and not keep_cuts and (out[-1].start, out[-1].end) == (start, end):
            out[-1] = replace(out[-1], size=out[-1].size + high - low)
        else:
            out.append(Piece(low, high - low, start, end))
    return tuple(out)


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
            "bad-alias",
            f"'{inner.id}' must be in '{inner.region}', '{root.id}' around it in '{root.region}'",
        )
    return replace(
        root,
        start=min(root.start, inner.start),
        end=max(root.end, inner.end),
        align=lcm(root.align, inner.align),
        offset=pin,
        region=root.region or inner.region,
    )
