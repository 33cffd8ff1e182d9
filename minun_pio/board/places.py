# SPDX-License-Identifier: Apache-2.0
"""Where the virtual boards' sources lie and where what is built from them is kept."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from minun_pio.errors import MinunError


def repository_dir() -> Path:
    """The checkout this package runs from (the folder that holds `virtual/` and `include/`)."""
    return Path(__file__).resolve().parents[2]


def virtual_dir() -> Path:
    """The folder of the virtual boards; an error when the package was installed without them."""
    folder = repository_dir() / "virtual"
    if not (folder / "platform.json").is_file() and not (folder / "bare").is_dir():
        raise MinunError(
            "board.no-virtual-boards",
            "the virtual boards are not part of this installation; clone the repository and run: make setup",
            str(folder),
        )
    return folder


def cache_dir() -> Path:
    """The user's cache for compiled tools: `$MINUN_CACHE_DIR`, else the system's usual place."""
    named = os.environ.get("MINUN_CACHE_DIR")
    if named:
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "minun" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minun"


def publish(temporary: Path, final: Path) -> None:
    """Moves a finished file to its place in one step, so that parallel builds never see half of it."""
    final.parent.mkdir(parents=True, exist_ok=True)
    os.replace(temporary, final)


def simulator_tool(name: str) -> Path:
    """The program `virtual/simavr/<name>.c`, compiled on first use against libsimavr."""
    source = virtual_dir() / "simavr" / f"{name}.c"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    program = cache_dir() / "tools" / f"{name}-{digest}"
    if program.is_file():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        built = Path(folder) / name
        command = ["cc", "-O2", str(source), "-o", str(built), "-lsimavr", "-lelf", "-lutil"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise MinunError(
                "board.no-compiler", "no C compiler found for the virtual Uno; run: make setup"
            ) from None
        if done.returncode != 0:
            reason = next(
                (line for line in done.stderr.splitlines() if "error" in line), "see the compiler's output"
            )
            raise MinunError(
                "board.no-simavr",
                f"cannot build the virtual Uno ({reason.strip()}); run: make setup",
                str(source),
            )
        publish(built, program)
    return program
