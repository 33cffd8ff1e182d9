# SPDX-License-Identifier: Apache-2.0
"""Small graphs that several tests share: two dense layers, a loop in all its shapes, branches."""

from __future__ import annotations

import numpy as np

from minun_pio.ir import Graph, Node, Tensor


def tensors(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    return {name: Tensor(name, shape) for name, shape in shapes.items()}


def two_outputs() -> Graph:
    """Two dense layers side by side, each an output of three numbers."""
    rng = np.random.default_rng(41)
    names = {"x": (1, 5), "v": (3, 5), "w": (3, 5), "a": (1, 3), "b": (1, 3)}
    return Graph(
        "two_outputs",
        {name: Tensor(name, shape) for name, shape in names.items()},
        (Node("first", "dense", ("x", "v"), ("a",)), Node("second", "dense", ("x", "w"), ("b",))),
        ("x",),
        ("a", "b"),
        {"v": rng.normal(0.0, 0.5, (3, 5)), "w": rng.normal(0.0, 0.5, (3, 5))},
    )


def two_layers(seed: int = 0) -> Graph:
    """dense 6 -> 8, relu, dense 8 -> 3 without bias."""
    rng = np.random.default_rng(seed)
    return Graph(
        "two_layers",
        tensors(x=(1, 6), w=(8, 6), b=(8,), h=(1, 8), r=(1, 8), w2=(3, 8), y=(1, 3)),
        (
            Node("fc1", "dense", ("x", "w", "b"), ("h",)),
            Node("act", "relu", ("h",), ("r",)),
            Node("fc2", "dense", ("r", "w2", ""), ("y",)),
        ),
        ("x",),
        ("y",),
        {"w": rng.normal(size=(8, 6)), "b": rng.normal(size=8), "w2": rng.normal(size=(3, 8))},
    )


def wide() -> Graph:
    """dense 256 -> 8, relu, dense 8 -> 2: the scratch of the first sets the arena's peak."""
    rng = np.random.default_rng(11)
    return Graph(
        "wide",
        tensors(x=(1, 256), w=(8, 256), b=(8,), h=(1, 8), r=(1, 8), w2=(2, 8), y=(1, 2)),
        (
            Node("fc1", "dense", ("x", "w", "b"), ("h",)),
            Node("act", "relu", ("h",), ("r",)),
            Node("fc2", "dense", ("r", "w2", ""), ("y",)),
        ),
        ("x",),
        ("y",),
        {"w": rng.normal(size=(8, 256)) / 16, "b": rng.normal(size=8), "w2": rng.normal(size=(2, 8))},
    )


def recurrent(
    steps: int = 5,
    reverse: bool = False,
    axis: int = 0,
    sequence: bool = True,
    initial: bool = True,
) -> Graph:
    """h = relu(W x_t + U h) over time, then a dense layer; with `sequence` all h are an output too."""
    rng = np.random.default_rng(7)
    body = Graph(
        "body",
        tensors(h=(1, 4), xt=(1, 3), a=(1, 4), c=(1, 4), s=(1, 4), hn=(1, 4), w=(4, 3), u=(4, 4)),
        (
            Node("wx", "dense", ("xt", "w", ""), ("a",)),
            Node("uh", "dense", ("h", "u", ""), ("c",)),
            Node("sum", "add", ("a", "c"), ("s",)),
            Node("act", "relu", ("s",), ("hn",)),
        ),
        ("h", "xt"),
        ("hn", "hn"),
        {"w": 0.5 * rng.normal(size=(4, 3)), "u": 0.3 * rng.normal(size=(4, 4))},
    )
    x = (steps, 1, 3) if axis == 0 else (1, steps, 3)
    y = (steps, 1, 4) if axis == 0 else (1, steps, 4)
    loop = Node(
        "loop",
        "scan",
        ("h0" if initial else "", "x"),
        ("hT", "y"),
        {"steps": steps, "reverse": reverse, "axis": axis},
        body,
    )
    return Graph(
        "recurrent",
        tensors(x=x, h0=(1, 4), hT=(1, 4), y=y, w2=(2, 4), o=(1, 2)),
        (loop, Node("fc", "dense", ("hT", "w2", ""), ("o",))),
        ("x",),
        ("o", "y") if sequence else ("o",),
        {"h0": rng.normal(size=(1, 4)), "w2": rng.normal(size=(2, 4))},
    )


def shift_register(steps: int = 6) -> Graph:
    """Three states that hand their values on, a carried sum, and the oldest state as a sequence."""
    body = Graph(
        "body",
        tensors(s0=(1, 2), s1=(1, 2), s2=(1, 2), acc=(1, 2), xt=(1, 2), acc2=(1, 2)),
        (Node("sum", "add", ("acc", "s2"), ("acc2",)),),
        ("s0", "s1", "s2", "acc", "xt"),
        ("xt", "s0", "s1", "acc2", "s2"),
        {},
    )
    loop = Node(
        "loop", "scan", ("z", "z", "z", "z", "x"), ("f0", "f1", "f2", "total", "y"), {"steps": steps}, body
    )
    return Graph(
        "shift_register",
        tensors(x=(steps, 1, 2), z=(1, 2), f0=(1, 2), f1=(1, 2), f2=(1, 2), total=(1, 2), y=(steps, 1, 2)),
        (loop,),
        ("x",),
        ("total", "f2", "y"),
        {"z": np.zeros((1, 2))},
    )


def nested_loops() -> Graph:
    """A loop over rows whose body loops over columns; the inner state starts from the outer one."""
    inner_body = Graph(
        "columns",
        tensors(s=(1, 2), v=(1, 2), n=(1, 2)),
        (Node("plus", "add", ("s", "v"), ("n",)),),
        ("s", "v"),
        ("n",),
        {},
    )
    body = Graph(
        "rows",
        tensors(h=(1, 2), row=(3, 1, 2), e=(1, 2), k=(1, 2), m=(1, 2)),
        (
            Node("columns", "scan", ("h", "row"), ("e",), {"steps": 3, "reverse": True}, inner_body),
            Node("scale", "mul", ("e", "k"), ("m",)),
        ),
        ("h", "row"),
        ("m", "e"),
        {"k": np.array([[0.5, -0.25]])},
    )
    return Graph(
        "nested_loops",
        tensors(x=(4, 3, 1, 2), z=(1, 2), last=(1, 2), y=(4, 1, 2)),
        (Node("rows", "scan", ("z", "x"), ("last", "y"), {"steps": 4}, body),),
        ("x",),
        ("last", "y"),
        {"z": np.zeros((1, 2))},
    )


def branches() -> Graph:
    """Two dense branches joined by concat, a reshape in the middle, and the input given back."""
    rng = np.random.default_rng(3)
    return Graph(
        "branches",
        tensors(
            x=(1, 4), w=(6, 4), v=(2, 4), a=(1, 6), a2=(1, 2, 3), b=(1, 2), a3=(1, 6), c=(1, 8), o=(2, 4)
        ),
        (
            Node("left", "dense", ("x", "w", ""), ("a",)),
            Node("right", "dense", ("x", "v", ""), ("b",)),
            Node("fold", "reshape", ("a",), ("a2",), {"shape": (1, 2, 3)}),
            Node("unfold", "reshape", ("a2",), ("a3",), {"shape": (1, 6)}),
            Node("join", "concat", ("a3", "b"), ("c",), {"axis": 1}),
            Node("view", "reshape", ("c",), ("o",), {"shape": (2, 4)}),
        ),
        ("x",),
        ("o", "x"),
        {"w": rng.normal(size=(6, 4)), "v": rng.normal(size=(2, 4))},
    )


def upsampling() -> Graph:
    """Ever larger outputs; of two poolings of one size one must run in reverse not to need more room."""
    rng = np.random.default_rng(4)
    return Graph(
        "upsampling",
        tensors(
            x=(1, 3, 4, 5),
            t=(1, 3, 4, 5),
            u=(1, 6, 8, 5),
            g=(5,),
            h=(5,),
            n=(1, 6, 8, 5),
            v=(1, 9, 12, 5),
            a=(1, 9, 12, 5),
            b=(1, 9, 12, 5),
            s=(1, 5),
        ),
        (
            Node("soft", "tanh", ("x",), ("t",)),
            Node("up", "resize", ("t",), ("u",), {"sizes": (1, 6, 8, 5), "mode": "nearest"}),
            Node("norm", "scale_shift", ("u", "g", "h"), ("n",)),
            Node("between", "resize", ("n",), ("v",), {"sizes": (1, 9, 12, 5), "mode": "linear"}),
            Node("mean", "average_pool", ("v",), ("a",), {"kernel": (3, 3), "pads": (1, 1, 1, 1)}),
            Node("peak", "max_pool", ("a",), ("b",), {"kernel": (3, 3), "pads": (1, 1, 1, 1)}),
            Node("sum", "reduce_mean", ("b",), ("s",), {"axes": (1, 2), "keepdims": False}),
        ),
        ("x",),
        ("s",),
        {"g": rng.normal(size=5), "h": rng.normal(size=5)},
    )


def separable() -> Graph:
    """Depthwise convolutions of one size, as in DS-CNN: every other one must run in reverse."""
    rng = np.random.default_rng(6)

    def weights(*shape: int) -> np.ndarray:
        return rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))

    pads = {"pads": (1, 1, 1, 1)}
    return Graph(
        "separable",
        tensors(
            x=(1, 9, 8, 2),
            w1=(10, 3, 3, 2),
            b1=(10,),
            c1=(1, 9, 8, 10),
            w2=(10, 3, 3, 1),
            c2=(1, 9, 8, 10),
            w3=(10, 1, 1, 10),
            c3=(1, 9, 8, 10),
            w4=(10, 3, 3, 1),
            b4=(10,),
            c4=(1, 9, 8, 10),
            w5=(9, 3, 3, 10),
            c5=(1, 9, 8, 9),
            m=(1, 9),
        ),
        (
            Node("conv", "conv", ("x", "w1", "b1"), ("c1",), {**pads, "clip": (0.0, None)}),
            Node("depthwise1", "conv", ("c1", "w2", ""), ("c2",), {**pads, "groups": 10}),
            Node("pointwise", "conv", ("c2", "w3", ""), ("c3",), {"clip": (0.0, 6.0)}),
            Node("depthwise2", "conv", ("c3", "w4", "b4"), ("c4",), {**pads, "groups": 10}),
            Node("last", "conv", ("c4", "w5", ""), ("c5",), pads),
            Node("mean", "reduce_mean", ("c5",), ("m",), {"axes": (1, 2), "keepdims": False}),
        ),
        ("x",),
        ("m",),
        {
            "w1": weights(10, 3, 3, 2),
            "b1": rng.normal(size=10),
            "w2": weights(10, 3, 3, 1),
            "w3": weights(10, 1, 1, 10),
            "w4": weights(10, 3, 3, 1),
            "b4": rng.normal(size=10),
            "w5": weights(9, 3, 3, 10),
        },
    )


