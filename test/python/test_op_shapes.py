# SPDX-License-Identifier: Apache-2.0
"""What an operator cannot take is refused with one clear line that names the node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from minun_pio.errors import MinunError
from minun_pio.ir import Node
from minun_pio.ops import REGISTRY
from minun_pio.ops.movement import Walk
from minun_pio.ops.slice import ranges
from minun_pio.ops.windows import window_of

_REFUSED: list[tuple[str, list[tuple[int, ...]], dict[str, Any], str]] = [
    ("add", [(2, 3), (4,)], {}, "do not broadcast"),
    ("add", [(2, 3)], {}, "input 1 is missing"),
    ("argmax", [(2, 3)], {"axis": 2}, "axis 2 is outside"),
    ("average_pool", [(1, 2, 2, 1)], {"kernel": (1, 1), "pads": (1, 1, 1, 1)}, "nothing but padding"),
    ("bonsai_tree", [(1, 4), (9, 4), (9, 4), (1, 4)], {"depth": 2, "classes": 3}, "expected"),
    ("clip", [(2,)], {"lo": 2.0, "hi": 1.0}, "swap them"),
    ("concat", [(2, 3), (3, 3)], {"axis": 1}, "differs from"),
    ("expand", [(3, 2)], {"shape": (3, 4)}, "do not broadcast"),
    ("gelu", [(3,)], {"approximate": "sigmoid"}, "use 'none' or 'tanh'"),
    ("layer_norm", [(2, 4), (3,)], {"axis": -1}, "expected one value for each"),
    ("max_pool", [(4, 4, 1)], {"kernel": (2, 2)}, "(1, H, W, C)"),
    ("max_pool", [(1, 2, 2, 1)], {"kernel": (3, 3)}, "larger than the padded extent"),
    ("pad", [(2, 3)], {"pads": ((1, 1),)}, "give (before, after) per axis"),
    ("pad", [(2, 3)], {"pads": ((2, 0), (0, 0)), "mode": "reflect"}, "needs more than"),
    ("pad", [(2, 3)], {"pads": ((0, 3), (0, 0)), "mode": "symmetric"}, "needs more than"),
    ("pad", [(2, 3)], {"pads": ((0, 0), (0, 0)), "mode": "wrap"}, "not one of"),
    ("reshape", [(2, 3)], {"shape": (4, 2)}, "cannot become"),
    ("resize", [(1, 2, 2, 1)], {"sizes": (2, 4, 4, 3), "mode": "linear"}, "more than two axes"),
    ("resize", [(1, 2)], {"sizes": (1, 4), "mode": "cubic"}, "nearest and linear"),
    ("scale_shift", [(2, 3), (4,), (3,)], {}, "one value per channel"),
    ("slice", [(4,)], {"starts": (3,), "ends": (2,)}, "is empty"),
    ("slice", [(4,)], {"starts": (0,), "ends": (4,), "steps": (0,)}, "step 0"),
    ("split", [(5,)], {"axis": 0, "sizes": (2, 2)}, "do not cut"),
    ("squared_distance", [(2, 3), (4, 3)], {}, "expected (1, d) and (m, d)"),
    ("transpose", [(2, 3)], {"perm": (0, 0)}, "name each axis"),
]


@pytest.mark.parametrize(("op", "shapes", "attrs", "said"), _REFUSED)
def test_what_does_not_fit_is_refused(
    op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], said: str
) -> None:
    node = Node("conv_7", op, tuple(f"x{i}" for i in range(len(shapes))), ("y",), attrs)
    constants = [np.zeros(shape) if index else None for index, shape in enumerate(shapes)]
    with pytest.raises(MinunError) as caught:
        REGISTRY[op].infer_shapes(node, shapes, constants)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"node 'conv_7' ({op}): ")
    assert "\n" not in str(caught.value)


def test_a_gather_outside_its_axis_is_refused() -> None:
    node = Node("pick", "gather", ("x", "i"), ("y",), {"axis": 0})
    with pytest.raises(MinunError, match="leave axis 0 of extent 3"):
        REGISTRY["gather"].infer_shapes(node, [(3, 2), (1,)], [None, np.array([3])])


@given(st.integers(1, 9), st.integers(-12, 12), st.integers(-12, 12), st.integers(-4, 4).filter(bool))
def test_a_slice_takes_what_python_takes(extent: int, start: int, end: int, step: int) -> None:
    assume(step > 0 or start >= -extent)  # ONNX clamps such a start to the first element, Python to before it
    node = Node("cut", "slice", ("x",), ("y",), {"starts": (start,), "ends": (end,), "steps": (step,)})
    assert list(ranges(node, (extent,))[0]) == list(range(extent))[start:end:step]


@settings(max_examples=60)
@given(st.data())
def test_a_walks_lead_is_the_distance_that_keeps_it_whole(data: st.DataObject) -> None:
    """Copying through memory that overlaps by the lead gives the same codes; one element less does not."""
    extents = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    strides = tuple(data.draw(st.integers(0, 6)) for _ in extents)
    walk = Walk(extents, strides, data.draw(st.integers(0, 3)))
    reads = np.asarray(walk.offset)
    for extent, stride in zip(extents, strides, strict=True):
        reads = reads[..., None] + np.arange(extent) * stride
    order = reads.reshape(-1).tolist()

    def copied(distance: int) -> list[int]:
        base = 200  # where the output starts; the input starts `distance` further on
        memory = list(range(-base - distance, 400))  # the input's element i is the number i
        for place, at in enumerate(order):
            memory[base + place] = memory[base + distance + at]
        return memory[base : base + len(order)]

    lead = walk.lead()
    assert copied(lead) == order
    if len(order) > 1 and len(set(order)) == len(order):
        assert copied(lead - 1) != order


@given(
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(1, 2),
    st.booleans(),
)
def test_every_pooling_window_starts_inside_the_padded_input(
    extent: int, kernel: int, stride: int, before: int, after: int, dilation: int, ceil: bool
) -> None:
    attrs = {
        "kernel": (kernel, 1),
        "strides": (stride, 1),
        "pads": (before, 0, after, 0),
        "dilations": (dilation, 1),
        "ceil_mode": ceil,
    }
    node = Node("pool", "max_pool", ("x",), ("y",), attrs)
    reach = (kernel - 1) * dilation + 1
    assume(after < reach)
    if reach > extent + before + after:
        with pytest.raises(MinunError):
            window_of(node, (1, extent, 1, 1))
        return
    window = window_of(node, (1, extent, 1, 1))
    last = (window.out_shape[1] - 1) * stride
    assert last < extent + before
    floor = (extent + before + after - reach) // stride + 1
    assert window.out_shape[1] in ({floor, floor + 1} if ceil else {floor})
