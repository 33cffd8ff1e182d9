# SPDX-License-Identifier: Apache-2.0
"""Calls whose kernel has a variant with little scratch: exchanged where scratch is what sets the peak."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from minun_pio.schedule.model import Buffer, CallStep, LoopStep, Schedule, Step
from minun_pio.schedule.traits import TraitsOf


def with_small_scratch(schedule: Schedule, indices: Set[int], traits_of: TraitsOf) -> Schedule | None:
    """The schedule with the small variants of the calls of these indices; None when none of them has one."""
    smaller: dict[int, CallStep] = {}
    for step in schedule.calls():
        if step.index in indices and step.scratch is not None and not step.binding.small_scratch:
            binding = replace(step.binding, small_scratch=True)
            traits = traits_of(step.prefix, binding)
            if traits.scratch_bytes < step.traits.scratch_bytes:
                scratch = step.scratch if traits.scratch_bytes else None
                smaller[step.index] = replace(step, binding=binding, traits=traits, scratch=scratch)
    if not smaller:
        return None
    sizes = {step.scratch: smaller[step.index].traits for step in schedule.calls() if step.index in smaller}

    def resized(buffer: Buffer) -> Buffer:
        traits = sizes.get(buffer.id)
        if traits is None:
            return buffer
        return replace(buffer, size=traits.scratch_bytes, align=traits.scratch_align)

    def exchanged(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        found: list[Step] = []
        for step in steps:
            if isinstance(step, LoopStep):
                found.append(replace(step, body=exchanged(step.body)))
            elif isinstance(step, CallStep):
                found.append(smaller.get(step.index, step))
            else:
                found.append(step)
        return tuple(found)

    buffers = tuple(b for b in map(resized, schedule.buffers) if b.size or b.id not in sizes)
    return replace(schedule, steps=exchanged(schedule.steps), buffers=buffers)
