# SPDX-License-Identifier: Apache-2.0
"""A program's arena as an SVG: time across, bytes up, a rectangle a buffer."""

from __future__ import annotations

from html import escape

from minun_pio.emit.program import Arena

WIDTH, HEIGHT = 960, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 20, 32
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b6992d", "#499894", "#e15759", "#79706e", "#d37295", "#9d7660")


def arena_svg(arena: Arena) -> str:
    """The picture, readable alone and inside HTML. Labels stand where they fit; the rest are tooltips."""
    steps = max((row.end for row in arena.rows), default=1)
    top = max(arena.bytes, arena.lower_bound, 1)
    across = (WIDTH - LEFT - RIGHT) / steps
    up = (HEIGHT - TOP - BOTTOM) / top

    def y_of(byte: int) -> float:
        return HEIGHT - BOTTOM - byte * up

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="11" role="img" aria-label="arena: time across, bytes up">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for k in range(5):
        byte = top * k // 4
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(byte):.1f}" y2="{y_of(byte):.1f}" '
            'stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y_of(byte) + 4:.1f}" text-anchor="end" fill="#555">'
            f"{byte}</text>"
        )
    for k, row in enumerate(sorted(arena.rows, key=lambda r: (r.start, r.offset, r.name))):
        parts.append(
            _rectangle(row.name, row.content, k, row.start, row.end, row.offset, row.size, across, up)
        )
    bound = y_of(arena.lower_bound)
    parts.append(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bound:.1f}" y2="{bound:.1f}" stroke="#c00" '
        f'stroke-dasharray="6 4"/><text x="{WIDTH - RIGHT}" y="{bound - 5:.1f}" text-anchor="end" '
        'fill="#c00">'
        f"lower bound {arena.lower_bound} B</text>"
    )
    every = max(1, steps // 16)
    for step in range(0, steps + 1, every):
        parts.append(
            f'<text x="{LEFT + step * across:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle" '
            f'fill="#555">{step}</text>'
        )
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 4}" fill="#555">step</text>')
    return "".join([*parts, "</svg>"])


def _rectangle(
    name: str, content: str, k: int, start: int, end: int, offset: int, size: int, across: float, up: float
) -> str:
    x, width = LEFT + start * across, (end - start) * across
    y, height = HEIGHT - BOTTOM - (offset + size) * up, size * up
    title = escape(f"{name}: {size} B at {offset}, steps {start} to {end - 1}; {content}")
    shape = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0.5):.1f}" '
        f'fill="{COLOURS[k % len(COLOURS)]}" fill-opacity="0.75" stroke="#333" stroke-width="0.5">'
        f"<title>{title}</title></rect>"
    )
    text = name if len(name) * 6.2 < width - 6 else name[: max(0, int((width - 12) / 6.2))] + "…"
    if height < 12 or len(text) < 3:
        return shape
    return shape + f'<text x="{x + 4:.1f}" y="{y + height / 2 + 4:.1f}" fill="#111">{escape(text)}</text>'
