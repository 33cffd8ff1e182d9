# SPDX-License-Identifier: Apache-2.0
"""The generated code, built here with sanitizers, answers the simulator's codes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from emitted_model import compile_object, emit
from small_networks import (
    branches,
    convolutions,
    nested_loops,
    recurrent,
    separable,
    shift_register,
    two_inputs,
    two_layers,
    upsampling,
)

from minun_pio.ir import Graph
from minun_pio.numerics.affine import Affine, affine_for_range, affine_for_weights
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.format import Format
from minun_pio.numerics.posit import Posit
from minun_pio.simulate.assign import real_tensors, uniform
from minun_pio.simulate.reference import profile

NETWORKS = {
    "two_layers": two_layers(),
    "recurrent": recurrent(),
    "recurrent_backwards": recurrent(reverse=True),
    "recurrent_inner_time": recurrent(axis=1),
    "recurrent_last_only": recurrent(sequence=False, initial=False),
    "shift_register": shift_register(),
    "nested_loops": nested_loops(),
    "branches": branches(),
    "convolutions": convolutions(),
    "two_inputs": two_inputs(),
    "upsampling": upsampling(),
    "separable": separable(),
}
FORMATS: dict[str, Format] = {
    "p8": Posit(8, 2),
    "p16": Posit(16, 1),
    "q16": Fixed(16, -10),
    "f32": Float32(),
}


def samples(graph: Graph, count: int = 12) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    drawn = {name: rng.normal(size=(count, *graph.tensors[name].shape)) for name in graph.inputs}
    if "token" in drawn:
        drawn["token"] = rng.integers(0, 5, size=(count, 1))
    return drawn


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_build_answers_what_the_host_computed(network: str, fmt: str, tmp_path: Path) -> None:
    graph = NETWORKS[network]
    emitted = emit(graph, uniform(graph, FORMATS[fmt]), samples(graph), tmp_path)
    answered, expected = emitted.self_test()
    assert len(expected) == 12 * emitted.program.output_bytes
    assert answered == expected


@pytest.mark.parametrize(
    "network", ["two_layers", "recurrent", "nested_loops", "branches", "convolutions", "upsampling"]
)
def test_widths_mixed_at_random_answer_what_the_host_computed(network: str, tmp_path: Path) -> None:
    graph = NETWORKS[network]
    rng = np.random.default_rng(5)
    mixed = {s.name: Posit(8, 2) if rng.random() < 0.5 else Posit(16, 2) for s in real_tensors(graph)}
    emitted = emit(graph, mixed, samples(graph), tmp_path)
    answered, expected = emitted.self_test()
    assert answered == expected


@pytest.mark.parametrize("network", ["two_layers", "recurrent", "branches", "convolutions", "two_inputs"])
def test_an_input_in_the_arena_may_be_overwritten(network: str, tmp_path: Path) -> None:
    graph = NETWORKS[network]
    emitted = emit(graph, uniform(graph, Posit(16, 1)), samples(graph), tmp_path, input_memory="arena")
    answered, expected = emitted.self_test()
    assert answered == expected
    if len(graph.inputs) == 1:
        assert "arena_input" in (tmp_path / "tiny.h").read_text()


def affine_formats(graph: Graph, x: dict[str, np.ndarray]) -> dict[str, Format]:
    """int8 for every tensor, by the ranges of the batch."""
    formats: dict[str, Format] = {
        name: affine_for_range(found.low, found.high) for name, found in profile(graph, x).items()
    }
    for node in graph.nodes:
        if node.op in ("dense", "conv"):
            axis = 0 if node.op == "conv" else None
            formats[node.inputs[1]] = affine_for_weights(graph.constants[node.inputs[1]], axis)
        elif node.op == "softmax":
            formats[node.outputs[0]] = Affine(8, (1 / 256,), -128)
    return formats


@pytest.mark.parametrize("network", ["two_layers", "branches", "convolutions", "separable"])
def test_int8_answers_what_the_host_computed(network: str, tmp_path: Path) -> None:
    graph = NETWORKS[network]
    x = samples(graph)
    emitted = emit(graph, affine_formats(graph, x), x, tmp_path)
    answered, expected = emitted.self_test()
    assert answered == expected


def test_families_that_meet_are_converted_on_the_board_as_on_the_host(tmp_path: Path) -> None:
    graph = NETWORKS["convolutions"]
    mixed = {s.name: Posit(8, 2) for s in real_tensors(graph)}
    mixed |= dict.fromkeys(("x", "w1", "b1", "c1"), Float32())
    mixed |= dict.fromkeys(("m", "w5", "b5", "s", "q"), Posit(16, 1))
    mixed["q"] = Float32()
    emitted = emit(graph, mixed, samples(graph), tmp_path)
    assert "minun/convert.h" in (tmp_path / "tiny.cpp").read_text()
    answered, expected = emitted.self_test()
    assert answered == expected


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
