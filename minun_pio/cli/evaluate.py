# SPDX-License-Identifier: Apache-2.0
"""`minun evaluate`: a model's accuracy by exact simulation, its formats beside uniform ones and float32."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from minun_pio.cli.target import board_options, target_of
from minun_pio.lock import find
from minun_pio.report.text import slow_path


@click.command()
@click.argument("model", default="model.yaml", type=click.Path(path_type=Path))
@board_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def evaluate(
    model: Path, board: str | None, core: str | None, ram: int | None, flash: int | None, as_json: bool
) -> None:
    """Measure MODEL (default: model.yaml) on its evaluation samples, exactly as the board computes."""
    from minun_pio.evaluating import evaluate_model

    target = target_of(board, core, ram, flash)
    found = evaluate_model(model.absolute(), target, find(model.absolute(), target.key).entry)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    word = "accuracy %" if found["labelled"] else "agreement %"
    rows: list[list[Any]] = [
        [row["formats"], f"{100 * row['accuracy']:.2f}", row["arena_bytes"], row["constant_bytes"]]
        for row in found["rows"]
    ]
    click.echo(f"{found['model']}: {found['samples']} samples")
    click.echo(tabulate(rows, headers=["formats", word, "arena B", "constants B"], disable_numparse=True))
    if found["slow_path"]:
        click.echo("\n".join(slow_path(found["slow_path"])))
