# SPDX-License-Identifier: Apache-2.0
"""Whether an output folder is up to date, answered from file sizes and times in under a millisecond.

The stamp is a cache, never the truth: where it does not vouch for everything, the lock file's digests decide.
Imports nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minun_pio import __version__

_SETTLED_NS = 50_000_000  # a file changed this shortly before it was read may change again unseen
_COARSE_NS = 2_000_000_000  # likewise where a file system keeps whole seconds (HFS+) or even ones (FAT)


@dataclass(frozen=True)
class Generation:
    """What a call did. `created`: a file appeared or vanished, so the set of names in the folder changed.

    `inputs`: the files that the outcome depends on, lock files among them."""

    lines: tuple[str, ...]
    outputs: tuple[Path, ...]
    written: bool
    created: bool
    inputs: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Stamp:
    """`outputs`: what was generated. `lines`: what a build says of each model. `record`: file states.

    `time_ns`: when the build began to read. An input that changed later may not be what was compiled, so the
    first call after a search, whose lock file is new, asks the lock file.
    """

    key: str
    models: tuple[str, ...]
    outputs: tuple[str, ...]
    lines: tuple[str, ...]
    record: dict[str, list[int] | None]
    time_ns: int
    version: str

    def vouches(self, key: str, models: Iterable[Path]) -> bool:
        """True when nothing that mattered then has changed since, as far as sizes and times tell."""
        if self.version != _version() or self.key != key or self.models != tuple(map(str, models)):
            return False
        for name, state in self.record.items():
            found = _state(name)
            if found != state:
                return False
            if found and name not in self.outputs and found[1] > self.time_ns - _settled_ns(found[1]):
                return False
        return True


def read_stamp(path: Path) -> Stamp | None:
    """The stamp at `path`; None when there is none that can be read."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Stamp(
            key=data["key"],
            models=tuple(data["models"]),
            outputs=tuple(data["outputs"]),
            lines=tuple(data["lines"]),
            record=dict(data["record"]),
            time_ns=int(data["time_ns"]),
            version=data["version"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def up_to_date(models: Iterable[Path], key: str, stamp_file: Path) -> Generation | None:
    """The answer when the stamp vouches for everything; None otherwise."""
    stamp = read_stamp(stamp_file)
    if stamp is None or not stamp.vouches(key, models):
        return None
    return Generation(stamp.lines, tuple(Path(name) for name in stamp.outputs), False, False)


def write_stamp(
    path: Path,
    key: str,
    models: Iterable[Path],
    inputs: Iterable[Path],
    outputs: Iterable[Path],
    lines: Iterable[str],
    *,
    began_ns: int | None = None,
) -> None:
    """Record the states of `inputs` and `outputs` as they are now. `began_ns`: when their reading began, by
    `time.time_ns()`; None: now."""
    out = [str(file) for file in outputs]
    record = {name: _state(name) for name in (*(str(file) for file in inputs), *out)}
    data = {
        "key": key,
        "models": [str(model) for model in models],
        "outputs": out,
        "lines": list(lines),
        "record": record,
        "time_ns": time.time_ns() if began_ns is None else began_ns,
        "version": _version(),
    }
    from minun_pio.filelock import write_whole  # only now: an unchanged build writes none

    write_whole(path, json.dumps(data, indent=1).encode())


def _settled_ns(modified_ns: int) -> int:
    return _SETTLED_NS if modified_ns % 1_000_000_000 else _COARSE_NS


def _state(name: str) -> list[int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]


def _version() -> str:
    """The package's version and its sources' newest time, count and size: work on the compiler is seen, and
    another one in its place too, be it in a checkout, a submodule, an archive or an installation."""
    newest, count, size = 0, 0, 0
    pending = [os.path.dirname(os.path.abspath(__file__))]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        pending.append(entry.path)
                elif entry.name.endswith(".py"):
                    found = entry.stat()
                    newest, count, size = max(newest, found.st_mtime_ns), count + 1, size + found.st_size
    return f"{__version__}+{newest}-{count}-{size}"
