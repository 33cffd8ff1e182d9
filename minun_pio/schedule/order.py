# SPDX-License-Identifier: Apache-2.0
"""A schedule in another order, its steps numbered anew and its live ranges taken again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minun_pio.schedule.model import Buffer, CallStep, CopyStep, LoopStep, Schedule, Step


def reordered(schedule: Schedule, order: Sequence[int]) -> Schedule:
    """The schedule with its steps in `order`, a permutation of their indices. Loops move as one."""
    rank = {index: k for k, index in enumerate(order)}
    steps = tuple(sorted(schedule.steps, key=lambda step: min(rank[i] for i in _indices(step))))
    clock = iter(range(schedule.length))

    def numbered(step: Step) -> Step:
        if isinstance(step, LoopStep):
            return replace(step, body=tuple(numbered(s) for s in step.body))
        return replace(step, index=next(clock))

    steps = tuple(numbered(step) for step in steps)
    ranges = live_ranges(steps)
    buffers = tuple(_moved(b, ranges.get(b.id)) for b in schedule.buffers)
    return replace(schedule, steps=steps, buffers=buffers)


def _moved(buffer: Buffer, found: tuple[int, int] | None) -> Buffer:
    return buffer if found is None else replace(buffer, start=found[0], end=found[1])


def _indices(step: Step) -> list[int]:
    if isinstance(step, LoopStep):
        return [i for inner in step.body for i in _indices(inner)]
    return [step.index]


def live_ranges(steps: Sequence[Step]) -> dict[str, tuple[int, int]]:
    """The half-open range of steps each buffer is live in.

    From the first to the last step that touches it; what is touched inside a loop and also outside is live
    through all of the loop.
    """
    touched: dict[str, list[int]] = {}
    for step in _leaves(steps):
        for name in _buffers(step):
            touched.setdefault(name, []).append(step.index)
    ranges = {name: (min(at), max(at) + 1) for name, at in touched.items()}
    for indices in _loops(steps):
        first, last = min(indices), max(indices) + 1
        for name, at in touched.items():
            inside = [i for i in at if first <= i < last]
            if inside and len(inside) < len(at):
                start, end = ranges[name]
                ranges[name] = (min(start, first), max(end, last))
    return ranges


def _leaves(steps: Sequence[Step]) -> list[CallStep | CopyStep]:
    found: list[CallStep | CopyStep] = []
    for step in steps:
        found += _leaves(step.body) if isinstance(step, LoopStep) else [step]
    return found


def _loops(steps: Sequence[Step]) -> list[list[int]]:
    found: list[list[int]] = []
    for step in steps:
        if isinstance(step, LoopStep):
            found += [_indices(step), *_loops(step.body)]
    return found


def _buffers(step: CallStep | CopyStep) -> list[str]:
    if isinstance(step, CopyStep):
        places = [step.source, step.target]
    else:
        places = [*(p for p in step.inputs if p is not None), *step.outputs]
    names = [p.buffer for p in places if p.kind == "arena"]
    return names if isinstance(step, CopyStep) or step.scratch is None else [*names, step.scratch]
