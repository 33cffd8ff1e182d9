# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's operators that move values: the interpreter's values, byte for byte.

The files give outputs a wrong shape, (1,), but SLICE's: the interpreter computes shapes itself, and so must
the importer.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tflite
from hostile_files import try_tflite
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tflite_models import File, interpreted

from minun_pio.errors import MinunError
from minun_pio.importers.tflite import convert, parse_tflite
from minun_pio.passes import optimise
from minun_pio.simulate.assign import real_tensors
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.reference import reference
from minun_pio.simulate.run import run_codes

OP = tflite.BuiltinOperator
Array = NDArray[Any]
DTYPES = ("float32", "int8", "int16")
SAMPLES = 5


@dataclass(frozen=True)
class Case:
    """One operator. `inputs`: shapes of what is moved, and constants by value, in the operator's order."""

    op: str
    inputs: Sequence[tuple[int, ...] | Array]
    options: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    dtypes: Sequence[str] = DTYPES
    version: int = 1
    said: tuple[int, ...] = (1,)  # the shape that the file gives the outputs

    @property
    def table(self) -> str:
        words = "".join(word.capitalize() for word in self.op.removesuffix("_V2").split("_")) + "Options"
        special = {
            "ReverseOptions": "ReverseV2Options",
            "ConcatenationOptions": "ConcatenationOptions",
            "SpaceToBatchNdOptions": "SpaceToBatchNDOptions",
            "BatchToSpaceNdOptions": "BatchToSpaceNDOptions",
            "Padv2Options": "PadV2Options",
            "SplitVOptions": "SplitVOptions",
            "SelectOptions": "SelectV2Options" if self.op == "SELECT_V2" else "SelectOptions",
        }
        return special.get(words, words)


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


def one(value: int) -> Array:
    return np.array(value, np.int32)


def sliced(shape: tuple[int, ...], begin: Any, end: Any, strides: Any, **masks: int) -> Case:
    return Case("STRIDED_SLICE", (shape, ints(*begin), ints(*end), ints(*strides)), masks)


BYTES = ("float32", "int8")  # what the interpreter has no int16 kernel for
MASK = np.random.default_rng(7).integers(0, 2, (2, 3, 4)).astype(bool)

