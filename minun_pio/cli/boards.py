# SPDX-License-Identifier: Apache-2.0
"""`minun boards`: which boards there are, and the virtual ones that run."""

from __future__ import annotations

import json
from pathlib import Path

import click
from tabulate import tabulate

from minun_pio.board.target import KNOWN
from minun_pio.errors import MinunError


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def boards(ctx: click.Context, as_json: bool) -> None:
    """List the boards known by name; start and stop virtual ones."""
    if ctx.invoked_subcommand is not None:
        return
    rows = [
        {"board": name, "core": target.core, "ram_bytes": target.ram_bytes, "flash_bytes": target.flash_bytes}
        for name, target in KNOWN.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    click.echo(tabulate(rows, headers="keys", missingval="any"))
    click.echo("Under PlatformIO any board serves: its sizes come from the board's manifest.")


@boards.command()
@click.argument("board")
@click.argument("firmware", type=click.Path(path_type=Path))
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where its port goes. Default: .pio/minun/BOARD."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def start(board: str, firmware: Path, folder: Path | None, as_json: bool) -> None:
    """Start a virtual BOARD (uno_sim, due_sim, stm32h747_sim, native) with FIRMWARE."""
    from minun_pio.board import virtual

    place = folder or virtual.board_dir(Path.cwd(), board)
    started = virtual.start(board, firmware, place)
    if as_json:
        click.echo(json.dumps({"board": started.board, "pid": started.pid, "port": started.port}, indent=1))
    else:
        click.echo(f"{started.board} is running (pid {started.pid}), port {started.port}")


@boards.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option("--everywhere", is_flag=True, help="Every virtual board of this user.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stop(folders: tuple[Path, ...], everywhere: bool, as_json: bool) -> None:
    """Stop the virtual boards of a project (default: this folder's)."""
    from minun_pio.board import virtual

    stopped: list[str] = []
    if everywhere:
        stopped = [str(board.folder) for board in virtual.all_running() if virtual.stop(board.folder)]
    else:
        for project in folders or (Path.cwd(),):
            if not project.is_dir():
                raise MinunError("file.missing", "no such folder; name the firmware project's", str(project))
            for place in _places(project):
                if virtual.stop(place):
                    stopped.append(str(place))
    if as_json:
        click.echo(json.dumps({"stopped": stopped}, indent=1))
        return
    for name in stopped:
        click.echo(f"stopped {name}")
    if not stopped:
        click.echo("no virtual board was running")


@boards.command()
@click.argument("environment")
@click.option("--project", type=click.Path(path_type=Path), default=Path(), help="The firmware project.")
def reset(environment: str, project: Path) -> None:
    """Press the reset button of the virtual board of an ENVIRONMENT; its port stays."""
    from minun_pio.board import virtual

    virtual.reset(virtual.board_dir(project, environment))
    click.echo(f"{environment} was reset")


def _places(project: Path) -> list[Path]:
    """The board folders of a project, or the folder itself when it is one."""
    from minun_pio.board import virtual

    if (project / "board.json").is_file():
        return [project]
    root = virtual.board_dir(project, "x").parent
    return sorted(path for path in root.glob("*") if path.is_dir())
