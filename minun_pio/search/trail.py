# SPDX-License-Identifier: Apache-2.0
"""The record of a search: measures each distinct choice once, keeps every candidate, picks the winner."""

from __future__ import annotations

from typing import Literal

from minun_pio.search.space import Candidate, Limits, Measure, Outcome, Packed, Promoted, Rung, Space

Ties = Literal["quicker", "earliest"]
EQUALLY_QUICK = 1.05  # times the least estimated count: the estimate is no finer than that


class Trail:
    """Asks a `Measure` about choices (rungs and promoted groups), remembering the answers."""

    def __init__(self, space: Space, measure: Measure, limits: Limits) -> None:
        self.space = space
        self.measure = measure
        self.limits = limits
        self.candidates: list[Candidate] = []
        self._choices: list[tuple[Rung, Rung, Promoted]] = []
        self._accuracy: dict[tuple[str, str, Promoted], float] = {}
        self._ram: dict[tuple[str, str, Promoted], int] = {}
        self._flash: dict[tuple[str, str, Promoted], int] = {}
        self._packed: dict[tuple[str, str, Promoted], Packed] = {}

    @property
    def evaluations(self) -> int:
        return len(self._accuracy)

    def accuracy(self, low: Rung, high: Rung, promoted: Promoted) -> float:
        """Measured accuracy, simulated once per distinct choice."""
        key = self._key(low, high, promoted)
        if key not in self._accuracy:
            self._accuracy[key] = self.measure.accuracy(self.space.assign(low, high, promoted))
        return self._accuracy[key]

    def ram(self, low: Rung, high: Rung, promoted: Promoted) -> int:
        """Estimated arena bytes."""
        key = self._key(low, high, promoted)
        if key not in self._ram:
            self._ram[key] = self.measure.ram(self.space.assign(low, high, promoted))
        return self._ram[key]

    def flash(self, low: Rung, high: Rung, promoted: Promoted) -> int:
        """Estimated flash bytes."""
        key = self._key(low, high, promoted)
        if key not in self._flash:
            self._flash[key] = self.measure.flash(self.space.assign(low, high, promoted))
        return self._flash[key]

    def packed(self, low: Rung, high: Rung, promoted: Promoted) -> Packed:
        """What the planner makes of it, planned once per distinct choice."""
        key = self._key(low, high, promoted)
        if key not in self._packed:
            self._packed[key] = self.measure.packed(self.space.assign(low, high, promoted))
        return self._packed[key]

    def add(
        self, origin: str, low: Rung, high: Rung, promoted: Promoted, soft: float | None = None
    ) -> Candidate:
        """Pack a choice exactly and keep it as a candidate; it is measured only when it meets the limits."""
        packed = self.packed(low, high, promoted)
        fits = packed.readable and not any(self.limits.over(packed.ram, packed.flash))
        known = self._accuracy.get(self._key(low, high, promoted))
        accuracy = self.accuracy(low, high, promoted) if fits else known
        high_names = self.space.with_kept(promoted) if high.name != low.name else frozenset()
        names = tuple(name for name in self.space.by_name if name in high_names)
        candidate = Candidate(
            origin=origin,
            low=low.name,
            high=high.name,
            promoted=names,
            ram_bytes=packed.ram,
            flash_bytes=packed.flash,
            accuracy=accuracy,
            fits=fits,
            soft_limit=soft,
            estimated_count=round(packed.count),
        )
        self.candidates.append(candidate)
        self._choices.append((low, high, promoted))
        return candidate

    def outcome(
        self,
        strategy: str,
        heat: tuple[tuple[str, float], ...] = (),
        notes: tuple[str, ...] = (),
        ties: Ties = "quicker",
    ) -> Outcome:
        """The most accurate candidate within the limits; where none is within them, the smallest.

        Of equally accurate ones the `earliest`, or the `quicker`: of those within EQUALLY_QUICK of the
        quickest, the one with the smallest arena, then the least flash, then the earliest.
        """
        fitting = [k for k, candidate in enumerate(self.candidates) if candidate.fits]
        if not fitting:
            best = min(range(len(self.candidates)), key=lambda k: self._overrun(self.candidates[k]))
            return self.take(best, strategy, heat, notes)
        most = max(self.candidates[k].accuracy or 0.0 for k in fitting)
        equals = [k for k in fitting if (self.candidates[k].accuracy or 0.0) == most]
        if ties == "quicker":
            least = min(self.candidates[k].estimated_count for k in equals)
            quick = [k for k in equals if self.candidates[k].estimated_count <= EQUALLY_QUICK * least]
            equals = sorted(quick, key=lambda k: self._bytes(self.candidates[k]))
        return self.take(equals[0], strategy, heat, notes)

    def take(
        self,
        index: int,
        strategy: str,
        heat: tuple[tuple[str, float], ...] = (),
        notes: tuple[str, ...] = (),
    ) -> Outcome:
        """The outcome that chooses candidate `index`."""
        chosen = self.candidates[index]
        low, high, promoted = self._choices[index]
        return Outcome(
            strategy=strategy,
            assignment=self.space.assign(low, high, promoted),
            accuracy=self.accuracy(low, high, promoted),
            ram_bytes=chosen.ram_bytes,
            flash_bytes=chosen.flash_bytes,
            fits=chosen.fits,
            low=low.name,
            high=high.name,
            promoted=chosen.promoted,
            candidates=tuple(self.candidates),
            heat=heat,
            evaluations=self.evaluations,
            notes=notes,
            estimated_count=chosen.estimated_count,
            limits=self.limits,
        )

    def _overrun(self, candidate: Candidate) -> tuple[int, int]:
        return self.limits.over(candidate.ram_bytes, candidate.flash_bytes)

    @staticmethod
    def _bytes(candidate: Candidate) -> tuple[int, int]:
        return candidate.ram_bytes, candidate.flash_bytes

    def _key(self, low: Rung, high: Rung, promoted: Promoted) -> tuple[str, str, Promoted]:
        return low.name, high.name if self.space.with_kept(promoted) else low.name, promoted