CASES = [
    Case("UNPACK", ((3, 2, 4),), {"Axis": 1, "Num": 2}, 2),
    Case("UNPACK", ((3, 2, 4),), {"Axis": -1, "Num": 4}, 4),
    Case("UNPACK", ((3, 4),), {"Axis": 0, "Num": 3}, 3),
    Case("UNPACK", ((1, 5),), {"Axis": 0, "Num": 1}, 1),
    Case("UNPACK", ((4,),), {"Axis": 0, "Num": 4}, 4),
    Case("PACK", ((3, 4), (3, 4)), {"Axis": -1, "ValuesCount": 2}),
    Case("PACK", ((3, 4), (3, 4), (3, 4)), {"Axis": -3, "ValuesCount": 3}),
    Case("PACK", ((2,),), {"Axis": 1, "ValuesCount": 1}),
    Case("TILE", ((1, 3, 4), ints(1, 2, 2))),
    Case("TILE", ((2, 3), ints(3, 1))),
    Case("TILE", ((2, 1, 3), ints(1, 4, 1))),
    Case("TILE", ((2, 3, 2, 2), ints(2, 3, 2, 2))),
    Case("TILE", ((5,), np.array([3], np.int64))),
    Case("TILE", ((2, 3), ints(1, 1))),
    Case("BROADCAST_TO", ((1, 3, 1), ints(2, 3, 4)), version=3),
    Case("BROADCAST_TO", ((3, 1), ints(2, 2, 3, 4)), version=3),
    Case("BROADCAST_TO", ((2, 3), ints(2, 3)), version=3),
    Case("DEPTH_TO_SPACE", ((1, 3, 4, 8),), {"BlockSize": 2}, dtypes=BYTES),
    Case("DEPTH_TO_SPACE", ((1, 2, 1, 18),), {"BlockSize": 3}, dtypes=BYTES),
    Case("DEPTH_TO_SPACE", ((2, 2, 3, 4),), {"BlockSize": 1}, dtypes=BYTES),
    Case("SPACE_TO_DEPTH", ((1, 6, 8, 2),), {"BlockSize": 2}, dtypes=BYTES),
    Case("SPACE_TO_DEPTH", ((1, 3, 6, 1),), {"BlockSize": 3}, dtypes=BYTES),
    Case("SPACE_TO_BATCH_ND", ((1, 5, 6, 2), ints(2, 2), ints([1, 2], [1, 1]))),
    Case("SPACE_TO_BATCH_ND", ((2, 4, 6, 3), ints(2, 3), ints([0, 0], [0, 0]))),
    Case("SPACE_TO_BATCH_ND", ((1, 5, 3), ints(3), ints([2, 2]))),
    Case("BATCH_TO_SPACE_ND", ((4, 4, 4, 2), ints(2, 2), ints([1, 1], [0, 1]))),
    Case("BATCH_TO_SPACE_ND", ((12, 2, 1, 3), ints(3, 2), ints([0, 0], [0, 0]))),
    Case("BATCH_TO_SPACE_ND", ((3, 4, 2), ints(3), ints([2, 1]))),
    Case("MIRROR_PAD", ((1, 3, 4, 2), ints([0, 0], [1, 3], [4, 1], [0, 2])), {"Mode": 1}, dtypes=DTYPES),
    Case("MIRROR_PAD", ((3, 4), ints([2, 1], [3, 2])), {"Mode": 0}, dtypes=DTYPES),
    Case("MIRROR_PAD", ((2, 3), np.array([[2, 2], [0, 3]], np.int64)), {"Mode": 1}, dtypes=DTYPES),
    Case("PAD", ((1, 3, 4, 2), ints([0, 0], [1, 2], [0, 1], [0, 0]))),
    Case("PAD", ((3,), ints([2, 1]))),
    Case("PAD", ((2, 3), np.array([[0, 0], [1, 4]], np.int64))),
    sliced((3, 6), (1, 0), (3, 6), (1, 2)),
    sliced((3, 6), (2, 5), (0, -7), (-1, -2)),
    sliced((3, 6), (0, -3), (9, 99), (2, 1)),
    sliced((3, 6), (7, 7), (7, 7), (1, 1), BeginMask=3, EndMask=3),
    sliced((3, 6), (7, 7), (7, 7), (-1, -2), BeginMask=3, EndMask=3),
    sliced((3, 6), (1,), (2,), (1,)),
    sliced((3, 6), (1, 2), (0, 0), (1, 1), ShrinkAxisMask=3),
    sliced((3, 6), (-1, 2), (0, 5), (1, 1), ShrinkAxisMask=1),
    sliced((3, 6), (0, 0, 0), (0, 3, 6), (1, 1, 1), NewAxisMask=1),
    sliced((3, 6), (0, 1, 2), (2, 3, 6), (1, 1, 2), NewAxisMask=4),
    sliced((2, 3, 6), (0, 0), (0, 3), (1, 1), EllipsisMask=1),
    sliced((2, 3, 6), (1, 0, 2), (2, 0, 5), (1, 1, 2), EllipsisMask=2),
    sliced((2, 3, 4, 5), (1, 0, 3), (0, 0, 0), (1, 1, 1), EllipsisMask=2, ShrinkAxisMask=5),
    sliced((2, 3, 4), (0, 0, 1), (0, 0, 3), (1, 1, 1), EllipsisMask=1, NewAxisMask=2),
    sliced((2, 3, 4), (0, 0, 1), (0, 0, 0), (1, 1, 1), NewAxisMask=1, EllipsisMask=2, ShrinkAxisMask=4),
    sliced((2, 3, 4), (1, 0), (0, 0), (1, 1), NewAxisMask=2, ShrinkAxisMask=1),
    sliced((4, 6), (1, 2), (2, 3), (1, 1), Offset=True),
    Case("SLICE", ((3, 6), ints(1, 1), ints(2, 4)), said=(2, 4)),
    Case("SLICE", ((3, 6, 2), ints(0, 2, 1), ints(-1, 3, -1)), said=(3, 3, 1)),
    Case("SLICE", ((3, 6), np.array([2, 0], np.int64), np.array([1, 6], np.int64)), said=(1, 6)),
    Case("GATHER", ((3, 5, 4), ints(4, 0, 0)), {"Axis": 1}),
    Case("GATHER", ((3, 5), ints([1, 0], [3, 4])), {"Axis": -1}),
    Case("GATHER", ((6, 2), one(3)), {"Axis": 0}),
    Case("GATHER", ((2, 5, 3), ints([4, 0], [1, 1])), {"Axis": 1, "BatchDims": 1}),
    Case("GATHER", ((2, 3, 4), ints([3], [0])), {"Axis": 2, "BatchDims": 1}),
    Case("GATHER", ((2, 3, 4, 2), ints([[1, 2], [0, 0], [3, 3]], [[2, 1], [3, 0], [0, 1]])),
         {"Axis": 2, "BatchDims": 2}),
    Case("GATHER_ND", ((3, 4, 2), ints([0, 3], [2, 1], [0, 0]))),
    Case("GATHER_ND", ((3, 4), ints([[2], [0]], [[1], [2]]))),
    Case("GATHER_ND", ((3, 2, 2), ints([2, 1, 0], [0, 0, 1]))),
    Case("REVERSE_V2", ((2, 5, 4), ints(1))),
    Case("REVERSE_V2", ((2, 5, 4), ints(-1))),
    Case("REVERSE_V2", ((2, 5, 4), ints(0, 1))),
    Case("REVERSE_V2", ((2, 3, 4), ints(0, 1, 2))),
    Case("TRANSPOSE", ((2, 3, 4), ints(2, 0, 1))),
    Case("TRANSPOSE", ((2, 3, 2, 3, 2), ints(4, 0, 3, 1, 2))),
    Case("TRANSPOSE", ((2, 3, 1, 3, 2, 2), ints(5, 1, 3, 0, 2, 4))),
    Case("CONCATENATION", ((1, 3, 4), (1, 2, 4), (1, 1, 4)), {"Axis": 1}),
    Case("CONCATENATION", ((2, 3), (2, 1)), {"Axis": -1}),
    Case("SPLIT", (one(1), (2, 6)), {"NumSplits": 3}, 3),
    Case("SPLIT", (one(-2), (4, 3)), {"NumSplits": 2}, 2),
    Case("SPLIT_V", ((2, 6), ints(1, 2, 3), one(1)), {"NumSplits": 3}, 3),
    Case("SPLIT_V", ((6, 2), ints(2, -1), one(0)), {"NumSplits": 2}, 2),
    Case("SQUEEZE", ((1, 3, 1),)),
    Case("SQUEEZE", ((1, 3, 1, 2),), {"SqueezeDims": [2]}),
    Case("SQUEEZE", ((1, 3, 1, 2),), {"SqueezeDims": [-4]}),
    Case("EXPAND_DIMS", ((2, 3), one(1))),
    Case("EXPAND_DIMS", ((2, 3), ints(-1))),
    Case("RESHAPE", ((2, 3, 4), ints(4, -1))),
    Case("RESHAPE", ((2, 3, 4),), {"NewShape": [3, 8]}),
    Case("RESHAPE", ((2, 3, 4),), {"NewShape": [-1, 6]}),
    Case("SELECT_V2", (MASK, (2, 3, 4), (2, 3, 4))),
    Case("SELECT_V2", (MASK[0], (2, 3, 4), (1, 1, 4))),
    Case("SELECT_V2", (np.ones((2, 3), bool), (3,), (2, 3))),
    Case("SELECT_V2", (np.zeros((2, 3), bool), (2, 3), (2, 3))),
    Case("SELECT", (np.array([True, False, True]), (3, 4), (3, 4))),
]  # fmt: skip


