# SPDX-License-Identifier: Apache-2.0
"""Random irregular graphs: chains and joins of layers, views, loops; for properties that hold for all."""

from __future__ import annotations

import random

import numpy as np

from minun_pio.ir import Graph, Node, Tensor
from minun_pio.numerics.format import Format
from minun_pio.numerics.posit import Posit
from minun_pio.simulate.assign import real_tensors


class _Growing:
    """A graph that grows node by node; every live tensor is (1, n)."""

    def __init__(self, seed: int, prefix: str = "") -> None:
        self.chance = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.prefix = prefix
        self.tensors: dict[str, Tensor] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []
        self.values: list[str] = []

    def tensor(self, name: str, *shape: int) -> str:
        self.tensors[name] = Tensor(name, shape)
        return name

    def constant(self, *shape: int) -> str:
        name = self.tensor(f"k{len(self.tensors)}", *shape)
        self.constants[name] = self.rng.normal(size=shape) / np.sqrt(shape[-1])
        return name

    def add(self, op: str, inputs: tuple[str, ...], *shape: int, **attrs: object) -> str:
        out = self.tensor(f"t{len(self.tensors)}", *shape)
        self.nodes.append(Node(f"n{len(self.nodes)}", op, inputs, (out,), attrs))
        self.values.append(out)
        return out

    def width(self, name: str) -> int:
        return self.tensors[name].shape[-1]

    def pick(self) -> str:
        return self.chance.choice(self.values[-5:])

    def grow(self, loops: bool) -> None:
        x = self.pick()
        n = self.width(x)
        kind = self.chance.choice(
            ["dense", "dense", "relu", "add", "mul", "concat", "slice", "view", "tanh", "loop"]
        )
        if kind == "dense" or (kind == "loop" and not loops):
            m = self.chance.randint(1, 9)
            self.add("dense", (x, self.constant(m, n), self.constant(m)), 1, m)
        elif kind in ("relu", "tanh"):
            self.add(kind, (x,), 1, n)
        elif kind in ("add", "mul"):
            same = [v for v in self.values if self.width(v) == n]
            other = self.chance.choice([*same, self.constant(1, n)])
            self.add(kind, (x, other), 1, n)
        elif kind == "concat":
            parts = tuple(self.pick() for _ in range(self.chance.randint(2, 3)))
            self.add("concat", parts, 1, sum(self.width(p) for p in parts), axis=1)
        elif kind == "slice":
            start = self.chance.randrange(n)
            end = self.chance.randint(start + 1, n)
            self.add("slice", (x,), 1, end - start, starts=(start,), ends=(end,), axes=(1,), steps=(1,))
        elif kind == "view":
            flat = self.add("reshape", (x,), n, 1, shape=(n, 1))
            self.values.remove(flat)
            self.add("reshape", (flat,), 1, n, shape=(1, n))
        else:
            self.loop(x)

    def loop(self, state: str) -> None:
        """A loop over a sequence made of a dense layer, one state, perhaps the sequence of states too."""
        steps, width, n = self.chance.randint(1, 4), self.chance.randint(1, 4), self.width(state)
        source = self.pick()
        flat = self.add(
            "dense", (source, self.constant(steps * width, self.width(source)), ""), 1, steps * width
        )
        self.values.remove(flat)
        sequence = self.add("reshape", (flat,), steps, 1, width, shape=(steps, 1, width))
        self.values.remove(sequence)
        inner = _Growing(self.chance.randrange(1 << 30))
        inner.tensor("s", 1, n)
        inner.tensor("xt", 1, width)
        inner.values = ["s", "xt"]
        for _ in range(self.chance.randint(0, 3)):
            inner.grow(loops=False)
        last = inner.values[-1]
        new = inner.add("dense", (last, inner.constant(n, inner.width(last)), ""), 1, n)
        if self.chance.random() < 0.5:
            new = inner.add("add", (new, "s"), 1, n)
        body = Graph("body", inner.tensors, tuple(inner.nodes), ("s", "xt"), (new, new), inner.constants)
        final = self.tensor(f"t{len(self.tensors)}", 1, n)
        all_states = self.tensor(f"t{len(self.tensors)}", steps, 1, n)
        attrs = {"steps": steps, "reverse": self.chance.random() < 0.5}
        self.nodes.append(
            Node(f"n{len(self.nodes)}", "scan", (state, sequence), (final, all_states), attrs, body)
        )
        self.values.append(final)
        if self.chance.random() < 0.5:
            self.add("reshape", (all_states,), 1, steps * n, shape=(1, steps * n))


def random_network(seed: int, nodes: int = 12) -> Graph:
    """A graph of about `nodes` nodes with one or two outputs; the same for the same seed."""
    growing = _Growing(seed)
    growing.values = [growing.tensor("x", 1, growing.chance.randint(1, 8))]
    for _ in range(nodes):
        growing.grow(loops=True)
    produced = [v for v in growing.values if v != "x"]
    outputs = tuple(dict.fromkeys((produced[-1], growing.chance.choice(produced))))
    return Graph("random", growing.tensors, tuple(growing.nodes), ("x",), outputs, growing.constants)


def random_image_network(seed: int, nodes: int = 7) -> Graph:
    """A chain of about `nodes` operators over (1, H, W, C), with joins along the channels."""
    g = _Growing(seed)
    chance = g.chance
    x = g.tensor("x", 1, chance.randint(4, 7), chance.randint(4, 7), chance.randint(1, 4))
    pads = (1, 1, 1, 1)
    for _ in range(nodes):
        _, h, w, c = g.tensors[x].shape
        kind = chance.choice(["conv", "conv", "depthwise", "depthwise", "pool", "resize", "norm", "join"])
        if kind == "conv":
            k, out = chance.choice((1, 3)), chance.randint(1, 7)
            attrs = {"pads": pads if k == 3 else (0, 0, 0, 0), "clip": chance.choice((None, (0.0, None)))}
            x = g.add("conv", (x, g.constant(out, k, k, c), g.constant(out)), 1, h, w, out, **attrs)
        elif kind == "depthwise":
            x = g.add("conv", (x, g.constant(c, 3, 3, 1), ""), 1, h, w, c, groups=c, pads=pads)
        elif kind == "pool":
            op = chance.choice(("max_pool", "average_pool"))
            x = g.add(op, (x,), 1, h, w, c, kernel=(3, 3), pads=pads)
        elif kind == "resize" and h * w < 100:
            mode, sizes = chance.choice(("nearest", "linear")), (1, h + chance.randint(0, 3), w + 1, c)
            x = g.add("resize", (x,), *sizes, sizes=sizes, mode=mode)
        elif kind == "join" and c < 12:
            y = g.add("conv", (x, g.constant(2, 1, 1, c), ""), 1, h, w, 2)
            x = g.add("concat", (x, y), 1, h, w, c + 2, axis=3)
        else:
            x = g.add("scale_shift", (x, g.constant(c), g.constant(c)), 1, h, w, c)
    g.add("reduce_mean", (x,), 1, g.width(x), axes=(1, 2), keepdims=False)
    return Graph("images", g.tensors, tuple(g.nodes), ("x",), (g.values[-1],), g.constants)


def random_formats(graph: Graph, seed: int) -> dict[str, Format]:
    """Widths of one posit family at random."""
    chance = random.Random(seed)
    pair = chance.choice(
        [(Posit(8, 2), Posit(16, 2)), (Posit(8, 0), Posit(16, 1)), (Posit(8, 2), Posit(12, 2))]
    )
    return {s.name: chance.choice(pair) for s in real_tensors(graph)}
