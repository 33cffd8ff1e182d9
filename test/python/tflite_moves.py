# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's operators that move values, as files of one operator, and both sides' answers to them.

The files give outputs a wrong shape, (1,), but SLICE's: the interpreter computes shapes itself, and so must
the importer.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tflite
from emitted_model import emit
from numpy.typing import NDArray
from tflite_models import File, interpreted

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
        words = "".join(word.capitalize() for word in self.op.split("_"))
        if self.op not in ("SELECT_V2", "REVERSE_V2"):
            words = words.removesuffix("V2")
        return {"Padv2": "PadV2"}.get(
            words, words.replace("Nd", "ND" if "Batch" in words else "Nd")
        ) + "Options"


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
    sliced((3, 6), (0, 1, 0), (2, 3, 0), (1, 1, 1), EllipsisMask=4),
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


def emitted_bytes(content: bytes, shapes: Sequence[tuple[int, ...]], folder: Path) -> tuple[bytes, bytes]:
    """What the generated code of an int8 file answers, built for this machine; the interpreter's bytes."""
    graph, samples = optimise(convert(parse_tflite(content, "test.tflite"))), drawn(shapes, "int8")
    feeds = {
        name: graph.quantised[name].decode(np.stack([sample[k] for sample in samples]))
        for k, name in enumerate(graph.inputs)
    }
    answered, _ = emit(graph, graph.quantised, feeds, folder).self_test()
    theirs = [output.tobytes() for sample in samples for output in interpreted(content, sample)]
    return answered, b"".join(theirs)
