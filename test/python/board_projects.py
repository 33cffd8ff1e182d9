# SPDX-License-Identifier: Apache-2.0
"""A small firmware project for the virtual boards, and `pio` to build it: for tests only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from minun_pio.board.bare import missing_tools

ROOT = Path(__file__).resolve().parents[2]

MAIN = r"""
#include <minun/serve.h>
// A model in the form of a generated one: the sum of eight codes, and as much work as the first code says.
namespace toy {
typedef int8_t InputCode;
typedef int16_t OutputCode;
enum Status { kOk = 0 };
const uint32_t kBuildHash = 0x12345678;
const size_t kArenaBytes = 16, kInputBytes = 8, kOutputBytes = 4;
Status infer(const InputCode* in, OutputCode* out, uint8_t* arena, size_t) {
#if defined(__AVR__)
  GPIOR0 = 1;  // the simulator writes the true cycle into its log
#endif
  int16_t sum = 0;
  for (int i = 0; i < 8; ++i) {
    sum = static_cast<int16_t>(sum + in[i]);
    arena[8 + i] = static_cast<uint8_t>(in[i]);
  }
  uint32_t work = 0;
  for (int32_t i = 0; i < in[0] * 1000L; ++i) {
    work = work * 3 + static_cast<uint32_t>(i);
    __asm__ volatile("" : "+r"(work));
  }
  out[0] = sum;
  out[1] = static_cast<int16_t>(work);
#if defined(__AVR__)
  GPIOR0 = 2;
#endif
  return kOk;
}
}  // namespace toy
static uint8_t arena[toy::kArenaBytes];
static const minun::Model models[] MINUN_FLASH = {MINUN_MODEL(toy)};
static minun::BoardLink<toy::kInputBytes, toy::kOutputBytes> board(models, 1, arena, sizeof arena);
void setup() {
  minun::BoardPort::begin();
  board.begin();
}
void loop() { board.poll(); }
"""


def need_virtual_boards() -> None:
    """Skips, with the reason, where compilers, emulators or PlatformIO's core are not set up."""
    absent = [tool for core in ("avr", "m3") for tool in missing_tools(core)]
    if absent:
        pytest.skip(f"{', '.join(sorted(set(absent)))} not installed; run: make setup")
    if not (ROOT / ".platformio-core" / "packages" / "tool-scons").is_dir():
        pytest.skip("PlatformIO's core is not set up; run: make setup")


def pio_environment() -> dict[str, str]:
    """The variables under which `pio` needs no network (scripts/env.sh sets the same)."""
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("PLATFORMIO_")},
        "PLATFORMIO_CORE_DIR": str(ROOT / ".platformio-core"),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
        "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true",
    }


def pio(project: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs `pio` in a project and gives what it said; fails the test when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "platformio", *arguments],
        cwd=project,
        env=pio_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if check and done.returncode != 0:
        pytest.fail(f"pio {' '.join(arguments)}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def make_project(folder: Path, environments: str, main: str = MAIN) -> Path:
    """A project with `[env]` for the virtual boards and `environments` below it."""
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.cpp").write_text(main)
    shutil.copy(ROOT / "src" / "timer_avr.cpp", folder / "src")
    (folder / "platformio.ini").write_text(
        "[env]\n"
        f"platform = symlink://{ROOT / 'virtual'}\n"
        "test_framework = custom\n"
        "build_src_flags = -Wall -Wextra -Werror\n"
        f"build_flags = '-I{ROOT / 'include'}'\n" + environments
    )
    return folder


ALL_BOARDS = """
[env:uno_sim]
board = uno_sim
framework = arduino
[env:due_sim]
board = due_sim
[env:stm32h747_sim]
board = stm32h747_sim
[env:native]
board = native
"""
