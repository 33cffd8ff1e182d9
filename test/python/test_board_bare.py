# SPDX-License-Identifier: Apache-2.0
"""The runner for bare programs: counts that are known by hand, output, input, exit codes, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from minun_pio.board.bare import build_and_run, missing_tools
from minun_pio.board.toolchain import CompileError
from minun_pio.errors import MinunError

_PROGRAM = r"""
#include "bare.h"
#ifdef __arm__
__attribute__((noinline)) static void loop() {  // 1 + 1000 * 4 instructions, bl, bx
  __asm__ volatile("movw r0, #1000\n1: nop\n nop\n subs r0, #1\n bne 1b" ::: "r0", "cc");
}
#elif defined(__AVR__)
__attribute__((noinline)) static void loop() {  // ldi 1, 100 * 5 - 1, call 4, ret 4
  __asm__ volatile("ldi r24, 100\n1: nop\n nop\n subi r24, 1\n brne 1b" ::: "r24");
}
#else
static void loop() {}
#endif
__attribute__((noinline)) static void eat(unsigned bytes) {
  volatile char room[200];
  for (unsigned i = 0; i < bytes; ++i) room[i] = static_cast<char>(i);
}
int main() {
  bare::begin(1);
  loop();
  bare::end(1);
  bare::begin(2);
  eat(200);
  bare::end(2);
  unsigned char byte;
  while (bare::read(&byte, 1)) {
    byte = static_cast<unsigned char>(byte ^ 0x55);
    bare::write(&byte, 1);
  }
  bare::print("end");
  return CODE;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program with space.cpp"
    path.write_text(_PROGRAM)
    return path


def _needs(core: str) -> None:
    absent = missing_tools(core)
    if absent:
        pytest.skip(f"{', '.join(absent)} not installed")


@pytest.mark.parametrize(("core", "count"), [("avr", 508), ("m3", 4003), ("m4", 4003), ("m7", 4003)])
def test_counts_are_exact_and_the_same_in_every_run(program: Path, core: str, count: int) -> None:
    _needs(core)
    first = build_and_run(core, [program], defines={"CODE": 0})
    second = build_and_run(core, [program], defines={"CODE": 0})
    assert abs(first.marks[1] - count) <= 1
    assert first.all_marks == second.all_marks
    assert 200 <= first.stacks[2] <= 240
    assert first.unit == ("cycles" if core == "avr" else "instructions")


@pytest.mark.parametrize("core", ["avr", "m3", "m7", "host"])
def test_every_byte_goes_in_and_comes_out(program: Path, core: str) -> None:
    _needs(core)
    sent = bytes(range(256))
    run = build_and_run(core, [program], defines={"CODE": 0}, stdin_bytes=sent)
    assert run.output == bytes(byte ^ 0x55 for byte in sent) + b"end"
    assert run.sizes.text > 100
    assert any("eat" in name for name in run.symbols)


@pytest.mark.parametrize("core", ["avr", "m3", "host"])
def test_a_programs_exit_code_is_the_runs(program: Path, core: str) -> None:
    _needs(core)
    assert build_and_run(core, [program], defines={"CODE": 9}, allow_failure=True).exit_code == 9
    with pytest.raises(MinunError, match="ended with code 9"):
        build_and_run(core, [program], defines={"CODE": 9})


@pytest.mark.parametrize("core", ["avr", "m3", "host"])
def test_a_program_that_hangs_is_ended(tmp_path: Path, core: str) -> None:
    _needs(core)
    path = tmp_path / "hang.cpp"
    path.write_text('#include "bare.h"\nint main() { for (;;) __asm__ volatile(""); }\n')
    with pytest.raises(MinunError, match=r"did not end|no end after"):
        build_and_run(core, [path], timeout_s=1)


def test_a_compilers_refusal_is_one_line_with_the_rest_at_hand(tmp_path: Path) -> None:
    path = tmp_path / "wrong.cpp"
    path.write_text("int main() { return nothing; }\n")
    with pytest.raises(CompileError, match="nothing") as caught:
        build_and_run("host", [path])
    assert "\n" not in str(caught.value)
    assert "\n" in caught.value.output


def test_an_unknown_core_is_named_with_the_known_ones(program: Path) -> None:
    with pytest.raises(MinunError, match="unknown core 'z80'; known are avr, m3"):
        build_and_run("z80", [program])
