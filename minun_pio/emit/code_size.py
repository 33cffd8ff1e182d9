# SPDX-License-Identifier: Apache-2.0
"""An estimate of a model's code in flash, for budgets before anything is compiled.

Fitted to what avr-g++ 5.4 and arm-none-eabi-g++ 12.2 make of small networks at -Os: within about a third. The
linker knows better (`emit.link_check`).
"""

from __future__ import annotations

from collections.abc import Mapping

FIRST_AND_EACH: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "avr": {"posit": (6500, 1600), "fixed": (500, 1200), "affine": (500, 1200), "float": (300, 900)},
    "m3": {"posit": (4400, 650), "fixed": (2300, 450), "affine": (900, 450), "float": (100, 350)},
    "m7": {"posit": (4600, 680), "fixed": (2500, 450), "affine": (900, 450), "float": (100, 350)},
    "host": {"posit": (6000, 1000), "fixed": (3000, 700), "affine": (1500, 700), "float": (300, 600)},
}
"""By core and family: bytes that the first kernel of a family brings with it, and of each distinct kernel."""

STEP_BYTES: Mapping[str, int] = {"avr": 40, "m3": 28, "m7": 28, "host": 60}
"""Bytes of one call or copy in `infer`."""


def estimate(core: str, kernels: Mapping[str, str], steps: int) -> int:
    """Bytes of code. `kernels`: every distinct kernel function and the family it works in."""
    costs = FIRST_AND_EACH[core]
    families = list(kernels.values())
    total = STEP_BYTES[core] * steps
    for family in set(families):
        first, each = costs.get(family, (0, costs["float"][1]))
        total += first + each * families.count(family)
    return total
