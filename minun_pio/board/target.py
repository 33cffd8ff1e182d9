# SPDX-License-Identifier: Apache-2.0
"""What a build has to know of a board: its core, its SRAM and its flash. Any board has a target.

`core` picks the kernels: 'avr', 'm3' (ARMv7-M without DSP), 'm7' (ARMv7E-M: Cortex-M4, M7, also M33), or
'host', the portable C++ that every other core gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CORES = ("avr", "m3", "m7", "host")


@dataclass(frozen=True)
class Target:
    """A board as the compiler sees it. None for a size: not limited (a PC)."""

    name: str
    core: str
    ram_bytes: int | None = None
    flash_bytes: int | None = None

    @property
    def key(self) -> str:
        """What a build's outcome depends on; boards with equal keys share it: `avr/2048/32256`."""
        ram = "any" if self.ram_bytes is None else str(self.ram_bytes)
        flash = "any" if self.flash_bytes is None else str(self.flash_bytes)
        return f"{self.core}/{ram}/{flash}"


def lpm_may_not_reach(target: Target) -> bool:
    """Whether it is an AVR with more than 64 KB of flash, whose upper part `lpm` does not read."""
    return target.core == "avr" and (target.flash_bytes is None or target.flash_bytes > 0x10000)


HOST = Target("host", "host")

KNOWN = {
    "uno": Target("uno", "avr", 2_048, 32_256),
    "due": Target("due", "m3", 98_304, 524_288),
    "stm32h747": Target("stm32h747", "m7", 524_288, 2_097_152),
    "host": HOST,
}
"""Boards by name for use outside PlatformIO. The H747's figure is its largest SRAM region (AXI)."""


def core_of(cpu: str, mcu: str = "") -> str:
    """The core for a board manifest's `build.cpu` (`cortex-m7`) and `build.mcu` (`atmega328p`)."""
    cpu, mcu = cpu.lower(), mcu.lower()
    if mcu.startswith(("atmega", "attiny", "at90", "atxmega", "avr")):
        return "avr"
    if cpu.startswith("cortex-m3"):
        return "m3"
    if cpu.startswith(("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m35p", "cortex-m55", "cortex-m85")):
        return "m7"
    return "host"


def from_manifest(board_id: str, manifest: Mapping[str, Any]) -> Target:
    """The target of a PlatformIO board manifest (`boards/<id>.json`)."""
    build, upload = manifest.get("build", {}), manifest.get("upload", {})
    core = core_of(str(build.get("cpu", "")), str(build.get("mcu", "")))
    return Target(board_id, core, _size(upload.get("maximum_ram_size")), _size(upload.get("maximum_size")))


def _size(value: Any) -> int | None:
    return (
        int(value) if isinstance(value, (int, float, str)) and str(value).isdigit() and int(value) else None
    )
