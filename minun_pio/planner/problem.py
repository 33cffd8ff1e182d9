# SPDX-License-Identifier: Apache-2.0
"""The static memory planning problem: buffers with live ranges, to be given places in one arena.

Sizes, offsets and capacities are bytes. A live range is half-open: a buffer with `start=2, end=5` is live
during the steps 2, 3 and 4. Two buffers that are live at the same step must not share a byte, unless a
`Separation` or an `Alias` says how they may.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from minun_pio.errors import MinunError

ARENA = "arena"  # the name of the only region where a problem names none
SIZE_LIMIT = 1 << 40

Status = Literal["optimal", "infeasible", "best-known"]


@dataclass(frozen=True)
class Buffer:
    """Something that needs `size` bytes during the steps `[start, end)`.

    `align`: its offset is a multiple of this. `offset`: pinned there. `region`: must live in that region.
    """

    id: str
    start: int
    end: int
    size: int
    align: int = 1
    offset: int | None = None
    region: str | None = None


@dataclass(frozen=True)
class Region:
    """A memory bank of `capacity` bytes (None: as much as is needed). A lower `cost` is preferred."""

    name: str
    capacity: int | None = None
    cost: float = 0.0


@dataclass(frozen=True)
class Separation:
    """Two buffers live together that may share bytes at a distance.

    If `lower` is placed below `upper`, `offset(upper) - offset(lower) >= distance` is enough (without this,
    it would have to be the size of `lower`). One separation an ordered pair; the other order keeps its rule.
    """

    lower: str
    upper: str
    distance: int


@dataclass(frozen=True)
class Alias:
    """`inner` lives inside `outer`, `at` bytes from its beginning (a concat's input in its output)."""

    inner: str
    outer: str
    at: int = 0


@dataclass(frozen=True)
class Problem:
    """Buffers and what is allowed. With `regions` empty there is one, of `capacity` bytes (None: any)."""

    buffers: tuple[Buffer, ...]
    capacity: int | None = None
    regions: tuple[Region, ...] = ()
    separations: tuple[Separation, ...] = ()
    aliases: tuple[Alias, ...] = ()


@dataclass(frozen=True)
class Certificate:
    """Why no plan can be lower: at `step` the buffers `live` need `bytes` together."""

    step: int
    live: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class Plan:
    """A validated answer.

    `offsets`: buffer id to byte offset in its region; empty if none was found. `regions`: buffer id to
    region name. `heights`: bytes used of each region; `height` is their sum. `lower_bound` is what the
    `certificate` shows; `proven` is the greatest height known to be necessary (at least the lower bound).
    status: `optimal` (height == proven), `infeasible` (proven not to fit the capacity), or `best-known`.
    A time-out is always `best-known`. `nodes`: search nodes visited. `seconds`: wall time.
    """

    offsets: Mapping[str, int]
    regions: Mapping[str, str]
    heights: Mapping[str, int]
    height: int
    lower_bound: int
    proven: int
    certificate: Certificate
    status: Status
    planner: str
    nodes: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    @property
    def gap(self) -> float:
        """How far the height is over the proven bound, as a fraction of it (0.0: proven optimal)."""
        return (self.height - self.proven) / self.proven if self.proven else 0.0


def bad(code: str, message: str, where: str = "") -> MinunError:
    """An error about a planning problem; its code begins with `plan.`."""
    return MinunError(f"plan.{code}", message, where)


def check(problem: Problem) -> None:
    """Refuse a problem that has no meaning. Raises MinunError naming the buffer."""
    seen = set()
    names = {r.name for r in problem.regions} or {ARENA}
    for b in problem.buffers:
        if b.id in seen:
            raise bad("duplicate-buffer", f"buffer '{b.id}' is listed twice; give each buffer its own id")
        seen.add(b.id)
        if b.end <= b.start or not 0 <= b.size <= SIZE_LIMIT or b.align < 1:
            raise bad(
                "bad-buffer",
                f"buffer '{b.id}' is live in [{b.start}, {b.end}), {b.size} bytes, alignment {b.align}; "
                f"expected start < end, a size of 0 to 2^40 and an alignment of at least 1",
            )
        if b.offset is not None and (b.offset < 0 or b.offset % b.align):
            raise bad(
                "bad-pin",
                f"buffer '{b.id}' is pinned to {b.offset}; expected a multiple of {b.align}, not negative",
            )
        if b.region is not None and b.region not in names:
            raise bad(
                "unknown-region",
                f"buffer '{b.id}' wants region '{b.region}'; there are: {', '.join(sorted(names))}",
            )
    if len({r.name for r in problem.regions}) != len(problem.regions):
        raise bad("duplicate-region", "two regions have the same name; give each its own")
    for s in problem.separations:
        if s.lower not in seen or s.upper not in seen or s.lower == s.upper or s.distance < 0:
            raise bad(
                "bad-separation",
                f"separation of '{s.lower}' and '{s.upper}' by {s.distance}; expected two buffers "
                f"and a distance that is not negative",
            )
    if problem.aliases:
        _check_aliases(problem)
    if not (problem.regions or problem.separations or problem.aliases):
        _check_pins([b for b in problem.buffers if b.offset is not None and b.size])


def _check_pins(pinned: list[Buffer]) -> None:
    """Refuse two buffers that are pinned to the same bytes at the same time."""
    live: list[Buffer] = []
    for b in sorted(pinned, key=lambda b: b.start):
        live = [a for a in live if a.end > b.start]
        for a in live:
            if (a.offset or 0) < (b.offset or 0) + b.size and (b.offset or 0) < (a.offset or 0) + a.size:
                raise bad(
                    "bad-pin",
                    f"buffers '{a.id}' and '{b.id}' are pinned to {a.offset} and {b.offset} and share bytes "
                    "while both are live; change an offset or leave it out",
                )
        live.append(b)


def _check_aliases(problem: Problem) -> None:
    by_id = {b.id: b for b in problem.buffers}
    outer_of: dict[str, str] = {}
    for a in problem.aliases:
        if a.inner not in by_id or a.outer not in by_id or a.inner in outer_of:
            raise bad(
                "bad-alias", f"'{a.inner}' inside '{a.outer}'; expected two buffers, each inner one once"
            )
        if a.at < 0 or a.at + by_id[a.inner].size > by_id[a.outer].size:
            raise bad(
                "bad-alias",
                f"'{a.inner}' at {a.at} does not fit inside '{a.outer}' ({by_id[a.outer].size} bytes)",
            )
        outer_of[a.inner] = a.outer
    for first in outer_of:
        at, hops = first, 0
        while at in outer_of:
            at, hops = outer_of[at], hops + 1
            if hops > len(outer_of):
                raise bad("bad-alias", f"'{first}' would live inside itself; remove one alias of the ring")
