# SPDX-License-Identifier: Apache-2.0
"""Compiling small C and C++ programs for a bare core, with a cache of objects.

A core is what a compiler and an emulator need to know of a processor. Objects are cached under the digest of
the preprocessed source and the flags, so a benchmark compiles a library it compares with only once.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from minun_pio.board.places import cache_dir, publish
from minun_pio.errors import MinunError


@dataclass(frozen=True)
class Core:
    """A processor: compiler prefix and machine flags, the emulator's machine, the unit its marks count in."""

    name: str
    prefix: str
    machine_flags: tuple[str, ...]
    emulator_machine: str
    unit: str


CORES = {
    core.name: core
    for core in (
        Core("avr", "avr-", ("-mmcu=atmega328p",), "atmega328p", "cycles"),
        Core("m3", "arm-none-eabi-", ("-mcpu=cortex-m3", "-mthumb"), "mps2-an385", "instructions"),
        Core(
            "m4",
            "arm-none-eabi-",
            ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
            "mps2-an386",
            "instructions",
        ),
        Core(
            "m7",
            "arm-none-eabi-",
            ("-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard"),
            "mps2-an500",
            "instructions",
        ),
        Core("host", "", (), "", "ns"),
    )
}


class CompileError(MinunError):
    """A compiler or linker refused; `output` is all it said."""

    def __init__(self, what: str, output: str) -> None:
        first = next(
            (line for line in output.splitlines() if "error" in line.lower() or "undefined" in line), ""
        )
        first = first or (output.strip().splitlines() or ["no output"])[0]
        super().__init__("board.compile", f"cannot build {what}: {first.strip()}")
        self.output = output


def run_tool(command: Sequence[str], what: str) -> str:
    """Runs a build tool and gives its standard output; a refusal or a missing tool is one clear error."""
    try:
        done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise MinunError("board.no-compiler", f"'{command[0]}' is not installed; run: make setup") from None
    if done.returncode != 0:
        raise CompileError(what, done.stderr.decode(errors="replace"))
    return done.stdout.decode(errors="replace")


def driver(core: Core, source: Path) -> str:
    """The compiler driver for a source, by its suffix."""
    return core.prefix + ("gcc" if source.suffix in (".c", ".S", ".s") else "g++")


def compile_object(core: Core, source: Path, flags: Sequence[str]) -> Path:
    """An object file of `source`, from the cache when the preprocessed text and the flags are known."""
    command = [driver(core, source), *flags]
    text = run_tool([*command, "-E", "-P", str(source)], source.name)
    key = hashlib.sha256("\0".join([*command, source.suffix, text]).encode()).hexdigest()
    final = cache_dir() / "objects" / key[:2] / f"{key[2:34]}.o"
    if final.is_file():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent) as folder:
        built = Path(folder) / "out.o"
        run_tool([*command, "-c", str(source), "-o", str(built)], source.name)
        publish(built, final)
    return final


def compile_objects(core: Core, sources: Sequence[Path], flags_of: Sequence[Sequence[str]]) -> list[Path]:
    """Objects of all sources, two at a time."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(
            pool.map(lambda pair: compile_object(core, pair[0], pair[1]), zip(sources, flags_of, strict=True))
        )


@dataclass(frozen=True)
class Sizes:
    """Bytes of a linked image; flash is text + data, static RAM is data + bss."""

    text: int
    data: int
    bss: int

    @property
    def flash(self) -> int:
        return self.text + self.data

    @property
    def ram(self) -> int:
        return self.data + self.bss


def image_sizes(elf: Path) -> Sizes:
    """Sizes of an ELF image from its allocated sections (as `size -B` gives them)."""
    from elftools.elf.constants import SH_FLAGS
    from elftools.elf.elffile import ELFFile

    text = data = bss = 0
    with elf.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if not section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
                continue
            size = int(section["sh_size"])
            if section["sh_type"] == "SHT_NOBITS":
                bss += size
            elif section["sh_flags"] & SH_FLAGS.SHF_WRITE:
                data += size
            else:
                text += size
    return Sizes(text, data, bss)


def image_symbols(elf: Path) -> dict[str, int]:
    """Size in bytes of every function and object of an ELF image, by its mangled name."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    with elf.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        if not isinstance(table, SymbolTableSection):
            return {}
        return {
            symbol.name: int(symbol["st_size"])
            for symbol in table.iter_symbols()
            if symbol.name
            and symbol["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT", "STT_NOTYPE")
            and symbol["st_shndx"] != "SHN_UNDEF"
        }
