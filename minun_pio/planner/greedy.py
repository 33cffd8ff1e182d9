# SPDX-License-Identifier: Apache-2.0
"""Greedy placement: buffers in some order, each at the lowest free offset; and a portfolio of orders.

`first-fit` takes buffers as they are born, `by-size` and `by-conflicts` as TensorFlow Lite Micro and TVM do.
`portfolio` tries many orders, then "squeaky wheel" restarts (Joslin and Clements 1999): a buffer that ends
above the goal moves forward in the order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from minun_pio.planner.instance import Answer, Budget, Instance, bound, top

Order = list[int]


def place(inst: Instance, order: Sequence[int], best_fit: bool = False) -> list[int]:
    """Offsets by placing in `order`, each at its lowest free offset (`best_fit`: in its tightest hole)."""
    if not inst.plain:
        return place_general(inst, order)
    assert inst.near is not None
    sizes, near = inst.sizes, inst.near
    offsets = [-1] * len(sizes)
    for i in order:
        size = sizes[i]
        taken = sorted([(o, o + sizes[j]) for j in near[i] if (o := offsets[j]) >= 0])
        at = 0
        if best_fit:
            hole, tightest = -1, 1 << 62
            for low, high in taken:
                if size <= low - at < tightest:
                    hole, tightest = at, low - at
                if high > at:
                    at = high
            if hole >= 0:
                at = hole
        else:
            for low, high in taken:
                if low - at >= size:
                    break
                if high > at:
                    at = high
        offsets[i] = at
    return offsets


def place_general(inst: Instance, order: Sequence[int]) -> list[int]:
    """As `place`, with alignment, pinned offsets, gaps and compounds. Pinned buffers are put down first."""
    assert inst.near is not None
    sizes, gaps, near, shift = inst.sizes, inst.gaps, inst.near, inst.shift
    offsets = [-1 if p is None else p for p in inst.pin]
    compound: dict[int, list[int]] = {}
    if inst.leader is not None:
        for i, lead in enumerate(inst.leader):
            compound.setdefault(lead, []).append(i)
    for i in order:
        if offsets[i] >= 0:
            continue
        lead = i if inst.leader is None else inst.leader[i]
        pieces = compound.get(lead, [lead])
        # with the leader at x, a neighbour of piece m forbids low < x < high
        banned = []
        for m in pieces:
            size, behind = sizes[m], shift[m]
            for j in near[m]:
                o = offsets[j]
                if o >= 0:
                    o -= behind
                    banned.append((o - gaps.get((m, j), size), o + gaps.get((j, m), sizes[j])))
        banned.sort()
        step = inst.align[lead]
        at, moved = 0, True
        while moved:
            moved = False
            for low, high in banned:
                if low >= at:
                    break
                if at < high:
                    at, moved = -(-high // step) * step, True
        for m in pieces:
            offsets[m] = at + shift[m]
    return offsets


def first_fit(inst: Instance, budget: Budget) -> Answer:
    """As an allocator would: in the order of birth."""
    n = range(len(inst.sizes))
    return _single(inst, sorted(n, key=lambda i: (inst.starts[i], i)))


def by_size(inst: Instance, budget: Budget) -> Answer:
    """Largest first."""
    n = range(len(inst.sizes))
    return _single(inst, sorted(n, key=lambda i: (-inst.sizes[i], inst.starts[i], i)))


def by_conflicts(inst: Instance, budget: Budget) -> Answer:
    """Those with most others live beside them first."""
    assert inst.near is not None
    near, n = inst.near, range(len(inst.sizes))
    return _single(inst, sorted(n, key=lambda i: (-len(near[i]), -inst.sizes[i], i)))


def _single(inst: Instance, order: Order) -> Answer:
    offsets = place(inst, order)
    return Answer(offsets, top(inst, offsets), bound(inst))


def orders(inst: Instance) -> Iterator[Order]:
    """Thirteen orders, the most often successful first."""
    assert inst.near is not None
    size, first, last, near = inst.sizes, inst.first, inst.last, inst.near
    n = range(len(size))
    width = [b - a for a, b in zip(first, last, strict=True)]
    yield sorted(n, key=lambda i: (-size[i], -width[i], i))
    yield sorted(n, key=lambda i: (-width[i], -size[i], i))
    yield sorted(n, key=lambda i: (-size[i] * width[i], i))
    load = inst.load
    tight = [max(load[a:b]) for a, b in zip(first, last, strict=True)]
    peak = max(range(inst.count), key=load.__getitem__)

    def from_peak(i: int) -> int:
        return 0 if first[i] <= peak < last[i] else min(abs(first[i] - peak), abs(last[i] - 1 - peak))

    rest: list[Callable[[int], tuple[int, ...]]] = [
        lambda i: (-tight[i], -size[i], i),
        lambda i: (-tight[i], -width[i], -size[i], i),
        lambda i: (-tight[i], -size[i] * width[i], i),
        lambda i: (-len(near[i]), -size[i], i),
        lambda i: (first[i], -size[i], i),
        lambda i: (-last[i], -size[i], i),
        lambda i: (-tight[i], first[i], -size[i]),
        lambda i: (-tight[i], -last[i], -size[i]),
        lambda i: (from_peak(i), -width[i], -size[i]),
        lambda i: (from_peak(i), -size[i], -width[i]),
    ]
    for key in rest:
        yield sorted(n, key=key)


def portfolio(inst: Instance, goal: int, budget: Budget, rounds: int = 30) -> tuple[list[int], int]:
    """The best offsets and height of all orders and restarts; stops at the first height <= `goal`."""
    best: list[int] = []
    height = 1 << 62
    tried: list[Order] = []
    for order in orders(inst):
        tried.append(order)
        offsets = place(inst, order)
        h = top(inst, offsets)
        if h < height:
            best, height = offsets, h
            if h <= goal:
                return best, height
    if inst.plain:
        for order in tried[:4]:
            offsets = place(inst, order, best_fit=True)
            h = top(inst, offsets)
            if h < height:
                best, height = offsets, h
                if h <= goal:
                    return best, height
    chance = random.Random(budget.seed)
    n = len(inst.sizes)
    for order in tried[:7]:
        offsets, h = squeaky_wheel(inst, order, goal, rounds if n < 200 else 8, chance, budget)
        if h < height:
            best, height = offsets, h
        if height <= goal or budget.over:
            break
    return best, height


def squeaky_wheel(
    inst: Instance, order: Order, goal: int, rounds: int, chance: random.Random, budget: Budget
) -> tuple[list[int], int]:
    """The best of some placements, each after moving forward what ended above the goal."""
    n = len(order)
    rank = [0.0] * n
    for k, i in enumerate(order):
        rank[i] = float(k)
    best: list[int] = []
    height = 1 << 62
    order = list(order)
    sizes = inst.sizes
    for _ in range(rounds):
        offsets = place(inst, order)
        h = top(inst, offsets)
        if h < height:
            best, height = offsets, h
        if h <= goal or budget.over:
            break
        for i in range(n):
            if offsets[i] + sizes[i] > goal:
                rank[i] -= n * (0.3 + 0.7 * chance.random())
        order.sort(key=rank.__getitem__)
    return best, height
