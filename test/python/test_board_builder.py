# SPDX-License-Identifier: Apache-2.0
"""The virtual boards' PlatformIO platform on machines that lack what it needs: one line, and which."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BUILDER = Path(__file__).resolve().parents[2] / "virtual" / "builder" / "main.py"
PROGRAM = """
import sys, types
class Env:
    def PioPlatform(self): return self
    def BoardConfig(self): return self
    def get_dir(self): return "."
    def get(self, name): return {toolchain!r}
    def WhereIs(self, name): return None if name in {missing!r} else name
    def Exit(self, status): sys.exit(status)
    def Replace(self, **others): sys.exit("it went on")
for name in ("SCons", "SCons.Script"):
    sys.modules[name] = types.ModuleType(name)
names = {{"AlwaysBuild": None, "Default": None, "DefaultEnvironment": Env}}
sys.modules["SCons.Script"].__dict__.update(names)
sys.platform = {system!r}
exec(compile(open({builder!r}).read(), "main.py", "exec"), {{}})
"""


@pytest.mark.parametrize(
    ("system", "toolchain", "missing", "line"),
    [
        (
            "darwin",
            "host",
            "",
            "Error: virtual boards, native too, run on Linux only; name the environment of",
        ),
        (
            "win32",
            "host",
            "",
            "Error: virtual boards, native too, run on Linux only; name the environment of",
        ),
        ("linux", "avr", "avr-g++", "Error: 'avr-g++' is not installed; run: make setup"),
        ("linux", "arm", "arm-none-eabi-g++", "Error: 'arm-none-eabi-g++' is not installed; run: make setup"),
        ("linux", "host", "gcc-ar", "Error: 'gcc-ar' is not installed; run: make setup"),
        ("linux", "host", "", "it went on"),
    ],
)
def test_a_machine_without_what_a_board_needs_is_told_in_one_line(
    system: str, toolchain: str, missing: str, line: str
) -> None:
    missing_tools = [missing] if missing else []
    program = PROGRAM.format(system=system, toolchain=toolchain, missing=missing_tools, builder=str(BUILDER))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
