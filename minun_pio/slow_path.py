# SPDX-License-Identifier: Apache-2.0
"""How often a network's fast kernels would take their slow path: the guards of its calls, on real inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from minun_pio.numerics.format import Codes
from minun_pio.ops.operator import InputGuard
from minun_pio.schedule.model import Schedule
from minun_pio.simulate.assign import operator_of
from minun_pio.simulate.legalise import Legal
from minun_pio.simulate.run import Cache, run_codes

SAMPLES = 256  # of the evaluation data are looked at


@dataclass(frozen=True)
class SlowPath:
    """A layer whose kernel decides from its inputs: how often it did, and how often it chose the exact sums.

    `always`: the layer has no fast kernel.
    """

    layer: str
    variant: str
    decisions: int
    slow: int
    always: bool = False

    @property
    def rate(self) -> float:
        return 1.0 if self.always else self.slow / max(self.decisions, 1)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "rate": round(self.rate, 6)}


def slow_paths(
    schedule: Schedule, legal: Legal, inputs: Mapping[str, Codes], cache: Cache | None = None
) -> list[SlowPath]:
    """Every posit layer with a guard or without a fast kernel, over the first SAMPLES of these inputs."""
    guarded: list[tuple[str, str, str, InputGuard | None]] = []
    for step in schedule.calls():
        fmt = step.binding.formats[0] if step.binding.formats else None
        if fmt is None or fmt.family != "posit":
            continue
        call = operator_of(step.binding.node).emit(step.binding)
        if call.guard is not None or call.variant == "exact":
            tensor = step.prefix + step.binding.node.inputs[0]
            guarded.append((step.name, call.variant, tensor, call.guard))
    few = {name: codes[:SAMPLES] for name, codes in inputs.items()}
    keep = {tensor for *_, tensor, guard in guarded if guard is not None}
    codes = run_codes(legal, few, keep=keep, cache=cache).codes if keep else {}
    rows = []
    for layer, variant, tensor, guard in guarded:
        if guard is None:
            rows.append(SlowPath(layer, variant, 0, 0, always=True))
            continue
        tripped = guard.trips(few[tensor] if tensor in few else codes[tensor])
        rows.append(SlowPath(layer, variant, int(tripped.size), int(tripped.sum())))
    return rows
