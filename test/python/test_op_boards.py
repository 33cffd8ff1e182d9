# SPDX-License-Identifier: Apache-2.0
"""The operators' cases on the emulated cores: an AVR, a Cortex-M3 and a Cortex-M7 give the host's bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from op_cases import BUILDERS, SMALL, cases
from op_harness import BOARD_FLAGS, Case, device_mismatches

_CASES = [case for op in sorted(BUILDERS) for formats in SMALL for case in cases(op, formats)[:2]]
_AVR_IMAGE = 16  # cases that fit one AVR image
_AVR_IMAGES = -(-len(_CASES) // _AVR_IMAGE)


def _check(chosen: list[Case], folder: Path, core: str, mcu: str | None = None) -> None:
    assert device_mismatches(chosen, folder, core, BOARD_FLAGS, mcu) == []


@pytest.mark.parametrize("core", ["m3", "m7"])
def test_a_cortex_m_gives_the_hosts_bits(core: str, tmp_path: Path) -> None:
    _check(_CASES, tmp_path, core)


@pytest.mark.parametrize("image", range(_AVR_IMAGES))
def test_an_avr_gives_the_hosts_bits(image: int, tmp_path: Path) -> None:
    chosen = _CASES[image * _AVR_IMAGE : (image + 1) * _AVR_IMAGE]
    _check(chosen, tmp_path, "avr", "atmega1284p")  # the Uno's core with room for many cases
