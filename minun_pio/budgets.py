# SPDX-License-Identifier: Apache-2.0
"""Budgets as gates: a build that does not fit stops and says need, have, over by, and what sets the peak."""

from __future__ import annotations

from minun_pio.config.model import Data, ModelConfig
from minun_pio.emit.program import Program
from minun_pio.errors import MinunError


def check_ram(config: ModelConfig, program: Program, budget: int | None) -> None:
    """The arena against the RAM budget (the board's SRAM less the reserve, or as model.yaml says)."""
    need = program.arena.bytes
    if budget is None or need <= budget:
        return
    live = ", ".join(program.arena.certificate_live)
    at = f"step {program.arena.certificate_step}"
    if program.arena.certificate_where:
        at += f" ({program.arena.certificate_where})"
    raise MinunError(
        "budget.ram",
        f"the arena needs {need} B, have {budget} B, over by {need - budget} B; the peak is set at {at} by: "
        f"{live}; lower 'formats', make the network smaller or give it more in 'budgets.ram'",
        config.where("budgets.ram"),
    )


def check_flash(config: ModelConfig, program: Program, budget: int | None) -> None:
    """Constants, tables and the estimated code against the flash budget."""
    need = program.flash.total
    if budget is None or need <= budget:
        return
    largest = sorted(program.constants, key=lambda c: -len(c.data))[:3]
    names = ", ".join(c.comment for c in largest)
    raise MinunError(
        "budget.flash",
        f"flash needs {need} B ({program.flash.constants} constants, {program.flash.tables} tables, about "
        f"{program.flash.code_estimate} code), have {budget} B, over by {need - budget} B; the largest are: "
        f"{names}; lower 'formats' or give it more in 'budgets.flash'",
        config.where("budgets.flash"),
    )


def check_accuracy(config: ModelConfig, host: float, float32: float) -> None:
    """The drop against float32, in points, against `search.tolerated_drop`.

    Not for int8 without data: the scales came with the network, and random codes leave the ranges they fit.
    """
    if config.formats.family == "int8" and config.data == Data():
        return
    drop = 100.0 * (float32 - host)
    tolerated = config.search.tolerated_drop
    if drop <= tolerated + 1e-9:
        return
    raise MinunError(
        "budget.accuracy",
        f"accuracy is {100 * host:.2f} %, float32 has {100 * float32:.2f} %: a drop of {drop:.2f} points, "
        f"{tolerated:g} tolerated, over by {drop - tolerated:.2f}; raise 'formats', the RAM budget or "
        "'search.tolerated_drop'",
        config.where("search.tolerated_drop"),
    )
