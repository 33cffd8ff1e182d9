# SPDX-License-Identifier: Apache-2.0
"""The board's headers compile without a warning wherever a user's firmware may include them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from op_harness import STRICT

from minun_pio.board.toolchain import run_tool

ROOT = Path(__file__).resolve().parents[2]

_ARDUINO = """
#pragma once
#include <stdint.h>
struct FakeSerial { void begin(unsigned long); int read(); unsigned write(uint8_t); };
extern FakeSerial Serial;
unsigned long micros();
"""

_FIRMWARE = """
#include <minun/serve.h>
static uint8_t arena[32];
static uint8_t infer(const void*, void*, uint8_t*, size_t) { return 0; }
extern int8_t input[8], output[12];  // a sketch's usual names: none of ours may shadow them
extern int in, out, count, memory, row, board_time;
static const minun::Model models[] MINUN_FLASH = {{"m", 1, 32, 8, 12, infer}};
static minun::BoardLink<8, 12> board(models, 1, arena, sizeof arena);
static minun::Link<minun::BoardPort, minun::NoClock, 8, 12> quiet(models, 1, arena, sizeof arena);
void setup();
void loop();
void setup() { minun::BoardPort::begin(); board.begin(); }
void loop() { board.poll(); quiet.poll(); }
#if defined(ARDUINO)
minun::Link<minun::ArduinoPort, minun::BoardClock, 8, 12> through_serial(models, 1, arena, sizeof arena);
void loop2();
void loop2() { through_serial.poll(); }
#endif
"""

_CASES = {
    "uno": ("avr-g++", "-mmcu=atmega328p -DARDUINO=10808 -DARDUINO_ARCH_AVR -DF_CPU=16000000L"),
    "uno_sim": (
        "avr-g++",
        "-mmcu=atmega328p -DARDUINO=10808 -DARDUINO_ARCH_AVR -DF_CPU=16000000L -DMINUN_VIRTUAL_UNO",
    ),
    "leonardo": ("avr-g++", "-mmcu=atmega32u4 -DARDUINO=10808 -DARDUINO_ARCH_AVR -DF_CPU=16000000L"),
    "mega": ("avr-g++", "-mmcu=atmega2560 -DARDUINO=10808 -DARDUINO_ARCH_AVR -DF_CPU=16000000L"),
    "atmega8": ("avr-g++", "-mmcu=atmega8 -DARDUINO=10808 -DARDUINO_ARCH_AVR -DF_CPU=16000000L"),
    "atmega128": ("avr-g++", "-mmcu=atmega128 -DARDUINO=10808 -DARDUINO_ARCH_AVR -DF_CPU=16000000L"),
    "attiny85": ("avr-g++", "-mmcu=attiny85 -DARDUINO=10808 -DARDUINO_ARCH_AVR -DF_CPU=8000000L"),
    "attiny4313": ("avr-g++", "-mmcu=attiny4313 -DARDUINO=10808 -DARDUINO_ARCH_AVR -DF_CPU=8000000L"),
    "due": ("arm-none-eabi-g++", "-mcpu=cortex-m3 -mthumb -DARDUINO=10808 -DARDUINO_ARCH_SAM"),
    "stm32": ("arm-none-eabi-g++", "-mcpu=cortex-m7 -mthumb -DARDUINO=10808 -DARDUINO_ARCH_STM32"),
    "zero": ("arm-none-eabi-g++", "-mcpu=cortex-m0plus -mthumb -DARDUINO=10808 -DARDUINO_ARCH_SAMD"),
    "due_sim": ("arm-none-eabi-g++", "-mcpu=cortex-m3 -mthumb -DMINUN_VIRTUAL_ARM"),
    "stm32h747_sim": ("arm-none-eabi-g++", "-mcpu=cortex-m7 -mthumb -DMINUN_VIRTUAL_ARM"),
    "native g++": ("g++", "-DMINUN_NATIVE"),
    "native clang++": ("clang++", "-DMINUN_NATIVE"),
}


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("optimise", ["-O0", "-Os"])
def test_a_firmware_with_the_link_compiles_without_a_warning(
    tmp_path: Path, name: str, optimise: str
) -> None:
    compiler, flags = _CASES[name]
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} not installed")
    (tmp_path / "Arduino.h").write_text(_ARDUINO)
    (tmp_path / "firmware.cpp").write_text(_FIRMWARE)
    command = [compiler, "-std=c++11", *STRICT, optimise, *flags.split()]
    command += [f"-I{ROOT / 'include'}", f"-I{ROOT / 'virtual' / 'support'}", f"-I{tmp_path}"]
    for source in (tmp_path / "firmware.cpp", ROOT / "src" / "timer_avr.cpp"):
        run_tool([*command, "-c", str(source), "-o", str(tmp_path / "out.o")], source.name)


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.parametrize("header", sorted(path.name for path in (ROOT / "include" / "minun").glob("*.h")))
def test_a_compiler_without_gnu_extensions_is_refused_before_anything_else(header: str) -> None:
    command = ("g++", "-std=c++11", "-U__GNUC__", "-D_MSC_VER=1944", "-fmax-errors=1", "-fsyntax-only")
    command = (*command, f"-I{ROOT}/include", "-x", "c++", str(ROOT / "include" / "minun" / header))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "platform.h" in done.stderr:
        assert 'error: #error "minun needs g++ or clang++ ' in done.stderr
    else:
        assert done.returncode == 0, done.stderr  # nothing in it is GNU's


_STRING_H = """#pragma once
#include <stddef.h>
extern "C" {
void* memcpy(void*, const void*, size_t);
void* memmove(void*, const void*, size_t);
void* memset(void*, int, size_t);
int memcmp(const void*, const void*, size_t);
size_t strlen(const char*);
}
"""  # a foreign system's is not here, and the headers take no other from it


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quickstart's network as C++ for the host."""
    folder = tmp_path_factory.mktemp("generated")
    for name in ("cnn", "data"):
        shutil.copytree(ROOT / "examples" / "digits" / name, folder / name)
    model = folder / "cnn" / "model.yaml"
    run_tool([sys.executable, "-m", "minun_pio", "build", str(model), "--out", str(folder)], model.name)
    return folder


