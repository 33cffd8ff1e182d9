# SPDX-License-Identifier: Apache-2.0
"""The stack's high-water mark: painting leaves the heap alone, and what is told is what was used."""

from __future__ import annotations

from pathlib import Path

import pytest

from minun_pio.board.bare import Run, build_and_run, missing_tools
from minun_pio.emit.link_check import check_no_heap

ROOT = Path(__file__).resolve().parents[2]

_DEEP = """
__attribute__((used)) static MINUN_NOINLINE void deep() {
  volatile char room[300];
  for (int i = 0; i < 300; ++i) room[i] = static_cast<char>(i);
  (void)room[299];
}
static void tell(size_t bytes) {
  const uint32_t value = static_cast<uint32_t>(bytes);
  bare::write(&value, 4);
}
"""
_WITH_A_HEAP = (
    """
#include <stdlib.h>
#include <string.h>
#include "bare.h"
#include "minun/stack.h"
"""
    + _DEEP
    + """
struct Early {  // a global String or vector, as far as the heap goes
  char* text;
  Early() : text(static_cast<char*>(malloc(200))) { memset(text, 'a', 200); }
};
static Early early;
int main() {
  minun::paint_stack();
  bare::write(early.text, 200);
  const size_t room = minun::stack_room(), before = minun::stack_used();
  deep();
  const size_t after = minun::stack_used();
  char* const late = static_cast<char*>(malloc(100));  // the heap grows into what was painted
  memset(late, 'b', 100);
  bare::write(late, 100);
  tell(room), tell(minun::stack_room()), tell(before), tell(after), tell(minun::stack_used());
  return 0;
}
"""
)
_WITHOUT = (
    '#include "bare.h"\n#include "minun/stack.h"\n'
    + _DEEP
    + """
int main() {
  minun::paint_stack();
  deep();
  tell(minun::stack_room()), tell(minun::stack_used());
  return 0;
}
"""
)
BOARDS = {
    "uno": ("avr", []),
    "due": ("m3", ["ARDUINO_ARCH_SAM"]),
    "stm32": ("m7", ["ARDUINO_ARCH_STM32"]),
    "due_sim": ("m3", ["MINUN_VIRTUAL_ARM"]),
}
SYMBOLS = ("-Wl,--defsym=_estack=bare_stack_top", "-Wl,--defsym=_sstack=bare_stack_top")


def run(board: str, source: str, folder: Path, symbols: tuple[str, ...] = SYMBOLS) -> Run:
    core, defines = BOARDS[board]
    absent = missing_tools(core)
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")
    (folder / "program.cpp").write_text(source)
    return build_and_run(
        core,
        [folder / "program.cpp"],
        defines=defines,
        include_dirs=[ROOT / "include"],
        cflags=("-Os", "-Werror"),
        link_flags=() if core == "avr" else symbols,
        keep_elf=folder / "program.elf",
    )


def numbers(output: bytes) -> list[int]:
    return [int.from_bytes(output[at : at + 4], "little") for at in range(0, len(output), 4)]


@pytest.mark.parametrize("board", BOARDS)
def test_painting_the_stack_leaves_alone_what_a_global_has_on_the_heap(board: str, tmp_path: Path) -> None:
    output = run(board, _WITH_A_HEAP, tmp_path).output
    assert output[:300] == b"a" * 200 + b"b" * 100
    room, room_later, before, after, later = numbers(output[300:])
    assert 0 < before < after < before + 400
    assert after >= 300
    assert room > room_later  # the heap has grown since
    assert after - 1 <= later < after + 100


@pytest.mark.parametrize("board", BOARDS)
def test_without_a_heap_the_stack_is_told_and_none_is_linked(board: str, tmp_path: Path) -> None:
    room, used = numbers(run(board, _WITHOUT, tmp_path).output)
    assert 300 <= used < 400 < room
    check_no_heap(tmp_path / "program.elf")


def test_a_core_with_its_heap_above_the_stack_paints_the_stack_only(tmp_path: Path) -> None:
    above = ("-Wl,--defsym=_estack=end+4096", "-Wl,--defsym=_sstack=end+1024", "-Wl,--defsym=_end=end+4096")
    source = _WITHOUT.replace("minun::paint_stack();", "").replace("deep();", "")
    room, used = numbers(run("due", source, tmp_path, above).output)
    assert room == 3072
    assert used == 3072  # nothing was painted, so nothing is known to be free


def test_a_break_that_the_system_does_not_give_is_not_believed(tmp_path: Path) -> None:
    source = _WITHOUT + 'extern "C" char* _sbrk(int);\nextern "C" char* _sbrk(int) { return 0; }\n'
    room, used = numbers(run("stm32", source, tmp_path).output)
    assert 300 <= used < 400 < room
    check_no_heap(tmp_path / "program.elf")  # it is asked where the heap ends, and allocates nothing
