# SPDX-License-Identifier: Apache-2.0
"""The arena as a picture: time across, bytes up, a rectangle a buffer; lower bound and capacity as lines.

Plain SVG without scripts. Every rectangle carries a tooltip; a label is drawn where it can be read, upright
or turned. Inner buffers of an alias are drawn dashed over the one they lie in.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from minun_pio.planner.problem import ARENA, Plan, Problem

_COLOURS = [
    "#8ecae6",
    "#ffb703",
    "#a7c957",
    "#f4a6a6",
    "#cdb4db",
    "#90dbf4",
    "#f6bd60",
    "#b5e48c",
    "#e5989b",
    "#a2d2ff",
]
_LEFT, _RIGHT, _TOP, _BOTTOM, _BETWEEN = 84, 16, 44, 40, 34
_CHARACTER, _LINE = 0.6, 1.25  # of the font size: the width of a character, the height of a line


def svg(
    problem: Problem, plan: Plan, title: str = "", step_names: Sequence[str] = (), height_px: int = 420
) -> str:
    """The SVG text of a plan. `step_names`: labels of the time axis, by step number."""
    first = min((b.start for b in problem.buffers), default=0)
    last = max((b.end for b in problem.buffers), default=1)
    steps = max(1, last - first)
    width = _LEFT + _RIGHT + int(min(2400, max(680, 26 * steps)))
    rooms = {r.name: r.capacity for r in problem.regions} or {ARENA: problem.capacity}
    used = [name for name in rooms if plan.heights.get(name) or len(rooms) == 1]
    total = _TOP + len(used) * (height_px + _BETWEEN) + _BOTTOM
    across = (width - _LEFT - _RIGHT) / steps
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}"'
        f' width="{width}" height="{total}" font-family="Helvetica, Arial, sans-serif" font-size="11">',
        f'<rect width="{width}" height="{total}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14" font-weight="bold">{escape(title or "Arena")}</text>',
        f'<text x="{_LEFT}" y="36" fill="#555">{escape(_summary(plan))}</text>',
    ]
    top = _TOP + 8
    for name in used:
        out += _panel(problem, plan, name, rooms[name], first, across, top, height_px, width)
        top += height_px + _BETWEEN
    out += _time_axis(first, steps, across, top - _BETWEEN, step_names)
    out.append("</svg>")
    return "\n".join(out) + "\n"


def _summary(plan: Plan) -> str:
    proof = {
        "optimal": "proven optimal",
        "infeasible": "does not fit",
        "best-known": f"best known, {plan.gap:.1%} over the proven bound",
    }[plan.status]
    return f"{plan.height:,} bytes, lower bound {plan.lower_bound:,}, {proof}, planner {plan.planner}"


def _panel(
    problem: Problem,
    plan: Plan,
    region: str,
    capacity: int | None,
    first: int,
    across: float,
    top: float,
    height: float,
    width: float,
) -> list[str]:
    """One region's rectangles, byte axis and lines."""
    lines = [(plan.heights.get(region, 0), "#222", f"height {plan.heights.get(region, 0):,}")]
    if len(plan.heights) == 1:
        lines.append((plan.lower_bound, "#1a7f37", f"lower bound {plan.lower_bound:,}"))
    if capacity is not None:
        lines.append((capacity, "#c1121f", f"capacity {capacity:,}"))
    used = max(1, plan.heights.get(region, 0), plan.lower_bound if len(plan.heights) == 1 else 0)
    # a capacity far above what is used would press everything flat: it is named, not drawn
    shown = max([used] + [at for at, _, _ in lines if at <= 1.6 * used])
    scale = height / (shown * 1.02)

    def y(byte: float) -> float:
        return top + height - byte * scale

    right = width - _RIGHT
    out = []
    for tick in _ticks(shown):
        out.append(f'<path d="M{_LEFT} {y(tick):.1f}H{right}" stroke="#e6e6e6"/>')
        out.append(
            f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="#555">{tick:,}</text>'
        )
    labels: list[str] = []
    inner = {a.inner for a in problem.aliases}
    buffers = [(k, b) for k, b in enumerate(problem.buffers) if plan.regions.get(b.id) == region and b.size]
    for k, b in sorted(buffers, key=lambda item: item[1].id in inner):
        x0, w = _LEFT + (b.start - first) * across, (b.end - b.start) * across
        y0, h = y(plan.offsets[b.id] + b.size), b.size * scale
        style = ' fill-opacity="0.25" stroke-dasharray="4 2"' if b.id in inner else ' fill-opacity="0.85"'
        tip = f"{b.id}: {b.size:,} bytes at {plan.offsets[b.id]:,}, steps {b.start} to {b.end - 1}"
        out.append(
            f'<rect x="{x0:.2f}" y="{y0:.2f}" width="{w:.2f}" height="{h:.2f}"'
            f' fill="{_COLOURS[k % len(_COLOURS)]}" stroke="#333"'
            f' stroke-width="{0.8 if across > 6 else 0.3}"{style}><title>{escape(tip)}</title></rect>'
        )
        labels += _label(b.id, f"{b.size:,} B", x0, y0, w, h)
    out += labels  # above every rectangle: overlapping ones would hide them
    for at, colour, _ in lines:
        if at <= shown:
            out.append(f'<path d="M{_LEFT} {y(at):.1f}H{right}" stroke="{colour}" stroke-dasharray="6 3"/>')
    names = " · ".join(f'<tspan fill="{colour}">{escape(name)}</tspan>' for _, colour, name in lines)
    head = f"{escape(region)}: " if len(problem.regions) > 1 else ""
    out.append(f'<text x="{right}" y="{top - 6:.1f}" text-anchor="end" fill="#555">{head}{names}</text>')
    return out


