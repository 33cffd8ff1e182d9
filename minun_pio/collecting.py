# SPDX-License-Identifier: Apache-2.0
"""A board's answers against the host's: every evaluation sample once, compared code by code."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minun_pio.answers import Expected, expected
from minun_pio.board.collect import Collection, collect, mismatches
from minun_pio.board.target import Target
from minun_pio.emit.link_check import Image, read_image

_ACCURACIES = ("accuracy_board", "accuracy_host", "accuracy_float32")


@dataclass(frozen=True)
class Collected:
    """One model on one board. `wrong` are the samples whose raw output codes differ."""

    board: str
    expected: Expected
    collection: Collection
    wrong: tuple[int, ...]
    image: Image | None

    def to_json(self) -> dict[str, Any]:
        """As in report.json; `latency` is the median over the samples. Sizes of the linked firmware are
        there when its ELF was given."""
        program = self.expected.program
        greeting = self.collection.greeting
        stack = self.collection.description.stack_used_bytes
        counts = [record.latency for record in self.collection.records if record.latency is not None]
        latency = {
            "value": statistics.median_low(counts) if counts else None,
            "unit": greeting.latency_unit,
            "source": greeting.latency_source,
        }
        return {
            "board": self.board,
            "model": program.model,
            "formats": dict(program.formats),
            "samples": len(self.collection.records),
            "mismatches": len(self.wrong),
            "accuracy_board": self.expected.accuracy_of([r.output for r in self.collection.records]),
            "accuracy_host": self.expected.accuracy_host,
            "accuracy_float32": self.expected.accuracy_float32,
            "arena_bytes": program.arena.bytes,
            "arena_used_bytes": self.collection.arena_used_bytes,
            "lower_bound_bytes": program.arena.lower_bound,
            **self._sizes(stack),
            "stack_bytes": stack,
            "latency": latency,
            "repeats": self.collection.repeats,
            "resets": self.collection.resets,
            "seconds": round(self.collection.seconds, 2),
        }

    def _sizes(self, stack_bytes: int) -> dict[str, int]:
        """All SRAM in use is the static part and the stack's high-water mark."""
        if self.image is None:
            return {}
        return {
            "flash_bytes": self.image.flash_bytes,
            "sram_bytes": self.image.sram_bytes + stack_bytes,
        }

    def line(self) -> str:
        """What a person is told."""
        found = self.to_json()
        latency = found["latency"]
        timing = f", {latency['value']} {latency['unit']} a sample" if latency["value"] is not None else ""
        word = "accuracy" if self.expected.labelled else "agreement with float32"
        board, host, float32 = (f"{100 * found[key]:.1f} %" for key in _ACCURACIES)
        return (
            f"{found['model']} on {self.board}: {found['samples']} samples, "
            f"{found['mismatches']} mismatches, {word} {board} (host {host}, float32 {float32}){timing}"
        )


def collect_model(
    model: Path,
    target: Target,
    port: str,
    *,
    board: str = "",
    samples: int | None = None,
    elf: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Collected:
    """Send every evaluation sample (the first `samples`) of a locked model to the board behind `port`.

    The firmware must be of the same build. `progress` gets the number done and the number of all.
    """
    image = None if elf is None else read_image(elf)
    wanted = expected(model, target, samples)
    count = len(wanted.inputs)
    found = collect(
        port,
        wanted.inputs,
        wanted.program.model,
        expected_hash=wanted.program.build_hash,
        progress=None if progress is None else lambda done: progress(done, count),
    )
    wrong = tuple(mismatches(found.records, wanted.outputs))
    return Collected(board or target.name, wanted, found, wrong, image)
