# SPDX-License-Identifier: Apache-2.0
"""What an assignment costs on a core: arena, flash and an estimate of its time, before anything is compiled.

Flash is counted as `emit.lower` will count it: the arrays that the kernel calls ask for, equal ones once, and
the estimate of the code. Each call is made once for each choice of its formats, through a whole search.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from minun_pio.budgets import ARRAY_BYTES, LPM_BYTES
from minun_pio.config.model import Memory
from minun_pio.emit.code_size import estimate
from minun_pio.emit.pools import graphs_by_prefix
from minun_pio.emit.program import PACKING
from minun_pio.ir import Graph
from minun_pio.numerics.format import Format, element_bytes
from minun_pio.ops.calling import code_type
from minun_pio.ops.operator import Binding, Call, Table
from minun_pio.schedule.arena import Placement, estimate_bytes, place
from minun_pio.schedule.layout import InputMemory, lay_out
from minun_pio.schedule.model import CallStep, CopyStep, LoopStep, Schedule, Step
from minun_pio.schedule.traits import TraitsOf
from minun_pio.search.space import Assignment, Packed
from minun_pio.search.speed import estimated_count
from minun_pio.simulate.assign import operator_of
from minun_pio.simulate.legalise import Legal, legalise
from minun_pio.simulate.run import encode_constant

SEARCH_TIMEOUT_S = 0.25  # of each stage's placement while formats are searched; the final plan has its own

_ASKED = re.compile(r"\{(in|table)([0-9]+)\}")
_NOTHING: frozenset[str] = frozenset()
_UNREADABLE = 1 << 40  # more bytes of flash than any board has
Array = tuple[bytes, tuple[int, bool]]  # a constant array's digest; its bytes, and whether they stay in flash


@dataclass(frozen=True)
class _CallCost:
    """`tensors`: the network constants that the call reads as they are, by input."""

    arrays: tuple[Array, ...]
    tensors: tuple[int, ...]
    function: str
    family: str
    count: float


@dataclass(frozen=True)
class _Placed:
    """The arena's bytes, and by name the calls in their variant with little scratch, those that need not run
    and those that write backwards."""

    bytes: int
    small: frozenset[str] = _NOTHING
    in_view: frozenset[str] = _NOTHING
    reverse: frozenset[str] = _NOTHING


class Costs:
    """`search.space.Costs` of a network on a core; one instance serves a whole search."""

    def __init__(self, network: Graph, core: str, memory: Memory) -> None:
        self._network, self._core, self._memory = network, core, memory
        self._traits_of = TraitsOf()
        self._calls: dict[tuple[object, ...], _CallCost] = {}
        self._tensors: dict[tuple[str, Format], Array] = {}
        self._placed: dict[tuple[tuple[str, int, int, int], ...], _Placed] = {}
        self._last: tuple[dict[str, Format], Schedule] | None = None

    def ram(self, assignment: Assignment) -> int:
        """A lower bound of the arena's bytes, fast."""
        return estimate_bytes(self._least(assignment), self._memory)

    def flash(self, assignment: Assignment) -> int:
        """Bytes of constants, tables and estimated code, before the arena is planned."""
        found = self._packed(self._least(assignment), _Placed(0))
        return found.flash if found.readable else _UNREADABLE

    def packed(self, assignment: Assignment) -> Packed:
        """Everything, as the planner packs it (each problem is planned once)."""
        where = input_memory(self._memory)
        schedule = lay_out(legalise(self._network, assignment), self._core, where, self._traits_of)
        key = tuple((b.id, b.size, b.start, b.end) for b in schedule.buffers)
        if key not in self._placed:
            quick = replace(self._memory, timeout_s=min(self._memory.timeout_s, SEARCH_TIMEOUT_S))
            self._placed[key] = _placed(place(schedule, quick, self._traits_of))
        found = self._placed[key]
        return self._packed(schedule, found)

    def _least(self, assignment: Assignment) -> Schedule:
        """The schedule with the least scratch; a search asks for bytes of one assignment in a row."""
        if self._last is None or self._last[0] != assignment:
            legal = legalise(self._network, assignment)
            where = input_memory(self._memory)
            schedule = lay_out(legal, self._core, where, self._traits_of, least_scratch=True)
            self._last = (dict(assignment), schedule)
        return self._last[1]

    def _packed(self, schedule: Schedule, placed: _Placed) -> Packed:
        legal = schedule.legal
        arrays: dict[bytes, tuple[int, bool]] = {}
        kernels: dict[str, str] = {}
        count = 0.0
        for step, times in _steps(schedule.steps):
            if isinstance(step, CopyStep):
                if step.source.kind == "constant":
                    arrays.update([self._tensor(legal, step.source.buffer)])
                continue
            if step.name in placed.in_view:
                continue
            cost = self._call(step, step.name in placed.small)
            arrays.update(cost.arrays)
            for k in cost.tensors:
                place = step.inputs[k]
                assert place is not None
                arrays.update([self._tensor(legal, place.buffer)])
            backwards = "true" if step.name in placed.reverse else "false"
            kernels[cost.function.replace("{reverse}", backwards)] = cost.family
            count += times * cost.count
        code = estimate(self._core, kernels, schedule.length)
        sizes = [size for size, _ in arrays.values()]
        read = sum(size for size, in_flash in arrays.values() if in_flash)
        sizes_in_ram = [placed.bytes, *self._ports(legal)]
        longest = max([*sizes, *sizes_in_ram], default=0)
        readable = self._core != "avr" or (read <= LPM_BYTES and longest <= ARRAY_BYTES)
        return Packed(placed.bytes, sum(sizes) + code, count, readable)

    def _ports(self, legal: Legal) -> tuple[int, int]:
        """Bytes of the inputs and of the outputs."""
        graph = legal.graph

        def size(names: tuple[str, ...]) -> int:
            return sum(graph.tensors[n].elements * element_bytes(legal.formats[n]) for n in names)

        return size(graph.inputs), size(graph.outputs)

    def _call(self, step: CallStep, small: bool) -> _CallCost:
        node = step.binding.node
        operands = (node.op, node.inputs, step.binding.formats, step.binding.out_formats)
        key = (step.name, operands, small)
        found = self._calls.get(key)
        if found is None:
            binding = replace(step.binding, small_scratch=True) if small else step.binding
            found = self._calls[key] = _call_cost(step, binding, operator_of(node).emit(binding))
        return found

    def _tensor(self, legal: Legal, scoped: str) -> Array:
        fmt = legal.formats[scoped]
        key = (scoped, fmt)
        if key not in self._tensors:
            graphs = graphs_by_prefix(legal.graph).items()
            values = next(g.constants[n] for p, g in graphs for n in g.constants if p + n == scoped)
            codes = encode_constant(values, fmt)
            data = np.ascontiguousarray(codes).astype(fmt.storage.newbyteorder("<")).tobytes()
            self._tensors[key] = _array(code_type(fmt), element_bytes(fmt), True, data)
        return self._tensors[key]


