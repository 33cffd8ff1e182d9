# SPDX-License-Identifier: Apache-2.0
"""The PlatformIO plugin. `extra_script.py` calls `extend` from `lib_deps` or as a `pre:` script.

It generates before PlatformIO looks for headers, puts the output folder on the include path, compiles the
generated sources with the project, and adds the targets `minun_search`, `minun_report` and `minun_collect`.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minun_pio.board.target import HOST, Target, core_of, lpm_may_not_reach
from minun_pio.errors import MinunError, internal, pip_install, pip_name
from minun_pio.stamp import Generation, up_to_date

OPTIONS = ("custom_minun_model", "custom_minun_output_dir", "custom_minun_no_heap")
_YES_NO = {
    "yes": True,
    "true": True,
    "1": True,
    "on": True,
    "no": False,
    "false": False,
    "0": False,
    "off": False,
}
PROGRESS_S = 10.0  # between two lines of a long collection
_DONE = "MINUN_DONE"
_VARIANT = "minun_models"


@dataclass(frozen=True)
class Setup:
    """What platformio.ini says, paths absolute."""

    project_dir: Path
    environment: str
    models: tuple[Path, ...]
    folder: Path
    stamp_file: Path
    target: Target
    no_heap: bool = False


def extend(
    env: Any, project_env: Any, source_env: Any, root: str, targets: list[str], verbose: bool = False
) -> None:
    """Everything the plugin does at script load.

    `env` is the script's environment (the library's own under `lib_deps`), `project_env` the default one,
    `source_env` the one that compiles the project's sources. `root` is this library's folder. Ends the build
    with one line when something is wrong.
    """
    try:
        _extend(env, project_env, source_env, Path(root), targets, verbose)
    except MinunError as error:
        _fail(project_env, str(error))
    except ImportError as error:
        models = read_setup(project_env).models
        _fail(project_env, missing_package(error, project_env.subst("$PYTHONEXE"), models))
    except OSError as error:
        _fail(project_env, f"{error.filename or 'file'}: {error.strerror or error} [file.error]")
    except Exception as error:
        _fail(project_env, str(internal(error)))


def missing_package(error: ImportError, python: str, models: Sequence[Path] = ()) -> str:
    """What to run when PlatformIO's Python lacks a package that a search needs: all of them at once."""
    missing = pip_name(error)
    texts = [model.read_bytes() for model in models if model.is_file()]
    formats = [
        name for name in ("onnx", "tflite") if any(re.search(rb"\b%s:" % name.encode(), t) for t in texts)
    ]
    wanted = ["numpy", "pyyaml", *(name for name in formats if find_spec(name) is None)]
    if missing not in wanted:
        wanted.append(missing)
    return (
        f"the Python package '{missing}' is missing in PlatformIO's Python; "
        f"run: {pip_install(*wanted, python=python)} [extra.missing]"
    )


def _extend(
    env: Any, project_env: Any, source_env: Any, root: Path, targets: list[str], verbose: bool
) -> None:
    setup = read_setup(project_env)
    if project_env.IsCleanTarget():
        _clean(project_env, setup)
        return
    include = str(setup.folder)
    env.AppendUnique(CPPPATH=[include, str(root / "include")])
    if project_env.get(_DONE):
        return
    project_env[_DONE] = True
    if not setup.models:
        _print("no custom_minun_model in platformio.ini and no model.yaml beside it: nothing to generate")
        return
    if not project_env.IsIntegrationDump() or _needs_no_search(setup):
        _generate(project_env, setup, renew="minun_search" in targets)
        if verbose:
            _print_details(setup)
    project_env.AppendUnique(CPPPATH=[include, str(root / "include")])
    for builder in project_env.get("__PIO_LIB_BUILDERS", None) or []:
        builder.env.AppendUnique(CPPPATH=[include])
    if source_env is not project_env:
        source_env.AppendUnique(CPPPATH=[include, str(root / "include")])
    source_env.BuildSources(os.path.join("$BUILD_DIR", _VARIANT), include)
    _add_targets(project_env, setup)
    if setup.no_heap:
        _after_linking(project_env, project_env.VerboseAction(_check_heap, "Checking for a heap"))
    if lpm_may_not_reach(setup.target):
        reach = project_env.VerboseAction(_reach_of(str(setup.folder)), "Checking where constants lie")
        _after_linking(project_env, reach)


