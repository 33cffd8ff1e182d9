# SPDX-License-Identifier: Apache-2.0
"""Which fast squared_distance kernel the constants allow; None where only the exact sum is right.

Prototypes become integers of one unit. Inputs are guarded at run time: codes up to `limit` whose values are
whole numbers of the unit cannot overflow the sum (include/minun/squared_distance_fast.h).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.posit import NO_UNIT, Posit
from minun_pio.ops.calling import input_shape
from minun_pio.ops.linear import encoded
from minun_pio.ops.operator import Binding, Call, Table
from minun_pio.ops.proofs import Exact, finest_unit, integers_at

_SMALL = -12  # inputs down to 2^_SMALL should be whole numbers of units
_ROOM = 4  # inputs up to _ROOM times the largest prototype should pass the guard


@dataclass(frozen=True)
class Chosen:
    """A fast kernel: differences of `bits` bits in units of 2^unit, prototypes 2^shift times coarser."""

    bits: int
    unit: int
    shift: int
    limit: int
    prototypes: Table
    types: str
    rows: int
    length: int

    @property
    def scratch_bytes(self) -> int:
        return self.length * self.bits // 8

    def call(self) -> Call:
        numbers = f"int{self.bits}_t, {self.prototypes.ctype}, {self.unit}, {self.shift}"
        return Call(
            header="minun/squared_distance_fast.h",
            function=f"minun::squared_distance_fast<{self.types}, {numbers}>",
            args=("{in0}", "{in1}", "{out0}", "{scratch}", str(self.rows), str(self.length), str(self.limit)),
            constant_codes={1: self.prototypes},
            variant=f"integer, {2 * self.bits}-bit sum",
        )


def choose(binding: Binding) -> Chosen | None:
    """The cheapest kernel whose sums are proven exact for these prototypes."""
    x, b, out = binding.formats[0], binding.formats[1], binding.out_formats[0]
    if not (isinstance(x, Posit | Fixed) and isinstance(b, Posit | Fixed) and isinstance(out, Posit | Fixed)):
        return None
    if max(x.bits, b.bits) > 16:
        return None
    rows, length = input_shape(binding, 1)
    if length > 1 << 12:
        return None
    codes = encoded(np.asarray(binding.constants[1]), b)
    own = finest_unit(codes, b)
    if own == NO_UNIT:  # all zero
        own = 0
    whole = integers_at(codes, b, own)
    largest = int(np.abs(whole).max(initial=0))
    if largest >= 1 << 30:
        return None
    for bits, sum_limit in ((16, 1 << 31), (32, 1 << 63)):
        reach = min(isqrt((sum_limit - 1) // max(length, 1)), (1 << (bits - 1)) - 1)
        found = _unit(x, own, largest, reach, binding.core, coarser=bits == 32 and isinstance(x, Posit))
        if found is None:
            continue
        unit, limit = found
        stored, shift = stored_bits(largest), own - unit
        if stored_bits(largest << shift) == stored:
            whole, shift = whole << shift, 0
        values = tuple(int(v) for v in whole.ravel().tolist())
        table = Table(f"int{stored}_t", values, "prototypes", align=stored // 8)
        return Chosen(bits, unit, shift, limit, table, f"{out.cpp}, {x.cpp}, {b.cpp}", rows, length)
    return None


def stored_bits(largest: int) -> int:
    """Bits of the narrowest integer type that holds -largest to largest; 64 stands for more than 32."""
    return next((width for width in (8, 16, 32) if largest < 1 << (width - 1)), 64)


def _unit(
    x: Exact, own: int, largest: int, reach: int, core: str, *, coarser: bool
) -> tuple[int, int] | None:
    """The coarsest unit fine enough for usual inputs, and the largest code that it then takes."""
    wanted = min(own, fine_enough(x))
    tried = [wanted]
    if core == "avr" and stored_bits(largest << (own - wanted)) != stored_bits(largest):
        # shifts by whole bytes cost nothing
        tried.insert(0, own - -(-(own - wanted) // 8) * 8)
    if coarser:
        tried += range(wanted + 1, own + 1)
    for unit in tried:
        limit = largest_code(x, reach - (largest << (own - unit)), unit)
        top = x.decode(np.asarray([limit], x.storage))[0].item() * 2.0**-unit
        if limit == x.max_code or top >= _ROOM * (largest << (own - unit)) > 0:
            return unit, limit
    return None


def fine_enough(x: Exact) -> int:
    """The unit of values of about 2^_SMALL, or of all values where that is no finer."""
    if isinstance(x, Fixed):
        return x.scale_exp
    small, one = x.encode(np.asarray([2.0**_SMALL, 1.0])).tolist()
    return finest_unit(np.arange(small, one + 1).astype(x.storage), x)


def largest_code(x: Exact, most: int, unit: int) -> int:
    """The largest code whose value is at most `most` units, 0 or more."""
    values = x.decode(np.arange(x.max_code + 1).astype(x.storage))
    return max(0, int(np.searchsorted(values, most * 2.0**unit, side="right")) - 1)
