# SPDX-License-Identifier: Apache-2.0
"""OR-tools' CP-SAT as an optional planner: slow on these problems, but it proves heights above the bound."""

from __future__ import annotations

from minun_pio.errors import missing_extra
from minun_pio.planner.exact import solve
from minun_pio.planner.instance import Answer, Budget, Instance, bound, top
from minun_pio.planner.problem import bad


def cp_sat(inst: Instance, budget: Budget) -> Answer:
    """The least height by CP-SAT, beginning with the exact planner's greedy plan. One worker, fixed seed."""
    if inst.gaps:
        raise bad("overlaps", "planner 'cp-sat' knows no overlaps; use 'exact'")
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise missing_extra("ortools", "planner 'cp-sat'") from None
    low = bound(inst)
    first = solve(
        inst, Budget(deadline=budget.clock(), target=budget.target, seed=budget.seed, clock=budget.clock)
    )
    if first.height <= max(low, budget.target):
        return first
    model = cp_model.CpModel()
    limit = first.height
    height = model.NewIntVar(low, limit, "height")
    times, places, at = [], [], []
    for i, size in enumerate(inst.sizes):
        if inst.pin[i] is not None:
            o = model.NewConstant(inst.pin[i])
        else:
            slot = model.NewIntVar(0, (limit - size) // inst.align[i], f"o{i}")
            o = slot * inst.align[i]
            model.AddHint(slot, first.offsets[i] // inst.align[i])
        end = model.NewIntVar(0, limit, f"e{i}")
        model.Add(o + size == end)
        model.Add(end <= height)
        at.append(o)
        width = inst.last[i] - inst.first[i]
        times.append(model.NewFixedSizeIntervalVar(inst.first[i], width, f"t{i}"))
        places.append(model.NewIntervalVar(o, size, end, f"p{i}"))
    model.AddNoOverlap2D(times, places)
    model.Minimize(height)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = budget.seed
    solver.parameters.max_time_in_seconds = max(0.01, budget.deadline - budget.clock())
    outcome = solver.Solve(model)
    proven = max(low, int(solver.BestObjectiveBound() + 0.5)) if outcome != cp_model.UNKNOWN else low
    if outcome not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer(first.offsets, first.height, low)
    offsets = [int(solver.Value(o)) for o in at]
    return Answer(offsets, top(inst, offsets), proven)
