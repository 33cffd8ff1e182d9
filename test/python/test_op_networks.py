# SPDX-License-Identifier: Apache-2.0
"""Random networks of operators, emitted and built here, answer the simulator's codes in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emitted_model import emit

from minun_pio.ir import Graph, Node, Shape, Tensor
from minun_pio.numerics.format import Format
from minun_pio.numerics.posit import Posit
from minun_pio.ops import REGISTRY
from minun_pio.simulate.assign import real_tensors


@dataclass
class Growing:
    """A network under construction."""

    rng: np.random.Generator
    tensors: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def constant(self, shape: Shape) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = self.rng.normal(size=shape)
        self.tensors[name] = Tensor(name, shape)
        return name

    def add(self, op: str, inputs: list[str], outputs: int = 1, **attrs: Any) -> list[str]:
        names = tuple(f"t{len(self.nodes)}_{i}" for i in range(outputs))
        node = Node(f"n{len(self.nodes)}", op, tuple(inputs), names, attrs)
        known = [self.constants.get(name) for name in inputs]
        shapes = REGISTRY[op].infer_shapes(node, [self.tensors[name].shape for name in inputs], known)
        for name, shape in zip(names, shapes, strict=True):
            self.tensors[name] = Tensor(name, shape)
        self.nodes.append(node)
        return list(names)

    def pick(self, among: list[Any]) -> Any:
        return among[int(self.rng.integers(len(among)))]


def _step(net: Growing, pool: list[str]) -> list[str]:
    """One random operator on a tensor (1, H, W, C) of the pool; tensors of the same rank come out."""
    x = net.pick(pool)
    shape = net.tensors[x].shape
    same = [name for name in pool if net.tensors[name].shape == shape]
    kind = net.pick(
        [
            "add",
            "binary",
            "constant",
            "unary",
            "relu",
            "concat",
            "split",
            "slice",
            "pool",
            "turn",
            "pad",
            "mean",
            "scale",
        ]
    )
    if kind == "add":
        return net.add("add", [x, net.pick(same)], clip=(0.0, None))
    if kind == "binary":
        return net.add(net.pick(["sub", "mul", "maximum"]), [net.pick(same), x])
    if kind == "constant":
        return net.add("mul", [net.constant((shape[3],)), x])
    if kind == "unary":
        return net.add(net.pick(["tanh", "sigmoid", "neg", "softmax", "l2_norm"]), [x])
    if kind == "relu":
        return net.add("relu", [x])
    if kind == "concat":
        axis = net.pick([1, 3])
        fits = [
            n for n in pool if all(net.tensors[n].shape[a] == shape[a] for a in (0, 1, 2, 3) if a != axis)
        ]
        return net.add("concat", [x, net.pick(fits), net.pick(fits)], axis=axis) if shape[axis] < 8 else []
    if kind == "split" and shape[1] > 1:
        return net.add("split", [x], 2, axis=1, sizes=(1, shape[1] - 1))
    if kind == "slice":
        axis = net.pick([1, 2, 3])
        if shape[axis] > 1:
            return net.add(
                "slice", [x], starts=(1,), ends=(shape[axis],), axes=(axis,), steps=(net.pick([1, 1, 2]),)
            )
    if kind == "pool" and min(shape[1:3]) > 1:
        return net.add(net.pick(["max_pool", "average_pool"]), [x], kernel=(2, 2), strides=(1, 1))
    if kind == "turn":
        return net.pick(
            [
                lambda: net.add("transpose", [x], perm=(0, 2, 1, 3)),
                lambda: net.add("reverse", [x], axes=(1, 3)),
                lambda: net.add("reshape", [x], shape=(1, shape[2], shape[1], shape[3])),
            ]
        )()
    if kind == "pad" and max(shape[1:3]) < 6:
        return net.add("pad", [x], pads=((0, 0), (0, 1), (1, 0), (0, 0)), value=0.5)
    if kind == "mean":
        return net.add(
            net.pick(["reduce_mean", "reduce_max"]), [x], axes=(net.pick([1, 2, 3]),), keepdims=True
        )
    if kind == "scale":
        return net.add("scale_shift", [x, net.constant((shape[3],)), net.constant((shape[3],))])
    return []


def random_network(seed: int, steps: int = 12) -> Graph:
    """A network whose every branch reaches the output: all that nothing reads is joined at the end."""
    net = Growing(np.random.default_rng(seed))
    net.tensors["x"] = Tensor("x", (1, 4, 3, 4))
    pool = ["x"]
    while len(net.nodes) < steps:
        pool += _step(net, pool[-6:])
    read = {name for node in net.nodes for name in node.inputs}
    ends = [name for name in pool if name not in read]
    flat = [net.add("reshape", [name], shape=(1, net.tensors[name].elements))[0] for name in ends]
    last = net.add("concat", flat, axis=1) if len(flat) > 1 else net.add("relu", flat)
    return Graph(f"random{seed}", net.tensors, tuple(net.nodes), ("x",), (last[0],), net.constants)


def _assignment(graph: Graph, seed: int) -> Mapping[str, Format]:
    """Widths at random; operators that pass codes on are unified by the simulator's own rule."""
    rng = np.random.default_rng(seed)
    return {s.name: Posit(8, 2) if rng.random() < 0.6 else Posit(16, 2) for s in real_tensors(graph)}


@pytest.mark.parametrize("seed", range(10))
def test_a_random_network_answers_what_the_host_computed(seed: int, tmp_path: Path) -> None:
    graph = random_network(seed)
    x = np.random.default_rng(seed).normal(size=(6, *graph.tensors["x"].shape))
    memory = "arena" if seed % 2 else "caller"
    emitted = emit(graph, _assignment(graph, seed), {"x": x}, tmp_path, input_memory=memory)
    answered, expected = emitted.self_test()
    assert answered == expected
