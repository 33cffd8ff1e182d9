# SPDX-License-Identifier: Apache-2.0
"""Which compiler this is: the version, and a digest of the sources that decide what comes out of a build.

A lock file made by another compiler may call kernels that the headers no longer have, so it is made anew. The
standard library only: a build from the lock file asks this too.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from minun_pio import __version__

DECIDING = (
    "budgets.py",
    "build.py",
    "config",
    "costs.py",
    "ir.py",
    "emit",
    "importers",
    "numerics",
    "ops",
    "passes",
    "planner",
    "schedule",
    "search",
    "simulate",
    "slow_path.py",
)
"""What a program depends on; not how it is called, reported or collected."""


@functools.cache
def compiler_id() -> str:
    """`0.1.0+3f2a…`, the same for equal sources on every machine."""
    package = Path(__file__).resolve().parent
    files = [file for part in DECIDING for file in _sources(package / part)]
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.relative_to(package).as_posix()):
        content = file.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{file.relative_to(package).as_posix()} {len(content)}\n".encode() + content)
    return f"{__version__}+{digest.hexdigest()[:16]}"


def _sources(part: Path) -> list[Path]:
    """The Python files; not `._name.py`, which macOS puts beside them on foreign disks and into archives."""
    found = [part] if part.is_file() else part.rglob("*.py")
    return [file for file in found if not file.name.startswith(".")]
