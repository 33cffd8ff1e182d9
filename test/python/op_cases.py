# SPDX-License-Identifier: Apache-2.0
"""The operators' test cases: every operator in every number family it supports, small enough for every board.

`cases(op, formats)` builds them; `FORMAT_SETS` are the formats they are built for. The generated table
docs/operators.md and the tests draw from here alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from op_harness import Case

from minun_pio.numerics.affine import Affine, affine_bias
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import BFloat16, Float16, Float32
from minun_pio.numerics.format import Format
from minun_pio.numerics.index import Index32
from minun_pio.numerics.posit import Posit
from minun_pio.numerics.tflite_functions import UNIT16
from minun_pio.numerics.tflite_softmax import LOG_SHARES, SHARES, UNIT_VECTOR


def _single(value: float) -> float:
    return float(np.float32(value))


@dataclass(frozen=True)
class Formats:
    """Formats of one family for one case: two inputs and the output, mixed widths where `name` says so."""

    name: str
    a: Format
    b: Format
    out: Format

    @property
    def family(self) -> str:
        return self.out.family


def _all(name: str, fmt: Format) -> Formats:
    return Formats(name, fmt, fmt, fmt)


FORMAT_SETS: tuple[Formats, ...] = (
    _all("posit<8,0>", Posit(8, 0)),
    _all("posit<8,1>", Posit(8, 1)),
    _all("posit<8,2>", Posit(8, 2)),
    _all("posit<9,2>", Posit(9, 2)),
    _all("posit<12,2>", Posit(12, 2)),
    _all("posit<16,1>", Posit(16, 1)),
    _all("posit<16,2>", Posit(16, 2)),
    _all("posit<32,2>", Posit(32, 2)),
    Formats("posit 8/16 mixed", Posit(8, 2), Posit(16, 2), Posit(8, 2)),
    Formats("posit 16/8 mixed", Posit(16, 2), Posit(8, 2), Posit(16, 2)),
    Formats("posit odd mixed", Posit(10, 2), Posit(32, 2), Posit(12, 2)),
    _all("fixed 8", Fixed(8, -4)),
    _all("fixed 16", Fixed(16, -11)),
    Formats("fixed mixed", Fixed(8, -5), Fixed(16, -12), Fixed(16, -9)),
    Formats("fixed 32", Fixed(32, -20), Fixed(32, -3), Fixed(32, -10)),
    Formats(
        "int8",
        Affine(8, (_single(0.05),), 3),
        Affine(8, (_single(0.07),), -12),
        Affine(8, (_single(0.09),), 5),
    ),
    Formats(
        "int16",
        Affine(16, (_single(0.0003),)),
        Affine(16, (_single(0.0004),)),
        Affine(16, (_single(0.0007),)),
    ),
    _all("float32", Float32()),
    Formats("float 16-bit", Float16(), BFloat16(), Float16()),
)

Builder = Callable[[Formats], list[Case]]


def _binary(op: str) -> Builder:
    def build(f: Formats) -> list[Case]:
        a, b, o = f.a, f.b, f.out
        return [
            Case(op, ((3, 4), (3, 4)), (a, b), (o,), samples=10),
            Case(op, ((2, 3, 4), (3, 1)), (a, b), (o,), {"clip": (0.0, 1.0)}, frozenset({1})),
            Case(op, ((1,), (2, 3)), (a, b), (o,), {"clip": (None, 1.5)}, frozenset({0})),
        ]

    return build


def _pick(op: str) -> Builder:
    return lambda f: [
        Case(op, ((2, 3, 4), (4,)), (f.a, f.a), (f.a,)),
        Case(op, ((5,), (5,)), (f.out, f.out), (f.out,), constants=frozenset({1})),
    ]


def _unary(op: str, **attrs: object) -> Builder:
    return lambda f: [Case(op, ((40,),), (f.a,), (f.out,), attrs, samples=4, spread=2.0)]


def _same(op: str, *variants: tuple[tuple[int, ...], dict[str, object]]) -> Builder:
    """One input, output of the same format."""
    return lambda f: [Case(op, (shape,), (f.a,), (f.a,), attrs) for shape, attrs in variants]


def _average_pool(f: Formats) -> list[Case]:
    out = f.a if f.family == "affine" else f.out
    base: dict[str, object] = {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    found = [
        Case("average_pool", ((1, 5, 5, 3),), (f.a,), (out,), {**base, "clip": (0.0, None)}),
        Case("average_pool", ((1, 6, 5, 2),), (f.a,), (out,), {**base, "ceil_mode": True}),
        Case("average_pool", ((1, 6, 6, 1),), (f.a,), (out,), {"kernel": (2, 2), "dilations": (2, 2)}),
    ]
    if f.family != "affine":
        found.append(
            Case("average_pool", ((1, 5, 5, 3),), (f.a,), (out,), {**base, "count_include_pad": True})
        )
    return found


def _reduce(op: str) -> Builder:
    def build(f: Formats) -> list[Case]:
        out = f.out if op in ("reduce_sum", "reduce_mean") else f.a
        return [
            Case(op, ((2, 3, 4),), (f.a,), (out,), {"axes": (1,)}, samples=8),
            Case(op, ((2, 3, 4),), (f.a,), (out,), {"axes": (0, 2), "keepdims": False}),
            Case(op, ((7,),), (f.a,), (out,), {}),
        ]

    return build


def _prescribed(f: Formats, outputs: dict[int, Affine]) -> Format | None:
    """The output's format; None where an affine one of this width is not defined."""
    return outputs.get(f.out.bits) if f.family == "affine" else f.out


