# SPDX-License-Identifier: Apache-2.0
"""`minun evaluate`: a model's accuracy by exact simulation, its formats beside uniform ones and float32."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from minun_pio.cli.target import ModelFile, board_options, target_of
from minun_pio.lock import find
from minun_pio.report.text import noisiest, slow_path


@click.command()
@click.argument("model", default="model.yaml", type=ModelFile())
@board_options
@click.option("--layers", is_flag=True, help="Where accuracy is lost: every tensor's noise.")
@click.option(
    "--formats", help="With --layers: formats of the table that this prints without. Default: locked."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def evaluate(
    model: Path,
    board: str | None,
    core: str | None,
    ram: int | None,
    flash: int | None,
    layers: bool,
    formats: str | None,
    as_json: bool,
) -> None:
    """Measure MODEL (default: model.yaml) on its evaluation samples, exactly as the board computes.

    'flash B' is constants, tables and an estimate of the code.
    """
    from minun_pio.evaluating import evaluate_model, noise_of_model

    target = target_of(board, core, ram, flash)
    locked = find(model.absolute(), target.key)
    if formats is not None and not layers:
        raise click.UsageError("--formats chooses what --layers shows; add --layers.")
    if layers:
        _print_noise(noise_of_model(model.absolute(), target, locked, formats), as_json)
        return
    found = evaluate_model(model.absolute(), target, locked.entry)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    word = "accuracy %" if found["labelled"] else "agreement %"
    rows: list[list[Any]] = [
        [row["formats"], f"{100 * row['accuracy']:.2f}", row["arena_bytes"], row["flash_bytes"]]
        for row in found["rows"]
    ]
    samples = (
        f"{found['samples']} random samples: no 'data' in model.yaml"
        if found["random"]
        else (f"{found['samples']} samples")
    )
    click.echo(f"{found['model']} for {target.name}: {samples}")
    click.echo(tabulate(rows, headers=["formats", word, "arena B", "flash B"], disable_numparse=True))
    if locked.entry is None:
        click.echo(f"{locked.reason}: `minun build` for {target.name} adds the row of the formats searched")
    if found["slow_path"]:
        click.echo("\n".join(slow_path(found["slow_path"])))


def _print_noise(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    click.echo(f"{found['model']}: {found['formats']}, {found['samples']} samples; signal to noise in dB")
    headers = ["tensor", "format", "role", "least", "greatest", "own", "total", "clipped %", "to zero %"]
    rows = [
        [
            row["tensor"],
            row["format"],
            row["role"],
            f"{row['low']:.3g}",
            f"{row['high']:.3g}",
            _decibels(row["own_db"]),
            _decibels(row["total_db"]),
            *(f"{100 * row[share]:.2f}" if row[share] else "" for share in ("clipped", "zeroed")),
        ]
        for row in found["tensors"]
    ]
    right = ("left",) * 3 + ("right",) * 6
    click.echo(tabulate(rows, headers=headers, disable_numparse=True, colalign=right))
    click.echo("\n".join(noisiest(found["tensors"])))


def _decibels(ratio: float | str | None) -> str:
    return "" if ratio is None else ratio if isinstance(ratio, str) else f"{ratio:.1f}"
