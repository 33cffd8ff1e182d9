# SPDX-License-Identifier: Apache-2.0
"""What a TensorFlow Lite file computes from constants is computed when it is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_models import File, interpreted
from tflite_moves import DTYPES, OP, Array, check, emitted_bytes, ints, one, ours

from minun_pio.errors import MinunError
from minun_pio.importers.tflite import convert, parse_tflite


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
    "SELECT_V2": folding(OP.SELECT_V2, "SelectV2Options", [A > B, A, B], "int32"),
    "ZEROS_LIKE": folding(OP.ZEROS_LIKE, "ZerosLikeOptions", [A], "int32"),
}


@pytest.mark.parametrize("op", sorted(FOLDED))
def test_an_operator_of_constants_gives_the_interpreters_constant(op: str) -> None:
    x = np.zeros((2, 3), np.float32)
    assert np.array_equal(ours(FOLDED[op], [[x]], "float32")[0][0], interpreted(FOLDED[op], [x])[0])


def test_operators_that_read_only_a_shape_are_folded_of_what_is_computed() -> None:
    f = File()
    x, zeros, rank = f.tensor("x", (2, 3)), f.tensor("zeros", (2, 3)), f.tensor("rank", (), "int32")
    f.operator(OP.ZEROS_LIKE, [x], [zeros], "ZerosLikeOptions")
    f.operator(OP.RANK, [x], [rank], "RankOptions")
    real, less, y = f.tensor("real", ()), f.tensor("less", (2, 3)), f.tensor("y", (2, 3))
    f.operator(OP.CAST, [rank], [real], "CastOptions")
    f.operator(OP.SUB, [zeros, real], [less], "SubOptions")
    f.operator(OP.ADD, [x, less], [y], "AddOptions")
    check(f.bytes([x], [y]), [(2, 3)], "float32")


def test_what_works_on_constants_only_says_so_elsewhere() -> None:
    f = File()
    x, two, y = f.tensor("x", (4,)), f.tensor("two", (4,)), f.tensor("y", (4,), "bool")
    f.operator(OP.GREATER, [x, two], [y], "GreaterOptions")
    with pytest.raises(MinunError, match=r"GREATER .* its inputs are computed; it works on constants"):
        convert(parse_tflite(f.bytes([x, two], [y]), "test.tflite"))


def test_the_generated_code_knows_no_shapes(tmp_path: Path) -> None:
    answered, wanted = emitted_bytes(shape_arithmetic("int8"), [(1, 3, 4, 2)], tmp_path)
    assert answered == wanted
