# SPDX-License-Identifier: Apache-2.0
"""Extents beyond 16 bits: heights, widths and matrices are computed where a core has room; what is refused
says which, and never becomes C++ that does not compile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from op_harness import BOARD_FLAGS, Case, device_mismatches

from minun_pio.errors import MinunError
from minun_pio.ir import Node
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.format import Format
from minun_pio.numerics.posit import Posit
from minun_pio.ops import REGISTRY
from minun_pio.ops.proofs import piecewise_weights

P8 = Posit(8, 2)
SECOND = 44_100  # samples of audio


def case(op: str, *shapes: tuple[int, ...], fmt: Format = P8, **attrs: object) -> Case:
    constants = frozenset({1}) if op.startswith("conv") else frozenset()
    return Case(op, shapes, (fmt,) * len(shapes), (fmt,), attrs, constants, samples=1, tame=True)


LONG = [
    case("conv", (1, 1, SECOND, 1), (2, 1, 9, 1), strides=(1, 4), pads=(0, 4, 0, 4)),
    case("conv", (1, SECOND, 1, 1), (1, 5, 1, 1), fmt=Float32()),
    case("conv_transpose", (1, 1, SECOND // 2, 1), (1, 1, 3, 1), strides=(1, 2)),
    case("max_pool", (1, 1, SECOND, 1), kernel=(1, 8), strides=(1, 8)),
    case("matmul", (1, 40_000), (40_000, 2)),
    case("matmul", (1, 2), (2, 40_000)),
    case("matmul", (40_000, 2), (2, 1)),
    case("matmul", (40_000, 1, 2), (40_000, 2, 1), fmt=Float32()),
]


@pytest.mark.parametrize("core", ["host", "m7"])
def test_heights_widths_and_matrices_beyond_16_bits_give_the_hosts_bits(core: str, tmp_path: Path) -> None:
    options = {} if core == "host" else {"flags": BOARD_FLAGS}
    assert device_mismatches(LONG, tmp_path, core, **options) == []


@pytest.mark.parametrize(
    ("shapes", "attrs", "said"),
    [
        (((1, 1, 1, 40_000), (1, 1, 1, 40_000)), {}, "40,000 is too large for the channels of 'x'"),
        (((1, 1, 1, 1), (40_000, 1, 1, 1)), {}, "40,000 is too large for the output channels of 'w'"),
        (((1, 1, 50_000, 1), (1, 1, 40_000, 1)), {}, "40,000 is too large for the kernel width of 'w'"),
        (((1, 50_000, 1, 1), (1, 2, 1, 1)), {"dilations": (40_000, 1)}, "dilation of the height of 'w'"),
        (((1, 1, 50_000, 1), (1, 1, 2, 1)), {"strides": (1, 40_000)}, "stride along the width of 'x'"),
        (((1, 1, 9, 1), (1, 1, 2, 1)), {"pads": (0, 40_000, 0, 0)}, "padding of the width of 'x'"),
    ],
)
def test_a_convolution_that_is_too_large_names_the_extent_the_tensor_and_a_way_out(
    shapes: tuple[tuple[int, ...], ...], attrs: dict[str, object], said: str
) -> None:
    node = Node("c", "conv", ("x", "w"), ("y",), attrs)
    with pytest.raises(MinunError) as caught:
        REGISTRY["conv"].infer_shapes(node, shapes, [None, np.zeros(shapes[1])])
    assert said in str(caught.value)
    assert "at most 32,767; " in str(caught.value)


def test_a_pool_whose_window_is_too_large_says_what_to_do() -> None:
    node = Node("p", "max_pool", ("x",), ("y",), {"kernel": (1, 40_000)})
    with pytest.raises(MinunError, match=r"over 'x': at most 32,767 each; pool in two steps"):
        REGISTRY["max_pool"].infer_shapes(node, [(1, 1, 50_000, 1)], [None])


@pytest.mark.parametrize(("row", "column", "known"), [(8, 65_535, True), (8, 65_536, False)])
def test_an_exception_in_a_place_that_cannot_be_listed_leaves_the_weights_without_a_table(
    row: int, column: int, known: bool
) -> None:
    fmt = Posit(16, 2)
    codes = np.full((row + 1, column + 1), fmt.encode(np.array(1.0)), np.int16)
    codes[row, column] = fmt.encode(np.array(2.0**-20))
    found = piecewise_weights(codes, 2)
    assert (found is not None) == known
    assert found is None or [place[:2] for place in found.exceptions] == [(row, column)]
