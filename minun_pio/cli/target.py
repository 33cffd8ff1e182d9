# SPDX-License-Identifier: Apache-2.0
"""The options by which a command is told its board, the same for all commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from minun_pio.board.target import CORES, KNOWN, Target, from_manifest
from minun_pio.config.fields import nearest
from minun_pio.errors import MinunError

Command = TypeVar("Command", bound=Callable[..., Any])


class ModelFile(click.Path):
    """A model.yaml, or the folder that holds one."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = super().convert(value, param, ctx)
        assert isinstance(path, Path)
        return path / "model.yaml" if path.is_dir() else path


def board_options(command: Command) -> Command:
    """Adds --board, --core, --ram and --flash; `target_of` reads them."""
    for option in (
        click.option("--flash", "flash", type=click.IntRange(0), help="Bytes of flash of a board not named."),
        click.option("--ram", "ram", type=click.IntRange(0), help="Bytes of SRAM of a board not named."),
        click.option("--core", type=click.Choice(CORES), help="Core of a board not named."),
        click.option(
            "--board",
            "-b",
            help=f"A board ({', '.join(KNOWN)}) or a PlatformIO board manifest (.json). Default: host.",
        ),
    ):
        command = option(command)
    return command


def target_of(board: str | None, core: str | None, ram: int | None, flash: int | None) -> Target:
    """The target that the options name. Raises MinunError on an unknown board."""
    found = _named(board) if board else KNOWN["host"]
    if core is None and ram is None and flash is None:
        return found
    return Target(
        found.name if board else (core or "host"),
        core or found.core,
        found.ram_bytes if ram is None else ram,
        found.flash_bytes if flash is None else flash,
    )


def _named(board: str) -> Target:
    if board.endswith(".json"):
        path = Path(board)
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            if not manifest["build"] or not manifest["upload"]:
                raise ValueError
            return from_manifest(path.stem, manifest)
        except FileNotFoundError:
            raise MinunError(
                "board.manifest", "no such file; --board takes a board manifest", board
            ) from None
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            raise MinunError("board.manifest", "not a PlatformIO board manifest", board) from None
    real = "host" if board == "native" else board.removesuffix("_sim")  # a virtual board is as its model
    if real not in KNOWN:
        near = nearest(board, KNOWN)
        hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(KNOWN)}."
        raise MinunError("board.unknown", f"no board '{board}'; {hint} Others: --core, --ram, --flash")
    return replace(KNOWN[real], name=board)
