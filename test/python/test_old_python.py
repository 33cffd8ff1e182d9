# SPDX-License-Identifier: Apache-2.0
"""A Python that is too old for minun_pio, as PlatformIO's or CMake's may be, says so in one line."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARSED_BY_ALL = ("extra_script.py", "minun_pio/__init__.py", "minun_pio/__main__.py")
PRETEND = "import sys; sys.version_info = (3, 9, 6, 'final', 0)\n"
MINUN = "import runpy; runpy.run_module('minun_pio', run_name='__main__')\n"
SCRIPT = """
import sys, types
class Env:
    def Exit(self, status): sys.exit(status)
for name in ("SCons", "SCons.Script"):
    sys.modules[name] = types.ModuleType(name)
names = {"ARGUMENTS": {}, "COMMAND_LINE_TARGETS": [], "DefaultEnvironment": Env, "Import": lambda name: None}
sys.modules["SCons.Script"].__dict__.update(names)
exec(compile(open("extra_script.py").read(), "extra_script.py", "exec"), {"env": Env()})
"""


def _works(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


OLD = [python for n in range(6, 10) if (python := shutil.which(f"python3.{n}")) and _works(python)]


@pytest.mark.parametrize("name", PARSED_BY_ALL)
def test_what_an_old_python_reads_before_the_check_is_in_its_syntax(name: str) -> None:
    source = (ROOT / name).read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 6))
    assert "from __future__" not in source  # 3.6 has no annotations there


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (MINUN, "minun: error: {python} is Python {version}, minun_pio needs 3.10 or newer [python.version]"),
        (
            SCRIPT,
            "Error: minun: PlatformIO runs on Python {version} ({python}), minun_pio needs 3.10 or newer; "
            "install PlatformIO with a newer Python [python.version]",
        ),
    ],
)
@pytest.mark.parametrize("python", [*OLD, "pretended"])
def test_an_old_python_is_told_in_one_line(program: str, line: str, python: str) -> None:
    pretended = python == "pretended"
    python = sys.executable if pretended else python
    command = [python, "-c", PRETEND + program if pretended else program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    ask = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.executable)"
    version, name = subprocess.run(
        [python, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    version = "3.9" if pretended else version
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == line.format(python=name, version=version) + "\n"


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_cmake_passes_on_what_an_old_python_says(tmp_path: Path) -> None:
    python = tmp_path / "python3.9"
    program = (PRETEND + MINUN).strip().replace("\n", "; ")
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{program}"\n')
    python.chmod(0o755)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.19)\nproject(firmware NONE)\n"
        f'include("{ROOT}/cmake/MinunPio.cmake")\nminun_add_models(firmware MODELS model.yaml)\n'
    )
    command = ["cmake", "-S", ".", "-B", "build", f"-DMINUN_PYTHON={python}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert " is Python 3.9, minun_pio needs 3.10 or newer" in " ".join(done.stderr.split())
