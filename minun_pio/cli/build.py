# SPDX-License-Identifier: Apache-2.0
"""`minun build`: the C++ of models, through the lock file, as PlatformIO and CMake get it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from minun_pio.cli.target import ModelFile, board_options, target_of
from minun_pio.generate import generate, locked


@click.command()
@click.argument("models", nargs=-1, type=ModelFile())
@board_options
@click.option("--out", "-o", type=click.Path(path_type=Path), help="Output folder. Default: generated.")
@click.option("--renew", is_flag=True, help="Search again whatever the lock file says.")
@click.option("--locked", "only_locked", is_flag=True, help="Fail where the lock file does not serve.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def build(
    models: tuple[Path, ...],
    board: str | None,
    core: str | None,
    ram: int | None,
    flash: int | None,
    out: Path | None,
    renew: bool,
    only_locked: bool,
    as_json: bool,
) -> None:
    """Make the C++ of MODELS (default: model.yaml) for a board."""
    if renew and only_locked:
        raise click.UsageError("--renew searches, --locked forbids it; give one of them.")
    target = target_of(board, core, ram, flash)
    paths = [path.absolute() for path in models or (Path("model.yaml"),)]
    if only_locked:
        reason = locked(paths, target)
        if reason is not None:
            raise click.ClickException(f"{reason}; run without --locked and check the lock file in")
    folder = (out or Path("generated")).absolute()
    generation = generate(paths, target, folder, renew=renew, say=lambda line: click.echo(line, err=True))
    if as_json:
        outputs = [path.as_posix() for path in generation.outputs]  # CMake wants / on every system
        result = {
            "target": target.key,
            "lines": list(generation.lines),
            "outputs": outputs,
            "inputs": [path.as_posix() for path in generation.inputs if path.is_file()],
            "written": generation.written,
        }
        click.echo(json.dumps(result, indent=1))
        return
    for line in generation.lines:
        click.echo(line)
