# SPDX-License-Identifier: Apache-2.0
"""The quickstart on three virtual boards, as a user does it: upload, then collect over the serial port.

Ends with a table and build/demo/report.json and report.html. Exit status 1 when a board's answer differs from
the host's in any bit. Run by `make demo`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tabulate import tabulate

from minun_pio.answers import locked_entry
from minun_pio.board import virtual
from minun_pio.board.target import Target, from_manifest
from minun_pio.collecting import collect_model
from minun_pio.emit.program import from_json
from minun_pio.errors import MinunError
from minun_pio.report.demo import HEAD, BoardResult, Latency, results_rows, write_demo

ROOT = Path(__file__).resolve().parents[1]
BOARDS = ("uno_sim", "due_sim", "stm32h747_sim")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, default=ROOT / "examples" / "digits")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "demo")
    parser.add_argument("--samples", type=int, help="only the first so many; default: the whole test split")
    options = parser.parse_args()
    project = options.project.resolve()
    results: list[BoardResult] = []
    models: dict[str, tuple[Any, Any]] = {}
    try:
        environments = [word for board in BOARDS for word in ("-e", board)]
        pio = [sys.executable, "-m", "platformio", "run", *environments, "-t", "upload"]
        if subprocess.call(pio, cwd=project) != 0:
            print("demo: the build or the upload failed, see above", file=sys.stderr)
            return 1
        for board in BOARDS:
            for model in project_models(project, board):
                target = board_target(board)
                print(f"Collecting {model.parent.name} on {board} ...", flush=True)
                results.append(on_board(project, board, model, target, options.samples))
                entry = locked_entry(model, target)
                program = from_json(entry.program)
                models[program.model] = (program, entry.summary)
    except MinunError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    finally:
        for board in BOARDS:
            virtual.stop(virtual.board_dir(project, board))
    written = write_demo(results, options.out, list(models.values()))
    print(tabulate(results_rows(results), headers=HEAD, disable_numparse=True))
    print("Cycles are simavr's, instructions are QEMU's: emulated, not measured on hardware.")
    print("Reports:", ", ".join(os.path.relpath(path) for path in written))
    wrong = sum(result.mismatches for result in results)
    if wrong:
        print(f"demo: {wrong} answers of the boards differ from the host's", file=sys.stderr)
    return 1 if wrong else 0


def board_target(board: str) -> Target:
    """The board as the plugin sees it: from the platform's manifest."""
    manifest = json.loads((ROOT / "virtual" / "boards" / f"{board}.json").read_text(encoding="utf-8"))
    return from_manifest(board, manifest)


def project_models(project: Path, environment: str) -> list[Path]:
    """The models that platformio.ini names for an environment."""
    from platformio.project.config import ProjectConfig

    config = ProjectConfig(str(project / "platformio.ini"))
    named = config.get(f"env:{environment}", "custom_minun_model", "model.yaml")
    lines = named if isinstance(named, list) else str(named).splitlines()
    return [project / line.strip() for line in lines if line.strip()]


def on_board(project: Path, board: str, model: Path, target: Target, samples: int | None) -> BoardResult:
    """One row: every sample of a model's evaluation data through the board that runs."""
    port = virtual.board_dir(project, board) / "port"
    elf = project / ".pio" / "build" / board / "firmware.elf"
    found = collect_model(model, target, str(port), board=board, samples=samples, elf=elf).to_json()
    return BoardResult(
        **{key: found[key] for key in BoardResult.__dataclass_fields__ if key != "latency"},
        latency=Latency(**found["latency"]),
    )


if __name__ == "__main__":
    sys.exit(main())
