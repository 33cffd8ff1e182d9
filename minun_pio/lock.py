# SPDX-License-Identifier: Apache-2.0
"""model.lock.json: what a search found, checked in beside model.yaml, so that a build need not search.

An entry belongs to a target key (core and board sizes) and to digests of model.yaml, the network, its
weights, the data, and the compiler's sources; a digest of its own tells an entry that was edited. A build
with a valid entry imports neither numpy nor PyYAML. The data may be absent then; everything else must be
there and unchanged. Texts are compared without regard to line ends.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minun_pio.compiler_id import compiler_id
from minun_pio.errors import MinunError
from minun_pio.filelock import exclusive, write_whole

LOCK_VERSION = 1
_TEXT_SUFFIXES = frozenset((".yaml", ".yml", ".csv", ".json", ".txt"))
_DATA_ROLES = frozenset(("calibration", "evaluation"))
_BLOB_CHARACTERS = 160  # longer strings are kept once for all targets
_BLOB = "$blob"


@dataclass(frozen=True)
class Entry:
    """A target's part of the lock: the back-end's program as JSON, a summary, the files it was made from."""

    program: Mapping[str, Any]
    summary: Mapping[str, Any]
    inputs: Mapping[str, Path]


@dataclass(frozen=True)
class Lookup:
    """`entry`, or None and `reason`: why the lock does not serve."""

    entry: Entry | None
    reason: str = ""


def lock_path(model: Path) -> Path:
    """`model.lock.json` for `model.yaml`."""
    return model.with_name(model.stem + ".lock.json")


def digest_of(path: Path) -> str:
    """sha256 of a file's bytes, of a text file's with line ends as LF."""
    content = path.read_bytes()
    if path.suffix.lower() in _TEXT_SUFFIXES:
        content = content.replace(b"\r\n", b"\n")
    return hashlib.sha256(content).hexdigest()


def find(model: Path, key: str) -> Lookup:
    """The entry of target `key` if it is valid for the files as they are now. Raises MinunError when the lock
    file cannot be read as one."""
    path = lock_path(model)
    lock = _load(path)
    if lock is None:
        if path.is_file():
            return Lookup(None, f"{path.name} is laid out otherwise, by another version of minun_pio")
        return Lookup(None, f"there is no {path.name}")
    found = lock["targets"].get(key)
    if found is None:
        return Lookup(None, f"{path.name} has no entry for {key}")
    made_by = found.get("compiler", "of an earlier version")
    if made_by != compiler_id():
        return Lookup(None, f"{path.name} was made by minun_pio {made_by}, not by this one")
    inputs: dict[str, Path] = {}
    for role, (relative, digest) in sorted(found["inputs"].items()):
        file = Path(os.path.normpath(model.parent / relative))
        inputs[role] = file
        if file.is_file():
            if digest_of(file) != digest:
                return Lookup(None, f"{file.name} has changed")
        elif role not in _DATA_ROLES:
            return Lookup(None, f"{file.name} is not there any more")
    blobs = lock["blobs"]
    if found.get("digest") != _digest(found["program"], found["summary"]) or not _whole(blobs):
        return Lookup(None, f"the entry for {key} in {path.name} is not as it was written")
    try:
        return Lookup(Entry(_expand(found["program"], blobs), _expand(found["summary"], blobs), inputs))
    except KeyError as error:
        raise _broken(path, f"part {error} is missing") from None


def digests_of(model: Path, inputs: Mapping[str, Path]) -> dict[str, str]:
    """Digests by role of model.yaml and of those inputs that are there. Taken before the files are read, so
    that a file which changes during a search makes the entry invalid."""
    return {role: digest_of(file) for role, file in {"model": model, **inputs}.items() if file.is_file()}


def save(
    model: Path,
    key: str,
    inputs: Mapping[str, Path],
    program: Mapping[str, Any],
    summary: Mapping[str, Any],
    digests: Mapping[str, str] | None = None,
) -> bool:
    """Puts target `key` into the lock; other targets stay. Safe when several builds save at once.

    `digests` are those of the files that the program was made from; None: as the files are now. Returns
    whether the lock changed.
    """
    path = lock_path(model)
    with exclusive(path):
        try:
            lock = _load(path)
        except MinunError:
            lock = None  # a broken lock is replaced: everything in it can be made again
        lock = lock or {"targets": {}, "blobs": {}}
        blobs: dict[str, str] = dict(lock["blobs"])
        known = digests_of(model, inputs) if digests is None else digests
        files = {
            role: [_relative(file, model.parent), known.get(role, "")]
            for role, file in {"model": model, **inputs}.items()
        }
        short_program, short_summary = _shrink(program, blobs), _shrink(summary, blobs)
        lock["targets"][key] = {
            "compiler": compiler_id(),
            "digest": _digest(short_program, short_summary),
            "inputs": files,
            "program": short_program,
            "summary": short_summary,
        }
        used: set[str] = set()
        _blobs_in(lock["targets"], used)
        kept = {name: blobs[name] for name in sorted(used) if name in blobs}
        text = json.dumps(
            {"lock": LOCK_VERSION, "targets": lock["targets"], "blobs": kept}, indent=1, sort_keys=True
        )
        return write_whole(path, text.encode() + b"\n")


def _load(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _broken(path, str(error)) from None
    try:
        lock = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise _broken(path, f"not JSON{line} (a merge conflict?)") from None
    if not isinstance(lock, dict) or not isinstance(lock.get("lock"), int):
        raise _broken(path, "it has no 'lock' version")
    if lock["lock"] != LOCK_VERSION:
        return None
    targets, blobs = lock.get("targets"), lock.get("blobs")
    if not isinstance(targets, dict) or not isinstance(blobs, dict):
        raise _broken(path, "'targets' or 'blobs' is missing")
    for key, entry in targets.items():
        parts = (
            [entry.get(part) for part in ("inputs", "program", "summary")]
            if isinstance(entry, dict)
            else [None]
        )
        if not all(isinstance(part, dict) for part in parts):
            raise _broken(path, f"the entry of {key} is incomplete")
        for pair in entry["inputs"].values():
            if (
                not isinstance(pair, list)
                or len(pair) != 2
                or not all(isinstance(text, str) for text in pair)
            ):
                raise _broken(path, f"the entry of {key} is incomplete")
    return lock


def _broken(path: Path, what: str) -> MinunError:
    return MinunError(
        "lock.broken", f"cannot be read: {what}; delete it, the next build makes it again", path.name
    )


def _relative(file: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(file, folder)).as_posix()
    except ValueError:  # another drive
        return file.as_posix()


def _digest(program: Any, summary: Any) -> str:
    """What tells an entry from one that was edited or merged; its blobs have names that tell theirs."""
    text = json.dumps([program, summary], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _whole(blobs: Mapping[str, Any]) -> bool:
    return all(isinstance(text, str) and _blob_name(text) == name for name, text in blobs.items())


def _blob_name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _shrink(value: Any, blobs: dict[str, str]) -> Any:
    """The value with its long strings moved to `blobs`."""
    if isinstance(value, str) and len(value) > _BLOB_CHARACTERS:
        name = _blob_name(value)
        blobs[name] = value
        return {_BLOB: name}
    if isinstance(value, Mapping):
        return {str(key): _shrink(item, blobs) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shrink(item, blobs) for item in value]
    return value


def _expand(value: Any, blobs: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_BLOB}:
            return blobs[value[_BLOB]]
        return {key: _expand(item, blobs) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, blobs) for item in value]
    return value


def _blobs_in(value: Any, used: set[str]) -> None:
    if isinstance(value, dict):
        if set(value) == {_BLOB}:
            used.add(str(value[_BLOB]))
            return
        for item in value.values():
            _blobs_in(item, used)
    elif isinstance(value, list):
        for item in value:
            _blobs_in(item, used)
