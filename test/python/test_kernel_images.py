# SPDX-License-Identifier: Apache-2.0
"""What the linked images of kernels hold, and that the headers stand beside Arduino's macros."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kernel_program import ROOT, Case, run
from op_harness import STRICT
from test_kernel_linear import tame_cases

from minun_pio.board.bare import missing_tools

NEED_A_PORT_OR_A_CORE = ("serve.h", "sums_thumb2.h")
HEADERS = sorted(
    path.name for path in (ROOT / "include" / "minun").glob("*.h") if path.name not in NEED_A_PORT_OR_A_CORE
)
ARDUINO_MACROS = """
#define round(x) ((x) >= 0 ? (long)((x) + 0.5) : (long)((x) - 0.5))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define abs(x) ((x) > 0 ? (x) : -(x))
#define sq(x) ((x) * (x))
#define bit(b) (1UL << (b))
#define F(text) (text)
#define B1 1
#define PI 3.14
#define HIGH 1
#define LOW 0
#define INPUT 0
#define OUTPUT 1
#define DEFAULT 1
#define radians(deg) ((deg) * 0.01745)
#define degrees(rad) ((rad) * 57.29)
#define constrain(amt, low, high) ((amt) < (low) ? (low) : ((amt) > (high) ? (high) : (amt)))
#define lowByte(w) ((uint8_t)((w) & 0xff))
#define highByte(w) ((uint8_t)((w) >> 8))
"""
FLOATING = re.compile(
    r"__(aeabi_[fd]|add[sd]f|sub[sd]f|mul[sd]f|div[sd]f|fix|float|(eq|lt|gt|le|ge|cmp)[sd]f)"
)
COMPILERS = {
    "g++": ("-O2",),
    "clang++": ("-O2",),
    "avr-g++": ("-mmcu=atmega328p", "-Os"),
    "arm-none-eabi-g++": ("-mcpu=cortex-m3", "-mthumb", "-O0"),
}


@pytest.mark.parametrize("core", ["avr", "m3", "m7"])
def test_posit_and_fixed_kernels_link_no_float_and_no_libm(core: str, tmp_path: Path) -> None:
    missing = missing_tools(core)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    options = {"mcu": "atmega1284p"} if core == "avr" else {}
    cases: list[Case] = tame_cases()[:: 12 if core == "avr" else 5]
    _, _, result = run(core, cases, folder=tmp_path, cflags=("-Os",), **options)
    assert [name for name in result.symbols if FLOATING.match(name)] == []


@pytest.mark.parametrize("compiler", list(COMPILERS))
def test_headers_compile_strictly_beside_arduino_macros(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"not installed: {compiler}")
    source = tmp_path / "headers.cpp"
    source.write_text(ARDUINO_MACROS + "".join(f'#include "minun/{header}"\n' for header in HEADERS))
    command = [compiler, *COMPILERS[compiler], "-std=c++11", *STRICT, "-fsyntax-only"]
    done = subprocess.run(
        [*command, f"-I{ROOT / 'include'}", str(source)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