def _label(name: str, size: str, x: float, y: float, w: float, h: float) -> list[str]:
    """The buffer's name, and its size where there is room, as large as fits between 6 and 11 pixels."""
    for turned in (False, True):
        along, across = (h, w) if turned else (w, h)
        font = min(11.0, (along - 4) / (_CHARACTER * max(1, len(name))), (across - 2) / _LINE)
        if font < 6:
            continue
        both = across >= 2 * _LINE * font + 2 and along >= _CHARACTER * font * len(size) + 4
        cx, cy = x + w / 2, y + h / 2
        turn = f' transform="rotate(-90 {cx:.1f} {cy:.1f})"' if turned else ""
        lift = 0.28 * font if both else -0.35 * font
        out = [
            f'<text x="{cx:.1f}" y="{cy - lift:.1f}" text-anchor="middle" font-size="{font:.1f}"{turn}'
            f' pointer-events="none">{escape(name)}</text>'
        ]
        if both:
            out.append(
                f'<text x="{cx:.1f}" y="{cy + 0.95 * font:.1f}" text-anchor="middle"'
                f' font-size="{0.85 * font:.1f}"{turn} fill="#333" pointer-events="none">{size}</text>'
            )
        return out
    return []


def _ticks(most: int) -> list[int]:
    """Round byte counts from 0, at most eight."""
    step, factors = 1, (2, 5, 10)
    k = 0
    while most / step > 8:
        step = factors[k % 3] * 10 ** (k // 3)
        k += 1
    return list(range(0, most + 1, step))


def _time_axis(first: int, steps: int, across: float, y: float, names: Sequence[str]) -> list[str]:
    every = max(1, round(60 / across)) if not names else max(1, round(14 / across))
    out = []
    for t in range(0, steps, every):
        x = _LEFT + (t + 0.5) * across
        if first + t < len(names):
            text = escape(names[first + t][:14])
            out.append(
                f'<text x="{x:.1f}" y="{y + 12:.1f}" font-size="8" fill="#555"'
                f' transform="rotate(35 {x:.1f} {y + 12:.1f})">{text}</text>'
            )
        else:
            out.append(
                f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle" fill="#555">{first + t}</text>'
            )
    out.append(f'<text x="{_LEFT}" y="{y + 34:.1f}" fill="#555">time in steps →</text>')
    return out