def input_memory(memory: Memory) -> InputMemory:
    return "arena" if memory.input == "arena" else "caller"


def _placed(placement: Placement) -> _Placed:
    calls = placement.schedule.calls()
    return _Placed(
        placement.bytes,
        small=frozenset(c.name for c in calls if c.binding.small_scratch),
        in_view=frozenset(c.name for c in calls if c.index in placement.in_view),
        reverse=frozenset(c.name for c in calls if c.index in placement.reverse),
    )


def _steps(steps: tuple[Step, ...], times: int = 1) -> Iterator[tuple[CallStep | CopyStep, int]]:
    """Every call and copy, with how often it runs."""
    for step in steps:
        if isinstance(step, LoopStep):
            yield from _steps(step.body, times * step.steps)
        else:
            yield step, times


def _call_cost(step: CallStep, binding: Binding, call: Call) -> _CallCost:
    asked = {(kind, int(k)) for text in (*call.args, call.function) for kind, k in _ASKED.findall(text)}
    tables = [call.tables[k] for kind, k in sorted(asked) if kind == "table"]
    constants = [k for kind, k in sorted(asked) if kind == "in" and _is_constant(step, k)]
    tables += [call.constant_codes[k] for k in constants if k in call.constant_codes]
    families = [fmt.family for fmt in (*binding.out_formats, *binding.formats) if fmt is not None]
    return _CallCost(
        arrays=tuple(_table(table) for table in tables),
        tensors=tuple(k for k in constants if k not in call.constant_codes),
        function=call.function,
        family=next((family for family in families if family != "index"), "index"),
        count=estimated_count(binding, call),
    )


def _is_constant(step: CallStep, k: int) -> bool:
    place = step.inputs[k]
    return place is not None and place.kind == "constant"


def _table(table: Table) -> Array:
    data = struct.pack(f"<{len(table.values)}{PACKING[table.ctype]}", *table.values)
    return _array(table.ctype, table.align, table.in_flash, data)


def _array(ctype: str, align: int, in_flash: bool, data: bytes) -> Array:
    """Arrays that the emitter keeps once have one digest."""
    digest = hashlib.blake2b(f"{ctype} {align} {in_flash} ".encode(), digest_size=16)
    digest.update(data)
    return digest.digest(), (len(data), in_flash)
