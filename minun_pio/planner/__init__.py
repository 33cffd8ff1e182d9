# SPDX-License-Identifier: Apache-2.0
"""Memory planning: places for buffers in one arena, proven optimal wherever that is possible.

    from minun_pio.planner import Buffer, Problem, plan
    answer = plan(Problem((Buffer("a", 0, 2, 64), Buffer("b", 1, 3, 32))))
    answer.height, answer.offsets["b"], answer.status

Pure Python, no numpy; knows buffers, not networks. `memory_graph` and `arena` decide, above it, which
buffers may share bytes.
"""

from __future__ import annotations

from minun_pio.planner.models import one_after_the_other
from minun_pio.planner.planners import PLANNERS, plan
from minun_pio.planner.problem import (
    ARENA,
    Alias,
    Buffer,
    Certificate,
    Plan,
    Problem,
    Region,
    Separation,
)
from minun_pio.planner.validate import violations

__all__ = [
    "ARENA",
    "PLANNERS",
    "Alias",
    "Buffer",
    "Certificate",
    "Plan",
    "Problem",
    "Region",
    "Separation",
    "one_after_the_other",
    "plan",
    "violations",
]