def _softmax(f: Formats) -> list[Case]:
    out = _prescribed(f, SHARES)
    assert out is not None
    return [
        Case("softmax", ((2, 5, 3),), (f.a,), (out,), {"axis": 1}, spread=2.0),
        Case("softmax", ((1, 12),), (f.a,), (out,), {"axis": -1}, spread=2.0, samples=8),
        Case("softmax", ((1, 7),), (f.a,), (out,), {"axis": -1, "beta": 0.75}, spread=2.0),
    ]


def _log_softmax(f: Formats) -> list[Case]:
    out = _prescribed(f, {8: LOG_SHARES})
    found = [
        Case("log_softmax", ((2, 5, 3),), (f.a,), (out,), {"axis": 1}, spread=2.0),
        Case("log_softmax", ((1, 12),), (f.a,), (out,), {"axis": -1}, spread=2.0, samples=8),
    ]
    return [] if out is None else found


def _sigmoid_like(op: str) -> Builder:
    """Also into the format that TensorFlow Lite prescribes in 16 bits."""

    def build(f: Formats) -> list[Case]:
        found = _unary(op)(f)
        if f.name == "int16":
            found.append(Case(op, ((40,),), (f.a,), (UNIT16,), samples=6, spread=4.0))
        return found

    return build


def _layer_norm(f: Formats) -> list[Case]:
    both = frozenset({1, 2})
    attrs = {"axis": 1, "epsilon": 1e-3}
    return [
        Case("layer_norm", ((3, 12),), (f.a,), (f.out,), {"axis": -1}, spread=2.0),
        Case("layer_norm", ((2, 4, 3), (4, 3), (4, 3)), (f.a, f.b, f.a), (f.out,), attrs, both),
    ]


def _l2_norm(f: Formats) -> list[Case]:
    out = _prescribed(f, {8: UNIT_VECTOR})
    epsilon = {} if f.family == "affine" else {"epsilon": 1.5}
    found = [
        Case("l2_norm", ((2, 6, 2),), (f.a,), (out,), {"axis": 1}, spread=2.0),
        Case("l2_norm", ((3, 8),), (f.a,), (out,), {"axis": -1, **epsilon}, spread=0.3),
    ]
    return [] if out is None else found


def _bonsai(f: Formats) -> list[Case]:
    shapes = ((1, 6), (21, 6), (21, 6), (3, 6))
    base: dict[str, object] = {"depth": 2, "classes": 3}
    return [
        Case("bonsai_tree", shapes, (f.a, f.b, f.a, f.b), (f.out,), {**base, **more}, frozenset({1, 2, 3}))
        for more in ({"gate": "tanh"}, {"gate": "clip", "sigma": 0.75})
    ]


def _gather(f: Formats) -> list[Case]:
    index = Index32()
    return [
        Case("gather", ((4, 3), (2, 2)), (f.a, index), (f.a,), {"axis": 0}, frozenset({0})),
        Case("gather", ((2, 4, 3), (3,)), (f.a, index), (f.a,), {"axis": 1}, frozenset({1})),
        Case("gather", ((2, 4, 3), (3,)), (f.a, index), (f.a,), {"axis": -1}),
    ]


def _concat(f: Formats) -> list[Case]:
    three = (f.a, f.a, f.a)
    return [
        Case("concat", ((1, 5), (1, 3), (1, 2)), three, (f.a,), {"axis": -1}, frozenset({1})),
        Case("concat", ((2, 5), (2, 3)), (f.a, f.a), (f.a,), {"axis": 1}),
    ]


