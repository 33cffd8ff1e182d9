# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's operators that move values: the interpreter's values, byte for byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tflite
from hostile_files import try_tflite
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tflite_models import File, interpreted
from tflite_moves import CASES, DTYPES, OP, Array, Case, built, check, emitted_bytes, ints, sliced

from minun_pio.errors import MinunError
from minun_pio.importers.tflite import convert, parse_tflite
from minun_pio.passes import optimise
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.run import run_codes

NAMED = [
    pytest.param(case, dtype, id=f"{case.op}-{k}-{dtype}")
    for k, case in enumerate(CASES)
    for dtype in case.dtypes
]


@pytest.mark.parametrize(("case", "dtype"), NAMED)
def test_an_operator_that_moves_gives_the_interpreters_values(case: Case, dtype: str) -> None:
    check(*built(case, dtype), dtype)


FIRST = {case.op: case for case in reversed(CASES)}


@pytest.mark.parametrize("op", sorted(FIRST))
def test_the_generated_code_answers_the_interpreters_bytes(op: str, tmp_path: Path) -> None:
    answered, wanted = emitted_bytes(*built(FIRST[op], "int8"), tmp_path)
    assert answered == wanted


@pytest.mark.parametrize(
    "case",
    [
        sliced((3, 6), (0, 0, 1), (0, 2, 3), (1, 1, 1), EllipsisMask=1),  # over no axis
        sliced((3, 6), (2,), (0,), (1,), BeginMask=1, ShrinkAxisMask=1),
    ],
)
def test_a_slice_that_tensorflow_and_its_interpreter_read_differently_is_refused(case: Case) -> None:
    content, shapes = built(case, "float32")
    sample = np.arange(18, dtype=np.float32).reshape(shapes[0])
    tensorflow = sample[..., 0:2, 1:3] if len(case.inputs[1]) == 3 else sample[2]
    assert not np.array_equal(interpreted(content, [sample])[0], tensorflow)
    with pytest.raises(MinunError, match="read differently"):
        convert(parse_tflite(content, "test.tflite"))


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
