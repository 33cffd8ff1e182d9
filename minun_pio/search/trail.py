# SPDX-License-Identifier: Apache-2.0
"""The record of a search: measures each distinct choice once, keeps every candidate, picks the winner."""

from __future__ import annotations

from minun_pio.search.space import Candidate, Limits, Measure, Outcome, Promoted, Rung, Space


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
        return self.measure.flash(self.space.assign(low, high, promoted))

    def add(
        self, origin: str, low: Rung, high: Rung, promoted: Promoted, soft: float | None = None
    ) -> Candidate:
        """Pack a choice exactly and keep it as a candidate; it is measured only when it meets the limits."""
        assignment = self.space.assign(low, high, promoted)
        ram, flash = self.measure.packed_ram(assignment), self.measure.flash(assignment)
        fits = self.limits.fits(ram, flash)
        known = self._accuracy.get(self._key(low, high, promoted))
        accuracy = self.accuracy(low, high, promoted) if fits else known
        high_names = self.space.with_kept(promoted) if high.name != low.name else frozenset()
        names = tuple(name for name in self.space.by_name if name in high_names)
        candidate = Candidate(origin, low.name, high.name, names, ram, flash, accuracy, fits, soft)
        self.candidates.append(candidate)
        self._choices.append((low, high, promoted))
        return candidate

    def outcome(
        self, strategy: str, heat: tuple[tuple[str, float], ...] = (), notes: tuple[str, ...] = ()
    ) -> Outcome:
        """The most accurate candidate within the limits, the earliest of equals; else the smallest."""
        fitting = [k for k, candidate in enumerate(self.candidates) if candidate.fits]
        if fitting:
            best = max(fitting, key=lambda k: (self.candidates[k].accuracy or 0.0, -k))
        else:
            best = min(range(len(self.candidates)), key=lambda k: self._overrun(self.candidates[k]))
        return self.take(best, strategy, heat, notes)

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
        )

    def _overrun(self, candidate: Candidate) -> tuple[int, int]:
        over_ram = max(0, candidate.ram_bytes - self.limits.ram) if self.limits.ram is not None else 0
        over_flash = max(0, candidate.flash_bytes - self.limits.flash) if self.limits.flash is not None else 0
        return over_ram, over_flash

    def _key(self, low: Rung, high: Rung, promoted: Promoted) -> tuple[str, str, Promoted]:
        return low.name, high.name if self.space.with_kept(promoted) else low.name, promoted
