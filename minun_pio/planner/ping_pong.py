# SPDX-License-Identifier: Apache-2.0
"""Ping-pong, for comparison: two stacks, each buffer in the one that its largest live neighbour is not in."""

from __future__ import annotations

from math import lcm

from minun_pio.planner.greedy import place_general
from minun_pio.planner.instance import Answer, Budget, Instance, bound, part, top
from minun_pio.planner.problem import bad


def ping_pong(inst: Instance, budget: Budget) -> Answer:
    """Buffers in the order of birth. Refuses pinned buffers."""
    assert inst.near is not None
    if any(p is not None for p in inst.pin):
        raise bad("pinned", "planner 'ping-pong' knows no pinned offsets; use another planner")
    n = range(len(inst.sizes))
    side = [-1] * len(n)
    for i in sorted(n, key=lambda i: (inst.starts[i], i)):
        beside = [j for j in inst.near[i] if side[j] >= 0]
        side[i] = 1 - side[max(beside, key=lambda j: inst.sizes[j])] if beside else 0
    offsets, base = [0] * len(n), 0
    for s in (0, 1):
        group = [i for i in n if side[i] == s]
        if not group:
            continue
        stack = part(inst, group)
        placed = place_general(stack, sorted(range(len(group)), key=lambda k: (stack.starts[k], k)))
        for i, at in zip(group, placed, strict=True):
            offsets[i] = base + at
        unit = lcm(*inst.align)
        base = -(-top(stack, placed) // unit) * unit
    return Answer(offsets, top(inst, offsets), bound(inst))
