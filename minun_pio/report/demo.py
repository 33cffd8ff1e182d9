# SPDX-License-Identifier: Apache-2.0
"""The report over boards: what each model needs and answers on each, beside the host."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from minun_pio.filelock import write_whole
from minun_pio.report.html import model_sections, page, table


@dataclass(frozen=True)
class Latency:
    """`unit`: 'cycles', 'instructions' or 'us'; `source`: what counted, 'simavr' for instance."""

    value: int
    unit: str
    source: str


@dataclass(frozen=True)
class BoardResult:
    """One model on one board. Accuracies are fractions; `mismatches`: samples whose output codes differ from
    the host's in any bit; `sram_bytes`: static data with arena, plus the stack's high-water mark."""

    board: str
    model: str
    formats: Mapping[str, str]
    samples: int
    mismatches: int
    accuracy_board: float
    accuracy_host: float
    accuracy_float32: float
    arena_bytes: int
    lower_bound_bytes: int
    flash_bytes: int
    sram_bytes: int
    stack_bytes: int
    latency: Latency


def results_json(results: Sequence[BoardResult]) -> dict[str, Any]:
    return {"results": [asdict(r) for r in results]}


def chosen(formats: Mapping[str, str]) -> str:
    """`posit<8,2> x 5, posit<16,2> x 3`, the most frequent first."""
    counts: dict[str, int] = {}
    for name in formats.values():
        counts[name] = counts.get(name, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} x {count}" for name, count in ordered)


HEAD = (
    "board",
    "model",
    "formats",
    "arena",
    "bound",
    "flash",
    "SRAM",
    "stack",
    "samples",
    "mismatches",
    "board %",
    "host %",
    "float32 %",
    "latency",
)


def results_rows(results: Sequence[BoardResult]) -> list[list[Any]]:
    """Rows under HEAD, for a terminal or a page."""
    return [
        [
            r.board,
            r.model,
            chosen(r.formats),
            r.arena_bytes,
            r.lower_bound_bytes,
            r.flash_bytes,
            r.sram_bytes,
            r.stack_bytes,
            r.samples,
            r.mismatches,
            f"{100 * r.accuracy_board:.2f}",
            f"{100 * r.accuracy_host:.2f}",
            f"{100 * r.accuracy_float32:.2f}",
            f"{r.latency.value:,} {r.latency.unit} ({r.latency.source})",
        ]
        for r in results
    ]


def write_demo(
    results: Sequence[BoardResult], folder: Path, models: Sequence[tuple[Any, Mapping[str, Any]]] = ()
) -> tuple[Path, Path]:
    """Writes `report.json` and `report.html`; `models` (program, summary) are shown below the table."""
    folder.mkdir(parents=True, exist_ok=True)
    data = json.dumps(results_json(results), indent=1) + "\n"
    write_whole(folder / "report.json", data.encode())
    body = ["<h1>Models on boards</h1>", table(HEAD, results_rows(results))]
    body.append(
        "<p>Virtual boards: cycles are counted by simavr, instructions by QEMU; instructions are not cycles. "
        "Mismatches compare every bit of every output with the host's.</p>"
    )
    for program, summary in models:
        body += model_sections(program, summary)
    write_whole(folder / "report.html", page("Models on boards", body).encode())
    return folder / "report.json", folder / "report.html"
