# SPDX-License-Identifier: Apache-2.0
"""From a memory graph, an order and the sharing allowed to a placement problem.

- A contiguous view (concat along the first axis, slice, reshape) becomes an `Alias`.
- An interleaved view melts the input into the output: one buffer, live from the first write of any part.
- An in-place step whose input ends there becomes an `Alias` of equal buffers.
- An overlap of an input that ends where the output begins becomes a pair of `Separation`s.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from minun_pio.planner.memory_graph import GraphStep, MemoryGraph, Overlap
from minun_pio.planner.problem import Alias, Buffer, Problem, Separation


@dataclass(frozen=True)
class Pair:
    """An input and an output of one step that may share bytes. Distances None: only the very same bytes."""

    step: int
    source: str
    target: str
    forward: int | None
    reverse: int | None
    same_bytes: bool


class Sharing:
    """What of a graph shares bytes whatever the order: melted and contained tensors; and the pairs that may.

    `melted`: tensor -> (the tensor whose buffer it is part of, byte offset of its first run there).
    `inside`: tensor -> (outer tensor, byte offset). Both follow chains.
    """

    def __init__(self, graph: MemoryGraph, views: Collection[int]) -> None:
        self.graph = graph
        self.tensor = {t.name: t for t in graph.tensors}
        self.writers: dict[str, list[int]] = {t.name: [] for t in graph.tensors}
        self.readers: dict[str, list[int]] = {t.name: [] for t in graph.tensors}
        for k, step in enumerate(graph.steps):
            for written in dict.fromkeys(step.outputs):
                self.writers[written].append(k)
            for read in dict.fromkeys(step.inputs):
                if read is not None:
                    self.readers[read].append(k)
        self.melted: dict[str, tuple[str, int]] = {}
        self.inside: dict[str, tuple[str, int]] = {}
        for k in sorted(views, reverse=True):
            self._take_views(k)
        self.touches: dict[str, set[int]] = {
            t.name: set() for t in graph.tensors if t.name not in self.melted
        }
        for name in self.tensor:
            self.touches[self.buffer(name)].update(self.writers[name], self.readers[name])

    def buffer(self, name: str) -> str:
        """The tensor whose buffer `name` is, or is part of."""
        while name in self.melted:
            name = self.melted[name][0]
        return name

    def root(self, name: str) -> str:
        """The outermost buffer around `name`, views only."""
        name = self.buffer(name)
        while name in self.inside:
            name = self.buffer(self.inside[name][0])
        return name

    def _free(self, name: str) -> bool:
        return name not in self.melted and name not in self.inside and self.tensor[name].kind == "local"

    def _take_views(self, k: int) -> None:
        step = self.graph.steps[k]
        for view in step.views:
            source, target = step.inputs[view.input_index], step.outputs[view.output_index]
            if source is None or step.inputs.count(source) > 1 or self.root(source) == self.root(target):
                continue
            if self.tensor[source].carried or self.tensor[target].carried:
                continue
            inner, outer = (target, source) if view.output_inside else (source, target)
            if not self._free(inner) or not self._aligned(inner, outer, view.offset_bytes):
                continue
            if self.tensor[outer].kind == "persistent" and view.output_inside is False:
                continue
            if getattr(view, "interleaved", False):
                if not view.output_inside and self._strided(inner, k):
                    self._melt(inner, outer, view.offset_bytes, k)
            elif outer not in self.melted and view.offset_bytes + self._size(inner) <= self._size(outer):
                if not view.output_inside and len(self.writers[inner]) != 1:
                    continue
                self.inside[inner] = (outer, view.offset_bytes)

    def _size(self, name: str) -> int:
        return self.tensor[name].size

    def _aligned(self, inner: str, outer: str, offset: int) -> bool:
        align = self.tensor[inner].align
        return offset % align == 0 and self.tensor[outer].align % align == 0

    def _strided(self, name: str, but: int) -> bool:
        """Whether every kernel that touches `name`, step `but` aside, can do so in an interleaved place."""
        steps = self.graph.steps
        return all(steps[k].writes_strided for k in self.writers[name]) and all(
            steps[k].reads_strided or k == but for k in self.readers[name]
        )

    def _melt(self, inner: str, outer: str, offset: int, k: int) -> None:
        self.melted[inner] = (outer, offset)
        # what an in-place step turned into `inner` is written straight to that place as well
        if len(self.writers[inner]) != 1:
            return
        maker = self.writers[inner][0]
        step = self.graph.steps[maker]
        for i, o in step.in_place:
            source = step.inputs[i]
            if step.outputs[o] != inner or source is None or not self._free(source):
                continue
            if self.readers[source] == [maker] and self._size(source) == self._size(inner):
                if self._strided(source, -1):
                    self._melt(source, inner, 0, maker)
                return

    def pairs(self, k: int) -> list[Pair]:
        """The inputs of step k that may share bytes with its outputs, whatever lives how long."""
        step = self.graph.steps[k]
        found: dict[tuple[str, str], Pair] = {}
        for i, o in step.in_place:
            self._pair(found, k, step, i, o, None)
        for overlap in step.overlaps:
            self._pair(found, k, step, overlap.input_index, overlap.output_index, overlap)
        return list(found.values())

    def _pair(
        self,
        found: dict[tuple[str, str], Pair],
        k: int,
        step: GraphStep,
        i: int,
        o: int,
        overlap: Overlap | None,
    ) -> None:
        source, target = step.inputs[i], step.outputs[o]
        if source is None or source == target or source in self.melted or target in self.melted:
            return
        if self.root(source) == self.root(target) or self.tensor[source].kind in ("output", "persistent"):
            return
        if self.tensor[source].carried:
            return
        if any(n is not None and n != source and self.buffer(n) == source for n in step.inputs):
            return  # the step reads a part of the source once more, under another name
        offered = [v for v in step.overlaps if v.output_index == o]
        may = (
            [v.input_index for v in offered]
            if overlap is not None
            else [n for n, m in step.in_place if m == o]
        )
        if any(n == source and index not in may for index, n in enumerate(step.inputs)):
            return  # the step reads the source once more, as an input that must stay
        known = found.get((source, target), Pair(k, source, target, None, None, False))
        if overlap is None:
            same = (
                self._size(source) == self._size(target)
                and self.tensor[source].align == self.tensor[target].align
            )
            known = Pair(k, source, target, known.forward, known.reverse, same)
        else:
            all_of_it = [v for v in offered if step.inputs[v.input_index] == source]
            forward = _largest([v.forward_bytes for v in all_of_it])
            reverse = _largest([v.reverse_bytes for v in all_of_it])
            known = Pair(k, source, target, forward, reverse, known.same_bytes)
        found[source, target] = known


def _largest(distances: list[int | None]) -> int | None:
    """The distance that serves every input; None where one of them does not offer this direction."""
    known = [d for d in distances if d is not None]
    return max(known) if len(known) == len(distances) else None


@dataclass(frozen=True)
class Layout:
    """A placement problem of a graph in one order; `pairs` are those that got a separation."""

    problem: Problem
    pairs: tuple[Pair, ...]
    taken: tuple[Pair, ...]  # in-place pairs that became one buffer

    def forward_but(self, steps: Collection[int]) -> Layout:
        """The same with all steps but these in forward order."""
        pairs = tuple(p if p.step in steps else replace(p, reverse=None) for p in self.pairs)
        return replace(self, problem=replace(self.problem, separations=_separations(pairs)), pairs=pairs)


def lay_out(sharing: Sharing, order: Sequence[int], in_place: bool, overlap: bool) -> Layout:
    """The problem of running the steps in `order`."""
    graph = sharing.graph
    position = {k: t for t, k in enumerate(order)}
    spans = _spans(sharing, position)
    inside = dict(sharing.inside)
    taken: list[Pair] = []
    free: list[Pair] = []
    families = _Families(sharing, spans, inside)
    for k in order:
        candidates = sharing.pairs(k) if in_place or overlap else []
        ending = [p for p in candidates if families.ends(p, position[k])]
        used: set[str] = set()
        joined: list[Pair] = []
        if in_place:
            for p in ending:
                if p.same_bytes and p.target not in used and families.join(p):
                    used.add(p.target)
                    joined.append(p)
        taken += joined
        if overlap:
            rest = [p for p in ending if p not in joined and (p.forward, p.reverse) != (None, None)]
            several = len({p.source for p in rest}) > 1 or any(p.target in used for p in rest)
            free += [Pair(p.step, p.source, p.target, p.forward, None, False) if several else p for p in rest]
    buffers = []
    for t in graph.tensors:
        if t.name in spans:
            start, end = spans[t.name]
            buffers.append(Buffer(t.name, start, end, t.size, t.align, t.offset, t.region))
    for k, step in enumerate(graph.steps):
        if step.scratch:
            at = position[k]
            buffers.append(Buffer(scratch_name(step), at, at + 1, step.scratch, step.scratch_align))
    aliases = tuple(Alias(inner, outer, at) for inner, (outer, at) in inside.items())
    problem = Problem(tuple(buffers), separations=_separations(free), aliases=aliases)
    return Layout(problem, tuple(free), tuple(taken))


def _separations(pairs: Sequence[Pair]) -> tuple[Separation, ...]:
    found = []
    for p in pairs:
        if p.forward is not None:
            found.append(Separation(p.target, p.source, p.forward))
        if p.reverse is not None:
            found.append(Separation(p.source, p.target, p.reverse))
    return tuple(found)


def scratch_name(step: GraphStep) -> str:
    """The id of a step's scratch buffer."""
    return f"{step.name}#scratch"


