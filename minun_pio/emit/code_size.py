# SPDX-License-Identifier: Apache-2.0
"""An estimate of a model's code in flash, for budgets before anything is compiled.

Fitted to what avr-g++ 5.4 and arm-none-eabi-g++ 12.2 make of the example's networks, small dense ones and
MLPerf Tiny's keyword spotting at -Os: within a third. The linker knows better (`emit.link_check`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

KERNELS: Mapping[str, tuple[int, int]] = {
    "argmax": (200, 90),
    "average_pool": (700, 350),
    "binary": (2100, 450),
    "clip": (120, 60),
    "concat": (250, 120),
    "conv_avr_fixed16": (3000, 0),
    "conv_avr_fixed8": (2600, 0),
    "conv_avr_long": (4800, 0),
    "conv_avr_quantised8": (3900, 0),
    "conv_avr_short": (4300, 0),
    "conv_fixed": (1500, 900),
    "conv_long": (4800, 2500),
    "conv_quantised8": (2500, 1250),
    "conv_short": (4300, 2750),
    "copy_run": (120, 60),
    "curve": (450, 180),
    "dense_avr_fixed16": (1100, 0),
    "dense_avr_fixed8": (620, 0),
    "dense_avr_long": (2600, 0),
    "dense_avr_quantised8": (2050, 0),
    "dense_avr_short": (2150, 0),
    "dense_avr_tiled": (2600, 0),
    "dense_fixed": (900, 620),
    "dense_float": (600, 400),
    "dense_long": (2600, 1300),
    "dense_quantised8": (1500, 1050),
    "dense_short": (2150, 1150),
    "l2_norm": (3500, 1900),
    "layer_norm": (3500, 1900),
    "max_pool": (500, 180),
    "reduce_sum": (900, 600),
    "softmax": (4500, 2600),
    "softmax_int8": (1300, 750),
    "squared_distance_fast": (2500, 600),
    "strided_copy": (300, 150),
    "unary": (3200, 1500),
    "unary_table": (100, 60),
}
"""Bytes of a kernel by its function's name: on AVR, on Cortex-M."""

_AGAIN = 0.55  # of a kernel that is there already for other types
_PLAIN = frozenset(
    {
        *("argmax", "clip", "concat", "copy_run", "max_pool", "strided_copy", "unary_table"),
        *("conv_avr_short", "conv_short", "dense_avr_short", "dense_short"),
        *("conv_avr_fixed16", "conv_avr_fixed8", "conv_fixed"),
        *("dense_avr_fixed16", "dense_avr_fixed8", "dense_fixed", "squared_distance_fast", "binary"),
    }
)
"""Kernels that bring no exact sum with them."""

SHARED: Mapping[str, Mapping[str, int]] = {
    "avr": {"posit": 5000, "fixed": 1300, "affine": 0, "float": 1300},
    "m3": {"posit": 3200, "fixed": 500, "affine": 0, "float": 1400},
    "m7": {"posit": 3200, "fixed": 500, "affine": 0, "float": 0},
    "host": {"posit": 5000, "fixed": 1500, "affine": 500, "float": 300},
}
"""What a family's kernels have in common: exact sums, float in software."""

OTHER: Mapping[str, Mapping[str, int]] = {
    "avr": {"posit": 1600, "fixed": 1200, "affine": 1200, "float": 900},
    "m3": {"posit": 650, "fixed": 450, "affine": 450, "float": 350},
    "m7": {"posit": 680, "fixed": 450, "affine": 450, "float": 350},
    "host": {"posit": 1000, "fixed": 700, "affine": 700, "float": 600},
}
"""Bytes of a kernel that is not in `KERNELS`, by family."""

STEP_BYTES: Mapping[str, int] = {"avr": 40, "m3": 28, "m7": 28, "host": 60}
"""Bytes of one call or copy in `infer`."""


def estimate(core: str, kernels: Mapping[str, str], steps: int) -> int:
    """Bytes of code. `kernels`: every distinct kernel function and the family it works in."""
    total = float(STEP_BYTES[core] * steps)
    names = Counter[tuple[str, str]]()
    for function, family in kernels.items():
        names[function.partition("<")[0].removeprefix("minun::"), family] += 1
    for (name, family), count in names.items():
        known = KERNELS.get(name)
        if known is None:
            each = OTHER[core].get(family, OTHER[core]["float"])
        else:
            each = known[0] if core == "avr" else known[1]
        total += each * (1 + _AGAIN * (count - 1))
    shared = {family for name, family in names if name not in _PLAIN}
    total += sum(SHARED[core].get(family, 0) for family in shared)
    return round(total)
