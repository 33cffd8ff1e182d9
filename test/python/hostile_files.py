# SPDX-License-Identifier: Apache-2.0
"""Damaged model files: what an importer may say of them, and how to damage a sound one."""

from __future__ import annotations

import numpy as np
from onnx_models import model, node

from minun_pio.errors import MinunError
from minun_pio.importers.onnx import convert as convert_onnx
from minun_pio.importers.onnx import parse_onnx
from minun_pio.importers.tflite import convert as convert_tflite
from minun_pio.importers.tflite import parse_tflite
from minun_pio.passes import optimise


def sound_onnx() -> bytes:
    """A small network with most of what a file can hold: constants, attributes, shapes, loops."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((4, 2, 3, 3)).astype(np.float32),
        "target": np.array([1, -1]),
        "m": rng.standard_normal((36, 5)).astype(np.float32),
        "pads": np.array([0, 0, 1, 1, 0, 0, 0, 1]),
        "r": rng.standard_normal((1, 12, 5)).astype(np.float32),
        "u": rng.standard_normal((1, 12, 4)).astype(np.float32),
        "three": np.array([1, 1, 5]),
        "many": np.array([3, 1, 1]),
    }
    nodes = [
        node("Pad", ["x", "pads"], ["p"]),
        node("Conv", ["p", "w"], ["c"], strides=[1, 2], pads=[0, 1, 0, 0]),
        node("Relu", ["c"], ["r1"]),
        node("AveragePool", ["r1"], ["a"], kernel_shape=[2, 2], strides=[1, 1]),
        node("Shape", ["a"], ["s"]),
        node("Reshape", ["a", "target"], ["f"]),
        node("MatMul", ["f", "m"], ["d"]),
        node("Reshape", ["d", "three"], ["e"]),
        node("Tile", ["e", "many"], ["g"]),
        node("GRU", ["g", "r", "u"], ["h"], hidden_size=4),
        node("Softmax", ["h"], ["y"], axis=-1),
    ]
    return model(nodes, {"x": [1, 2, 5, 6]}, ["y"], constants).SerializeToString()


def damage(content: bytes, changes: list[tuple[int, int]], cut: int | None) -> bytes:
    """Bytes set at places (taken modulo the length), and the rest cut off."""
    data = bytearray(content)
    for place, value in changes:
        data[place % len(data)] = value
    return bytes(data if cut is None else data[: cut % (len(data) + 1)])


def try_onnx(content: bytes) -> bool:
    """Whether the file was taken. Anything but a one-line MinunError is the caller's to see."""
    return _one_line(lambda: optimise(convert_onnx(parse_onnx(content, "f.onnx", None))))


def try_tflite(content: bytes) -> bool:
    return _one_line(lambda: optimise(convert_tflite(parse_tflite(content, "f.tflite"))))


def _one_line(work: object) -> bool:
    assert callable(work)
    try:
        work()
    except MinunError as error:
        line = str(error)
    else:
        return True
    assert "\n" not in line, repr(line)
    return False
