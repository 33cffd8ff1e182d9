# SPDX-License-Identifier: Apache-2.0
"""The operators' cases on the emulated cores: an AVR, a Cortex-M3 and a Cortex-M7 give the host's bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from op_cases import BUILDERS, SMALL, cases
from op_harness import BOARD_FLAGS, Case, device_mismatches

_CHUNK = 12  # cases an image, so that they fit an AVR


def _chunks(operators: list[str]) -> list[list[Case]]:
    every = [case for op in operators for formats in SMALL for case in cases(op, formats)[:2]]
    return [every[start : start + _CHUNK] for start in range(0, len(every), _CHUNK)]


@pytest.mark.parametrize("core", ["avr", "m3", "m7"])
@pytest.mark.parametrize("op", sorted(BUILDERS))
def test_the_core_gives_the_hosts_bits(op: str, core: str, tmp_path: Path) -> None:
    mcu = "atmega1284p" if core == "avr" else None  # the Uno's core with room for many cases in one image
    for chunk in _chunks([op]):
        assert device_mismatches(chunk, tmp_path, core, BOARD_FLAGS, mcu) == []
