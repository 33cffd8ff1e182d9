# SPDX-License-Identifier: Apache-2.0
"""The generated code, built here with sanitizers, answers the simulator's codes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from emitted_model import compile_object, emit
from small_networks import branches, nested_loops, recurrent, shift_register, two_layers

from minun_pio.ir import Graph
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.format import Format
from minun_pio.numerics.posit import Posit
from minun_pio.simulate.assign import real_tensors, uniform

NETWORKS = {
    "two_layers": two_layers(),
    "recurrent": recurrent(),
    "recurrent_backwards": recurrent(reverse=True),
    "recurrent_inner_time": recurrent(axis=1),
    "recurrent_last_only": recurrent(sequence=False, initial=False),
    "shift_register": shift_register(),
    "nested_loops": nested_loops(),
    "branches": branches(),
}
FORMATS: dict[str, Format] = {
    "p8": Posit(8, 2),
    "p16": Posit(16, 1),
    "q16": Fixed(16, -10),
    "f32": Float32(),
}


def samples(graph: Graph, count: int = 12) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    return {name: rng.normal(size=(count, *graph.tensors[name].shape)) for name in graph.inputs}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_build_answers_what_the_host_computed(network: str, fmt: str, tmp_path: Path) -> None:
    graph = NETWORKS[network]
    emitted = emit(graph, uniform(graph, FORMATS[fmt]), samples(graph), tmp_path)
    answered, expected = emitted.self_test()
    assert len(expected) == 12 * emitted.program.output_bytes
    assert answered == expected


@pytest.mark.parametrize("network", ["two_layers", "recurrent", "nested_loops", "branches"])
def test_widths_mixed_at_random_answer_what_the_host_computed(network: str, tmp_path: Path) -> None:
    graph = NETWORKS[network]
    rng = np.random.default_rng(5)
    mixed = {s.name: Posit(8, 2) if rng.random() < 0.5 else Posit(16, 2) for s in real_tensors(graph)}
    emitted = emit(graph, mixed, samples(graph), tmp_path)
    answered, expected = emitted.self_test()
    assert answered == expected


@pytest.mark.parametrize("network", ["two_layers", "recurrent", "branches"])
def test_an_input_in_the_arena_may_be_overwritten(network: str, tmp_path: Path) -> None:
    graph = NETWORKS[network]
    emitted = emit(graph, uniform(graph, Posit(16, 1)), samples(graph), tmp_path, input_memory="arena")
    answered, expected = emitted.self_test()
    assert answered == expected
    if len(graph.inputs) == 1:
        assert "arena_input" in (tmp_path / "tiny.h").read_text()


@pytest.mark.parametrize(
    "compiler",
    [
        ("clang++",),
        ("avr-g++", "-mmcu=atmega328p"),
        ("arm-none-eabi-g++", "-mcpu=cortex-m3", "-mthumb"),
        ("arm-none-eabi-g++", "-mcpu=cortex-m7", "-mthumb"),
    ],
    ids=lambda c: c[-1] if len(c) > 1 else c[0],
)
def test_every_compiler_takes_the_generated_code_without_a_warning(
    compiler: tuple[str, ...], tmp_path: Path
) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    for name in ("two_layers", "recurrent", "shift_register", "branches"):
        graph = NETWORKS[name]
        folder = tmp_path / name
        folder.mkdir()
        emit(graph, uniform(graph, Posit(8, 2)), samples(graph, 1), folder, options=("-O0",))
        compile_object(folder / "tiny.cpp", compiler)
