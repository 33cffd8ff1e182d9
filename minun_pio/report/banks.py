# SPDX-License-Identifier: Apache-2.0
"""Which memory banks of a board hold an arena, and the section that puts it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minun_pio.board.regions import regions_of
from minun_pio.board.target import Target


def banks_of(arena_bytes: int, target: Target) -> list[dict[str, Any]] | None:
    """The board's banks that are large enough, the fastest first: name, bytes, section ('': the default).

    None where nothing is known of the board's memory.
    """
    regions = regions_of(target.name, target.ram_bytes)
    if not regions:
        return None
    return [
        {"name": region.name, "bytes": region.bytes, "section": region.section}
        for region in sorted(regions, key=lambda region: region.cost)
        if arena_bytes <= region.bytes
    ]


def banks_text(banks: Sequence[Mapping[str, Any]] | None) -> str:
    """`fits in DTCM (131072 B, section .dtcm), AXI (524288 B, default)`; '' for None."""
    if banks is None:
        return ""
    if not banks:
        return "fits in no single bank of the board"
    return "fits in " + ", ".join(f"{bank['name']} ({bank['bytes']} B, {_where(bank)})" for bank in banks)


def _where(bank: Mapping[str, Any]) -> str:
    return f"section {bank['section']}" if bank["section"] else "default"
