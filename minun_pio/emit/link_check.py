# SPDX-License-Identifier: Apache-2.0
"""What a linked firmware says of itself: sizes of flash and SRAM, and that no heap function is in it."""

from __future__ import annotations

from collections.abc import Iterable
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
            "image.not-elf", f"is not an ELF file ({error}); give the linked firmware", path.name
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
