# SPDX-License-Identifier: Apache-2.0
"""Hill climbing over placement orders, after TVM's USMP planner, for comparison."""

from __future__ import annotations

import math
import random

from minun_pio.planner.greedy import place
from minun_pio.planner.instance import Answer, Budget, Instance, bound, top

STEPS = 500


def hill_climb(inst: Instance, budget: Budget) -> Answer:
    """Starting by size: a buffer at the top changes places with one that was placed before it and touches it.

    Worse orders are kept with a chance that falls with the root of the step. Stops at the lower bound.
    """
    assert inst.near is not None
    near, n = inst.near, range(len(inst.sizes))
    chance = random.Random(budget.seed)
    order = sorted(n, key=lambda i: (-inst.sizes[i], inst.starts[i], i))
    low = bound(inst)
    offsets = place(inst, order)
    here = best_height = top(inst, offsets)
    best = offsets
    for step in range(1, STEPS + 1):
        if best_height <= max(low, budget.target) or budget.over:
            break
        budget.nodes += 1
        rank = {i: k for k, i in enumerate(order)}
        highest = chance.choice([i for i in n if offsets[i] + inst.sizes[i] == here])
        earlier = [j for j in near[highest] if rank[j] < rank[highest]]
        earlier += [k for j in earlier for k in near[j] if rank[k] < rank[j]]
        other = chance.choice(earlier) if earlier else chance.randrange(len(order))
        trial = list(order)
        a, b = rank[highest], rank[other]
        trial[a], trial[b] = trial[b], trial[a]
        placed = place(inst, trial)
        height = top(inst, placed)
        if height < here or chance.random() < 0.5 * here / max(1, height) / math.sqrt(step):
            order, offsets, here = trial, placed, height
            if height < best_height:
                best, best_height = placed, height
    return Answer(best, best_height, low)
