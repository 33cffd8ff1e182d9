# SPDX-License-Identifier: Apache-2.0
"""The independent check of an arena: every write of every step, in order, against all that still lives.

Shares no code with the search; it works from the graph's own words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from minun_pio.planner.memory_graph import GraphStep, MemoryGraph


@dataclass(frozen=True)
class Placed:
    """Where an arena puts things. See `arena.Arena` for the fields."""

    order: Sequence[str]
    offsets: Mapping[str, int]
    regions: Mapping[str, str]
    scratch: Mapping[str, int]
    reverse: Collection[str]
    aliases: Mapping[str, tuple[str, int]]
    interleaved: Collection[str]


def hazards(graph: MemoryGraph, placed: Placed, limit: int = 5) -> list[str]:
    """Writes that destroy bytes that are still needed, one sentence each; an empty list if there are none."""
    return _Check(graph, placed, limit).run()


class _Check:
    def __init__(self, graph: MemoryGraph, placed: Placed, limit: int) -> None:
        self.placed, self.limit = placed, limit
        steps = {s.name: s for s in graph.steps}
        self.steps = [steps[name] for name in placed.order]
        self.size = {t.name: t.size for t in graph.tensors}
        self.views = set()
        self.slices = set()  # (part, whole): writing the part writes what is there already
        for step in graph.steps:
            for v in step.views:
                source, target = step.inputs[v.input_index], step.outputs[v.output_index]
                self.views.add((target, source) if v.output_inside else (source, target))
                if v.output_inside:
                    self.slices.add((target, source))
        self.life: dict[str, tuple[int, int]] = {}  # first and last position at which it is touched
        for p, step in enumerate(self.steps):
            for name in (*step.inputs, *step.outputs):
                if name is not None:
                    first, _ = self.life.get(name, (p, p))
                    self.life[name] = (first, p)
        end = len(self.steps)
        for t in graph.tensors:
            if t.name in self.life:
                first, last = self._through_loops(t.name, t.carried or t.kind != "local")
                if t.kind in ("input", "persistent"):
                    first = -1
                if t.kind in ("output", "persistent"):
                    last = end
                self.life[t.name] = (first, last)
        self.extent = {name: self._extent(name) for name in self.life}
        self.family = {name: self._family(name) for name in self.life}

    def _through_loops(self, name: str, always: bool) -> tuple[int, int]:
        first, last = self.life[name]
        touching = [p for p, s in enumerate(self.steps) if name in s.inputs or name in s.outputs]
        for path in {self.steps[p].loop[:d] for p in touching for d in range(1, len(self.steps[p].loop) + 1)}:
            around = [p for p, s in enumerate(self.steps) if s.loop[: len(path)] == path]
            if always or any(p not in around for p in touching):
                first, last = min(first, *around), max(last, *around)
        return first, last

    def _extent(self, name: str) -> tuple[str, int, int]:
        """(region, begin, end). What is interleaved with others counts as all of the tensor it lies in."""
        region = self.placed.regions[name]
        while name in self.placed.interleaved:
            name = self.placed.aliases[name][0]
        at = self.placed.offsets[name]
        return region, at, at + self.size[name]

    def _family(self, name: str) -> list[tuple[str, bool]]:
        """`name` and what it lies in, outwards; True while only views lead there: values are kept."""
        chain, kept = [(name, True)], True
        while name in self.placed.aliases:
            outer = self.placed.aliases[name][0]
            kept = kept and (name, outer) in self.views
            name = outer
            chain.append((name, kept))
        return chain

    def run(self) -> list[str]:
        wrong: list[str] = []
        begins: dict[int, list[str]] = {}
        for name, (first, _) in self.life.items():
            begins.setdefault(first, []).append(name)
        live = begins.get(-1, [])
        for p, step in enumerate(self.steps):
            live = [n for n in live if self.life[n][1] >= p] + begins.get(p, [])
            for written in dict.fromkeys(step.outputs):
                for other in live:
                    if other == written or not self._touch(self.extent[written], self.extent[other]):
                        continue
                    if not self._allowed(p, step, other, written):
                        wrong.append(f"step '{step.name}' writes '{written}' over '{other}', which is needed")
            if step.scratch:
                at = self.placed.scratch[step.name]
                mine = (self.placed.regions[f"{step.name}#scratch"], at, at + step.scratch)
                for other in live:
                    if self._touch(mine, self.extent[other]):
                        wrong.append(f"step '{step.name}' has its scratch over '{other}', which is needed")
            if len(wrong) >= self.limit:
                break
        return wrong[: self.limit]

    @staticmethod
    def _touch(a: tuple[str, int, int], b: tuple[str, int, int]) -> bool:
        return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]

    def _allowed(self, p: int, step: GraphStep, other: str, written: str) -> bool:
        """Whether `step` may write `written` where `other` lies."""
        if self._kept(other, written):
            return True
        if self.life[other][1] == p and other in step.inputs and not self._read_again(step, other):
            return self._in_place(step, other, written) or self._distant(step, other, written)
        return False

    def _read_again(self, step: GraphStep, name: str) -> bool:
        """Whether the next iteration of a loop around `step` reads `name`, which comes from outside of it."""
        return any(
            s.loop[: len(step.loop)] != step.loop for s in self.steps if name in s.inputs or name in s.outputs
        )

    def _kept(self, other: str, written: str) -> bool:
        """Whether the two are views of the same values, or have bytes of their own in one tensor."""
        if dict(self.family[other]).get(written) or dict(self.family[written]).get(other):
            return True
        # a slice of a tensor that the other lies in: the bytes there are the other's already
        whole = written
        while (whole, self.placed.aliases.get(whole, ("", 0))[0]) in self.slices:
            whole = self.placed.aliases[whole][0]
            if dict(self.family[other]).get(whole):
                return True
        # side by side in the tensor that both are interleaved in
        mine, theirs = [n for n, _ in self.family[other]], [n for n, _ in self.family[written]]
        for outer in mine[1:]:
            if outer in theirs[1:]:
                a, b = mine[mine.index(outer) - 1], theirs[theirs.index(outer) - 1]
                both = a in self.placed.interleaved and b in self.placed.interleaved
                return both and self.placed.aliases[a][1] != self.placed.aliases[b][1]
        return False

    def _in_place(self, step: GraphStep, other: str, written: str) -> bool:
        """Whether every input that is `other` may be the same bytes as `written`."""
        offsets = self.placed.offsets
        may = {i for i, o in step.in_place if step.outputs[o] == written}
        reads = [i for i, name in enumerate(step.inputs) if name == other]
        return offsets[other] == offsets[written] and all(i in may for i in reads)

    def _distant(self, step: GraphStep, other: str, written: str) -> bool:
        """Whether `written` keeps its distance from every input that is `other`."""
        source, target = self.placed.offsets[other], self.placed.offsets[written]
        kept = set()
        for v in step.overlaps:
            if step.inputs[v.input_index] == other and step.outputs[v.output_index] == written:
                if step.name in self.placed.reverse:
                    far = v.reverse_bytes is not None and target - source >= v.reverse_bytes
                else:
                    far = v.forward_bytes is not None and source - target >= v.forward_bytes
                if far:
                    kept.add(v.input_index)
        return all(i in kept for i, name in enumerate(step.inputs) if name == other)