def _after_linking(env: Any, action: Any) -> None:
    """Like AddPostAction on the program, which would be lost here where an earlier build's program exists:
    PlatformIO delays it only for files that are not there yet."""
    from SCons.Script.SConscript import SConsEnvironment

    def add(nodes: Any, delayed: Any) -> None:
        SConsEnvironment.AddPostAction(env, nodes, delayed)

    env.Append(_PIO_DELAYED_ACTIONS=[(add, ["$PROGPATH"], action)])


def _check_heap(target: Any, source: Any, env: Any) -> int:
    """After linking: fails the build when a heap function is in the firmware."""
    from minun_pio.emit.link_check import check_no_heap

    return _checked(Path(str(target[0])), check_no_heap)


def _reach_of(folder: str) -> Callable[[Any, Any, Any], int]:
    """An action after linking for AVR: fails the build when `lpm` does not reach a constant of the models. A
    function of its own, and of text: SCons links again when what it sees of an action has changed."""

    def check_reach(target: Any, source: Any, env: Any) -> int:
        return _checked(Path(str(target[0])), lambda image: _tell_beyond(image, Path(folder)))

    return check_reach


def _tell_beyond(image: Path, folder: Path) -> None:
    from minun_pio.emit.link_check import LPM_END, check_reach
    from minun_pio.generate import models_in

    others = check_reach(image, models_in(folder))
    if others:
        _print(
            f"note: {len(others)} other constants in program memory end beyond {LPM_END} B, the first is "
            f"{others[0]}: pgm_read_byte does not reach them"
        )


def _checked(image: Path, check: Callable[[Path], object]) -> int:
    """0, or 1 after one line of what is wrong with the linked firmware."""

    def run() -> None:
        try:
            check(image)
        except MinunError:
            image.unlink(missing_ok=True)  # linked again, and refused again, at the next run
            raise

    return _guarded(run)


def read_setup(env: Any) -> Setup:
    """Options of the environment and what its board is. Raises MinunError on an option that is unknown or has
    no such value, and on a model that is not there."""
    project_dir = Path(env.subst("$PROJECT_DIR"))
    environment = env.subst("$PIOENV")
    where = f"platformio.ini: [env:{environment}]"
    for option in env.GetProjectConfig().options(env=environment):
        if option.startswith("custom_minun") and option not in OPTIONS:
            raise MinunError(
                "config.unknown-key", f"unknown option '{option}'; there are {', '.join(OPTIONS)}", where
            )
    given = env.GetProjectOption("custom_minun_model", "")
    lines = given if isinstance(given, list) else str(given).splitlines()
    named = [line.strip() for line in lines if line.strip()]
    names = named or (["model.yaml"] if (project_dir / "model.yaml").is_file() else [])
    models = tuple(Path(os.path.normpath(project_dir / name)) for name in names)
    for name, model in zip(names, models, strict=True):
        if not model.is_file() and not env.IsCleanTarget():
            raise MinunError(
                "config.missing-file",
                f"custom_minun_model: no file '{name}'; its path is relative to platformio.ini's folder, "
                "and several stand one a line",
                where,
            )
    option = str(env.GetProjectOption("custom_minun_output_dir", "") or "").strip()
    include = Path(env.subst("$PROJECT_INCLUDE_DIR"))
    folder = (
        Path(os.path.normpath(project_dir / option)) if option else include / "minun_models" / environment
    )
    sources = Path(env.subst("$PROJECT_SRC_DIR"))
    if option and sources in (folder, *folder.parents):
        raise MinunError(
            "config.wrong-value",
            f"custom_minun_output_dir is '{option}', which is among the project's sources and would be "
            "compiled twice; give a folder beside them",
            where,
        )
    heap = str(env.GetProjectOption("custom_minun_no_heap", "no") or "no").lower()
    if heap not in _YES_NO:
        raise MinunError("config.wrong-value", f"custom_minun_no_heap is '{heap}', expected yes or no", where)
    stamp_file = Path(env.subst("$BUILD_DIR")) / "minun_stamp.json"
    return Setup(
        project_dir,
        environment,
        models,
        folder.absolute(),
        stamp_file.absolute(),
        board_target(env),
        _YES_NO[heap],
    )


