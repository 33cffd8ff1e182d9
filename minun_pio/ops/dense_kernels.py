# SPDX-License-Identifier: Apache-2.0
"""Which fast dense kernel a layer's constants allow; None where only the exact sum is right."""

from __future__ import annotations

from dataclasses import dataclass

from minun_pio.ops.operator import Binding, Call


@dataclass(frozen=True)
class Chosen:
    """A fast kernel. `call` spells it."""

    scratch_bytes: int

    def call(self, types: str, bias: str, extents: tuple[str, str, str], clip: str) -> Call:
        raise NotImplementedError


def choose(binding: Binding) -> Chosen | None:
    """The cheapest kernel whose sums are proven exact for these weights."""
    del binding
    return None
