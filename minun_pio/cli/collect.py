# SPDX-License-Identifier: Apache-2.0
"""`minun collect`: samples to a board, its answers against the host's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from minun_pio.cli.target import ModelFile, board_options, target_of


@click.command()
@click.argument("models", nargs=-1, type=ModelFile())
@click.option("--port", "-p", required=True, help="Serial port, or a virtual board's 'port' link.")
@board_options
@click.option("--samples", "-n", type=click.IntRange(1), help="Only the first so many. Default: all.")
@click.option("--elf", type=click.Path(path_type=Path), help="The linked firmware, for its flash and SRAM.")
@click.option("--name", help="The board's name in the result. Default: the target's.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def collect(
    models: tuple[Path, ...],
    port: str,
    board: str | None,
    core: str | None,
    ram: int | None,
    flash: int | None,
    samples: int | None,
    elf: Path | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Run the evaluation samples of MODELS (default: model.yaml) on the board and compare every code.

    Exit status 1 when a code differs.
    """
    from minun_pio.collecting import collect_model
    from minun_pio.config import read_model

    target = target_of(board, core, ram, flash)
    results = []
    for model in models or (Path("model.yaml"),):
        read_model(model)  # says what is wrong with it before its lock file is asked
        found = collect_model(
            model.absolute(),
            target,
            port,
            board=name or target.name,
            samples=samples,
            elf=elf,
            progress=_progress if sys.stderr.isatty() else None,
        )
        results.append(found)
        if not as_json:
            click.echo(found.line())
    if as_json:
        click.echo(json.dumps({"results": [found.to_json() for found in results]}, indent=1))
    wrong = sum(len(found.wrong) for found in results)
    if wrong:
        raise click.ClickException(f"{wrong} samples have other codes on the board than on the host")


def _progress(done: int, of: int) -> None:
    click.echo(f"\r{done}/{of}", nl=done == of, err=True)
