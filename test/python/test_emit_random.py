# SPDX-License-Identifier: Apache-2.0
"""Random irregular networks, everything shared that may be: the build answers the host's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emitted_model import emit
from random_networks import random_formats, random_network

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


def test_the_same_seed_is_the_same_network() -> None:
    one, two = random_network(7), random_network(7)
    assert [(n.op, n.inputs, n.outputs) for n in one.nodes] == [
        (n.op, n.inputs, n.outputs) for n in two.nodes
    ]
    assert all(np.array_equal(one.constants[k], two.constants[k]) for k in one.constants)
    assert one.outputs == two.outputs