def board_target(env: Any) -> Target:
    """The board from PlatformIO's manifest, the project's overrides (`board_upload.…`) in it."""
    if not env.get("BOARD"):
        return HOST
    board = env.BoardConfig()
    return Target(
        env.subst("$BOARD"),
        core_of(str(board.get("build.cpu", "")), str(board.get("build.mcu", ""))),
        int(board.get("upload.maximum_ram_size", 0) or 0) or None,
        int(board.get("upload.maximum_size", 0) or 0) or None,
    )


def _needs_no_search(setup: Setup) -> bool:
    """Whether generating is quick: an editor that asks for include paths must not wait for a search."""
    if up_to_date(setup.models, setup.target.key, setup.stamp_file):
        return True
    from minun_pio.generate import locked

    return locked(setup.models, setup.target) is None


def _generate(env: Any, setup: Setup, renew: bool) -> Generation:
    if not renew:
        done = up_to_date(setup.models, setup.target.key, setup.stamp_file)
        if done is not None:
            _print_lines(done)
            return done
    from minun_pio.generate import generate  # imported only now: an unchanged run must cost nothing

    generation = generate(
        setup.models, setup.target, setup.folder, stamp_file=setup.stamp_file, renew=renew, say=_print
    )
    if generation.created:
        sync_checksum(env)
    _print_lines(generation)
    return generation


def _print_lines(generation: Generation) -> None:
    for line in generation.lines:
        _print(line)


def _print_details(setup: Setup) -> None:
    """With `pio run -v`: every format, the arena and the search's trail."""
    from minun_pio.report.locked import locked_model
    from minun_pio.report.text import details

    for model in setup.models:
        for line in details(*locked_model(model, setup.target)):
            _print(line, prefix="")


def sync_checksum(env: Any) -> None:
    """Tell PlatformIO of new names under include/: it would delete `.pio/build` at the next run otherwise."""
    from platformio import fs
    from platformio.project.helpers import compute_project_checksum

    from minun_pio.filelock import exclusive

    path = Path(env.subst("$PROJECT_BUILD_DIR")) / "project.checksum"
    if not path.is_file():
        return
    with exclusive(path), fs.cd(env.subst("$PROJECT_DIR")):
        path.write_text(compute_project_checksum(env.GetProjectConfig()), encoding="utf-8")


def _clean(env: Any, setup: Setup) -> None:
    if env.get(_DONE):
        return
    env[_DONE] = True
    from minun_pio.generate import clean

    for path in clean(setup.folder):
        _print(f"Removing {_relative(path, setup.project_dir)}", prefix="")
    sync_checksum(env)


def _relative(path: Path, folder: Path) -> str:
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # on another drive of Windows
        return str(path)