def _split(f: Formats) -> list[Case]:
    return [
        Case("split", ((6, 3),), (f.a,), (f.a, f.a), {"axis": 0, "sizes": (2, 4)}),
        Case("split", ((3, 6),), (f.a,), (f.a, f.a), {"axis": 1, "sizes": (2, 4)}),
    ]


def _resize(f: Formats) -> list[Case]:
    return [
        Case("resize", (shape,), (f.a,), (f.a,), {"sizes": sizes, "mode": mode, "coordinate": coordinate})
        for mode in ("nearest", "linear")
        for coordinate in ("half_pixel", "asymmetric", "align_corners")
        for shape, sizes in (((1, 3, 4, 2), (1, 5, 8, 2)), ((6, 4), (6, 3)))
    ]


def _convert(f: Formats) -> list[Case]:
    return [Case("convert", ((20,),), (f.a,), (g.b,), spread=2.0) for g in FORMAT_SETS if g.b != f.a]


def _argmax(f: Formats) -> list[Case]:
    index = (Index32(),)
    last = {"axis": 2, "keepdims": False, "select_last_index": True}
    return [
        Case("argmax", ((2, 5, 4),), (f.a,), index, {"axis": 1}),
        Case("argmax", ((2, 5, 4),), (f.a,), index, last),
        Case("argmax", ((2, 5, 4),), (f.a,), index, {"axis": 1, "smallest": True}),
    ]


def _weights(f: Formats, channels: int) -> tuple[Format, Format, frozenset[int]]:
    """Formats of weights and bias, and which inputs are constant."""
    constants = frozenset({1, 2})
    if isinstance(f.a, Affine):
        scales = tuple(_single(0.01 * (1 + index)) for index in range(channels))
        weights = Affine(8, scales, 0, 0, narrow=True)
        return weights, affine_bias(f.a, weights), constants
    return f.b, f.a, constants


def _dense(f: Formats) -> list[Case]:
    weights, bias, constants = _weights(f, 5)
    formats = (f.a, weights, bias)
    return [
        Case(
            "dense", ((1, 9), (5, 9), (5,)), (f.a, weights, bias), (f.out,), {"clip": (0.0, None)}, constants
        ),
        Case("dense", ((2, 3, 4), (5, 4), (5,)), formats, (f.out,), {}, constants),
    ]


def _sparse_dense(f: Formats) -> list[Case]:
    rng = np.random.default_rng(2)
    values = np.where(rng.random((5, 9)) < 0.3, rng.normal(0.0, 1.0, (5, 9)), 0.0)
    given = {1: f.b.encode(values)[None]}
    formats = (f.a, f.b, f.a)
    return [
        Case("sparse_dense", (x, (5, 9), (5,)), formats, (f.out,), attrs, frozenset({1, 2}), codes=given)
        for x, attrs in (((1, 9), {"clip": (0.0, None)}), ((3, 9), {"storage": "csc"}))
    ]


def _conv(op: str) -> Builder:
    def build(f: Formats) -> list[Case]:
        weights, bias, constants = _weights(f, 4)
        formats = (f.a, weights, bias)
        plain: dict[str, object] = {"pads": (1, 1, 1, 1), "strides": (2, 1), "clip": (0.0, 6.0)}
        return [
            Case(op, ((1, 5, 4, 2), (4, 3, 3, 2), (4,)), formats, (f.out,), plain, constants),
            Case(op, ((1, 4, 4, 4), (4, 2, 2, 1), (4,)), formats, (f.out,), {"groups": 4}, constants),
            Case(op, ((1, 3, 3, 3), (4, 1, 1, 3), (4,)), formats, (f.out,), {}, constants),
        ]

    return build


def _matmul(f: Formats) -> list[Case]:
    return [
        Case("matmul", ((2, 3, 4), (2, 4, 5)), (f.a, f.b), (f.out,), {}),
        Case("matmul", ((3, 4), (5, 4)), (f.a, f.b), (f.out,), {"transpose_b": True}),
    ]


