# SPDX-License-Identifier: Apache-2.0
"""Board facts agree with each other: manifests, linker scripts, regions, targets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from minun_pio.board.regions import REGIONS, regions_of
from minun_pio.board.target import KNOWN, from_manifest

ROOT = Path(__file__).resolve().parents[2]
BOARDS = ("uno_sim", "due_sim", "stm32h747_sim")
_UNITS = {"K": 1024, "M": 1024 * 1024}


def _manifest(board: str) -> dict:  # type: ignore[type-arg]
    return json.loads((ROOT / "virtual" / "boards" / f"{board}.json").read_text())


@pytest.mark.parametrize("board", BOARDS)
def test_a_virtual_boards_manifest_has_the_real_boards_limits(board: str) -> None:
    target, real = from_manifest(board, _manifest(board)), KNOWN[board.removesuffix("_sim")]
    assert (target.core, target.ram_bytes, target.flash_bytes) == (
        real.core,
        real.ram_bytes,
        real.flash_bytes,
    )


@pytest.mark.parametrize("board", BOARDS)
def test_the_default_bank_is_the_manifests_ram_and_comes_first(board: str) -> None:
    first = regions_of(board)[0]
    assert first.section == ""
    assert first.bytes == _manifest(board)["upload"]["maximum_ram_size"]
    assert all(region.section for region in regions_of(board)[1:])


@pytest.mark.parametrize("board", ["due_sim", "stm32h747_sim"])
def test_the_linker_script_has_each_bank_with_its_size(board: str) -> None:
    script = (ROOT / "virtual" / "support" / f"{board}.ld").read_text()
    found = {
        name: int(size) * _UNITS[unit]
        for name, size, unit in re.findall(r"(\w+) \(rw?x\) : ORIGIN = \w+, LENGTH = (\d+)([KM])", script)
    }
    upload = _manifest(board)["upload"]
    assert found.pop("FLASH") == upload["maximum_size"]
    assert sorted(found.values()) == sorted(region.bytes for region in REGIONS[board])
    for region in REGIONS[board]:
        assert region.section in script


def test_a_board_that_is_not_known_has_one_bank_of_its_manifests_size() -> None:
    assert [(region.bytes, region.section) for region in regions_of("mkrzero", 32768)] == [(32768, "")]
    assert regions_of("mystery") == ()
