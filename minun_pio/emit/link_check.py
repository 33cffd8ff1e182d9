# SPDX-License-Identifier: Apache-2.0
"""What a linked firmware says of itself: sizes of flash and SRAM, that no heap function is in it, and on AVR
that its constants lie where they can be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from minun_pio.errors import MinunError

HEAP = frozenset(
    {
        "malloc",
        "calloc",
        "realloc",
        "free",
        "_malloc_r",
        "_calloc_r",
        "_realloc_r",
        "_free_r",
        "_sbrk",
        "_sbrk_r",
        "sbrk",
        "aligned_alloc",
        "posix_memalign",
        "memalign",
    }
)
_NEW_AND_DELETE = ("_Znw", "_Zna", "_Zdl", "_Zda")  # operator new, new[], delete, delete[]

LPM_END = 0x10000  # AVR: lpm reads below
_AVR_RAM = 0x800000  # where AVR's ELF files have data memory
_FIRST_NAME = re.compile(r"_ZZ?N?K?(\d+)(.*)")

_WRITE, _ALLOC, _EXECUTE = 0x1, 0x2, 0x4


@dataclass(frozen=True)
class Image:
    """A linked ELF file. `flash_bytes`: code, constants and initial values; `sram_bytes`: static data, arena
    included, without stack. `heap`: heap functions that were linked in; `symbols`: all defined ones."""

    flash_bytes: int
    sram_bytes: int
    heap: tuple[str, ...]
    symbols: frozenset[str]


def read_image(path: Path) -> Image:
    """The sizes and symbols of an ELF file. Raises MinunError when it is not one."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            flash = sram = 0
            symbols: set[str] = set()
            for section in elf.iter_sections():
                flags, size = int(section["sh_flags"]), int(section["sh_size"])
                if isinstance(section, SymbolTableSection):
                    symbols.update(s.name for s in section.iter_symbols() if s["st_shndx"] != "SHN_UNDEF")
                if not flags & _ALLOC or section["sh_type"] == "SHT_NOTE":
                    continue
                if section["sh_type"] == "SHT_NOBITS":
                    sram += size
                elif flags & _WRITE and not flags & _EXECUTE:
                    flash, sram = flash + size, sram + size
                else:
                    flash += size
    except OSError as error:
        raise MinunError("image.unreadable", f"cannot be read: {error.strerror}", path.name) from None
    except ELFError as error:
        raise MinunError(
            "image.not-elf",
            f"is not an ELF file ({error}); give the linked firmware. A program of Windows or macOS is none: "
            "say custom_minun_no_heap = no there",
            path.name,
        ) from None
    return Image(flash, sram, heap_functions(symbols), frozenset(symbols))


def heap_functions(symbols: Iterable[str]) -> tuple[str, ...]:
    """Those of the symbols that allocate or free memory, sorted. `_sbrk` counts beside another only: alone it
    is asked by `minun/stack.h` where the heap would end."""
    found = {s for s in symbols if s in HEAP or s.startswith(_NEW_AND_DELETE)}
    return () if found == {"_sbrk"} else tuple(sorted(found))


def check_no_heap(path: Path) -> Image:
    """The image, if no heap function was linked in; else MinunError naming them."""
    image = read_image(path)
    if image.heap:
        raise MinunError(
            "image.heap",
            f"has heap functions: {', '.join(image.heap)}; the models need none, look for what else in the "
            "firmware calls them",
            path.name,
        )
    return image


def check_reach(path: Path, models: Sequence[str]) -> tuple[str, ...]:
    """AVR: that `lpm` reaches every constant of `models` (names) and of minun's headers; two models, or a
    firmware's own PROGMEM, may push one beyond. Gives the names of other constants that lie there: only far
    pointers read them. Raises MinunError naming the first of ours, and when the image has no symbols. Other
    cores have no such limit."""
    beyond = _constants_beyond(path)
    ours = [symbol for symbol in beyond if _first_name(symbol[1]) in {"minun", *models}]
    if ours:
        end, name = ours[0]
        raise MinunError(
            "image.lpm",
            f"{readable(name)} ends at byte {end} of flash, AVR's lpm instruction reads {LPM_END}: "
            f"{len(ours)} of the models' constants are out of its reach; lower 'formats', drop a model, or "
            "have less PROGMEM data beside them",
            path.name,
        )
    return tuple(readable(name) for _, name in beyond)


def _constants_beyond(path: Path) -> list[tuple[int, str]]:
    """(end, name) of what lies among an AVR image's PROGMEM constants and ends beyond LPM_END, by address."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    read_image(path)  # an unreadable file is told there
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        if elf["e_machine"] != "EM_AVR":
            return []
        table = elf.get_section_by_name(".symtab")
        if not isinstance(table, SymbolTableSection):
            text = elf.get_section_by_name(".text")
            if text is None or text["sh_addr"] + text["sh_size"] <= LPM_END:
                return []
            raise MinunError(
                "image.stripped",
                f"has over {LPM_END} B of code and constants and no symbols, so it cannot be seen whether "
                "AVR's lpm instruction reaches the models' constants; link without -s",
                path.name,
            )
        symbols = [(s["st_value"], s["st_size"], s["st_info"]["type"], s.name) for s in table.iter_symbols()]
    behind = min((at for at, _, _, name in symbols if name == "__ctors_start"), default=_AVR_RAM)
    objects = sorted((at, size, name) for at, size, kind, name in symbols if kind == "STT_OBJECT" and size)
    return [(at + size, name) for at, size, name in objects if at < behind and at + size > LPM_END]


def _first_name(symbol: str) -> str:
    """The outermost namespace of a mangled C++ name, or ''."""
    found = _FIRST_NAME.match(symbol)
    return found[2][: int(found[1])] if found else ""


def readable(symbol: str) -> str:
    """`digits::kDenseWeights` for `_ZN6digits12_GLOBAL__N_1L13kDenseWeightsE`; other forms as they are."""
    names, rest = [], re.sub(r"^_Z(NK?)?", "", symbol)
    while found := re.match(r"L?(\d+)(.*)", rest):
        names.append(found[2][: int(found[1])])
        rest = found[2][int(found[1]) :]
    return "::".join(name for name in names if name != "_GLOBAL__N_1") or symbol
