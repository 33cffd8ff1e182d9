# SPDX-License-Identifier: Apache-2.0
"""Pieces of C++ text, formatted as the repository's .clang-format wants them. Pure Python."""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Iterable, Sequence

from minun_pio.emit.program import PACKING, Constant

WIDTH = 110
FLOAT_MAX = 3.4028234663852886e38


def literal(value: int | float, ctype: str) -> str:
    """One element as C++ text that reads back to the same bits."""
    if ctype == "float":
        return _float_literal(float(value))
    if ctype == "int64_t":
        return "INT64_MIN" if value == -(2**63) else f"{value}LL"
    if ctype == "uint64_t":
        return f"{value}ULL"
    if ctype == "int32_t" and value == -(2**31):
        return "INT32_MIN"
    return f"{value}u" if ctype == "uint32_t" else str(value)


def _float_literal(value: float) -> str:
    if math.isnan(value):
        return '__builtin_nanf("")'
    if math.isinf(value):
        return "__builtin_inff()" if value > 0 else "-__builtin_inff()"
    text = f"{value:.9g}"
    for digits in range(1, 9):
        short = f"{value:.{digits}g}"
        if abs(float(short)) <= FLOAT_MAX and struct.pack("<f", float(short)) == struct.pack("<f", value):
            text = short
            break
    return text + ("f" if any(mark in text for mark in ".e") else ".0f")


def wrapped(items: Sequence[str], indent: int, tail: str = "") -> list[str]:
    """Items joined by commas, broken at WIDTH; `tail` follows the last."""
    lines: list[str] = []
    line = " " * indent
    for k, item in enumerate(items):
        piece = item + ("," if k + 1 < len(items) else tail)
        if line.strip() and len(line) + 1 + len(piece) > WIDTH:
            lines.append(line)
            line = " " * indent
        line += (" " if line.strip() else "") + piece
    return [*lines, line]


def array(constant: Constant) -> list[str]:
    """The definition of a constant array, its comment before it."""
    letter = PACKING[constant.ctype]
    values = struct.unpack(f"<{constant.count}{letter}", base64.b64decode(constant.data))
    where = " MINUN_FLASH" if constant.in_flash else ""
    align = f"alignas({constant.align}) " if constant.align > 1 else ""
    head = f"{align}const {constant.ctype} {constant.identifier}[{constant.count}]{where} = {{"
    items = [literal(v, constant.ctype) for v in values]
    return [*comment(constant.comment), head, *wrapped(items, 4, "};")]


def comment(text: str, indent: int = 0) -> list[str]:
    """A `//` comment, broken at WIDTH between words."""
    lines: list[str] = []
    line = ""
    room = WIDTH - indent - 3
    for word in " ".join(_unspliced(text).split()).split(" "):
        if line and len(line) + 1 + len(word) > room:
            lines.append(line)
            line = ""
        line += (" " if line else "") + word
    lines.append(line)
    return [" " * indent + "// " + item for item in lines]


def _unspliced(text: str) -> str:
    """Without what would join a comment with the line after it: a network may be named so."""
    return re.sub(r"\?{2,}/", "?/", text).replace("\\", "/")


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as comment lines in columns; a column of numbers is right-aligned, the last is left ragged."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell if k + 1 == len(row) else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("//   " + _unspliced("  ".join(cells)).rstrip())
    return lines


def joined(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