def _add_targets(env: Any, setup: Setup) -> None:
    """The custom targets; they call what `minun search|report|collect` call."""

    def search(target: Any, source: Any, env: Any) -> int:
        _print("formats searched again, the lock files renewed")  # done at script load
        return 0

    def report(target: Any, source: Any, env: Any) -> int:
        return _guarded(lambda: _report(env, setup))

    def collect(target: Any, source: Any, env: Any) -> int:
        return _guarded(lambda: _collect(env, setup))

    for name, action, doing, title, description in (
        ("minun_search", search, "Searching formats", "Search formats", "Search number formats again"),
        ("minun_report", report, "Reporting", "Model report", "What was decided for each model and why"),
        (
            "minun_collect",
            collect,
            "Collecting answers",
            "Collect answers",
            "Run samples on the board, compare",
        ),
    ):
        env.AddCustomTarget(name, None, env.VerboseAction(action, doing), title, description)


def _report(env: Any, setup: Setup) -> None:
    from minun_pio.report.locked import report_files

    for line in report_files(setup.models, setup.target, Path(env.subst("$BUILD_DIR")) / "minun_report"):
        _print(line, prefix="")


def _collect(env: Any, setup: Setup) -> None:
    from minun_pio.collecting import collect_model

    elf = Path(env.subst("$PROGPATH"))
    for model in setup.models:
        found = collect_model(
            model,
            setup.target,
            serial_port(env),
            board=setup.environment,
            elf=elf if elf.is_file() and setup.target.ram_bytes else None,
            progress=_watch(model.name, setup.environment),
        )
        _print(found.line(), prefix="")
        if found.wrong:
            raise MinunError(
                "collect.mismatch",
                f"{len(found.wrong)} samples have other codes on the board than on the host, first sample "
                f"{found.wrong[0]}",
                setup.environment,
            )


def _watch(model: str, environment: str) -> Callable[[int, int], None]:
    """Called after each sample: says how far a long collection is, and ends it after Ctrl-C."""
    said = time.monotonic()

    def watch(done: int, of: int) -> None:
        nonlocal said
        if interrupted():
            raise MinunError("collect.interrupted", f"interrupted after {done} of {of} samples", environment)
        if done < of and time.monotonic() - said >= PROGRESS_S:
            said = time.monotonic()
            _print(f"{model}: {done} of {of} samples")

    return watch


def interrupted() -> bool:
    """Whether Ctrl-C was pressed. While an action runs SCons only makes a note of it, in what its handler
    keeps."""
    kept = getattr(signal.getsignal(signal.SIGINT), "__defaults__", None) or ()
    return any(job.were_interrupted() for job in kept if hasattr(job, "were_interrupted"))


def serial_port(env: Any) -> str:
    """The serial port: as platformio.ini says, the one that upload uses, or the only one there is."""
    for option in ("monitor_port", "upload_port"):
        given = str(env.GetProjectOption(option, "") or "")
        if given:
            return str(env.subst(given))
    if env.subst("$UPLOAD_PORT"):
        return str(env.subst("$UPLOAD_PORT"))
    from platformio.device.list.util import list_serial_ports

    ports = [item["port"] for item in list_serial_ports(filter_hwid=True)]
    if len(ports) == 1:
        return str(ports[0])
    found = ", ".join(ports) or "none"
    raise MinunError("collect.port", f"serial ports found: {found}; set monitor_port in platformio.ini")


def _guarded(action: Callable[[], None]) -> int:
    """0, or 1 after one line of what went wrong."""
    try:
        action()
    except MinunError as error:
        sys.stderr.write(f"Error: minun: {error}\n")
        return 1
    except ImportError as error:
        sys.stderr.write(f"Error: minun: {missing_package(error, sys.executable)}\n")
        return 1
    except Exception as error:
        sys.stderr.write(f"Error: minun: {internal(error)}\n")
        return 1
    return 0


def _print(line: str, prefix: str = "minun: ") -> None:
    encoding = sys.stdout.encoding or "utf-8"  # a code page of Windows, say, without a file name's letters
    sys.stdout.write(f"{prefix}{line}\n".encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def _fail(env: Any, message: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"Error: minun: {message}\n")
    sys.stderr.flush()
    env.Exit(1)
