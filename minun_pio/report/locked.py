# SPDX-License-Identifier: Apache-2.0
"""Reports of what the lock file holds: no search, no data, no numpy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minun_pio.board.target import Target
from minun_pio.emit.program import Program, from_json
from minun_pio.errors import MinunError
from minun_pio.filelock import write_whole
from minun_pio.lock import find
from minun_pio.report.banks import banks_of
from minun_pio.report.html import model_sections, page
from minun_pio.report.text import details


def locked_model(model: Path, target: Target) -> tuple[Program, Mapping[str, Any]]:
    """Program and summary of a model for a target, the board's banks that hold the arena as `banks`.

    Raises MinunError when the lock does not serve.
    """
    found = find(model, target.key)
    if found.entry is None:
        raise MinunError("lock.stale", f"{found.reason}; build the model for {target.name} first", model.name)
    program, summary = from_json(found.entry.program), found.entry.summary
    banks = banks_of(program.arena.bytes, target)
    return program, summary if banks is None else {**summary, "banks": banks}


def model_json(program: Program, summary: Mapping[str, Any]) -> dict[str, Any]:
    """The summary with the arena's rows and the build's hash: what `minun report --json` prints."""
    rows = [
        {"buffer": r.name, "offset": r.offset, "bytes": r.size, "start": r.start, "end": r.end}
        for r in program.arena.rows
    ]
    return {
        **summary,
        "build_hash": f"{program.build_hash:08x}",
        "arena": {**summary.get("arena", {}), "buffers": rows},
        "input_bytes": program.input_bytes,
        "output_bytes": program.output_bytes,
    }


def report_files(models: Sequence[Path], target: Target, folder: Path) -> list[str]:
    """Writes `report.html` and `report.json` about the models; returns the lines to print."""
    lines: list[str] = []
    sections: list[str] = []
    entries: list[dict[str, Any]] = []
    for model in models:
        program, summary = locked_model(Path(model), target)
        lines += [*details(program, summary), ""]
        sections += model_sections(program, summary)
        entries.append(model_json(program, summary))
    folder.mkdir(parents=True, exist_ok=True)
    names = ", ".join(str(entry["model"]) for entry in entries)
    write_whole(folder / "report.html", page(f"{names} on {target.name}", sections).encode())
    text = json.dumps({"target": target.key, "models": entries}, indent=1, sort_keys=True) + "\n"
    write_whole(folder / "report.json", text.encode())
    return [*lines, f"report: {folder / 'report.html'}"]
