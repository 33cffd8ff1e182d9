# SPDX-License-Identifier: Apache-2.0
"""The order of steps with the lowest peak: a bottleneck search over down-sets.

A down-set is a set of steps that holds everything its members depend on. Best first by the peak so far, then
by how many steps are done; a step that raises neither the peak nor what is held is taken at once. Exact
unless `LIMIT` sets have been visited. A loop's steps move as one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from minun_pio.planner.layout import Pair, Sharing

LIMIT = 20_000


@dataclass(frozen=True)
class _Unit:
    """A step, or all steps of a loop. `touched`: numbers of the buffers it touches."""

    steps: tuple[int, ...]
    needs: int  # the units before it, as bits
    touched: tuple[int, ...]
    extra: int  # scratch, and what lives inside the loop only
    savings: tuple[tuple[int, int, int], ...]  # (source, target, bytes): both end and begin here


def best_order(sharing: Sharing, in_place: bool, overlap: bool, limit: int = LIMIT) -> tuple[list[int], bool]:
    """An order of the steps, and whether no other has a lower sum of live bytes at its peak."""
    search = _Search(sharing, in_place, overlap)
    return search.run(limit)


class _Search:
    def __init__(self, sharing: Sharing, in_place: bool, overlap: bool) -> None:
        graph = sharing.graph
        groups: list[list[int]] = []
        for k, step in enumerate(graph.steps):
            if step.loop and groups and graph.steps[groups[-1][-1]].loop[:1] == step.loop[:1]:
                groups[-1].append(k)
            else:
                groups.append([k])
        self.unit_of = {k: u for u, group in enumerate(groups) for k in group}
        names = [n for n, touches in sharing.touches.items() if touches or sharing.tensor[n].kind != "local"]
        self.number = {name: i for i, name in enumerate(names)}
        around = {name: _around(sharing, name) for name in names}  # itself and what it lies in, outwards
        self.size = [sharing.tensor[n].size for n in names]
        for name, outwards in around.items():
            if len(outwards) > 1:  # its bytes are counted here, not in the outer one
                outer = self.number[outwards[1]]
                self.size[outer] = max(0, self.size[outer] - sharing.tensor[name].size)
        self.users = [0] * len(names)
        for name, outwards in around.items():
            for k in set[int]().union(*(sharing.touches[n] for n in outwards)):
                self.users[self.number[name]] |= 1 << self.unit_of[k]
        kinds = [{sharing.tensor[n].kind for n in around[name]} for name in names]
        self.stays = [not kind.isdisjoint(("output", "persistent")) for kind in kinds]
        self.given = [not kind.isdisjoint(("input", "persistent")) for kind in kinds]
        self.inner = [0] * len(groups)  # the peak of what lives only inside a loop
        for u, group in enumerate(groups):
            if len(group) > 1:
                self._private(sharing, names, u, group)
        self.held = sum(s for s, given in zip(self.size, self.given, strict=True) if given)
        self.units = [self._unit(sharing, tuple(group), in_place, overlap) for group in groups]
        self.followers: list[list[int]] = [[] for _ in groups]
        for v, unit in enumerate(self.units):
            for u in range(v):
                if unit.needs >> u & 1:
                    self.followers[u].append(v)
        self.full = (1 << len(groups)) - 1

    def _private(self, sharing: Sharing, names: list[str], u: int, group: list[int]) -> None:
        """Buffers that one loop alone touches are that unit's own affair: their peak instead of their sum."""
        change = [0] * (len(group) + 1)
        for i, name in enumerate(names):
            alone = self.users[i] == 1 << u and not self.stays[i] and not self.given[i]
            if alone and not sharing.tensor[name].carried:
                times = [group.index(k) for k in sharing.touches[name]]
                change[min(times)] += self.size[i]
                change[max(times) + 1] -= self.size[i]
                self.size[i] = 0
        live = 0
        for x in change:
            live += x
            self.inner[u] = max(self.inner[u], live)

    def _unit(self, sharing: Sharing, steps: tuple[int, ...], in_place: bool, overlap: bool) -> _Unit:
        graph = sharing.graph
        me = self.unit_of[steps[0]]
        needs = scratch = 0
        savings: list[tuple[int, int, int]] = []
        for k in steps:
            step = graph.steps[k]
            scratch = max(scratch, step.scratch)
            for name in (*step.inputs, *step.outputs):
                if name is None:
                    continue
                # in the order given, every writer before its reader, and every reader before the next writer
                for other in sharing.writers[name]:
                    if self.unit_of[other] < me:
                        needs |= 1 << self.unit_of[other]
            for name in step.outputs:
                for other in sharing.readers[name]:
                    if self.unit_of[other] < me:
                        needs |= 1 << self.unit_of[other]
            if len(steps) == 1 and not step.loop and (in_place or overlap):
                for p in sharing.pairs(k):
                    saved = _saving(sharing, p, in_place, overlap)
                    if saved:
                        savings.append((self.number[p.source], self.number[p.target], saved))
        touched = tuple(i for i, users in enumerate(self.users) if users >> me & 1 and self.size[i])
        return _Unit(steps, needs, touched, scratch + self.inner[me], tuple(savings))

    def run(self, limit: int) -> tuple[list[int], bool]:
        units, full = self.units, self.full
        given = list(range(len(units)))
        ceiling = self._peak(given)
        ready = sum(1 << u for u, unit in enumerate(units) if not unit.needs)
        # (peak, -done, serial, set, held, ready)
        heap: list[tuple[int, int, int, int, int, int]] = [(0, 0, 0, 0, self.held, ready)]
        best = {0: 0}
        came: dict[int, tuple[int, int]] = {}
        serial = visited = 0
        while heap:
            peak, minus_done, _, done, held, ready = heapq.heappop(heap)
            if best[done] < peak:
                continue
            if done == full:
                order: list[int] = []
                while done:
                    done, u = came[done]
                    order.append(u)
                return [k for u in reversed(order) for k in units[u].steps], True
            visited += 1
            if visited > limit:
                break
            for u, cost, after in self._moves(done, held, ready, peak):
                following = done | 1 << u
                if cost <= ceiling and cost < best.get(following, ceiling + 1):
                    best[following] = cost
                    came[following] = (done, u)
                    serial += 1
                    freed = ready & ~(1 << u)
                    for v in self.followers[u]:
                        if not units[v].needs & ~following:
                            freed |= 1 << v
                    heapq.heappush(heap, (cost, minus_done - 1, serial, following, after, freed))
        return [k for u in given for k in units[u].steps], False

    def _moves(self, done: int, held: int, ready: int, peak: int) -> list[tuple[int, int, int]]:
        """(unit, peak then, bytes held after) worth trying: one alone if it costs nothing to run it now."""
        moves = []
        while ready:
            u = (ready & -ready).bit_length() - 1
            ready &= ready - 1
            cost, after = self._cost(done, u, held)
            if cost <= peak and after <= held:
                return [(u, peak, after)]
            moves.append((u, max(cost, peak), after))
        return moves

    def _cost(self, done: int, u: int, held: int) -> tuple[int, int]:
        """Bytes live during unit u after the set `done`, and after it."""
        unit, users = self.units[u], self.users
        born = dead = 0
        now = done | 1 << u
        for i in unit.touched:
            if not users[i] & done and not self.given[i]:
                born += self.size[i]
            if not users[i] & ~now and not self.stays[i]:
                dead += self.size[i]
        saved = 0
        for source, target, amount in unit.savings:
            if not users[source] & ~now and not users[target] & done:
                saved = max(saved, amount)
        return held + born + unit.extra - saved, held + born - dead

    def _peak(self, order: list[int]) -> int:
        done, held, peak = 0, self.held, 0
        for u in order:
            cost, held = self._cost(done, u, held)
            peak = max(peak, cost)
            done |= 1 << u
        return peak


def _around(sharing: Sharing, name: str) -> list[str]:
    """`name` and what it lies in through contiguous views, outwards."""
    out = [name]
    while out[-1] in sharing.inside:
        out.append(sharing.buffer(sharing.inside[out[-1]][0]))
    return out


def _saving(sharing: Sharing, p: Pair, in_place: bool, overlap: bool) -> int:
    """The most bytes source and target can share."""
    source, target = sharing.tensor[p.source].size, sharing.tensor[p.target].size
    saved = min(source, target) if in_place and p.same_bytes else 0
    if overlap:
        if p.forward is not None:
            saved = max(saved, min(target - p.forward, source, target))
        if p.reverse is not None:
            saved = max(saved, min(source - p.reverse, source, target))
    return max(0, saved)
