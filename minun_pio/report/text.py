# SPDX-License-Identifier: Apache-2.0
"""A model's decisions as text for a terminal. Pure Python: works from the lock file alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minun_pio.emit.program import Program, Statement
from minun_pio.report.banks import banks_text


def details(program: Program, summary: Mapping[str, Any]) -> list[str]:
    """Everything that was decided, line by line: formats, arena, flash, calls, the search's trail."""
    lines = [str(summary.get("line", program.model)), ""]
    lines += _columns(
        [["tensor", "format", "shape", "role"]]
        + [[t["name"], t["format"], _shape(t["shape"]), t["role"]] for t in summary.get("tensors", ())]
    )
    arena = program.arena
    lines += [
        "",
        f"arena {arena.bytes} B, lower bound {arena.lower_bound} B, {arena.status} ({arena.planner})",
    ]
    if fits := banks_text(summary.get("banks")):
        lines.append(f"  {fits}")
    if arena.certificate_live:
        where = f" ({arena.certificate_where})" if arena.certificate_where else ""
        lines.append(f"  live at step {arena.certificate_step}{where}: {', '.join(arena.certificate_live)}")
    for stage in arena.stages:
        live = f"  live at the peak: {', '.join(stage.live)}" if stage.live else ""
        lines.append(f"  {stage.name}: {stage.peak} B{live}")
    lines.append("")
    lines += _columns(
        [["offset", "bytes", "steps", "content"]]
        + [[str(r.offset), str(r.size), f"[{r.start}, {r.end})", r.content] for r in arena.rows]
    )
    flash = program.flash
    lines += [
        "",
        f"flash: constants {flash.constants} B, tables {flash.tables} B, code about {flash.code_estimate} B",
        "",
        "calls:",
    ]
    lines += [f"  {text}" for text in calls(program.statements)]
    lines += slow_path(summary.get("slow_path", ()))
    lines += ["", *trail(summary.get("search", {}))]
    return lines


def calls(statements: tuple[Statement, ...], depth: int = 0) -> list[str]:
    """The statements' comments, loops indented."""
    lines: list[str] = []
    for s in statements:
        name = {"copy": f"copy of {s.bytes} B: ", "loop": "loop "}.get(s.kind, "")
        lines.append("  " * depth + name + s.comment)
        lines += calls(s.body, depth + 1)
    return lines


def slow_path(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How often layers decide for the exact sums, on the evaluation data."""
    if not rows:
        return []
    head = ["layer", "kernel", "decisions", "exact sums"]
    return ["", "slow path:", *_columns([head] + [slow_path_cells(row) for row in rows])]


def slow_path_cells(row: Mapping[str, Any]) -> list[str]:
    share = "always" if row["always"] else f"{100 * row['rate']:.2f} %"
    return [str(row["layer"]), str(row["variant"]), str(row["decisions"]), share]


def noisiest(tensors: Sequence[Mapping[str, Any]], most: int = 3) -> list[str]:
    """The tensors whose own rounding costs most, and those that hold NaR, from `Noise.to_json` rows."""
    ranked = sorted((t for t in tensors if isinstance(t["own_db"], float)), key=lambda t: float(t["own_db"]))
    named = [f"{t['tensor']} ({t['format']}, {t['own_db']:.1f} dB)" for t in ranked[:most]]
    lines = [f"most noise of their own: {', '.join(named)}"] if named else []
    bad = [f"{t['tensor']} ({100 * t['nar']:.2f} %)" for t in tensors if t["nar"]]
    return lines + ([f"not a real: {', '.join(bad)}"] if bad else [])


def step_names(statements: tuple[Statement, ...]) -> list[str]:
    """A name for every step of the plan: the operator of a call, 'copy'; '' for a step that needs no call."""
    found: dict[int, str] = {}
    for s in statements:
        index, _, rest = s.comment.partition(": ")
        if s.kind == "loop":
            names = step_names(s.body)
            found.update({k: name for k, name in enumerate(names) if name})
        elif index.isdigit():
            found[int(index)] = "copy" if s.kind == "copy" else rest.partition(" ")[0]
    return [found.get(k, "") for k in range(max(found, default=-1) + 1)]


def trail(search: Mapping[str, Any]) -> list[str]:
    """The candidates that the search measured, in its order."""
    if not search:
        return []
    head = f"search: {search['strategy']}, {search['evaluations']} evaluations, {len(search['candidates'])} "
    rows = [
        ["origin", "soft limit", "formats", "high groups", "arena", "flash", "estimate", "accuracy", "fits"]
    ]
    for c in search["candidates"]:
        accuracy = "-" if c["accuracy"] is None else f"{100 * c['accuracy']:.2f} %"
        soft = "-" if c["soft_limit"] is None else f"{c['soft_limit']:g}"
        formats = f"{c['low']} / {c['high']}"
        fits = "yes" if c["fits"] else "no"
        promoted, ram, flash = str(len(c["promoted"])), f"{c['ram_bytes']} B", f"{c['flash_bytes']} B"
        count = f"{c['estimated_count']}" if "estimated_count" in c else "-"
        rows.append([c["origin"], soft, formats, promoted, ram, flash, count, accuracy, fits])
    return [
        f"{head}candidates, accuracies on the calibration samples, estimates in cycles (AVR) or instructions",
        *_columns(rows),
        *[f"note: {note}" for note in search.get("notes", ())],
    ]


def _shape(shape: list[int] | None) -> str:
    return "" if shape is None else "x".join(str(extent) for extent in shape)


def _columns(rows: list[list[str]]) -> list[str]:
    """Rows as text in columns, numbers to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    numeric = [
        all(row[k].split(" ")[0].replace(".", "").isdigit() for row in rows[1:]) for k in range(len(widths))
    ]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in rows
    ]
