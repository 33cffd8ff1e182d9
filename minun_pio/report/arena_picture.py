# SPDX-License-Identifier: Apache-2.0
"""A program's arena as an SVG, drawn by the planner's own picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from minun_pio.emit.program import Arena
from minun_pio.planner import ARENA, Buffer, Certificate, Plan, Problem
from minun_pio.planner.drawing import svg
from minun_pio.planner.problem import Status


def arena_svg(arena: Arena, step_names: Sequence[str] = ()) -> str:
    """Time across, bytes up, a rectangle a buffer; `step_names` label the steps."""
    buffers = tuple(Buffer(row.name, row.start, row.end, row.size) for row in arena.rows)
    plan = Plan(
        offsets={row.name: row.offset for row in arena.rows},
        regions={row.name: ARENA for row in arena.rows},
        heights={ARENA: arena.bytes},
        height=arena.bytes,
        lower_bound=arena.lower_bound,
        proven=arena.lower_bound,
        certificate=Certificate(arena.certificate_step, arena.certificate_live, arena.lower_bound),
        status=cast(Status, arena.status),
        planner=arena.planner,
    )
    return svg(Problem(buffers), plan, "Arena", step_names)
