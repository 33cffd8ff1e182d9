# SPDX-License-Identifier: Apache-2.0
"""Sums half-way between two codes, and next to half-way, round on the emulated cores as on the host."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from minun_pio.board.bare import build_and_run, missing_tools
from minun_pio.numerics.posit import Posit

INCLUDE = Path(__file__).resolve().parents[2] / "include"
FORMATS = (Posit(8, 0), Posit(8, 2), Posit(12, 2), Posit(16, 1), Posit(16, 2), Posit(24, 2), Posit(32, 2))


def sums_about_half_way(fmt: Posit) -> list[tuple[int, int]]:
    """Integers and the exponent they count, some with many zeros behind."""
    rng = np.random.default_rng(fmt.n)
    found = []
    for code in rng.integers(1, fmt.max_code, 24):
        low, high = (Fraction(float(v)) for v in fmt.decode(np.array([code, code + 1], fmt.storage)))
        middle = (low + high) / 2
        unit = -(middle.denominator.bit_length() - 1)
        whole = int(middle / Fraction(2) ** unit)
        room = 61 - whole.bit_length()
        if room < 0:
            continue
        shift = int(rng.integers(0, room + 1))
        for off in (-1, 0, 1) if shift else (0,):
            value = (whole << shift) + off
            found += [(value, unit - shift), (-value, unit - shift)]
    return found


@pytest.mark.parametrize("core", ["host", "avr", "m3"])
def test_sums_about_half_way_between_two_codes_round_as_on_the_host(core: str, tmp_path: Path) -> None:
    if missing_tools(core):
        pytest.skip(f"{', '.join(missing_tools(core))} not installed")
    text = ['#include "bare.h"', '#include "minun/formats.h"', "int main() {"]
    tables, expected = [], b""
    for number, fmt in enumerate(FORMATS):
        sums = sums_about_half_way(fmt)
        values = ", ".join(f"INT64_C({value})" for value, _ in sums)
        units = ", ".join(str(unit) for _, unit in sums)
        tables.append(f"static const int64_t v{number}[] MINUN_FLASH = {{{values}}};")
        tables.append(f"static const int16_t u{number}[] MINUN_FLASH = {{{units}}};")
        text.append(f"  for (int i = 0; i < {len(sums)}; ++i) {{")
        text.append(f"    typedef {fmt.cpp} F;")
        text.append(
            f"    const F::Code c = minun::encode64<F>(minun::flash_load(v{number} + i), "
            f"minun::flash_load(u{number} + i));"
        )
        text.append("    bare::write(&c, sizeof c);\n  }")
        exact = [fmt.encode_integer(value, unit) for value, unit in sums]
        expected += np.array(exact, fmt.storage).tobytes()
    source = tmp_path / "rounding.cpp"
    text[2:2] = ['#include "minun/flash.h"', *tables]
    source.write_text("\n".join([*text, "  return 0;", "}", ""]))
    options = {"mcu": "atmega1284p"} if core == "avr" else {}
    assert build_and_run(core, [source], include_dirs=[INCLUDE], **options).output == expected
