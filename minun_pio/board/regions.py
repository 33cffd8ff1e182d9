# SPDX-License-Identifier: Apache-2.0
"""The memory banks of the boards we know. A board's manifest tells one figure; a chip may have several banks.

Sources: ATmega328P datasheet (SRAM); SAM3X8E datasheet, section 7.2 (SRAM0 and SRAM1);
STM32H745/747 reference manual RM0399, section 2.4 (AXI SRAM, DTCM, ITCM, SRAM1 to 4). For the PlatformIO
boards: their manifests' `upload.maximum_ram_size`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryRegion:
    """A bank of RAM. `section`: the section attribute of a variable that shall lie there ('': default).

    `cost` orders the banks: 0 is reached without wait states, higher is slower.
    """

    name: str
    bytes: int
    section: str
    cost: float


_UNO = (MemoryRegion("SRAM", 2_048, "", 0.0),)
# SRAM0 (64 KB) and SRAM1 (32 KB) are adjacent at 0x20070000: one bank of 96 KB to a linker.
_DUE = (MemoryRegion("SRAM", 98_304, "", 0.0),)
_H747_M7 = (
    MemoryRegion("AXI", 524_288, "", 1.0),
    MemoryRegion("DTCM", 131_072, ".dtcm", 0.0),
    MemoryRegion("SRAM1-3", 294_912, ".sram_d2", 2.0),
    MemoryRegion("SRAM4", 65_536, ".sram_d3", 3.0),
    MemoryRegion("ITCM", 65_536, ".itcm", 0.0),
)
_H747_M4 = (MemoryRegion("SRAM1-3", 294_912, "", 0.0), MemoryRegion("SRAM4", 65_536, ".sram_d3", 1.0))

REGIONS = {
    "uno": _UNO,
    "uno_sim": _UNO,
    "due": _DUE,
    "dueUSB": _DUE,
    "due_sim": _DUE,
    "stm32h747": _H747_M7,
    "stm32h747_sim": _H747_M7,
    "disco_h747xi": _H747_M7,
    "portenta_h7_m7": _H747_M7,
    "giga_r1_m7": _H747_M7,
    "portenta_h7_m4": _H747_M4,
}


def regions_of(board: str, ram_bytes: int | None = None) -> tuple[MemoryRegion, ...]:
    """The banks of a board by its PlatformIO id; for one we do not know, one bank of `ram_bytes`.

    The default bank comes first. Empty when neither is known.
    """
    if board in REGIONS:
        return REGIONS[board]
    return (MemoryRegion("RAM", ram_bytes, "", 0.0),) if ram_bytes else ()
