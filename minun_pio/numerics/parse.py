# SPDX-License-Identifier: Apache-2.0
"""Formats by name: `parse_format("posit<8,2>")`."""

from __future__ import annotations

import re

from minun_pio.errors import MinunError
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import BFloat16, Float16, Float32
from minun_pio.numerics.format import Format
from minun_pio.numerics.index import Index32
from minun_pio.numerics.posit import Posit

PAPER_POSITS = tuple(
    Posit(n, es) for n, es in ((8, 0), (8, 1), (8, 2), (9, 2), (10, 2), (12, 2), (16, 1), (16, 2), (32, 2))
)
"""The posits of the MinUn paper and their neighbours, all tested."""

_PLAIN: dict[str, Format] = {f.name: f for f in (Float32(), Float16(), BFloat16(), Index32())}
_PATTERN = re.compile(r"\s*(posit|fixed)\s*<\s*(\d+)\s*,\s*(-?\d+)\s*>\s*\Z")


def parse_format(text: str) -> Format:
    """The format that `text` names. Affine formats have scales and are made, not named.

    Raises MinunError `format.unknown` with the names that exist.
    """
    plain = _PLAIN.get(text.strip())
    if plain is not None:
        return plain
    match = _PATTERN.match(text)
    if match is None:
        raise MinunError(
            "format.unknown",
            f"number format '{text}' found; expected posit<n,es>, fixed<n,s>, float32, float16 or bfloat16",
        )
    first, second = int(match[2]), int(match[3])
    return Posit(first, second) if match[1] == "posit" else Fixed(first, second)
