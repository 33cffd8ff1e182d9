# SPDX-License-Identifier: Apache-2.0
"""minun_pio without what only POSIX systems have: modules, signals, users, UTF-8 as the default encoding."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WINDOWS = """
import importlib, importlib.abc, io, os, pkgutil, signal, subprocess, sys, types

import click, numpy, serial, yaml  # look at the system while they are imported

POSIX = ("fcntl", "grp", "posix_ipc", "pty", "pwd", "resource", "termios", "tty")

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in POSIX:
            raise ModuleNotFoundError(name, name=name)

for name in POSIX:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=1, LK_UNLCK=0, locking=lambda *_: None)
for holder, names in (
    (os, ("fork", "forkpty", "getpgid", "getuid", "killpg", "openpty", "setsid")),
    (signal, ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "alarm")),
):
    for name in names:
        delattr(holder, name)
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="cp1252")
sys.platform = "win32"

import minun_pio

for module in pkgutil.walk_packages(minun_pio.__path__, "minun_pio."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
sys.argv[0] = "minun"
from minun_pio.cli import main
main()
"""


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    for name in ("protonn", "data"):
        source = ROOT / "examples" / "digits" / name
        shutil.copytree(source, folder / name)
    command = [sys.executable, "-m", "minun_pio", "build", "protonn/model.yaml", "--board", "uno"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ("build protonn/model.yaml --board uno --renew --out made", 0, "protonn: "),
        ("evaluate protonn/model.yaml --board uno", 0, "float32"),
        ("report protonn/model.yaml --board uno --out report", 0, "protonn"),
        ("where include", 0, "/include"),
        ("boards", 0, "uno"),
        ("boards stop", 0, ""),
        ("collect protonn/model.yaml --board uno --port COM5", 1, "COM5: cannot open the port: "),
    ],
)
def test_every_module_and_command_does_without_what_windows_has_not(
    digits: Path, arguments: str, status: int, told: str
) -> None:
    command = [sys.executable, "-c", WINDOWS, *arguments.split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=digits, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert told in done.stdout + done.stderr
    assert "internal" not in done.stderr


def test_no_text_file_is_read_or_written_in_the_systems_own_encoding() -> None:
    folders = ("minun_pio", "virtual", "scripts")
    files = [path for name in folders for path in (ROOT / name).rglob("*.py")]
    files += [ROOT / "extra_script.py", ROOT / "setup.py", ROOT / "test" / "test_custom_runner.py"]
    found = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in _without_encoding(path)]
    assert found == []


def _without_encoding(path: Path) -> Iterator[int]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name not in ("open", "fdopen", "read_text", "write_text"):
            continue
        if (
            name == "open"
            and isinstance(function, ast.Attribute)
            and getattr(function.value, "id", "") == "os"
        ):
            continue  # a descriptor
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        binary = name in ("open", "fdopen") and any("b" in text and len(text) <= 3 for text in texts)
        if not binary and "encoding" not in {keyword.arg for keyword in node.keywords}:
            yield node.lineno
