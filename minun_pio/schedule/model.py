# SPDX-License-Identifier: Apache-2.0
"""What a scheduled network is: kernel calls, copies and loops in order, and the buffers they work on.

Time is counted in steps: every call and every copy has an index, in the order of the text; a loop's body is
counted once. A buffer is live in the half-open range `[start, end)` of steps. What is defined outside a loop
and read or written inside it is live to the loop's end; a loop's state is live through all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from minun_pio.ops.operator import Binding, Traits
from minun_pio.simulate.legalise import Legal

Kind = Literal["arena", "input", "output", "constant"]


@dataclass(frozen=True)
class Place:
    """Where a tensor's codes begin: `offset` bytes into `buffer`, and further by each loop's step.

    kind `arena`: buffer is a buffer's id; `input`/`output`: a graph input or output in the caller's memory;
    `constant`: a scoped constant in flash. `strides`: (loop variable, bytes an iteration).
    """

    kind: Kind
    buffer: str
    offset: int = 0
    strides: tuple[tuple[str, int], ...] = ()

    def moved(self, offset: int) -> Place:
        return replace(self, offset=self.offset + offset)

    def stepped(self, variable: str, stride_bytes: int) -> Place:
        return replace(self, strides=(*self.strides, (variable, stride_bytes)))


@dataclass(frozen=True)
class Buffer:
    """Bytes in the arena, live in `[start, end)`. `tensors`: the scoped tensors that live there."""

    id: str
    size: int
    align: int
    start: int
    end: int
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class CallStep:
    """One kernel call. Places run parallel to the node's inputs (None: absent) and outputs."""

    index: int
    prefix: str
    binding: Binding
    traits: Traits
    inputs: tuple[Place | None, ...]
    outputs: tuple[Place, ...]
    scratch: str | None = None

    @property
    def name(self) -> str:
        return self.prefix + self.binding.node.name


@dataclass(frozen=True)
class CopyStep:
    """Bytes moved: a state's initial value or next value, an output that is an input.

    `optional`: skipped at run time when source and target are the same address (an input that the caller
    wrote straight into the arena).
    """

    index: int
    tensor: str
    source: Place
    target: Place
    bytes: int
    optional: bool = False


@dataclass(frozen=True)
class LoopStep:
    """The body, run `steps` times; `variable` counts 0 … steps-1, or down to 0 with `reverse`."""

    name: str
    variable: str
    steps: int
    reverse: bool
    body: tuple[Step, ...]


Step = CallStep | CopyStep | LoopStep


@dataclass(frozen=True)
class Schedule:
    """A network laid out in time. `places`: where each scoped tensor lives (views share a place)."""

    legal: Legal
    core: str
    steps: tuple[Step, ...]
    buffers: tuple[Buffer, ...]
    places: Mapping[str, Place]
    length: int
    skipped: tuple[str, ...] = field(default=())  # views that need no call

    def calls(self) -> tuple[CallStep, ...]:
        """Every call, loops' bodies included, in the order of the text."""
        return tuple(_calls(self.steps))


def _calls(steps: tuple[Step, ...]) -> list[CallStep]:
    found: list[CallStep] = []
    for step in steps:
        if isinstance(step, CallStep):
            found.append(step)
        elif isinstance(step, LoopStep):
            found += _calls(step.body)
    return found
