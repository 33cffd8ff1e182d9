# SPDX-License-Identifier: Apache-2.0
"""Builds a small bare-metal program, runs it on an emulated core, and gives back output and exact counts.

For benchmarks and for tests that compare a board's bits with the host's. The program includes `bare.h`
(virtual/bare/bare.h; its folder is on the include path) and defines `int main()`:

    #include "bare.h"
    static volatile int sink;
    int main() {
      bare::begin(1);                       // ids 0..250, pairs do not nest
      for (int i = 0; i < 100; ++i) sink = i;
      bare::end(1);
      bare::write("done", 4);               // bare::read takes bytes from `stdin_bytes`
      return 0;
    }

    run = build_and_run("m3", ["program.cpp"], include_dirs=["include"], defines={"K": 64}, cflags=["-O2"])
    run.output      b"done"
    run.marks       {1: 402}                by id; the last pair of that id (run.all_marks lists every one)
    run.stacks      {1: 8}                  stack bytes used in between, to within 16 (0 on the host)
    run.unit        "cycles" (avr, true cycles of simavr) | "instructions" (m3, m4, m7; exact) | "ns" (host)
    run.sizes       text/data/bss of the image, .flash and .ram; run.symbols: bytes by mangled name

Counts are net of the empty pair, measured in the same run. Cores: avr (ATmega328P, 32 KB flash, 2 KB RAM;
pass mcu="atmega1284p" for 128 KB / 16 KB, same core and counts), m3, m4, m7 (QEMU mps2, 4 MB each), host. A
mark on ARM must stay under 2,600 million instructions (the timer is 32 bits wide). Objects are cached, so a
second build of the same sources costs only preprocessing.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from minun_pio.board.places import simulator_tool, virtual_dir
from minun_pio.board.toolchain import (
    CORES,
    Core,
    Sizes,
    compile_objects,
    image_sizes,
    image_symbols,
    run_tool,
)
from minun_pio.errors import MinunError

_CALIBRATION_ID = 255
_TICKS_PER_INSTRUCTION = 1.6  # 1024 ns an instruction (-icount shift=10) on a 25 MHz timer through 16


@dataclass(frozen=True)
class Run:
    """What one run gave; see the module docstring for the fields' meaning and units."""

    core: str
    unit: str
    output: bytes
    exit_code: int
    all_marks: tuple[tuple[int, int, int], ...]  # (id, net count, stack bytes) in the order of end()
    sizes: Sizes
    symbols: Mapping[str, int]
    elf: Path | None  # kept only with keep_elf

    @property
    def marks(self) -> dict[int, int]:
        return {mark: count for mark, count, _ in self.all_marks}

    @property
    def stacks(self) -> dict[int, int]:
        return {mark: stack for mark, _, stack in self.all_marks}


@dataclass(frozen=True)
class Image:
    """A linked program; `run` may be called many times with different input."""

    core: Core
    mcu: str
    elf: Path
    sizes: Sizes
    symbols: Mapping[str, int]

    def run(self, stdin_bytes: bytes = b"", timeout_s: float = 120, allow_failure: bool = False) -> Run:
        """Runs to the program's end. Raises MinunError on a crash, a time-out or a non-zero exit code."""
        with tempfile.TemporaryDirectory(prefix="minun-bare-") as name:
            folder = Path(name)
            (folder / "input.bin").write_bytes(stdin_bytes)
            runner = {"avr": _run_avr, "host": _run_host}.get(self.core.name, _run_arm)
            exit_code, output, raw, complaint = runner(self, folder, timeout_s)
        if exit_code != 0 and not allow_failure:
            said = complaint or output[-200:].decode(errors="replace").strip()
            raise MinunError(
                "bare.failed", f"the program ended with code {exit_code} on {self.core.name}: {said}"
            )
        empty = next((count for mark, count, _ in raw if mark == _CALIBRATION_ID), 0)
        marks = tuple(
            (mark, max(count - empty, 0), stack) for mark, count, stack in raw if mark != _CALIBRATION_ID
        )
        return Run(
            self.core.name, self.core.unit, output, exit_code, marks, self.sizes, self.symbols, self.elf
        )


