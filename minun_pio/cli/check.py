# SPDX-License-Identifier: Apache-2.0
"""`minun check`: a linked firmware, as CMake checks it after linking for an AVR."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.argument("image", type=click.Path(path_type=Path))
@click.option(
    "--models",
    "-m",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder that `minun build` wrote the firmware's models into. Default: generated.",
)
@click.option("--no-heap", is_flag=True, help="Fail where a heap function was linked in.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(image: Path, folder: Path | None, no_heap: bool, as_json: bool) -> None:
    """Check the linked firmware IMAGE (ELF): on AVR, that the models' constants lie where lpm reads them."""
    from minun_pio.emit.link_check import LPM_END, check_no_heap, check_reach, read_image
    from minun_pio.generate import models_in

    found = check_no_heap(image) if no_heap else read_image(image)
    models = models_in(folder or Path("generated"))
    beyond = check_reach(image, models)
    if as_json:
        sizes = {"flash_bytes": found.flash_bytes, "sram_bytes": found.sram_bytes}
        click.echo(json.dumps({**sizes, "models": models, "heap": found.heap, "beyond": beyond}, indent=1))
        return
    click.echo(f"{image.name}: flash {found.flash_bytes} B, static SRAM {found.sram_bytes} B")
    if beyond:
        click.echo(
            f"note: {len(beyond)} other constants in program memory end beyond {LPM_END} B, the first is "
            f"{beyond[0]}: pgm_read_byte does not reach them"
        )
