# SPDX-License-Identifier: Apache-2.0
"""A dilated convolution that a TensorFlow Lite file writes as batches is one convolution again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tflite_models import File, interpreted
from tflite_moves import DTYPES, OP, Array, check, drawn, emitted_bytes, ints, one, ours

from minun_pio.errors import MinunError
from minun_pio.importers.tflite import convert, parse_tflite
from minun_pio.passes import optimise


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
    reshapes: bool = False  # a sequence's two by RESHAPE, as converters write them
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
    Dilation((1, 10, 3), (1, 3), (2,), ((4, 0),), ((0, 0),), reshapes=True, after=True),
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
        if d.reshapes:
            f.operator(OP.RESHAPE, [s], [wide], "ReshapeOptions", NewShape=split)
        else:
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
        if d.reshapes:
            f.operator(OP.RESHAPE, [y], [flat], "ReshapeOptions", NewShape=narrow)
        else:
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


def test_the_generated_code_of_a_dilated_convolution_answers_the_interpreters_bytes(tmp_path: Path) -> None:
    answered, wanted = emitted_bytes(dilation(DILATED[1], "int8"), [DILATED[1].shape], tmp_path)
    assert answered == wanted