@pytest.mark.skipif(shutil.which("clang++") is None, reason="clang++ is not installed")
@pytest.mark.parametrize(
    "system",
    ["arm64-apple-macos11", "x86_64-apple-macos11", "x86_64-w64-windows-gnu", "x86_64-pc-windows-msvc"],
)
def test_headers_and_generated_code_compile_for_other_systems_too(
    system: str, tmp_path: Path, generated: Path
) -> None:
    (tmp_path / "string.h").write_text(_STRING_H)
    board = ("serve.h", "timer.h")  # of a board, as above
    headers = sorted(path.name for path in (ROOT / "include" / "minun").glob("*.h") if path.name not in board)
    (tmp_path / "all.cpp").write_text("".join(f"#include <minun/{name}>\n" for name in headers))
    for source in (tmp_path / "all.cpp", generated / "cnn.cpp"):
        flags = ("-std=c++11", "-O1", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-nostdinc++")
        command = ["clang++", f"--target={system}", *flags, "-isystem", str(tmp_path), f"-I{ROOT}/include"]
        run_tool([*command, "-S", str(source), "-o", str(tmp_path / "out.s")], source.name)


def test_without_a_known_port_serve_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "firmware.cpp").write_text("#include <minun/serve.h>\n")
    from minun_pio.board.toolchain import CompileError

    with pytest.raises(CompileError, match="write a Port"):
        run_tool(["g++", "-std=c++11", f"-I{ROOT / 'include'}", "-c", str(tmp_path / "firmware.cpp")], "it")


@pytest.mark.parametrize(
    ("mcu", "clock"), [("atmega328p", "kAvrTimerCycles"), ("atmega8", "kNoClock"), ("attiny85", "kNoClock")]
)
def test_an_avr_without_the_16_bit_timer_of_the_uno_is_timed_otherwise(
    tmp_path: Path, mcu: str, clock: str
) -> None:
    if shutil.which("avr-g++") is None:
        pytest.skip("avr-g++ not installed")
    (tmp_path / "clock.cpp").write_text(
        '#include "minun/timer.h"\n'
        f'static_assert(static_cast<int>(minun::BoardClock::kKind) == minun::{clock}, "the clock");\n'
    )
    command = ["avr-g++", "-std=c++11", f"-mmcu={mcu}", "-fsyntax-only", f"-I{ROOT / 'include'}"]
    run_tool([*command, str(tmp_path / "clock.cpp")], mcu)
