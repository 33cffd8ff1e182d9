# SPDX-License-Identifier: Apache-2.0
"""What an operator is to the compiler. One file an operator; its device half is `include/minun/<op>.h`.

Arrays in `reference` and `simulate` carry one extra leading sample axis: a tensor of shape S comes as
`(samples, *S)`, a constant as `(1, *S)`. An absent optional input is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics.format import Codes, Format
from minun_pio.planner.memory_graph import Overlap as Overlap
from minun_pio.planner.memory_graph import View as View

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Binding:
    """Everything known about one node when it is costed or emitted.

    `shapes`, `formats` and `constants` run parallel to `node.inputs` (None where the input is absent or,
    for `constants`, not constant; constants are the float values before encoding); `out_*` run parallel
    to `node.outputs`. `core` is the target: 'avr', 'm3', 'm7' or 'host'.
    """

    node: Node
    shapes: tuple[Shape | None, ...]
    formats: tuple[Format | None, ...]
    constants: tuple[NDArray[Any] | None, ...]
    out_shapes: tuple[Shape, ...]
    out_formats: tuple[Format, ...]
    core: str = "host"
    small_scratch: bool = False  # the planner wants the variant with little scratch, where there is one


@dataclass(frozen=True)
class Traits:
    """What an operator allows the planner, and what it needs."""

    scratch_bytes: int = 0
    scratch_align: int = 1
    in_place: tuple[tuple[int, int], ...] = ()  # (input_index, output_index) that may be the same bytes
    overlaps: tuple[Overlap, ...] = ()
    views: tuple[View, ...] = ()


@dataclass(frozen=True)
class Table:
    """A constant the call needs beside the network's own: a look-up table, decoded bias, exceptions.

    `ctype` is the C++ element type, `values` integers (or floats for float types). Tables with equal
    contents are emitted once per model. `in_flash` keeps it in flash (PROGMEM on AVR)."""

    ctype: str
    values: tuple[int | float, ...]
    hint: str  # part of the emitted name: 'tanh', 'bias64'
    align: int = 1
    in_flash: bool = True


class InputGuard(Protocol):
    """What a kernel asks of its inputs when it runs: those that trip it take the slow path."""

    def trips(self, codes: Codes) -> NDArray[np.bool_]:
        """One answer for every decision that the kernel makes over these inputs, in their order."""


@dataclass(frozen=True)
class Call:
    """One kernel call. In `args` (C++ expressions) and `function` these placeholders are filled:

    `{in0}` … pointers to the inputs (constants: their flash array), `{out0}` … to the outputs,
    `{scratch}` the scratch, `{table0}` … the tables. `{reverse}` is 'true' or 'false': the raster direction
    that the planner chose. `constant_codes` replaces an input constant's encoding where the kernel wants
    another layout or type: input index -> Table.
    """

    header: str  # "minun/dense.h"
    function: str  # "minun::dense<minun::Posit<8,2>, …>"
    args: tuple[str, ...]
    tables: tuple[Table, ...] = ()
    constant_codes: dict[int, Table] = field(default_factory=dict)
    variant: str = "generic"  # shown in the report: 'table', 'identity', 'slow', …
    guard: InputGuard | None = None  # of the first input


class Operator(Protocol):
    """One operator of the network. Instances are stateless and registered in `minun_pio.ops.REGISTRY`."""

    name: str
    policy: str
    """How the output's format relates to the inputs' when formats are assigned.

    free: independent of them (within one family), one rounding at the end. same: output codes are input codes
    (reshape, max-pool), so all have one format. index: the output is int32 indices. convert: any family to
    any other. scan: a loop, whose body's tensors have formats of their own; a state keeps one all the way.
    """
    families: frozenset[str]  # that simulate and emit support: 'posit', 'fixed', 'affine', 'float'

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        """Output shapes. Raises MinunError when inputs or attributes do not fit."""

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        """The operator in real numbers (float64)."""

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        """The operator on codes: exactly what the device kernel computes, for every sample."""

    def traits(self, binding: Binding) -> Traits:
        """Memory behaviour of the call that `emit` returns for the same binding."""

    def emit(self, binding: Binding) -> Call:
        """The kernel call."""
