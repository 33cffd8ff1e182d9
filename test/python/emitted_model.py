# SPDX-License-Identifier: Apache-2.0
"""Builds a generated model for this machine and runs it on frames of codes, for tests."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from op_harness import STRICT as WARNINGS

from minun_pio.emit.lower import lower
from minun_pio.emit.program import Program
from minun_pio.emit.write import write
from minun_pio.ir import Graph
from minun_pio.numerics.format import Format
from minun_pio.schedule.arena import Placement, place
from minun_pio.schedule.layout import InputMemory, lay_out
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.run import encode_inputs

INCLUDE = Path(__file__).resolve().parents[2] / "include"
STRICT = ("-std=c++11", *WARNINGS)
SANITISED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

MAIN = """// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "MODEL.h"

using namespace MODEL;

int main() {
  static InputCode in[kInputBytes / sizeof(InputCode)];
  static OutputCode out[kOutputBytes / sizeof(OutputCode)];
  alignas(8) static uint8_t arena[kArenaBytes + 64];
  while (fread(in, 1, kInputBytes, stdin) == kInputBytes) {
    memset(arena, 0xA5, sizeof arena);
    if (infer(in, out, arena, kArenaBytes) != Status::kOk) return 2;
    for (size_t i = kArenaBytes; i < sizeof arena; ++i) {
      if (arena[i] != 0xA5) return 3;
    }
    fwrite(out, 1, kOutputBytes, stdout);
  }
  return 0;
}
"""


@dataclass(frozen=True)
class Emitted:
    """A model's program and files; `run` feeds frames to its build for this machine."""

    program: Program
    placement: Placement
    folder: Path
    binary: Path

    def run(self, frames: bytes) -> bytes:
        done = subprocess.run([self.binary], input=frames, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, (done.returncode, done.stderr.decode()[-3000:])
        return done.stdout

    def self_test(self) -> tuple[bytes, bytes]:
        """What the build answers to the program's own vectors, and what the host computed."""
        vectors = self.program.vectors
        return self.run(base64.b64decode(vectors.inputs)), base64.b64decode(vectors.outputs)


def emit(
    graph: Graph,
    assignment: Mapping[str, Format],
    inputs: Mapping[str, NDArray[Any]] | NDArray[Any],
    folder: Path,
    *,
    model: str = "tiny",
    input_memory: InputMemory = "caller",
    compiler: str = "g++",
    core: str = "host",
    options: tuple[str, ...] = SANITISED,
) -> Emitted:
    """The whole way from a graph to a host binary; up to 16 samples become the self-test."""
    legal = legalise(graph, assignment)
    placement = place(lay_out(legal, core, input_memory))
    codes = encode_inputs(graph, legal.formats, inputs)
    program = lower(placement, model, input_codes=codes)
    for name, text in write(program).items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "main.cpp").write_text(MAIN.replace("MODEL", model), encoding="utf-8")
    binary = folder / model
    command = [compiler, *STRICT, *options, "-I", str(INCLUDE), "-I", str(folder)]
    command += [str(folder / "main.cpp"), str(folder / f"{model}.cpp"), "-o", str(binary)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return Emitted(program, placement, folder, binary)


def compile_object(source: Path, compiler: tuple[str, ...], options: tuple[str, ...] = ("-Os",)) -> None:
    """Compiles one generated file with warnings as errors; the compiler must be installed."""
    assert shutil.which(compiler[0]), f"{compiler[0]} is not installed; run: make setup"
    command = [*compiler, *STRICT, *options, "-I", str(INCLUDE), "-I", str(source.parent), "-c", str(source)]
    done = subprocess.run([*command, "-o", str(source.with_suffix(".o"))], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
