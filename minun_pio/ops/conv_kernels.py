# SPDX-License-Identifier: Apache-2.0
"""Which fast convolution a layer's constants allow; None where only the exact sum is right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Codes
from minun_pio.numerics.posit import Posit
from minun_pio.ops.calling import input_shape
from minun_pio.ops.dense_kernels import (
    Chosen,
    bias_codes,
    bias_type,
    exception_tables,
    long_kernel,
    row_major,
    short_bias,
)
from minun_pio.ops.linear import clip_argument, encoded
from minun_pio.ops.operator import Binding
from minun_pio.ops.proofs import integers_at, largest_row, lookup_table

_HEADER = "minun/conv_fast.h"
_LANES = 4  # output positions at a time
_CHANNELS = 8  # channels that a depthwise convolution gathers at a time (minun::detail::kChannels)


def choose_conv(
    binding: Binding, shape: str, taps: str, patch_elements: int, groups: int, values: NDArray[Any]
) -> Chosen | None:
    """The cheapest kernel whose sums are proven exact; `values` are the weights in the kernel's order."""
    x, w, out = binding.formats[0], binding.formats[1], binding.out_formats[0]
    lanes = patches_at_once(groups, groups * values.shape[3], values.shape[0]) * patch_elements
    grouped = "false" if groups == 1 else "true"
    if isinstance(x, Fixed) and isinstance(w, Fixed) and isinstance(out, Fixed):
        return _fixed(binding, x, w, out, shape, taps, lanes, values, grouped)
    if isinstance(x, Posit) and isinstance(w, Posit) and isinstance(out, Posit) and max(x.n, w.n) <= 16:
        codes = encoded(values, w).reshape(values.shape[0], -1)
        short = _short(binding, x, w, out, shape, taps, lanes, codes, grouped)
        return short or _long(binding, x, w, out, shape, taps, lanes, codes, grouped)
    return None


def patches_at_once(groups: int, channels: int, out_channels: int) -> int:
    """How many patches of a group are in scratch together."""
    if groups == 1:
        return _LANES
    return min(_CHANNELS, channels) if groups == channels == out_channels else 1


def _fixed(
    binding: Binding,
    x: Fixed,
    w: Fixed,
    out: Fixed,
    shape: str,
    taps: str,
    lanes: int,
    values: NDArray[Any],
    grouped: str,
) -> Chosen | None:
    if max(x.width, w.width) > 16:
        return None
    codes = encoded(values, w)
    unit = x.scale_exp + w.scale_exp
    row, bound = largest_row(codes.astype(np.int64)), 1 << (x.width - 1)
    for bits in (32, 64):
        safe, bias = short_bias(*bias_codes(binding), unit, row, bound, bits)
        if safe:
            method = f"minun::Plain<{x.storage.name}_t, {w.storage.name}_t, int{bits}_t>"
            return Chosen(
                function=f"minun::conv_fixed<{out.cpp}, {taps}, {method}, {unit}, {grouped}>",
                arguments=(shape, clip_argument(binding.node, out)),
                weights=row_major(codes),
                bias=bias,
                scratch_bytes=lanes * int(x.storage.itemsize),
                header=_HEADER,
                variant=f"integer, {bits}-bit sum",
            )
    return None


def _short(
    binding: Binding,
    x: Posit,
    w: Posit,
    out: Posit,
    shape: str,
    taps: str,
    lanes: int,
    codes: Codes,
    grouped: str,
) -> Chosen | None:
    if x.es != 0 or w.es != 0 or max(x.n, w.n) > 8:
        return None
    unit = x.unit_exponent + w.unit_exponent
    integers = integers_at(codes, w, w.unit_exponent)
    bound = 1 << (2 * x.max_scale)
    safe, bias = short_bias(*bias_codes(binding), unit, largest_row(integers), bound, 32)
    if not safe:
        return None
    plain = bool(np.all(integers == codes.astype(np.int64)))
    method = "minun::Lookup<int16_t, int16_t, int32_t>"
    if plain:
        method = "minun::Plain<int16_t, int8_t, int32_t>"
    types = f"{out.cpp}, {x.cpp}, {w.cpp}, {bias_type(binding)}, {taps}, {method}, {unit}, {grouped}"
    return Chosen(
        function=f"minun::conv_short<{types}>",
        arguments=("nullptr" if plain else "{table0}", shape, clip_argument(binding.node, out)),
        weights=row_major(codes),
        bias=bias,
        tables=() if plain else (lookup_table(w, w.unit_exponent, "int16_t")[0],),
        scratch_bytes=max(2 * lanes, 4 * codes.shape[1]),  # the exact sums need 4 bytes an element
        header=_HEADER,
        variant="codes are values" if plain else "table",
    )


def _long(
    binding: Binding,
    x: Posit,
    w: Posit,
    out: Posit,
    shape: str,
    taps: str,
    lanes: int,
    codes: Codes,
    grouped: str,
) -> Chosen | None:
    kernel = long_kernel(codes, binding, x, w, math.prod(input_shape(binding, 0)))
    if kernel is None:
        return None
    odd_tables, odd = exception_tables(kernel.exceptions, 1)
    types = f"{out.cpp}, {x.cpp}, {kernel.weight_type}, {bias_type(binding)}, {taps}, {kernel.method}"
    return Chosen(
        function=f"minun::conv_long<{types}, {kernel.decoder}, {grouped}>",
        arguments=(
            *("{table0}", shape, clip_argument(binding.node, out)),
            *(kernel.plan, odd, kernel.decoder + kernel.decoder_braces),
        ),
        weights=row_major(kernel.weight_codes),
        bias=kernel.bias,
        tables=(kernel.table, *odd_tables),
        scratch_bytes=4 * lanes,
        header=_HEADER,
        variant=kernel.variant,
        guard=kernel.guard,
    )
