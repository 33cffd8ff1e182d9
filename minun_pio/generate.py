# SPDX-License-Identifier: Apache-2.0
"""From model.yaml files to the C++ in one output folder: what PlatformIO, CMake and `minun build` call.

Three ways, the cheapest first: the stamp says that nothing changed; the lock file has the program, which is
written again without a search and without numpy; otherwise the model is compiled and the lock renewed.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minun_pio.board.target import Target
from minun_pio.board.vectors import split, to_bytes, vectors
from minun_pio.errors import MinunError
from minun_pio.filelock import write_whole
from minun_pio.heartbeat import heartbeat
from minun_pio.lock import Entry, digests_of, find, lock_path, save
from minun_pio.stamp import Generation, up_to_date, write_stamp

if TYPE_CHECKING:
    from minun_pio.emit.program import Program

MANIFEST = ".minun_files.json"  # in the output folder: the names of what was generated

Say = Callable[[str], None]


@dataclass(frozen=True)
class _Compiled:
    program: Program
    summary: Mapping[str, Any]
    inputs: Mapping[str, Path]
    line: str


def locked(models: Sequence[Path], target: Target) -> str | None:
    """None when every model has a valid entry in its lock file, else why the first one has not."""
    for model in models:
        found = find(model, target.key)
        if found.entry is None:
            return found.reason
        if _program(found.entry) is None:
            return f"{lock_path(model).name} is for other headers than these"
    return None


def generate(
    models: Sequence[Path],
    target: Target,
    folder: Path,
    *,
    stamp_file: Path | None = None,
    renew: bool = False,
    say: Say | None = None,
) -> Generation:
    """Make the folder hold exactly the C++ of `models` for `target`. Nothing is half-written.

    `stamp_file` (a cache, outside the folder) lets the next call see at once that nothing changed. `renew`
    searches again whatever the lock says. `say` is told what takes long. Raises MinunError, the folder being
    as it was then.
    """
    models = [Path(model).absolute() for model in models]
    for k, model in enumerate(models):
        if model in models[:k]:
            raise MinunError("config.duplicate-name", "is named twice; name it once", model.name)
    if stamp_file is not None and not renew:
        done = up_to_date(models, target.key, stamp_file)
        if done is not None:
            return done
    from minun_pio.budgets import check_reach

    began_ns = time.time_ns()
    compiled = [_compiled(model, target, renew, say or (lambda _: None)) for model in models]
    _distinct(models, [entry.program.model for entry in compiled])
    check_reach([entry.program for entry in compiled], ", ".join(dict.fromkeys(m.name for m in models)))
    generation = _place(folder, _texts([entry.program for entry in compiled]), compiled)
    inputs = dict.fromkeys(path for entry in compiled for path in entry.inputs.values())
    generation = replace(generation, inputs=(*inputs, *(lock_path(model) for model in models)))
    if stamp_file is not None:
        done_with = (generation.inputs, generation.outputs, generation.lines)
        write_stamp(stamp_file, target.key, models, *done_with, began_ns=began_ns)
    return generation


def clean(folder: Path) -> tuple[Path, ...]:
    """Remove what was generated into `folder`, and folders that are empty then."""
    removed = [folder / name for name in _manifest(folder)]
    for path in removed:
        path.unlink(missing_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    for directory in (folder, folder.parent):
        try:
            directory.rmdir()
        except OSError:
            break
    return tuple(removed)


def models_in(folder: Path) -> tuple[str, ...]:
    """Names of the models whose C++ was generated into `folder`."""
    return tuple(name.removesuffix(".cpp") for name in _manifest(folder) if name.endswith(".cpp"))


def _manifest(folder: Path) -> list[str]:
    """Names of the files that were generated into `folder`."""
    try:
        names = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [name for name in names if isinstance(name, str) and Path(name).name == name]


def _compiled(model: Path, target: Target, renew: bool, say: Say) -> _Compiled:
    """The program from the lock, or compiled and locked."""
    reason = "asked to search again"
    if not renew:
        found = find(model, target.key)
        locked_program = None if found.entry is None else _program(found.entry)
        if found.entry is not None and locked_program is not None:
            entry = found.entry
            return _Compiled(locked_program, entry.summary, entry.inputs, str(entry.summary.get("line", "")))
        reason = found.reason or f"{lock_path(model).name} is for other headers than these"
    from minun_pio.build import compile_model
    from minun_pio.config import read_model
    from minun_pio.emit.program import to_json

    digests = digests_of(model, {})
    config = read_model(model)
    inputs = config.inputs()
    if config.source.kind == "onnx":
        from minun_pio.importers.onnx.external import external_files

        found_files = external_files(inputs["source"])
        inputs |= {f"external {location}": file for location, file in found_files.items()}
    digests = {**digests_of(model, inputs), **digests}
    say(f"{model.name}: {reason}; searching formats for {target.name}")
    with heartbeat(say, model.name) as tell:
        built = compile_model(config, target, tell=tell)
    save(model, target.key, inputs, to_json(built.program), built.summary, digests)
    return _Compiled(
        built.program, built.summary, {"model": model, **inputs}, str(built.summary.get("line", ""))
    )


def _program(entry: Entry) -> Program | None:
    """The entry's program; None when another version of the compiler or of the device headers made it."""
    from minun_pio.emit.program import PROGRAM_VERSION, RUNTIME_VERSION, from_json

    made = (entry.program.get("version"), entry.program.get("runtime_version"))
    return from_json(entry.program) if made == (PROGRAM_VERSION, RUNTIME_VERSION) else None


def _distinct(models: Sequence[Path], names: Sequence[str]) -> None:
    for k, name in enumerate(names):
        if name in names[:k]:
            other = models[names.index(name)]
            raise MinunError(
                "config.duplicate-name",
                f"'{name}' is also the name of {other.parent.name}/{other.name}; names must differ",
                f"{models[k].parent.name}/{models[k].name}",
            )


def _texts(programs: Sequence[Program]) -> dict[str, bytes]:
    """Every file of the folder by name."""
    from minun_pio.emit.write import write, write_shared

    files: dict[str, bytes] = {}
    for program in programs:
        for name, content in write(program).items():
            files[name] = content.encode()
        if program.vectors.samples:
            files[f"{program.model}.vectors"] = self_test(program)
    for name, content in write_shared(programs).items():
        files[name] = content.encode()
    return files


def self_test(program: Program) -> bytes:
    """`<model>.vectors`: the samples and answers by which `pio test` checks a board."""
    inputs = split(base64.b64decode(program.vectors.inputs), program.input_bytes)
    outputs = split(base64.b64decode(program.vectors.outputs), program.output_bytes)
    return to_bytes(vectors(program.model, program.build_hash, program.arena.bytes, inputs, outputs))


def _place(folder: Path, files: Mapping[str, bytes], compiled: Sequence[_Compiled]) -> Generation:
    """Write what differs and remove what is no longer made."""
    before = _manifest(folder)
    outputs = tuple(folder / name for name in sorted(files))
    gone = [folder / name for name in before if name not in files]
    created = any(not path.is_file() for path in outputs) or any(path.is_file() for path in gone)
    written = False
    for path in outputs:
        written |= write_whole(path, files[path.name])
    for path in gone:
        path.unlink(missing_ok=True)
    manifest = json.dumps({"files": sorted(files)}, indent=1) + "\n"
    write_whole(folder / MANIFEST, manifest.encode())
    return Generation(tuple(entry.line for entry in compiled), outputs, written, created)
