# SPDX-License-Identifier: Apache-2.0
"""`minun report`: what was decided for a model and why, from its lock file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from minun_pio.cli.target import ModelFile, board_options, target_of


@click.command()
@click.argument("models", nargs=-1, type=ModelFile())
@board_options
@click.option("--out", "-o", type=click.Path(path_type=Path), help="Folder for report.html and report.json.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def report(
    models: tuple[Path, ...],
    board: str | None,
    core: str | None,
    ram: int | None,
    flash: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Show formats, arena, flash and the search's trail of MODELS (default: model.yaml)."""
    from minun_pio.config import read_model
    from minun_pio.report.locked import locked_model, model_json, report_files
    from minun_pio.report.text import details

    target = target_of(board, core, ram, flash)
    paths = [path.absolute() for path in models or (Path("model.yaml"),)]
    for path in paths:
        read_model(path)  # says what is wrong with it before its lock file is asked
    written = report_files(paths, target, out) if out is not None else []
    if as_json:
        entries = [model_json(*locked_model(path, target)) for path in paths]
        click.echo(json.dumps({"target": target.key, "models": entries}, indent=1, sort_keys=True))
        return
    for path in () if written and out is not None else paths:
        written += [""] if written else []  # between two models
        written += details(*locked_model(path, target))
    for line in written:
        click.echo(line)
