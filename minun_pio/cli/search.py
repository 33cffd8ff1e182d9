# SPDX-License-Identifier: Apache-2.0
"""`minun search`: what the strategies find, candidate by candidate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tabulate import tabulate

from minun_pio.cli.target import ModelFile, board_options, target_of
from minun_pio.config.model import STRATEGIES
from minun_pio.heartbeat import heartbeat

if TYPE_CHECKING:  # a search imports numpy; --help does not
    from minun_pio.search.space import Limits, Outcome


@click.command()
@click.argument("model", default="model.yaml", type=ModelFile())
@board_options
@click.option(
    "--strategy",
    "-s",
    "strategies",
    multiple=True,
    type=click.Choice(STRATEGIES),
    help="In place of model.yaml's; repeat it to compare several.",
)
@click.option(
    "--limit", type=click.IntRange(0), help="Arena bytes the search may use, in place of model.yaml's."
)
@click.option("--trail", is_flag=True, help="Every candidate, not only the one chosen.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, the trail in it.")
def search(
    model: Path,
    board: str | None,
    core: str | None,
    ram: int | None,
    flash: int | None,
    strategies: tuple[str, ...],
    limit: int | None,
    trail: bool,
    as_json: bool,
) -> None:
    """Search number formats for MODEL (default: model.yaml) and show what was found.

    Accuracies are on the calibration samples. 'high' counts the groups of tensors that got the high format.
    'flash B' is constants, tables and an estimate of the code, as the build counts it; 'fits' says whether
    arena and flash are within the limits. Cycles (AVR) and instructions are a rough estimate. The lock file
    is not touched: `minun build --renew` keeps what it finds.
    """
    from minun_pio.evaluating import search_model

    target = target_of(board, core, ram, flash)
    with heartbeat(lambda line: click.echo(line, err=True), model.name) as tell:
        config, _, outcomes = search_model(model.absolute(), target, strategies, limit, tell)
    if as_json:
        result = {"model": config.name, "target": target.key, "outcomes": [o.to_json() for o in outcomes]}
        click.echo(json.dumps(result, indent=1))
        return
    unit = "cycles" if target.core == "avr" else "instructions"
    for outcome in outcomes:
        candidates = outcome.candidates if trail else ()
        if candidates:
            click.echo(f"{outcome.strategy}:")
        for candidate in candidates:
            measured = "" if candidate.accuracy is None else f", {100 * candidate.accuracy:.2f} %"
            over = "" if candidate.fits else ", over the limit"
            soft = "" if candidate.soft_limit is None else f" at {candidate.soft_limit:g} of the limit"
            click.echo(
                f"  {candidate.origin}{soft}: {len(candidate.promoted)} high, arena {candidate.ram_bytes} B, "
                f"flash {candidate.flash_bytes} B, about {candidate.estimated_count:,} {unit}{measured}{over}"
            )
    rows = [
        [
            outcome.strategy,
            outcome.low if outcome.low == outcome.high else f"{outcome.low} / {outcome.high}",
            "-" if outcome.low == outcome.high else len(outcome.promoted),
            f"{100 * outcome.accuracy:.2f}",
            outcome.ram_bytes,
            outcome.flash_bytes,
            f"{outcome.estimated_count:,}",
            _fits(outcome),
            outcome.evaluations,
        ]
        for outcome in outcomes
    ]
    word = "accuracy %" if all(outcome.labelled for outcome in outcomes) else "agreement %"
    click.echo(f"{config.name} for {target.name}, on the calibration samples{_limits(outcomes[0].limits)}")
    headers = ["strategy", "formats", "high", word, "arena B", "flash B", f"about {unit}", "fits"]
    headers.append("simulations")
    right = ("left", "left", *["right"] * 5, "left", "right")
    click.echo(tabulate(rows, headers=headers, disable_numparse=True, colalign=right))
    for note in dict.fromkeys(note for outcome in outcomes for note in outcome.notes):
        click.echo(note)


def _limits(limits: Limits) -> str:
    """What the model may use, the reserve for the rest of the firmware taken off."""
    sizes = (("arena", limits.ram), ("flash", limits.flash))
    known = [f"{what} {size} B" for what, size in sizes if size is not None]
    return f"; within {' and '.join(known)}" if known else ""


def _fits(outcome: Outcome) -> str:
    over = outcome.limits.over(outcome.ram_bytes, outcome.flash_bytes)
    reasons = [f"{what} over by {by} B" for what, by in zip(("arena", "flash"), over, strict=True) if by]
    if not reasons and not outcome.fits:
        reasons = ["more constants than AVR reads"]
    return f"no, {' and '.join(reasons)}" if reasons else "yes"