def convolutions(seed: int = 9) -> Graph:
    """conv, depthwise, max-pool, two branches joined along the channels, mean, dense, softmax, argmax."""
    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> np.ndarray:
        return rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))

    return Graph(
        "convolutions",
        tensors(
            x=(1, 8, 8, 2),
            w1=(6, 3, 3, 2),
            b1=(6,),
            c1=(1, 8, 8, 6),
            w2=(6, 3, 3, 1),
            c2=(1, 8, 8, 6),
            p=(1, 4, 4, 6),
            w3=(4, 1, 1, 6),
            left=(1, 4, 4, 4),
            w4=(5, 3, 3, 6),
            right=(1, 4, 4, 5),
            both=(1, 4, 4, 9),
            m=(1, 9),
            w5=(4, 9),
            b5=(4,),
            s=(1, 4),
            q=(1, 4),
            k=(1,),
        ),
        (
            Node("conv", "conv", ("x", "w1", "b1"), ("c1",), {"pads": (1, 1, 1, 1), "clip": (0.0, None)}),
            Node("depthwise", "conv", ("c1", "w2", ""), ("c2",), {"pads": (1, 1, 1, 1), "groups": 6}),
            Node("pool", "max_pool", ("c2",), ("p",), {"kernel": (2, 2), "strides": (2, 2)}),
            Node("pointwise", "conv", ("p", "w3", ""), ("left",), {"clip": (0.0, 6.0)}),
            Node("wide", "conv", ("p", "w4", ""), ("right",), {"pads": (1, 1, 1, 1)}),
            Node("join", "concat", ("left", "right"), ("both",), {"axis": 3}),
            Node("mean", "reduce_mean", ("both",), ("m",), {"axes": (1, 2), "keepdims": False}),
            Node("head", "dense", ("m", "w5", "b5"), ("s",)),
            Node("scores", "softmax", ("s",), ("q",), {"axis": 1}),
            Node("best", "argmax", ("q",), ("k",), {"axis": 1, "keepdims": False}),
        ),
        ("x",),
        ("q", "k"),
        {
            "w1": weights(6, 3, 3, 2),
            "b1": rng.normal(size=6),
            "w2": weights(6, 3, 3, 1),
            "w3": weights(4, 1, 1, 6),
            "w4": weights(5, 3, 3, 6),
            "w5": weights(4, 9),
            "b5": rng.normal(size=4),
        },
    )


def two_inputs() -> Graph:
    """Two inputs of different sizes: a row looked up in a table, added to a dense layer; an index out."""
    rng = np.random.default_rng(21)
    return Graph(
        "two_inputs",
        tensors(
            token=(1,), x=(1, 3), table=(5, 4), row=(1, 4), w=(4, 3), h=(1, 4), s=(1, 4), k=(1,), t=(1, 4)
        ),
        (
            Node("look_up", "gather", ("table", "token"), ("row",), {"axis": 0}),
            Node("dense", "dense", ("x", "w", ""), ("h",)),
            Node("sum", "add", ("row", "h"), ("s",)),
            Node("squash", "tanh", ("s",), ("t",)),
            Node("best", "argmax", ("t",), ("k",), {"axis": 1, "keepdims": False}),
        ),
        ("token", "x"),
        ("k", "t"),
        {"table": rng.normal(size=(5, 4)), "w": rng.normal(size=(4, 3))},
    )
