# SPDX-License-Identifier: Apache-2.0
"""`minun where`: the folder that C++ builds take."""

from __future__ import annotations

import json

import click

from minun_pio.where import library_dir

PARTS = {
    "library": "",
    "include": "include",
    "cmake": "cmake/MinunPio.cmake",
    "sources": "src",
    "script": "extra_script.py",
}


@click.command()
@click.argument("part", type=click.Choice(list(PARTS)), default="library")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the paths of all parts.")
def where(part: str, as_json: bool) -> None:
    """Print where PART of what C++ builds need lies: the PlatformIO library (default), the headers, the CMake
    function, the sources to compile, or PlatformIO's script. With / on every system."""
    folder = library_dir()
    paths = {name: (folder / relative).as_posix() for name, relative in PARTS.items()}
    click.echo(json.dumps(paths, indent=1) if as_json else paths[part])
