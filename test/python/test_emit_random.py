# SPDX-License-Identifier: Apache-2.0
"""Random irregular networks, everything shared that may be: the build answers the host's bits."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from emitted_model import emit
from random_networks import random_formats, random_image_network, random_network

from minun_pio.numerics.fixed import fixed_for_range
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.posit import Posit
from minun_pio.simulate.assign import real_tensors
from minun_pio.simulate.reference import profile

SEEDS = [5, 12, 15, 22, 31, 39, 89, 103]  # 15, 89: slices inside slices; 31, 39: a state inside a concat


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_network_answers_the_hosts_bits(seed: int, tmp_path: Path) -> None:
    graph = random_network(seed)
    x = np.random.default_rng(seed).normal(size=(6, *graph.tensors["x"].shape))
    memory = "arena" if seed % 2 else "caller"
    emitted = emit(graph, random_formats(graph, seed), x, tmp_path, input_memory=memory)
    answered, expected = emitted.self_test()
    assert answered == expected
    peaks = [s.peak for s in emitted.program.arena.stages]
    assert peaks[2:] == sorted(peaks[2:], reverse=True)  # each way of sharing only lowers the peak
    assert emitted.program.arena.bytes == peaks[-1]


REVERSING = [2, 3, 9, 15, 18, 26]  # networks in which the plan has a step in reverse


@pytest.mark.parametrize("seed", REVERSING)
def test_a_random_network_over_images_answers_the_hosts_bits_with_steps_in_reverse(
    seed: int, tmp_path: Path
) -> None:
    graph = random_image_network(seed)
    x = np.random.default_rng(seed).normal(size=(6, *graph.tensors["x"].shape))
    emitted = emit(graph, random_formats(graph, seed), x, tmp_path)
    assert emitted.placement.reverse
    answered, expected = emitted.self_test()
    assert answered == expected


@pytest.mark.parametrize("seed", [0, 5, 11])
def test_families_mixed_at_random_answer_the_hosts_bits(seed: int, tmp_path: Path) -> None:
    """Conversions wherever families meet, at the edges of loops and in their states too."""
    graph = random_network(seed)
    chance = random.Random(seed)
    choices = (Float32(), Posit(8, 2), Posit(16, 1))
    formats = {s.name: chance.choice(choices) for s in real_tensors(graph)}
    x = np.random.default_rng(seed).normal(size=(6, *graph.tensors["x"].shape))
    answered, expected = emit(graph, formats, x, tmp_path).self_test()
    assert answered == expected


@pytest.mark.parametrize("seed", [1, 2])
def test_fixed_point_with_a_scale_per_tensor_answers_the_hosts_bits(seed: int, tmp_path: Path) -> None:
    graph = random_network(seed)
    chance = random.Random(seed)
    x = np.random.default_rng(seed).normal(size=(6, *graph.tensors["x"].shape))
    formats = {
        name: fixed_for_range(max(found.magnitude, 1e-6), chance.choice((8, 16)))
        for name, found in profile(graph, x).items()
    }
    answered, expected = emit(graph, formats, x, tmp_path).self_test()
    assert answered == expected


def test_the_same_seed_is_the_same_network() -> None:
    one, two = random_network(7), random_network(7)
    assert [(n.op, n.inputs, n.outputs) for n in one.nodes] == [
        (n.op, n.inputs, n.outputs) for n in two.nodes
    ]
    assert all(np.array_equal(one.constants[k], two.constants[k]) for k in one.constants)
    assert one.outputs == two.outputs


def test_the_order_of_hashes_changes_nothing() -> None:
    """Python orders sets of strings differently in every run; programs must not."""
    folder = Path(__file__).parent
    script = (
        "from random_networks import random_formats, random_network\n"
        "from minun_pio.emit.lower import lower\n"
        "from minun_pio.schedule.arena import place\n"
        "from minun_pio.schedule.layout import lay_out\n"
        "from minun_pio.simulate.legalise import legalise\n"
        "for seed in range(6):\n"
        "    graph = random_network(seed)\n"
        "    legal = legalise(graph, random_formats(graph, seed))\n"
        "    print(lower(place(lay_out(legal, 'm7', 'arena')), 'net').build_hash)\n"
    )
    answers = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(folder)}
        command = [sys.executable, "-c", script]
        answers.add(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    assert len(answers) == 1
    assert len(answers.pop().split()) == 6
