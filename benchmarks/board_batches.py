# SPDX-License-Identifier: Apache-2.0
"""Many small models on an emulated board: as many as fit into one image, each one's outputs against the
host's."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from minun_pio.board.bare import build_and_run
from minun_pio.emit.lower import lower
from minun_pio.emit.program import Program
from minun_pio.emit.write import write
from minun_pio.errors import MinunError
from minun_pio.ir import Graph
from minun_pio.numerics.format import Codes, Format
from minun_pio.schedule.arena import place
from minun_pio.schedule.layout import lay_out
from minun_pio.simulate.legalise import legalise

INCLUDE = Path(__file__).resolve().parents[1] / "include"
BOARDS = {"uno": "avr", "due": "m3", "stm32h747": "m7"}
"""The boards' cores; the Uno's images have its 32 KB and 2 KB."""

EQUAL, DIFFERENT, TOO_LARGE = "equal", "different", "does not fit"
_FLAGS = ("-Os", "-std=c++11")


@dataclass(frozen=True)
class Job:
    """A model with the formats of its tensors and at most 16 samples of input codes, `(samples, *S)` each."""

    name: str
    graph: Graph
    assignment: Mapping[str, Format]
    inputs: Mapping[str, Codes]


def outcomes(core: str, jobs: Sequence[Job], at_once: int) -> dict[str, str]:
    """For every job by name: equal, different, does not fit, or the line of what went wrong."""
    result: dict[str, str] = {}
    programs: list[tuple[Job, Program]] = []
    for job in jobs:
        try:
            legal = legalise(job.graph, job.assignment)
            placement = place(lay_out(legal, core))
            program = lower(placement, f"m{len(programs)}", input_codes=job.inputs)
        except MinunError as error:
            result[job.name] = str(error)
            continue
        used = program.arena.bytes + program.input_bytes + program.output_bytes
        if core == "avr" and used > 1600:  # of 2,048; the stack has the rest
            result[job.name] = TOO_LARGE
            continue
        programs.append((job, program))
    for start in range(0, len(programs), at_once):
        _together(core, programs[start : start + at_once], result)
    return result


def _together(core: str, batch: Sequence[tuple[Job, Program]], result: dict[str, str]) -> None:
    """One image for the batch; halves of it where it does not build."""
    try:
        output = _run(core, [program for _, program in batch])
    except MinunError as error:
        if len(batch) == 1:
            line = str(error)
            fits = not any(
                word in line.lower() for word in ("region", "overflow", "truncated", "will not fit")
            )
            result[batch[0][0].name] = line if fits else TOO_LARGE
            return
        middle = len(batch) // 2
        _together(core, batch[:middle], result)
        _together(core, batch[middle:], result)
        return
    place_in_output = 0
    for job, program in batch:
        wanted = base64.b64decode(program.vectors.outputs)
        found = output[place_in_output : place_in_output + len(wanted)]
        place_in_output += len(wanted)
        result[job.name] = EQUAL if found == wanted else DIFFERENT


def _run(core: str, programs: Sequence[Program]) -> bytes:
    feed = b"".join(base64.b64decode(program.vectors.inputs) for program in programs)
    largest_in = max(program.input_bytes for program in programs)
    largest_out = max(program.output_bytes for program in programs)
    arena = max(1, *(program.arena.bytes for program in programs))
    lines = ['#include "bare.h"', *(f'#include "{program.model}.h"' for program in programs)]
    lines += [
        f"alignas(8) static uint8_t in[{largest_in}];",
        f"alignas(8) static uint8_t out[{largest_out}];",
        f"alignas(8) static uint8_t arena[{arena}];",
        "int main() {",
    ]
    for program in programs:
        n, samples = program.model, len(base64.b64decode(program.vectors.inputs)) // program.input_bytes
        lines += [
            f"  for (int k = 0; k < {samples}; ++k) {{",
            f"    bare::read(in, {n}::kInputBytes);",
            f"    {n}::infer(reinterpret_cast<const {n}::InputCode*>(in), "
            f"reinterpret_cast<{n}::OutputCode*>(out), arena, sizeof arena);",
            f"    bare::write(out, {n}::kOutputBytes);",
            "  }",
        ]
    lines += ["  return 0;", "}", ""]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        sources = [folder / "main.cpp"]
        sources[0].write_text("\n".join(lines))
        for program in programs:
            for name, text in write(program).items():
                (folder / name).write_text(text)
            sources.append(folder / f"{program.model}.cpp")
        run = build_and_run(
            core, sources, include_dirs=[folder, INCLUDE], cflags=_FLAGS, stdin_bytes=feed, timeout_s=300
        )
    return run.output
