# SPDX-License-Identifier: Apache-2.0
"""The one error a user sees: one clear line with a stable code."""

from __future__ import annotations


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


def missing_extra(package: str, extra: str, purpose: str) -> MinunError:
    """The error for an optional package that is needed now and not installed."""
    return MinunError(
        "extra.missing",
        f"{purpose} needs the Python package '{package}', which is not installed; "
        f"run: pip install 'minun_pio[{extra}]'",
    )
