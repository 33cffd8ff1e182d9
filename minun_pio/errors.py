# SPDX-License-Identifier: Apache-2.0
"""The one error a user sees: one clear line with a stable code."""

from __future__ import annotations

import os
import sys
import traceback

_PIP_NAMES = {"yaml": "pyyaml", "serial": "pyserial", "elftools": "pyelftools"}


def pip_name(error: ImportError) -> str:
    """What pip calls the package that is missing."""
    name = (error.name or str(error)).partition(".")[0]
    return _PIP_NAMES.get(name, name)


def pip_install(*packages: str, python: str = "") -> str:
    """The command that installs packages into `python`, this one by default. Quotes only where its path has a
    space: PowerShell takes what is in quotes for a text and not for a program."""
    python = python or sys.executable
    quoted = f'"{python}"' if " " in python else python
    return f"{quoted} -m pip install {' '.join(packages)}"


class MinunError(Exception):
    """A failure that is the input's, not the program's.

    `message` is one line: what was found, what was expected, what to do. `where` names the place
    (`model.yaml:12`, `net.onnx: node 'conv1'`) and is printed first; `code` is stable across releases
    (`config.unknown-key`, `onnx.unsupported-operator`, `budget.ram`).
    """

    def __init__(self, code: str, message: str, where: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.where = where

    def __str__(self) -> str:
        prefix = f"{self.where}: " if self.where else ""
        return f"{prefix}{self.message} [{self.code}]"


def missing_extra(package: str, purpose: str) -> MinunError:
    """The error for an optional package that is needed now and not installed."""
    return MinunError(
        "extra.missing",
        f"{purpose} needs the Python package '{package}', which is not installed; "
        f"run: {pip_install(package)}",
    )


def internal(error: BaseException) -> MinunError:
    """The error for a failure that is the program's: what and where, in one line. Raises it again, with its
    traceback, where `MINUN_DEBUG` is set."""
    if os.environ.get("MINUN_DEBUG"):
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return MinunError(
        "internal", f"this should not happen ({text}); with MINUN_DEBUG=1 there is more to report", place
    )