def built(case: Case, dtype: str) -> tuple[bytes, list[tuple[int, ...]]]:
    """The file and the shapes of its inputs."""
    rng = np.random.default_rng(zlib.crc32(repr(case).encode()))
    f, places, fed, shapes = File(), [], [], []
    scales = [] if dtype == "float32" else [float(np.float32(rng.uniform(0.01, 0.2)))]
    zero = int(rng.integers(-60, 60)) if dtype == "int8" else 0
    for k, given_input in enumerate(case.inputs):
        if isinstance(given_input, tuple):
            places.append(f.tensor(f"x{k}", given_input, dtype, None, scales, zero))
            fed.append(places[-1])
            shapes.append(given_input)
        else:
            places.append(f.tensor(f"c{k}", given_input.shape, given_input.dtype.name, given_input))
    made = [f.tensor(f"y{k}", case.said, dtype, None, scales, zero) for k in range(case.outputs)]
    f.operator(getattr(OP, case.op), places, made, case.table, **case.options)
    return f.bytes(fed, made, case.version), shapes


def drawn(shapes: Sequence[tuple[int, ...]], dtype: str) -> list[list[Array]]:
    """Inputs for every sample."""
    rng = np.random.default_rng(1)
    if dtype == "float32":
        return [[rng.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(SAMPLES)]
    limits = np.iinfo(dtype)
    return [
        [rng.integers(limits.min, limits.max + 1, shape).astype(dtype) for shape in shapes]
        for _ in range(SAMPLES)
    ]


def ours(content: bytes, samples: list[list[Array]], dtype: str) -> list[Array]:
    graph = optimise(convert(parse_tflite(content, "test.tflite")))
    feeds = {name: np.stack([sample[k] for sample in samples]) for k, name in enumerate(graph.inputs)}
    if dtype == "float32":
        found = reference(graph, feeds)
        return [np.asarray(found[name], np.float32) for name in graph.outputs]
    missing = [tensor.name for tensor in real_tensors(graph) if tensor.name not in graph.quantised]
    assert not missing
    legal = legalise(graph, graph.quantised)
    assert all(node.op != "convert" for node in legal.graph.nodes)
    codes = run_codes(legal, feeds).codes
    return [np.asarray(codes[name]) for name in graph.outputs]


def check(content: bytes, shapes: Sequence[tuple[int, ...]], dtype: str) -> None:
    samples = drawn(shapes, dtype)
    found = ours(content, samples, dtype)
    theirs = [interpreted(content, sample) for sample in samples]
    assert len(found) == len(theirs[0])
    for k, mine in enumerate(found):
        wanted = np.stack([outputs[k] for outputs in theirs])
        assert mine.shape == wanted.shape
        assert np.array_equal(mine, wanted)


NAMED = [
    pytest.param(case, dtype, id=f"{case.op}-{k}-{dtype}")
    for k, case in enumerate(CASES)
    for dtype in case.dtypes
]


@pytest.mark.parametrize(("case", "dtype"), NAMED)
def test_an_operator_that_moves_gives_the_interpreters_values(case: Case, dtype: str) -> None:
    check(*built(case, dtype), dtype)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_padv2_fills_with_the_code_that_the_file_has(dtype: str) -> None:
    for code in (-100, 7, 120):
        f, zero = File(), 9 if dtype == "int8" else 0
        x = f.tensor("x", (1, 3, 4), dtype, None, [0.07], zero)
        pads = f.tensor("pads", (3, 2), "int32", ints([0, 0], [1, 2], [3, 0]))
        value = f.tensor("value", (), dtype, np.array(code, dtype), [0.07], zero)
        y = f.tensor("y", (1, 6, 7), dtype, None, [0.07], zero)
        f.operator(OP.PADV2, [x, pads, value], [y], "PadV2Options")
        check(f.bytes([x], [y]), [(1, 3, 4)], dtype)


def test_padv2_may_fill_with_minus_infinity_but_not_with_nan() -> None:
    for value in (-np.inf, 2.5, np.nan):
        f = File()
        x, y = f.tensor("x", (2, 3)), f.tensor("y", (3, 5))
        pads = f.tensor("pads", (2, 2), "int32", ints([0, 1], [1, 1]))
        fill = f.tensor("fill", (), "float32", np.array(value, np.float32))
        f.operator(OP.PADV2, [x, pads, fill], [y], "PadV2Options")
        content = f.bytes([x], [y])
        if np.isnan(value):
            with pytest.raises(MinunError, match="its value is NaN"):
                convert(parse_tflite(content, "test.tflite"))
        else:
            check(content, [(2, 3)], "float32")


def test_concatenated_int8_parts_of_several_scales_are_converted_to_the_outputs() -> None:
    """The interpreter refuses such a file."""
    f = File()
    a, b = f.tensor("a", (1, 3), "int8", None, [0.05], 3), f.tensor("b", (1, 3), "int8", None, [0.1], -4)
    y = f.tensor("y", (1, 6), "int8", None, [0.1], -4)
    f.operator(OP.CONCATENATION, [a, b], [y], "ConcatenationOptions", Axis=1)
    graph = optimise(convert(parse_tflite(f.bytes([a, b], [y]), "test.tflite")))
    feeds = {"a": np.array([[[3, 4, 23]]], np.int8), "b": np.array([[[1, 2, 3]]], np.int8)}
    found = run_codes(legalise(graph, graph.quantised), feeds).codes["y"]
    assert found.tolist() == [[[-4, -3, 6, 1, 2, 3]]]  # 0.05 / 0.1 is half a step: away from zero


def shape_arithmetic(dtype: str) -> bytes:
    """What Keras' Flatten and Reshape become: SHAPE, STRIDED_SLICE, PACK, RESHAPE; and a mask from RANGE."""
    f, scales = File(), [] if dtype == "float32" else [0.03]
    x = f.tensor("x", (1, 3, 4, 2), dtype, None, scales)
    shape, batch, rows = f.tensor("s", (4,), "int32"), f.tensor("n", (), "int32"), f.tensor("h", (), "int32")
    f.operator(OP.SHAPE, [x], [shape], "ShapeOptions", OutType=2)
    for k, made in ((0, batch), (1, rows)):
        ends = [
            f.tensor(f"{name}{k}", (1,), "int32", ints(v))
            for name, v in zip("bes", (k, k + 1, 1), strict=True)
        ]
        f.operator(OP.STRIDED_SLICE, [shape, *ends], [made], "StridedSliceOptions", ShrinkAxisMask=1)
    two, minus = f.tensor("two", (), "int32", one(2)), f.tensor("minus", (), "int32", one(-1))
    wide, target = f.tensor("wide", (), "int32"), f.tensor("target", (3,), "int32")
    f.operator(OP.MUL, [rows, two], [wide], "MulOptions")
    f.operator(OP.PACK, [batch, wide, minus], [target], "PackOptions", ValuesCount=3, Axis=0)
    flat = f.tensor("flat", (1, 6, 4), dtype, None, scales)
    f.operator(OP.RESHAPE, [x, target], [flat], "ReshapeOptions")
    start, step = f.tensor("start", (), "int32", one(5)), f.tensor("step", (), "int32", one(-2))
    order, y = f.tensor("order", (3,), "int32"), f.tensor("y", (1, 3, 4), dtype, None, scales)
    f.operator(OP.RANGE, [start, minus, step], [order], "RangeOptions")
    f.operator(OP.GATHER, [flat, order], [y], "GatherOptions", Axis=1)
    return f.bytes([x], [y])


@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_and_indices_that_a_file_computes_from_constants_are_folded(dtype: str) -> None:
    check(shape_arithmetic(dtype), [(1, 3, 4, 2)], dtype)


def folding(code: int, table: str, inputs: Sequence[Array], dtype: str, **options: Any) -> bytes:
    """An operator of constants whose result is added to the input."""
    f = File()
    places = [f.tensor(f"c{k}", value.shape, value.dtype.name, value) for k, value in enumerate(inputs)]
    made, real = f.tensor("made", (2, 3), dtype), f.tensor("real", (2, 3))
    f.operator(code, places, [made], table, **options)
    f.operator(OP.CAST, [made], [real], "CastOptions")
    x, y = f.tensor("x", (2, 3)), f.tensor("y", (2, 3))
    f.operator(OP.ADD, [x, real], [y], "AddOptions")
    return f.bytes([x], [y])


A, B = ints([7, -7, 5], [0, 9, -4]), ints([2, 2, -3], [5, 9, 3])
FOLDED = {
    "FILL": folding(OP.FILL, "FillOptions", [ints(2, 3), np.array(2.5, np.float32)], "float32"),
    "TILE": folding(OP.TILE, "TileOptions", [ints([1, 2, 3]), ints(2, 1)], "int32"),
    "DIV": folding(OP.DIV, "DivOptions", [A, B], "int32"),
    "FLOOR_DIV": folding(OP.FLOOR_DIV, "FloorDivOptions", [A, B], "int32"),
    "FLOOR_MOD": folding(OP.FLOOR_MOD, "FloorModOptions", [A, B], "int32"),
    "SUB": folding(OP.SUB, "SubOptions", [A, B[0]], "int32"),
    "MAXIMUM": folding(OP.MAXIMUM, "MaximumMinimumOptions", [A, B], "int32"),
    "GREATER": folding(OP.GREATER, "GreaterOptions", [A, B], "bool"),
    "LESS_EQUAL": folding(OP.LESS_EQUAL, "LessEqualOptions", [A, B], "bool"),
    "EQUAL": folding(OP.EQUAL, "EqualOptions", [A, B], "bool"),
    "REDUCE_PROD": folding(OP.REDUCE_PROD, "ReducerOptions", [np.stack([A, B]), ints(0)], "int32"),
    "BROADCAST_TO": folding(OP.BROADCAST_TO, "BroadcastToOptions", [A[:, :1], ints(2, 3)], "int32"),
    "SELECT_V2": folding(OP.SELECT_V2, "SelectV2Options", [A > B, A, B], "int32"),
    "ZEROS_LIKE": folding(OP.ZEROS_LIKE, "ZerosLikeOptions", [A], "int32"),
}


@pytest.mark.parametrize("op", sorted(set(FOLDED) - {"BROADCAST_TO"}))
def test_an_operator_of_constants_gives_the_interpreters_constant(op: str) -> None:
    x = np.zeros((2, 3), np.float32)
    assert np.array_equal(ours(FOLDED[op], [[x]], "float32")[0][0], interpreted(FOLDED[op], [x])[0])


def test_what_works_on_constants_only_says_so_elsewhere() -> None:
    f = File()
    x, two, y = f.tensor("x", (4,)), f.tensor("two", (4,)), f.tensor("y", (4,), "bool")
    f.operator(OP.GREATER, [x, two], [y], "GreaterOptions")
    with pytest.raises(MinunError, match=r"GREATER .* its inputs are computed; it works on constants"):
        convert(parse_tflite(f.bytes([x, two], [y]), "test.tflite"))


@dataclass(frozen=True)
class Dilation:
    """A dilated convolution as exporters write it. `shape`: with 3 extents a sequence."""

    shape: tuple[int, ...]
    kernel: tuple[int, int]
    block: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    crops: tuple[tuple[int, int], ...]
    depthwise: bool = False
    same: bool = False
    after: bool = False  # a sum with a constant per channel and a RELU before the phases join


DILATED = [
    Dilation((1, 8, 8, 3), (3, 3), (2, 2), ((2, 2), (2, 2)), ((0, 0), (0, 0))),
    Dilation((1, 7, 9, 3), (3, 3), (2, 2), ((2, 3), (2, 3)), ((0, 1), (0, 1))),
    Dilation((1, 9, 8, 2), (3, 2), (3, 2), ((0, 0), (1, 1)), ((0, 0), (0, 0)), after=True),
    Dilation((1, 8, 8, 3), (3, 3), (2, 4), ((0, 0), (0, 0)), ((0, 0), (0, 0)), same=True),
    Dilation((1, 7, 8, 4), (3, 3), (2, 2), ((3, 2), (2, 2)), ((1, 0), (0, 0)), depthwise=True),
    Dilation((1, 9, 4, 3), (2, 3), (4, 1), ((4, 3), (0, 1)), ((0, 3), (0, 0))),
    Dilation((1, 12, 3), (1, 3), (4,), ((8, 0),), ((0, 0),)),
    Dilation((1, 13, 3), (1, 2), (2,), ((2, 1),), ((0, 1),), after=True),
    Dilation((1, 10, 3), (3, 1), (2,), ((2, 2),), ((0, 0),)),
]


def dilation(d: Dilation, dtype: str) -> bytes:
    rng, f = np.random.default_rng(4), File()
    real = dtype == "float32"

    def tensor(
        name: str, shape: Sequence[int], scale: float, kind: str = dtype, data: Array | None = None
    ) -> int:
        zero = 11 if kind == "int8" and data is None else 0
        if real and data is not None:
            kind, data = "float32", (data * np.float32(scale)).astype(np.float32)
        return f.tensor(name, tuple(shape), kind, data, [] if real else [scale], zero)

    def bias(name: str, count: int, scale: float) -> int:
        kind = "int64" if dtype == "int16" else "int32"
        return tensor(name, (count,), scale, kind, rng.integers(-500, 500, count).astype(kind))

    sequence, channels, m = len(d.shape) == 3, d.shape[-1], len(d.block)
    fine = 1 / 256 if dtype == "int16" else 1.0
    batch = int(np.prod(d.block))
    image = [(n + sum(p)) // b for n, p, b in zip(d.shape[1:], d.pads, d.block, strict=False)]
    split = [batch, *image, *d.shape[1 + m :]]
    x, s = tensor("x", d.shape, 0.05 * fine), tensor("s", split, 0.05 * fine)
    block = f.tensor("block", (m,), "int32", ints(*d.block))
    pads, crops = (f.tensor(n, (m, 2), "int32", ints(*v)) for n, v in (("p", d.pads), ("c", d.crops)))
    f.operator(OP.SPACE_TO_BATCH_ND, [x, block, pads], [s], "SpaceToBatchNDOptions")
    if sequence:
        place = 1 if d.kernel[0] == 1 else 2
        split.insert(place, 1)
        wide, axis = tensor("wide", split, 0.05 * fine), f.tensor("axis", (), "int32", one(place))
        f.operator(OP.EXPAND_DIMS, [s, axis], [wide], "ExpandDimsOptions")
        s = wide
    out = channels if d.depthwise else 5
    inner = [n if d.same else n - k + 1 for n, k in zip(split[1:3], d.kernel, strict=True)]
    shape = (1, *d.kernel, out) if d.depthwise else (out, *d.kernel, channels)
    codes = rng.integers(-127, 128, shape).astype(np.int8)
    w, b = tensor("w", shape, 0.01, "int8", codes), bias("b", out, 0.05 * fine * 0.01)
    y = tensor("conv", (batch, *inner, out), 0.06 * fine)
    options = {"Padding": 0 if d.same else 1, "StrideH": 1, "StrideW": 1}
    if d.depthwise:
        f.operator(
            OP.DEPTHWISE_CONV_2D, [s, w, b], [y], "DepthwiseConv2DOptions", DepthMultiplier=1, **options
        )
    else:
        f.operator(OP.CONV_2D, [s, w, b], [y], "Conv2DOptions", **options)
    narrow = [batch, *inner, out]
    if sequence:
        del narrow[place]
        flat = tensor("flat", narrow, 0.06 * fine)
        f.operator(OP.SQUEEZE, [y], [flat], "SqueezeOptions", SqueezeDims=[place])
        y = flat
    scale = 0.06 * fine
    if d.after:
        constant = rng.integers(-100, 100, out).astype("int8" if real else dtype)
        scale = 0.08 * fine
        added, top = tensor("added", narrow, scale), tensor("top", narrow, scale)
        f.operator(OP.ADD, [y, tensor("k", (out,), 0.05 * fine, dtype, constant)], [added], "AddOptions")
        f.operator(OP.RELU, [added], [top])
        y = top
    joined = [n * b - sum(c) for n, b, c in zip(narrow[1:], d.block, d.crops, strict=False)]
    z = tensor("z", (1, *joined, *narrow[1 + m :]), scale)
    f.operator(OP.BATCH_TO_SPACE_ND, [y, block, crops], [z], "BatchToSpaceNDOptions")
    return f.bytes([x], [z])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", DILATED)
def test_a_dilated_convolution_by_way_of_batches_is_one_convolution(case: Dilation, dtype: str) -> None:
    content = dilation(case, dtype)
    graph = optimise(convert(parse_tflite(content, "test.tflite")))
    kinds = [node.op for node in graph.nodes]
    assert kinds.count("conv") == 1
    assert not {"pad", "transpose", "slice"} & set(kinds)
    if dtype != "float32":
        check(content, [case.shape], dtype)
        return
    samples = drawn([case.shape], dtype)
    theirs = np.stack([interpreted(content, sample)[0] for sample in samples])
    np.testing.assert_allclose(ours(content, samples, dtype)[0], theirs, rtol=1e-5, atol=1e-5)


def test_a_convolution_between_batches_that_is_no_dilated_one_is_refused() -> None:
    """Crops that take more than was padded."""
    broken = Dilation((1, 8, 8, 3), (3, 3), (2, 2), ((0, 0), (0, 0)), ((1, 0), (0, 0)))
    with pytest.raises(MinunError, match=r"CONV_2D .* an input of shape \(4, 4, 4, 3\)"):
        convert(parse_tflite(dilation(broken, "int8"), "test.tflite"))


MOVERS = sorted({case.op for case in CASES} | {"PADV2", "CAST", "FILL", "RANGE", "SHAPE", "RANK", "WHERE"})
NUMBERS = st.one_of(
    st.lists(st.integers(-3, 6), min_size=0, max_size=5).map(lambda v: np.array(v, np.int32)),
    st.lists(st.sampled_from([0, 1, 2, -1, 1 << 20, -(1 << 31), (1 << 31) - 1]), min_size=1, max_size=4).map(
        lambda v: np.array(v, np.int32)
    ),
    st.lists(st.lists(st.integers(-1, 3), min_size=2, max_size=2), min_size=1, max_size=4).map(
        lambda v: np.array(v, np.int32)
    ),
    st.sampled_from(
        [
            np.array(np.nan, np.float32), np.array([1e30, np.inf], np.float32), np.array(1, np.int32),
            np.array([True, False]), np.array([[True], [False]]), np.zeros((2, 3), np.int8),
            np.array([1 << 62], np.int64), np.zeros((0,), np.int32),
        ]
    ),
)  # fmt: skip
KEYS = st.dictionaries(
    st.sampled_from(
        ["Axis", "BlockSize", "Num", "Mode", "BatchDims", "BeginMask", "EndMask", "EllipsisMask",
         "NewAxisMask", "ShrinkAxisMask", "SqueezeDims", "NewShape", "NumSplits", "ValuesCount"]
    ),
    st.integers(-5, 9),
    max_size=4,
)  # fmt: skip


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(MOVERS),
    st.lists(st.one_of(st.just(None), NUMBERS), min_size=1, max_size=4),
    KEYS,
    st.sampled_from([(1, 2, 4, 4), (2, 3), (1, 4, 6), (), (1, 1, 1, 1, 2), (4, 2, 2, 8)]),
    st.integers(0, 4),
    st.sampled_from(DTYPES),
)
@pytest.mark.timeout(300)
def test_any_moving_operator_with_any_constants_is_taken_or_one_line(
    op: str,
    inputs: list[Array | None],
    options: dict[str, int],
    shape: tuple[int, ...],
    outputs: int,
    dtype: str,
) -> None:
    f, scales = File(), [] if dtype == "float32" else [0.1]
    x, places = f.tensor("x", shape, dtype, None, scales), []
    for k, value in enumerate(inputs):
        known = None if value is None else f.tensor(f"c{k}", value.shape, value.dtype.name, value)
        places.append(x if known is None else known)
    made = [f.tensor(f"y{k}", (1,), dtype, None, scales) for k in range(outputs)]
    table = Case(op, ()).table
    listed = {"SqueezeDims", "NewShape"}
    mine = {
        key: [value, -1] if key in listed else abs(value) if key == "Mode" else value
        for key, value in options.items()
        if hasattr(tflite, f"{table}Add{key}")
    }
    f.operator(getattr(OP, op), places, made, table if hasattr(tflite, f"{table}Start") else "", **mine)
    try_tflite(f.bytes([x], made or [x]))
