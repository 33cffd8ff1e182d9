# SPDX-License-Identifier: Apache-2.0
"""Convolutions from the last output to the first, as far over their input as they say, give the same bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernel_program import SANITISERS, Case, mismatches
from test_kernel_linear import exact_conv_cases, float_cases, quantised_cases, tame_cases

from minun_pio.board.bare import missing_tools

GROUPS = {
    "exact": exact_conv_cases,
    "float": float_cases,
    "quantised": quantised_cases,
    "tame": tame_cases,
}


def in_reverse(group: str) -> list[Case]:
    """The group's convolutions. Transposed ones have no reverse order."""
    return [replace(case, overlap=True, reverse=True) for case in GROUPS[group]() if case.op == "conv"]


def check(core: str, cases: list[Case], folder: Path, **options: object) -> None:
    if missing_tools(core):
        pytest.skip(f"{', '.join(missing_tools(core))} not installed")
    assert cases
    assert mismatches(core, cases, folder=folder, **options) == []


@pytest.mark.parametrize("group", list(GROUPS))
def test_the_host_gives_the_same_bits_in_reverse(group: str, tmp_path: Path) -> None:
    check("host", in_reverse(group), tmp_path, cflags=SANITISERS)


@pytest.mark.parametrize("group", list(GROUPS))
@pytest.mark.parametrize("core", ["m3", "m7"])
def test_a_cortex_m_gives_the_same_bits_in_reverse(core: str, group: str, tmp_path: Path) -> None:
    check(core, in_reverse(group), tmp_path, cflags=("-Os",))


@pytest.mark.parametrize("group", list(GROUPS))
def test_an_avr_gives_the_same_bits_in_reverse(group: str, tmp_path: Path) -> None:
    cases = in_reverse(group)
    chosen = cases[:: max(1, len(cases) // 6)]
    for start in range(0, len(chosen), 3):  # few at a time: program memory is small
        part = chosen[start : start + 3]
        check("avr", part, tmp_path, cflags=("-Os",), mcu="atmega1284p")