def _spans(sharing: Sharing, position: dict[int, int]) -> dict[str, tuple[int, int]]:
    """The live range of each buffer, in positions of the order, through whole loops where it must be."""
    steps, length = sharing.graph.steps, len(position)
    loops: dict[tuple[str, ...], tuple[int, int]] = {}
    for k, t in position.items():
        for depth in range(1, len(steps[k].loop) + 1):
            path = steps[k].loop[:depth]
            low, high = loops.get(path, (t, t + 1))
            loops[path] = (min(low, t), max(high, t + 1))
    spans: dict[str, tuple[int, int]] = {}
    for name, touches in sharing.touches.items():
        tensor = sharing.tensor[name]
        if not touches and tensor.kind == "local":
            continue
        times = [position[k] for k in touches]
        start, end = min(times, default=0), max(times, default=length - 1) + 1
        for path in {steps[k].loop[:d] for k in touches for d in range(1, len(steps[k].loop) + 1)}:
            within = [k for k in touches if steps[k].loop[: len(path)] == path]
            if len(within) < len(touches) or tensor.carried or tensor.kind != "local":
                start, end = min(start, loops[path][0]), max(end, loops[path][1])
        if tensor.kind in ("input", "persistent"):
            start = 0
        if tensor.kind in ("output", "persistent"):
            end = length
        spans[name] = (start, max(end, start + 1))
    return spans


