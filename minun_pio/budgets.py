# SPDX-License-Identifier: Apache-2.0
"""Budgets as gates: a build that does not fit stops and says need, have, over by, and what sets the peak."""

from __future__ import annotations

from minun_pio.config.model import Data, ModelConfig
from minun_pio.emit.program import Program
from minun_pio.errors import MinunError


def check_ram(
    config: ModelConfig, program: Program, budget: int | None, board_bytes: int | None = None
) -> None:
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
        f"the arena needs {need} B, have {_have(budget, board_bytes, config.budgets.ram)}, over by "
        f"{need - budget} B; the peak is set at {at} by: {live}; lower 'formats', make the network smaller "
        "or give it more in 'budgets.ram'",
        config.where("budgets.ram"),
    )


def check_flash(
    config: ModelConfig, program: Program, budget: int | None, board_bytes: int | None = None
) -> None:
    """Constants, tables and the estimated code against the flash budget."""
    need = program.flash.total
    if budget is None or need <= budget:
        return
    largest = sorted(program.constants, key=lambda c: -len(c.data))[:3]
    names = ", ".join(c.comment for c in largest)
    raise MinunError(
        "budget.flash",
        f"flash needs {need} B ({program.flash.constants} constants, {program.flash.tables} tables, about "
        f"{program.flash.code_estimate} code), have {_have(budget, board_bytes, config.budgets.flash)}, over "
        f"by {need - budget} B; the largest are: {names}; lower 'formats' or give it more in 'budgets.flash'",
        config.where("budgets.flash"),
    )


def _have(budget: int, board_bytes: int | None, stated: int | None) -> str:
    """The budget, and where it comes from when model.yaml does not say it."""
    if board_bytes is None or stated == budget:
        return f"{budget} B"
    if stated is not None:
        return f"{budget} B (all that the board has)"
    return f"{budget} B (the board's {board_bytes} B less a reserve of {board_bytes - budget} B)"


def check_accuracy(config: ModelConfig, host: float, float32: float, labelled: bool = True) -> None:
    """The drop against float32, in points, against `search.tolerated_drop`.

    Not for int8 without data: the scales came with the network, and random codes leave the ranges they fit.
    """
    if config.formats.family == "int8" and config.data == Data():
        return
    drop = 100.0 * (float32 - host)
    tolerated = config.search.tolerated_drop
    if drop <= tolerated + 1e-9:
        return
    measured = (
        f"accuracy is {100 * host:.2f} %, float32 has {100 * float32:.2f} %"
        if labelled
        else f"agreement with float32 is {100 * host:.2f} %"
    )
    raise MinunError(
        "budget.accuracy",
        f"{measured}: a drop of {drop:.2f} points, {tolerated:g} tolerated, over by "
        f"{drop - tolerated:.2f}; raise 'formats', the RAM or flash budget or "
        "'search.tolerated_drop'",
        config.where("search.tolerated_drop"),
    )