BUILDERS: dict[str, Builder] = {
    "abs": _same("abs", ((30,), {})),
    "add": _binary("add"),
    "argmax": _argmax,
    "average_pool": _average_pool,
    "bonsai_tree": _bonsai,
    "clip": _same("clip", ((2, 3, 4), {"lo": -0.5, "hi": 0.75}), ((9,), {"hi": 1.0})),
    "concat": _concat,
    "conv": _conv("conv"),
    "conv_transpose": _conv("conv_transpose"),
    "convert": _convert,
    "dense": _dense,
    "div": _binary("div"),
    "elu": _unary("elu", alpha=0.75),
    "erf": _unary("erf"),
    "exp": _unary("exp"),
    "expand": _same("expand", ((3, 1), {"shape": (2, 3, 4)})),
    "gather": _gather,
    "gelu": lambda f: [*_unary("gelu")(f), *_unary("gelu", approximate="tanh")(f)],
    "hard_sigmoid": _unary("hard_sigmoid", alpha=1 / 6, beta=0.5),
    "hard_swish": _unary("hard_swish"),
    "l2_norm": _l2_norm,
    "layer_norm": _layer_norm,
    "leaky_relu": _unary("leaky_relu", alpha=0.1),
    "log": _unary("log"),
    "log_softmax": _log_softmax,
    "max_pool": _same(
        "max_pool",
        ((1, 5, 6, 3), {"kernel": (3, 2), "strides": (2, 2), "pads": (1, 0, 1, 1), "ceil_mode": True}),
        ((1, 6, 6, 2), {"kernel": (2, 2), "dilations": (2, 3)}),
    ),
    "matmul": _matmul,
    "maximum": _pick("maximum"),
    "minimum": _pick("minimum"),
    "mul": _binary("mul"),
    "neg": _same("neg", ((30,), {}), ((30,), {"wrap": True})),
    "pad": _same(
        "pad",
        ((3, 4), {"pads": ((1, 2), (2, 0)), "value": 0.5}),
        ((3, 2), {"pads": ((3, 2), (1, 2)), "mode": "symmetric"}),
        ((3, 4), {"pads": ((1, 2), (2, 3)), "mode": "reflect"}),
        ((2, 3, 2), {"pads": ((1, 0), (4, 3), (0, 2)), "mode": "edge"}),
    ),
    "prelu": _binary("prelu"),
    "reciprocal": _unary("reciprocal"),
    "reciprocal_sqrt": _unary("reciprocal_sqrt"),
    "reduce_max": _reduce("reduce_max"),
    "reduce_mean": _reduce("reduce_mean"),
    "reduce_min": _reduce("reduce_min"),
    "reduce_sum": _reduce("reduce_sum"),
    "relu": _same("relu", ((2, 3, 4), {})),
    "reshape": _same("reshape", ((5, 6), {"shape": (3, 10)})),
    "resize": _resize,
    "reverse": _same("reverse", ((2, 3, 4), {"axes": (0, 2)}), ((6,), {"axes": (-1,)})),
    "scale_shift": lambda f: [
        Case("scale_shift", ((2, 7), (7,), (7,)), (f.a, f.b, f.a), (f.out,), {}, frozenset({1, 2}), samples=8)
    ],
    "sigmoid": _sigmoid_like("sigmoid"),
    "silu": _unary("silu"),
    "slice": _same(
        "slice",
        ((5, 6), {"starts": (-1, 1), "ends": (-99, 5), "axes": (0, 1), "steps": (-2, 2)}),
        ((5, 6), {"starts": (2,), "ends": (4,), "axes": (0,)}),
    ),
    "softmax": _softmax,
    "softplus": _unary("softplus"),
    "sparse_dense": _sparse_dense,
    "split": _split,
    "sqrt": _unary("sqrt"),
    "squared_distance": lambda f: [
        Case("squared_distance", ((1, 7), (5, 7)), (f.a, f.b), (f.out,), {}, frozenset({1}), samples=8)
    ],
    "squared_difference": lambda f: [] if f.name == "int16" else _binary("squared_difference")(f),
    "sub": _binary("sub"),
    "tanh": _sigmoid_like("tanh"),
    "transpose": _same("transpose", ((2, 3, 4), {"perm": (2, 0, 1)}), ((1, 3, 3, 2), {"perm": (0, 3, 1, 2)})),
}
"""Every operator but scan, which is a loop around others and has its own tests."""

SMALL = tuple(
    f
    for f in FORMAT_SETS
    if f.name in ("posit<8,2>", "posit<16,2>", "posit 8/16 mixed", "fixed 16", "int8", "int16", "float32")
)
"""Format sets for the boards."""


def cases(op: str, formats: Formats) -> list[Case]:
    """The cases of `op`, none where the operator does not support the family."""
    from minun_pio.ops import REGISTRY

    return BUILDERS[op](formats) if formats.family in REGISTRY[op].families else []