def build(
    core: str,
    sources: Sequence[str | os.PathLike[str]],
    elf: str | os.PathLike[str],
    *,
    defines: Mapping[str, object] | Sequence[str] = (),
    cflags: Sequence[str] = ("-O2",),
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    link_flags: Sequence[str] = (),
    mcu: str | None = None,
    warnings: Sequence[str] = ("-Wall", "-Wextra"),
) -> Image:
    """Compiles `sources` (.c, .cpp, .S) for a core and links them with bare.h's other half into `elf`.

    C++ is compiled as -std=c++11 unless `cflags` names another standard. Raises CompileError (its `output`
    is all the compiler said), MinunError when a tool is missing.
    """
    if core not in CORES:
        raise MinunError("bare.core", f"unknown core '{core}'; known are {', '.join(CORES)}")
    known = CORES[core]
    chip = mcu or known.emulator_machine
    machine = ("-mmcu=" + chip,) if core == "avr" else known.machine_flags
    bare_dir = virtual_dir() / "bare"
    pairs = [f"{k}={v}" for k, v in defines.items()] if isinstance(defines, Mapping) else list(defines)
    sections = [] if core == "host" else ["-ffunction-sections", "-fdata-sections"]
    shared = [*machine, *sections, *(f"-D{pair}" for pair in pairs), f"-I{bare_dir}"]
    shared += [f"-I{os.fspath(folder)}" for folder in include_dirs]
    cxx = [] if any(flag.startswith("-std=") for flag in cflags) else ["-std=c++11"]
    if core != "host":
        cxx += ["-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]

    support = bare_dir / {"avr": "bare_avr.cpp", "host": "bare_host.cpp"}.get(core, "bare_arm.cpp")
    paths = [*(Path(source) for source in sources), support]
    flags = []
    for path in paths:
        language = cxx if path.suffix not in (".c", ".S", ".s") else []
        own = ["-O2"] if path == support else [*warnings, *cflags]
        flags.append([*shared, *language, *own])
    objects = compile_objects(known, paths, flags)

    target = Path(elf)
    target.parent.mkdir(parents=True, exist_ok=True)
    linking = [*machine, *cflags, *sections]
    if core != "host":
        linking += ["-Wl,--gc-sections"]
    if core not in ("avr", "host"):
        script = bare_dir / "bare_arm.ld"
        linking += ["-nostartfiles", "--specs=nano.specs", "--specs=nosys.specs", f"-Wl,-T,{script}"]
        linking += ["-Wl,--no-warn-rwx-segments"]
    command = [known.prefix + "g++", *linking, *map(str, objects), "-o", str(target), *link_flags]
    run_tool(command, target.name)
    return Image(known, chip, target, image_sizes(target), image_symbols(target))


def build_and_run(
    core: str,
    sources: Sequence[str | os.PathLike[str]],
    *,
    defines: Mapping[str, object] | Sequence[str] = (),
    cflags: Sequence[str] = ("-O2",),
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    link_flags: Sequence[str] = (),
    mcu: str | None = None,
    stdin_bytes: bytes = b"",
    timeout_s: float = 120,
    allow_failure: bool = False,
    keep_elf: str | os.PathLike[str] | None = None,
) -> Run:
    """`build` then `Image.run`, with the image in a temporary folder unless `keep_elf` names a file."""
    with tempfile.TemporaryDirectory(prefix="minun-bare-") as folder:
        elf = Path(keep_elf) if keep_elf is not None else Path(folder) / "program.elf"
        image = build(
            core,
            sources,
            elf,
            defines=defines,
            cflags=cflags,
            include_dirs=include_dirs,
            link_flags=link_flags,
            mcu=mcu,
        )
        run = image.run(stdin_bytes, timeout_s, allow_failure)
    if keep_elf is not None:
        return run
    return Run(run.core, run.unit, run.output, run.exit_code, run.all_marks, run.sizes, run.symbols, None)


def missing_tools(core: str) -> list[str]:
    """Programs that `core` needs and this machine lacks, for a test's skip; empty: build_and_run can work."""
    prefix = CORES[core].prefix
    wanted = [prefix + "g++", prefix + "gcc"]
    if core == "avr":
        wanted.append("cc")
        if not Path("/usr/include/simavr/sim_avr.h").is_file():
            return [tool for tool in wanted if shutil.which(tool) is None] + ["libsimavr-dev"]
    elif core != "host":
        wanted.append("qemu-system-arm")
    return [tool for tool in wanted if shutil.which(tool) is None]


_RawRun = tuple[int, bytes, list[tuple[int, int, int]], str]


def _execute(
    command: Sequence[str], folder: Path, timeout_s: float, stdin: IO[bytes] | int = subprocess.DEVNULL
) -> subprocess.CompletedProcess[bytes]:
    """Runs an emulator that cannot outlive us: killed at the time-out, and by the kernel if we die."""
    try:
        return subprocess.run(
            command,
            cwd=folder,
            stdin=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            preexec_fn=die_with_parent(),
        )
    except FileNotFoundError:
        raise MinunError("bare.no-emulator", f"'{command[0]}' is not installed; run: make setup") from None
    except subprocess.TimeoutExpired:
        raise MinunError(
            "bare.timeout", f"the program did not end within {timeout_s:g} s on {command[0]}"
        ) from None


def die_with_parent() -> Callable[[], None] | None:
    """A preexec_fn after which the kernel kills the child when the parent dies (Linux; elsewhere None)."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL

    return ask


def _text_marks(text: str) -> list[tuple[int, int, int]]:
    rows = [tuple(int(word) for word in line.split()) for line in text.splitlines()]
    return [(row[0], row[1], row[2]) for row in rows]


def _run_avr(image: Image, folder: Path, timeout_s: float) -> _RawRun:
    budget = str(int(timeout_s * 100_000_000))  # faster than simavr ever runs: the wall clock decides
    command = [str(simulator_tool("avr_bare")), "-m", image.mcu, "-c", budget, "-i", "input.bin"]
    command += ["-o", "output.bin", "-k", "marks.txt", str(image.elf.resolve())]
    done = _execute(command, folder, timeout_s)
    output, marks = folder / "output.bin", folder / "marks.txt"
    return (
        done.returncode,
        output.read_bytes() if output.exists() else b"",
        _text_marks(marks.read_text(encoding="utf-8")) if marks.exists() else [],
        "\n".join(x for x in done.stderr.decode(errors="replace").splitlines() if x.startswith("avr_bare")),
    )


def _run_arm(image: Image, folder: Path, timeout_s: float) -> _RawRun:
    command = ["qemu-system-arm", "-M", image.core.emulator_machine, "-kernel", str(image.elf.resolve())]
    command += ["-display", "none", "-monitor", "none", "-serial", "none", "-icount", "shift=10,sleep=off"]
    command += ["-semihosting-config", "enable=on,target=native"]
    done = _execute(command, folder, timeout_s)
    output, marks = folder / "output.bin", folder / "marks.bin"
    raw = marks.read_bytes() if marks.exists() else b""
    rows = [
        (mark, round(ticks / _TICKS_PER_INSTRUCTION), stack)
        for mark, ticks, stack in struct.iter_unpack("<III", raw[: len(raw) // 12 * 12])
    ]
    complaint = done.stderr.decode(errors="replace").strip()
    if done.returncode == 124:
        complaint = "the processor faulted (bad access, undefined instruction or stack overflow) " + complaint
    return done.returncode, output.read_bytes() if output.exists() else b"", rows, complaint


def _run_host(image: Image, folder: Path, timeout_s: float) -> _RawRun:
    with (folder / "input.bin").open("rb") as stdin:
        done = _execute([str(image.elf.resolve())], folder, timeout_s, stdin)
    marks = folder / "marks.txt"
    complaint = done.stderr.decode(errors="replace").strip()
    return (
        done.returncode,
        done.stdout,
        _text_marks(marks.read_text(encoding="utf-8")) if marks.exists() else [],
        complaint,
    )
