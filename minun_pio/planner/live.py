# SPDX-License-Identifier: Apache-2.0
"""Who is live when: sections, loads, overlapping pairs and independent parts.

A section is a maximal set of buffers that are live together; two steps with the same or a smaller live set
add nothing. Everything after this module counts sections, not steps.
"""

from __future__ import annotations

from collections.abc import Sequence

Range = tuple[int, int, int]  # start, end, size


def sections(ranges: Sequence[Range]) -> tuple[int, list[int], list[int]]:
    """The number of sections, and for each buffer the half-open range of sections it lives in."""
    events = [(r[1], 0, i) for i, r in enumerate(ranges)]
    events += [(r[0], 1, i) for i, r in enumerate(ranges)]
    events.sort()
    first, last = [0] * len(ranges), [0] * len(ranges)
    section, grown = 0, False
    for _, is_start, i in events:
        if is_start:
            first[i], grown = section, True
        else:
            if grown:
                section, grown = section + 1, False
            last[i] = section
    return section, first, last


def loads(count: int, first: Sequence[int], last: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The bytes live in each section."""
    change = [0] * (count + 1)
    for a, b, size in zip(first, last, sizes, strict=True):
        change[a] += size
        change[b] -= size
    out, live = [], 0
    for x in change[:count]:
        live += x
        out.append(live)
    return out


def neighbours(
    first: Sequence[int], last: Sequence[int], pair_limit: int | None = None
) -> list[list[int]] | None:
    """For each buffer those live with it at some time; None if there are more than `pair_limit` pairs."""
    out: list[list[int]] = [[] for _ in first]
    live: list[int] = []
    pairs = 0
    for i in sorted(range(len(first)), key=first.__getitem__):
        a = first[i]
        live = [j for j in live if last[j] > a]
        pairs += len(live)
        if pair_limit is not None and pairs > pair_limit:
            return None
        out[i] = live[:]
        for j in live:
            out[j].append(i)
        live.append(i)
    return out


def parts(ranges: Sequence[Range]) -> list[list[int]]:
    """Groups of buffers, no two of different groups ever live together, in the order of time."""
    out: list[list[int]] = []
    here: list[int] = []
    end = 0
    for i in sorted(range(len(ranges)), key=lambda i: ranges[i][0]):
        if here and ranges[i][0] >= end:
            out.append(here)
            here = []
        if not here or ranges[i][1] > end:
            end = ranges[i][1]
        here.append(i)
    if here:
        out.append(here)
    return out
