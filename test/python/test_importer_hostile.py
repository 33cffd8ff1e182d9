# SPDX-License-Identifier: Apache-2.0
"""No file, however damaged, gives anything but a graph or one clear line."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tflite
from hostile_files import damage, sound_onnx, try_onnx, try_tflite
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_models import model, node
from test_importer_tflite import convolutional
from tflite_models import File

from minun_pio.importers.onnx.convert import HANDLERS
from minun_pio.importers.onnx.folding import FOLDABLE

ONNX, TFLITE = sound_onnx(), convolutional(True)
CHANGES = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=0, max_size=6)
CUT = st.one_of(st.none(), st.integers(0, 1 << 16))
QUICK = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def test_the_sound_files_are_taken() -> None:
    assert try_onnx(ONNX)
    assert try_tflite(TFLITE)


@QUICK
@given(CHANGES, CUT)
@pytest.mark.timeout(300)
def test_a_damaged_onnx_file_is_one_line(changes: list[tuple[int, int]], cut: int | None) -> None:
    try_onnx(damage(ONNX, changes, cut))


@QUICK
@given(CHANGES, CUT)
@pytest.mark.timeout(300)
def test_a_damaged_tflite_file_is_one_line(changes: list[tuple[int, int]], cut: int | None) -> None:
    try_tflite(damage(TFLITE, changes, cut))


@QUICK
@given(st.binary(max_size=200))
@pytest.mark.timeout(300)
def test_random_bytes_are_one_line(content: bytes) -> None:
    try_onnx(content)
    try_tflite(b"\x1c\0\0\0TFL3" + content)


def test_a_node_without_outputs_and_shape_limits_that_are_no_numbers_are_one_line() -> None:
    for broken in (
        node("Shape", ["x"], [], "n"),
        node("Shape", ["x"], ["y"], start=[1, 2]),
        node("Relu", ["x"], [], "n"),
    ):
        assert not try_onnx(model([broken], {"x": [2, 3]}, ["y"], {}, 17).SerializeToString())


def test_a_pooling_window_of_millions_is_one_line_at_once() -> None:
    """The interpreter's SAME padding would make room for it."""
    file = File()
    x, y = file.tensor("x", (1, 7, 6, 3)), file.tensor("y", (1, 4, 3, 3))
    size = {"FilterHeight": 3, "FilterWidth": 1 << 26, "StrideH": 2, "StrideW": 2}
    file.operator(tflite.BuiltinOperator.AVERAGE_POOL_2D, [x], [y], "Pool2DOptions", **size)
    started = time.monotonic()
    assert not try_tflite(file.bytes([x], [y]))
    assert time.monotonic() - started < 2


OPERATORS = sorted({*HANDLERS, *FOLDABLE, "Shape", "Size", "Einsum", "Loop"})
NAMES = """axis axes perm kernel_shape strides pads dilations group mode alpha beta to hidden_size direction
blocksize
    epsilon keepdims split auto_pad num_groups p value layout activations num_scan_inputs q_num_heads
    transB"""
ATTRIBUTES = st.dictionaries(
    st.sampled_from(NAMES.split()),
    st.one_of(
        st.integers(-(1 << 40), 1 << 40),
        st.lists(st.integers(-3, 5), min_size=1, max_size=5),
        st.floats(allow_nan=True),
        st.sampled_from(["", "SAME_UPPER", "reverse", "linear"]),
    ),
    max_size=3,
)
CONSTANT = st.one_of(
    st.lists(st.integers(-2, 7), min_size=0, max_size=5).map(lambda v: np.array(v, dtype=np.int64)),
    st.lists(st.integers(0, 3), min_size=0, max_size=4).map(lambda v: np.ones(v, dtype=np.float32)),
    st.sampled_from([np.array([1 << 40]), np.array(True), np.zeros((2, 2), np.int8)]),
)


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(OPERATORS),
    st.lists(st.one_of(st.just("x"), st.just(""), CONSTANT), min_size=1, max_size=5),
    ATTRIBUTES,
    st.sampled_from([[1, 2, 4, 4], [2, 3], [1, 4, 6], [], [1, 1, 1, 1, 2]]),
    st.integers(7, 23),
)
@pytest.mark.timeout(300)
def test_any_operator_with_any_attributes_and_constants_is_taken_or_one_line(
    op: str, inputs: list[object], attrs: dict[str, object], shape: list[int], opset: int
) -> None:
    names, constants = [], {}
    for k, given_input in enumerate(inputs):
        names.append(given_input if isinstance(given_input, str) else f"c{k}")
        if not isinstance(given_input, str):
            constants[f"c{k}"] = given_input
    try_onnx(
        model([node(op, names, ["y"], **attrs)], {"x": shape}, ["y"], constants, opset).SerializeToString()
    )
