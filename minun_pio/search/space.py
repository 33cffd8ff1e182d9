# SPDX-License-Identifier: Apache-2.0
"""What a search chooses from, what it may ask, and what it answers.

Every strategy has one signature: `(Space, Measure, Limits) -> Outcome`. A strategy sees groups of tensors
that share one format, two rungs (a low and a high format for every tensor), and a `Measure` that runs the
network; it never sees the network itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from minun_pio.numerics.format import Format

Assignment = Mapping[str, Format]
Promoted = frozenset[str]  # names of the groups that are high


@dataclass(frozen=True)
class Group:
    """Tensors that must share one format and are promoted together. `name` is its first member's.

    `elements` is the static size of the largest member. `constant`: all members live in flash.
    """

    name: str
    members: tuple[str, ...]
    elements: int
    constant: bool = False


@dataclass(frozen=True)
class Rung:
    """One format for every tensor: all of one width, what stage I chooses between."""

    name: str  # 'posit<8,2>', 'fixed8 scale-1'
    bits: int
    formats: Assignment

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Space:
    """Groups in the order of the graph, and the rungs that stage I may choose from, best guess first.

    `kept` are groups that are always high: a strategy that chooses never sees them.
    """

    groups: tuple[Group, ...]
    low: tuple[Rung, ...]
    high: tuple[Rung, ...]
    float32: Rung
    kept: tuple[Group, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Group]:
        return {group.name: group for group in (*self.kept, *self.groups)}

    def with_kept(self, promoted: Promoted) -> Promoted:
        """The names of all groups that are high."""
        return promoted | {group.name for group in self.kept}

    def assign(self, low: Rung, high: Rung, promoted: Promoted) -> dict[str, Format]:
        """Every tensor low, those of the promoted and of the kept groups high."""
        chosen = dict(low.formats)
        for name in self.with_kept(promoted):
            for member in self.by_name[name].members:
                chosen[member] = high.formats[member]
        return chosen


@dataclass(frozen=True)
class Packed:
    """Bytes of an arena and of flash (constants, tables and estimated code) as a build would have them.

    `count`: an estimate of one inference, in cycles on AVR, in instructions elsewhere (`search.speed`). It
    tells quicker from slower, no more. `readable` False: the core cannot read so many constants, or its
    compiler takes no array so large (AVR).
    """

    ram: int
    flash: int
    count: float = 0.0
    readable: bool = True


class Costs(Protocol):
    """What an assignment costs. `ram` and `flash` are quick; `packed` plans the arena."""

    def ram(self, assignment: Assignment) -> int:
        """Arena bytes, estimated: never more than the packed arena needs (the lower bound)."""

    def flash(self, assignment: Assignment) -> int:
        """Bytes of constants, tables and estimated code, as they stand before the arena is planned; more than
        any board has where the core could not read them."""

    def packed(self, assignment: Assignment) -> Packed:
        """All of it, the arena as the planner packs it."""


class Measure(Costs, Protocol):
    """What a strategy may ask of the network. Accuracies are fractions; higher is better."""

    float_accuracy: float

    def accuracy(self, assignment: Assignment) -> float:
        """On the calibration set, with device-exact arithmetic."""

    def values(self, assignment: Assignment) -> Mapping[str, Any]:
        """Decoded values of every tensor over the calibration set: same samples, same order, every time."""


@dataclass(frozen=True)
class Limits:
    """`ram` and `flash` in bytes, None = unlimited. `tolerated_drop` is a fraction below float32."""

    ram: int | None = None
    flash: int | None = None
    soft: tuple[float, ...] = (1.0,)
    tolerated_drop: float = 0.02

    def over(self, ram: int, flash: int) -> tuple[int, int]:
        """Bytes of RAM and of flash over the limits, 0 where there is room."""
        over_ram = max(0, ram - self.ram) if self.ram is not None else 0
        return over_ram, max(0, flash - self.flash) if self.flash is not None else 0


@dataclass(frozen=True)
class Candidate:
    """One point of the trail. `accuracy` is None where a candidate was dropped before it was measured;
    `flash_bytes` and `estimated_count` are `Packed`'s."""

    origin: str  # 'base', 'overshooting conv1', 'uniform-low', …
    low: str
    high: str
    promoted: tuple[str, ...]
    ram_bytes: int
    flash_bytes: int
    accuracy: float | None
    fits: bool
    soft_limit: float | None = None
    estimated_count: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "origin": self.origin,
            "soft_limit": self.soft_limit,
            "low": self.low,
            "high": self.high,
            "promoted": list(self.promoted),
            "ram_bytes": self.ram_bytes,
            "flash_bytes": self.flash_bytes,
            "estimated_count": self.estimated_count,
            "accuracy": self.accuracy,
            "fits": self.fits,
        }


@dataclass(frozen=True)
class Outcome:
    """The assignment chosen and how it came about. `fits` is False when no candidate met the limits: the
    smallest one is returned, so that a build can say by how much it is over.
    `labelled` False: accuracies are agreement with float32."""

    strategy: str
    assignment: Assignment
    accuracy: float
    ram_bytes: int
    flash_bytes: int
    fits: bool
    low: str
    high: str
    promoted: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    heat: tuple[tuple[str, float], ...] = ()  # groups with their scores, highest first
    evaluations: int = 0
    notes: tuple[str, ...] = field(default=())
    estimated_count: int = 0
    limits: Limits = Limits()
    labelled: bool = True

    def to_json(self) -> dict[str, Any]:
        """Everything but the assignment itself, for reports and the lock file."""
        return {
            "strategy": self.strategy,
            "accuracy": self.accuracy,
            "labelled": self.labelled,
            "ram_bytes": self.ram_bytes,
            "flash_bytes": self.flash_bytes,
            "estimated_count": self.estimated_count,
            "fits": self.fits,
            "ram_limit_bytes": self.limits.ram,
            "flash_limit_bytes": self.limits.flash,
            "low": self.low,
            "high": self.high,
            "promoted": list(self.promoted),
            "evaluations": self.evaluations,
            "heat": [[name, score] for name, score in self.heat],
            "candidates": [candidate.to_json() for candidate in self.candidates],
            "notes": list(self.notes),
        }


Strategy = Callable[[Space, Measure, Limits], Outcome]
