# SPDX-License-Identifier: Apache-2.0
"""Generated models on emulated cores, sharing on: the host's bits, and an arena used to its last byte."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import numpy as np
import pytest
from emitted_model import INCLUDE, STRICT
from small_networks import convolutions, recurrent, separable, two_layers, two_outputs, upsampling, wide
from test_emit_bits import affine_formats, samples

from minun_pio.board.bare import build_and_run, missing_tools
from minun_pio.emit.lower import lower
from minun_pio.emit.write import write
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.posit import Posit
from minun_pio.schedule.arena import place
from minun_pio.schedule.layout import lay_out
from minun_pio.simulate.assign import real_tensors, uniform
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.run import encode_inputs

MAIN = """// SPDX-License-Identifier: Apache-2.0
#include "bare.h"
#include "net.h"

using namespace net;

static InputCode in[kInputBytes / sizeof(InputCode)];
static OutputCode out[kOutputBytes / sizeof(OutputCode)];
alignas(8) static uint8_t arena[kArenaBytes];

static size_t used(uint8_t paint) {
  for (size_t i = 0; i < sizeof arena; ++i) arena[i] = paint;
  if (infer(in, out, arena, sizeof arena) != Status::kOk) return 0;
  size_t top = sizeof arena;
  while (top > 0 && arena[top - 1] == paint) --top;
  return top;
}

int main() {
  while (bare::read(in, kInputBytes)) {
    const size_t one = used(0xA5), two = used(0x5A);
    const uint32_t high = static_cast<uint32_t>(one > two ? one : two);
    bare::write(&high, 4);
    bare::write(out, kOutputBytes);
  }
  return 0;
}
"""


def mixed(graph):
    rng = np.random.default_rng(1)
    return {s.name: Posit(8, 2) if rng.random() < 0.5 else Posit(16, 1) for s in real_tensors(graph)}


CASES = {
    "convolutions-posit8": (convolutions, lambda g: uniform(g, Posit(8, 2))),
    "convolutions-mixed": (convolutions, mixed),
    "convolutions-fixed": (convolutions, lambda g: uniform(g, Fixed(16, -11))),
    "convolutions-float": (convolutions, lambda g: uniform(g, Float32())),
    "recurrent-mixed": (lambda: recurrent(reverse=True), mixed),
    "separable-posit8": (separable, lambda g: uniform(g, Posit(8, 0))),
    "separable-mixed": (separable, mixed),
    "separable-fixed": (separable, lambda g: uniform(g, Fixed(16, -11))),
    "separable-int8": (separable, lambda g: affine_formats(g, samples(g))),
    "upsampling-posit8": (upsampling, lambda g: uniform(g, Posit(8, 2))),
    "upsampling-mixed": (upsampling, mixed),
    "two_layers-posit8": (two_layers, lambda g: uniform(g, Posit(8, 0))),
    "two_outputs-of-two-widths": (two_outputs, lambda g: {**uniform(g, Posit(8, 0)), "b": Posit(16, 1)}),
    "wide-posit8-in-tiles": (wide, lambda g: uniform(g, Posit(8, 0))),
}


# An input in the arena is the same code on every core: the convolutions on one board cover it.
RUNS = [(case, core, "caller") for case in CASES for core in ("host", "m3", "m7", "avr")]
RUNS += [(case, core, "arena") for case in CASES if "convolutions" in case for core in ("host", "m3")]


@pytest.mark.parametrize(("case", "core", "memory"), RUNS)
def test_a_model_answers_the_hosts_bits_and_fills_its_arena(case, core, memory, tmp_path: Path):
    if missing_tools(core):
        pytest.skip(f"{', '.join(missing_tools(core))} not installed")
    make, assign = CASES[case]
    graph = make()
    assignment = assign(graph)
    legal = legalise(graph, assignment)
    placement = place(lay_out(legal, core, memory))
    x = np.random.default_rng(3).normal(size=(4, *graph.tensors["x"].shape))
    program = lower(placement, "net", input_codes=encode_inputs(graph, legal.formats, x))
    for name, text in write(program).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cpp").write_text(MAIN)
    run = build_and_run(
        core,
        [tmp_path / "main.cpp", tmp_path / "net.cpp"],
        include_dirs=[tmp_path, INCLUDE],
        cflags=["-Os", *STRICT],
        mcu="atmega1284p" if core == "avr" else None,
        stdin_bytes=base64.b64decode(program.vectors.inputs),
    )
    size = 4 + program.output_bytes
    expected = base64.b64decode(program.vectors.outputs)
    assert len(run.output) == 4 * size
    high = 0
    for k in range(4):
        answer = run.output[k * size : (k + 1) * size]
        assert answer[4:] == expected[k * program.output_bytes : (k + 1) * program.output_bytes]
        high = max(high, struct.unpack("<I", answer[:4])[0])
    assert high == program.arena.bytes


@pytest.mark.parametrize("core", ["m3", "avr"])
@pytest.mark.parametrize("case", [c for c in CASES if c.startswith(("separable", "upsampling"))])
def test_these_networks_run_a_step_in_reverse(case, core):
    make, assign = CASES[case]
    graph = make()
    placement = place(lay_out(legalise(graph, assign(graph)), core))
    assert placement.reverse
    functions = [s.function for s in lower(placement, "net").statements if s.kind == "call"]
    assert any("true>" in function for function in functions)


def test_the_convolutions_share_bytes_of_input_and_output():
    graph = convolutions()
    program = lower(place(lay_out(legalise(graph, uniform(graph, Posit(8, 2))))), "net")
    peaks = {s.name: s.peak for s in program.arena.stages}
    assert peaks["+ overlap"] < peaks["optimal"] <= peaks["by size"]
