# SPDX-License-Identifier: Apache-2.0
"""Reports as HTML that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from minun_pio.emit.program import Program
from minun_pio.report.arena_picture import arena_svg
from minun_pio.report.banks import banks_text
from minun_pio.report.lines import kilobytes
from minun_pio.report.text import calls, slow_path_cells, step_names

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 84rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: 0.5rem 0; }
th, td { padding: 0.15rem 0.6rem; border-bottom: 1px solid #ddd; text-align: left; }
th { border-bottom: 2px solid #888; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
tr.off td { color: #999; } code, pre { font-family: ui-monospace, monospace; font-size: 13px; }
pre { background: #f6f6f6; padding: 0.7rem; overflow-x: auto; }
svg { width: 100%; max-width: 62rem; height: auto; border: 1px solid #ddd; }
.scroll { overflow-x: auto; }
"""


def page(title: str, body: Iterable[str]) -> str:
    """A whole HTML document."""
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], off: Sequence[int] = ()) -> str:
    """A table; numbers stand right. `off`: rows that are greyed."""
    parts = ['<div class="scroll"><table><tr>' + "".join(f"<th>{escape(h)}</th>" for h in head) + "</tr>"]
    for k, row in enumerate(rows):
        cells = "".join(_cell(value) for value in row)
        parts.append(f'<tr class="off">{cells}</tr>' if k in off else f"<tr>{cells}</tr>")
    return "\n".join([*parts, "</table></div>"])


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:g}"
        return f'<td class="n">{text}</td>'
    return f"<td>{escape('-' if value is None else str(value))}</td>"


def model_sections(program: Program, summary: Mapping[str, Any]) -> list[str]:
    """A model's part of a page: decisions, arena with its picture, formats, calls, the search's trail."""
    arena, accuracy = program.arena, summary.get("accuracy", {})
    parts = [f"<h1>{escape(program.model)}</h1>", f"<p>{escape(str(summary.get('line', '')))}</p>"]
    if accuracy:
        labelled = accuracy["labelled"]
        word = "Accuracy" if labelled else "Agreement with float"
        beside = f"; float: {100 * accuracy['float32']:.2f} %" if labelled else ""
        parts.append(
            f"<p>{word} over {accuracy['samples']} samples, on the host with the board's arithmetic: "
            f"{100 * accuracy['host']:.2f} %{beside}.</p>"
        )
    parts += ["<h2>Arena</h2>", arena_svg(arena, step_names(program.statements))]
    where = f" ({arena.certificate_where})" if arena.certificate_where else ""
    parts.append(
        f"<p>{arena.bytes:,} bytes, lower bound {arena.lower_bound:,} ({escape(arena.status)}, "
        f"{escape(arena.planner)}). Live at step {arena.certificate_step}{escape(where)}: "
        f"{escape(', '.join(arena.certificate_live)) or 'nothing'}.</p>"
    )
    if fits := banks_text(summary.get("banks")):
        parts.append(f"<p>It {escape(fits)}.</p>")
    if len(arena.stages) > 1:
        parts.append(
            table(
                ["planner may", "peak", "live at the peak"],
                [[s.name, s.peak, ", ".join(s.live)] for s in arena.stages],
            )
        )
    rows = [[r.offset, r.size, f"[{r.start}, {r.end})", r.name, r.content] for r in arena.rows]
    parts.append(table(["offset", "bytes", "steps", "buffer", "content"], rows))
    parts.append("<h2>Formats</h2>")
    tensors = summary.get("tensors", ())
    parts.append(
        table(
            ["tensor", "format", "shape", "role"],
            [[t["name"], t["format"], "x".join(map(str, t["shape"] or ())), t["role"]] for t in tensors],
        )
    )
    flash = program.flash
    parts.append(
        f"<h2>Flash</h2><p>Constants {kilobytes(flash.constants)}, tables {kilobytes(flash.tables)}, "
        f"code about {kilobytes(flash.code_estimate)} (an estimate; the linker knows).</p>"
    )
    parts.append(f"<h2>Calls</h2><pre>{escape(chr(10).join(calls(program.statements)))}</pre>")
    if slow := summary.get("slow_path"):
        head = ["layer", "kernel", "decisions on evaluation data", "exact sums"]
        parts += ["<h2>Slow path</h2>", table(head, [slow_path_cells(row) for row in slow])]
    return parts + _search(summary.get("search", {}))


def _search(search: Mapping[str, Any]) -> list[str]:
    if not search:
        return []
    candidates = search["candidates"]
    rows = [
        [
            c["origin"],
            "-" if c["soft_limit"] is None else f"{c['soft_limit']:g}",
            c["low"],
            c["high"],
            len(c["promoted"]),
            c["ram_bytes"],
            c["flash_bytes"],
            c.get("estimated_count"),
            None if c["accuracy"] is None else f"{100 * c['accuracy']:.2f} %",
        ]
        for c in candidates
    ]
    head = [
        "candidate",
        "soft limit",
        "low",
        "high",
        "high groups",
        "arena B",
        "flash B",
        "estimate",
        "accuracy",
    ]
    parts = [
        f"<h2>Search: {escape(search['strategy'])}</h2>",
        f"<p>{search['evaluations']} evaluations. Greyed: over a limit. Estimates are cycles on AVR, "
        "instructions elsewhere.</p>",
        table(head, rows, [k for k, c in enumerate(candidates) if not c["fits"]]),
    ]
    if search.get("heat"):
        heat = [[name, f"{score:.3g}"] for name, score in search["heat"]]
        parts += ["<h2>Heat map</h2>", table(["tensor", "score"], heat)]
    return parts + [f"<p>{escape(note)}</p>" for note in search.get("notes", ())]