class _Families:
    """Which buffers lie inside one another, as in-place steps join them."""

    def __init__(
        self, sharing: Sharing, spans: dict[str, tuple[int, int]], inside: dict[str, tuple[str, int]]
    ) -> None:
        self.sharing, self.spans, self.inside = sharing, spans, inside
        self.members: dict[str, list[str]] = {}
        for name in spans:
            self.members.setdefault(self.place(name)[0], []).append(name)

    def place(self, name: str) -> tuple[str, int]:
        """The outermost buffer around `name` and the byte offset in it."""
        at = 0
        while name in self.inside:
            name, shift = self.inside[name]
            at += shift
        return name, at

    def ends(self, pair: Pair, time: int) -> bool:
        """Whether at `time` the source's bytes are read for the last time, by this pair alone, and the
        target's bytes are written for the first time."""
        source, target = pair.source, pair.target
        if self.spans[source][1] != time + 1 or self.spans[target][0] != time:
            return False
        steps = self.sharing.graph.steps
        loop = steps[pair.step].loop
        if any(steps[k].loop[: len(loop)] != loop for k in self.sharing.touches[source]):
            return False  # from outside the loop: the next iteration reads it again
        if any(self.spans[other][1] > time for other in self._over(source) if other != source):
            return False
        return all(self.spans[other][0] >= time for other in self._over(target))

    def _over(self, name: str) -> list[str]:
        """Every buffer that has bytes in common with `name` through aliases."""
        root, at = self.place(name)
        end = at + self.sharing.tensor[name].size
        found = []
        for other in self.members[root]:
            low = self.place(other)[1]
            if low < end and at < low + self.sharing.tensor[other].size:
                found.append(other)
        return found

    def join(self, pair: Pair) -> bool:
        """Make source and target the same bytes, if one of them is still free to move."""
        source, target = pair.source, pair.target
        inner, outer = (source, target) if source not in self.inside else (target, source)
        if inner in self.inside or self.place(source)[0] == self.place(target)[0]:
            return False
        fixed = self.sharing.tensor[inner]
        if fixed.offset is not None or fixed.region is not None:
            return False
        old = self.members.pop(inner)
        self.inside[inner] = (outer, 0)
        self.members[self.place(outer)[0]] += old
        return True
