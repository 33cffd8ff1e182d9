# SPDX-License-Identifier: Apache-2.0
"""Several models that share one arena and never run at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from minun_pio.planner.problem import Alias, Buffer, Problem, Separation, bad


def one_after_the_other(models: Mapping[str, Problem], persistent: Mapping[str, tuple[str, ...]]) -> Problem:
    """One problem whose buffers are `model/buffer`.

    Models run in any order, one at a time: they share all bytes but those of the `persistent` buffers
    (model -> buffer ids), which are live throughout. Capacity and regions must agree.
    """
    buffers: list[Buffer] = []
    separations: list[Separation] = []
    aliases: list[Alias] = []
    length = sum(max((b.end for b in p.buffers), default=0) for p in models.values())
    limits = {(p.capacity, p.regions) for p in models.values()}
    if len(limits) > 1:
        raise bad(
            "models-differ", "models of one arena have different capacities or regions; make them the same"
        )
    begin = 0
    for name, problem in models.items():
        kept = set(persistent.get(name, ()))
        for b in problem.buffers:
            start, end = (0, length) if b.id in kept else (b.start + begin, b.end + begin)
            buffers.append(replace(b, id=f"{name}/{b.id}", start=start, end=end))
        separations += [
            Separation(f"{name}/{s.lower}", f"{name}/{s.upper}", s.distance) for s in problem.separations
        ]
        aliases += [Alias(f"{name}/{a.inner}", f"{name}/{a.outer}", a.at) for a in problem.aliases]
        begin += max((b.end for b in problem.buffers), default=0)
    capacity, regions = limits.pop() if limits else (None, ())
    return Problem(tuple(buffers), capacity, regions, tuple(separations), tuple(aliases))
