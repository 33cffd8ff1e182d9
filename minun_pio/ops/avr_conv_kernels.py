# SPDX-License-Identifier: Apache-2.0
"""The convolutions of AVR: its dense kernels on what lies under the window (include/minun/conv_avr.h)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from minun_pio.numerics.format import element_bytes
from minun_pio.numerics.operand import Window
from minun_pio.ops.dense_kernels import Chosen, choose
from minun_pio.ops.guards import Guard, GuardOfPatches
from minun_pio.ops.linear import present
from minun_pio.ops.operator import Binding, InputGuard

_HEADER = "minun/conv_avr.h"
_CHANNELS = 8  # channels of a depthwise convolution that are gathered together (minun::kAvrChannels)
# By dense kernel: the convolution, which of the dense one's arguments stand before and behind the shape, and
# bytes of scratch for each element that is gathered, beside its code.
_KERNELS: dict[str, tuple[str, slice, slice, int]] = {
    "minun::dense_avr_short": ("minun::conv_avr_short", slice(0, 1), slice(4, None), 2),
    "minun::dense_avr_long": ("minun::conv_avr_long", slice(0, 1), slice(4, None), 0),
    "minun::dense_avr_fixed8": ("minun::conv_avr_fixed8", slice(0, 0), slice(3, None), 0),
    "minun::dense_avr_fixed16": ("minun::conv_avr_fixed16", slice(0, 0), slice(3, None), 0),
}


def choose_avr_conv(
    binding: Binding, shape: str, window: Window, groups: int, values: NDArray[Any]
) -> Chosen | None:
    """The kernel that a dense layer of these rows would get, as a convolution; None without one."""
    dense = choose(_as_dense(binding, values))
    name, _, types = dense.function.partition("<") if dense is not None else ("", "", "")
    if dense is None or name not in _KERNELS:
        return None
    function, before, behind, beside = _KERNELS[name]
    depthwise = is_depthwise(groups, values.shape)
    code_bytes = element_bytes(present(binding.formats, 0, binding.node))
    guard: InputGuard | None = dense.guard
    if isinstance(guard, Guard):  # a patch that the values are too narrow for becomes two planes of them
        words = "WordInputs" in types
        beside = (1 if depthwise else 2) * (2 if words else 3)
        guard = GuardOfPatches(guard, window, groups)
    elements = gathered_elements(groups, values.shape)
    values_bytes = beside * elements
    return replace(
        dense,
        function=f"{function}<{types[:-1]}, {str(depthwise).lower()}>",
        arguments=(*dense.arguments[before], shape, *dense.arguments[behind], "{reverse}"),
        scratch_bytes=values_bytes + values_bytes % 2 + code_bytes * elements,
        header=_HEADER,
        guard=guard,
    )


def is_depthwise(groups: int, weights: tuple[int, ...]) -> bool:
    """Whether each channel has one kernel; `weights` (out, kh, kw, in / groups)."""
    return groups > 1 and weights[0] == groups and weights[3] == 1


def gathered_elements(groups: int, weights: tuple[int, ...]) -> int:
    """Elements of the input that a turn of the kernel gathers."""
    channels = min(_CHANNELS, groups) if is_depthwise(groups, weights) else 1
    return channels * math.prod(weights[1:])


def _as_dense(binding: Binding, values: NDArray[Any]) -> Binding:
    """The dense layer of one output position."""
    rows = values.reshape(values.shape[0], -1)
    return replace(
        binding,
        shapes=((1, rows.shape[1]), rows.shape, *binding.shapes[2:]),
        constants=(None, rows, *binding.constants[2:]),
        out_shapes=((1, rows.shape[0]),),
        small_scratch=False,
    )
