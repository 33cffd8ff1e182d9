# SPDX-License-Identifier: Apache-2.0
"""Stage III's inner step: walk an order of groups and promote what the RAM allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minun_pio.search.space import Promoted, Rung
from minun_pio.search.trail import Trail


@dataclass(frozen=True)
class Filled:
    """The groups that are high after a walk, and those that reached the soft limit, in walking order."""

    promoted: Promoted
    overshooting: tuple[str, ...]


def fill(
    trail: Trail, low: Rung, high: Rung, order: Sequence[str], start: Promoted, soft_ram: float | None
) -> Filled:
    """Promote along `order`, beginning with `start` high; returns a new map, the caller's is untouched.

    A promotion over `soft_ram` bytes is taken back; one that reaches it is listed as overshooting (so a
    group that lands exactly on the limit stays high and is listed). One over the flash limit is taken
    back and not listed: no soft limit helps it.
    """
    promoted, overshooting = start, []
    flash_limit = trail.limits.flash
    for name in order:
        if name in promoted:
            continue
        trial = promoted | {name}
        if flash_limit is not None and trail.flash(low, high, trial) > flash_limit:
            continue
        ram = trail.ram(low, high, trial)
        if soft_ram is not None and ram >= soft_ram:
            overshooting.append(name)
        if soft_ram is None or ram <= soft_ram:
            promoted = trial
    return Filled(promoted, tuple(overshooting))
