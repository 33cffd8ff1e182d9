# SPDX-License-Identifier: Apache-2.0
"""Whether a Bonsai tree's rows can be summed in plain integers (include/minun/bonsai_tree_fast.h).

Each matrix becomes integers of one unit. z is guarded at run time: codes up to `limit` whose values are whole
numbers of `unit` cannot overflow a row's 64-bit sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.posit import NO_UNIT, Posit
from minun_pio.ops.calling import input_shape
from minun_pio.ops.distance_kernels import fine_enough, largest_code, stored_bits
from minun_pio.ops.linear import encoded
from minun_pio.ops.operator import Binding, Table
from minun_pio.ops.proofs import finest_unit, integers_at, largest_row

_ROOM = 64.0  # z up to this should pass the guard
_AVR_FLASH = 4096  # bytes that the integers may take more than the codes
_MATRICES = (1, 2, 3)  # W, V, T


@dataclass(frozen=True)
class Chosen:
    """`weights` are the C++ types of W, V and T; `tables` their integers by input index."""

    unit: int
    limit: int
    weights: tuple[str, ...]
    tables: dict[int, Table]
    length: int

    @property
    def scratch_bytes(self) -> int:
        return 4 * self.length


def choose(binding: Binding) -> Chosen | None:
    """The integer kernel, where the weights prove it exact."""
    z, out = binding.formats[0], binding.out_formats[0]
    if not isinstance(z, Posit | Fixed) or not isinstance(out, Posit | Fixed) or z.bits > 16:
        return None
    types: list[str] = []
    tables: dict[int, Table] = {}
    longest, added = 1, 0
    for index in _MATRICES:
        fmt = binding.formats[index]
        if not isinstance(fmt, Posit | Fixed) or fmt.bits > 16:
            return None
        codes = encoded(np.asarray(binding.constants[index]), fmt)
        unit = finest_unit(codes, fmt)
        unit = 0 if unit == NO_UNIT else unit
        whole = integers_at(codes, fmt, unit)
        bits = stored_bits(int(np.abs(whole).max(initial=0)))
        if bits > 32:
            return None
        longest = max(longest, largest_row(whole))
        added += whole.size * (bits // 8 - codes.dtype.itemsize)
        values = tuple(int(v) for v in whole.ravel().tolist())
        tables[index] = Table(f"int{bits}_t", values, "weights", align=bits // 8)
        types.append(f"minun::WholeWeights<{fmt.cpp}, int{bits}_t, {unit}>")
    if binding.core == "avr" and added > _AVR_FLASH:
        return None
    reach = min(((1 << 63) - 1) // longest, (1 << 31) - 1)
    wanted = fine_enough(z)
    for unit in range(wanted, wanted + 8 if isinstance(z, Posit) else wanted + 1):
        limit = largest_code(z, reach, unit)
        top = float(z.decode(np.asarray([limit], z.storage))[0])
        if limit == z.max_code or top >= _ROOM:
            return Chosen(unit, limit, tuple(types), tables, input_shape(binding, 0)[1])
    return None
