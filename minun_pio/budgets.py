# SPDX-License-Identifier: Apache-2.0
"""Budgets as gates: a build that does not fit stops and says need, have, over by, and what sets the peak."""

from __future__ import annotations

from collections.abc import Sequence

from minun_pio.config.model import Data, ModelConfig
from minun_pio.emit.program import Program
from minun_pio.errors import MinunError

LPM_BYTES = 65_536 - 1_024
"""AVR: constants and tables that one firmware can read. `lpm` takes addresses of 16 bits, and the linker lays
constants at the lowest ones, behind vectors and jump tables and beside the core's own: 1 KB is theirs."""

ARRAY_BYTES = 32_767
"""AVR: the largest array that avr-g++ compiles."""


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


def check_reach(programs: Sequence[Program], where: str = "") -> None:
    """AVR: that the models of one firmware can read all of their constants, and that each compiles."""
    programs = [program for program in programs if program.core == "avr"]
    for program in programs:
        arrays = (
            ("arena", program.arena.bytes),
            ("input", program.input_bytes),
            ("output", program.output_bytes),
        )
        for what, size in arrays:
            if size > ARRAY_BYTES:
                raise MinunError(
                    "budget.array",
                    f"model '{program.model}': the {what} takes {size} B, and AVR's compiler takes arrays of "
                    f"{ARRAY_BYTES} B at most; lower 'formats' or make the network smaller",
                    where,
                )
        large = next((c for c in program.constants if c.bytes > ARRAY_BYTES), None)
        if large is not None:
            raise MinunError(
                "budget.array",
                f"model '{program.model}', {large.comment}: {large.bytes} B in one array, and AVR's compiler "
                f"takes {ARRAY_BYTES} B at most; narrow 'formats.high', give 'search.strategy: uniform-low' "
                "or make the layer smaller",
                where,
            )
    need = sum(_lpm_bytes(program) for program in programs)
    if need <= LPM_BYTES:
        return
    largest = sorted((c for program in programs for c in program.constants), key=lambda c: -c.bytes)[:3]
    needed, advice = f"{need} B of flash", "make the network smaller"
    if len(programs) > 1:
        needed += f" ({', '.join(f'{program.model} {_lpm_bytes(program)} B' for program in programs)})"
        advice = "'budgets.flash', or give the models firmwares of their own"
    raise MinunError(
        "budget.lpm",
        f"constants and tables need {needed}, AVR's lpm instruction reads {LPM_BYTES} B (the first 64 KB "
        f"less 1 KB for vectors and the core), over by {need - LPM_BYTES} B; the largest are: "
        f"{', '.join(c.comment for c in largest)}; lower 'formats' or {advice}",
        where,
    )


def _lpm_bytes(program: Program) -> int:
    return sum(constant.bytes for constant in program.constants if constant.in_flash)


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
