# SPDX-License-Identifier: Apache-2.0
"""Algorithm X with dancing links in the order of the MinUn paper (arXiv 2210.16556), for comparison.

A generalised exact cover (Knuth, TAOCP 7.2.2.1): a column for each buffer must be covered, a column for each
(unit of the arena, section) may be. A row is one buffer at one offset. The buffer with the fewest rows left
is branched on first, its offsets ascending. When a height fails, the next one is tried. Sizes are rounded up
to `coarseness` bytes; 1 is exact.
"""

from __future__ import annotations

from minun_pio.planner.instance import Answer, Budget, Instance, bound, scaled, top
from minun_pio.planner.problem import bad

CELL_LIMIT = 4_000_000  # cells of the matrix; each takes about 100 bytes in Python


def dancing_links(inst: Instance, budget: Budget, coarseness: int | None = None) -> Answer:
    """The least height. `coarseness` None: the greatest common divisor of the sizes, which loses nothing.

    If time runs out before a plan is found, the answer is first-fit, and a note says so.
    """
    if not inst.plain and (inst.gaps or any(p is not None for p in inst.pin)):
        raise bad("unsupported", "planner 'dancing-links' knows no pins and no overlaps; use 'exact'")
    small, unit = scaled(inst)
    if coarseness is not None or not small.plain:
        unit = coarseness or max(inst.align)
        if any(unit % a for a in inst.align):
            raise bad(
                "coarseness",
                f"coarseness {unit} breaks the alignment; expected a multiple of {max(inst.align)}",
            )
        small = _coarse(inst, unit)
    low = max(bound(small), 1)
    height = low
    limit = sum(small.sizes)
    while height <= limit:
        cells = sum(
            (height - s + 1) * (s * (b - a) + 1)
            for s, a, b in zip(small.sizes, small.first, small.last, strict=True)
        )
        if cells > CELL_LIMIT:
            raise bad(
                "matrix-too-large",
                f"planner 'dancing-links' needs a matrix of {cells} cells at height {height * unit}, at most "
                f"{CELL_LIMIT} fit in memory; use 'exact'",
            )
        offsets = _Cover(small, height, budget).solve()
        if offsets is None:
            return _out_of_time(inst, budget)
        if offsets:
            found = [at * unit for at in offsets]
            proven = max(bound(inst), height * unit if coarseness in (None, 1) and small.plain else 0)
            reached = top(inst, found)
            return Answer(found, reached, min(proven, reached))
        height += 1
    raise AssertionError("stacked on top of each other, the buffers fit")


def _coarse(inst: Instance, unit: int) -> Instance:
    from minun_pio.planner.instance import instance

    return instance(inst.starts, inst.ends, [-(-s // unit) for s in inst.sizes])


def _out_of_time(inst: Instance, budget: Budget) -> Answer:
    from minun_pio.planner.greedy import first_fit

    budget.notes.append("dancing-links ran out of time before it found a plan: first-fit instead")
    return first_fit(inst, budget)


class _Cover:
    """The matrix as Knuth's doubly linked lists, and the search through it."""

    def __init__(self, inst: Instance, height: int, budget: Budget) -> None:
        self.budget = budget
        n = len(inst.sizes)
        columns = n + height * inst.count
        # node 0 heads the list of columns that must be covered; 1 … columns are the columns' own nodes
        self.up = list(range(columns + 1))
        self.down = list(range(columns + 1))
        self.left = list(range(columns + 1))
        self.right = list(range(columns + 1))
        self.column = list(range(columns + 1))
        self.rows = [0] * (columns + 1)
        self.tag = [0] * (columns + 1)  # the offset a node's row stands for
        for c in range(n + 1):
            self.left[c], self.right[c] = (c - 1) % (n + 1), (c + 1) % (n + 1)
        for i in range(n):
            for at in range(height - inst.sizes[i] + 1):
                cells = [i + 1]
                for unit in range(at, at + inst.sizes[i]):
                    row = n + 1 + unit * inst.count
                    cells += range(row + inst.first[i], row + inst.last[i])
                self._append(cells, at)
        self.count = n

    def _append(self, cells: list[int], at: int) -> None:
        begin = len(self.up)
        for k, c in enumerate(cells):
            node = begin + k
            last = self.up[c]
            self.up.append(last)
            self.down.append(c)
            self.down[last] = self.up[c] = node
            self.left.append(begin + (k - 1) % len(cells))
            self.right.append(begin + (k + 1) % len(cells))
            self.column.append(c)
            self.tag.append(at)
            self.rows[c] += 1

    def _cover(self, c: int) -> None:
        up, down, left, right = self.up, self.down, self.left, self.right
        right[left[c]], left[right[c]] = right[c], left[c]
        i = down[c]
        while i != c:
            j = right[i]
            while j != i:
                down[up[j]], up[down[j]] = down[j], up[j]
                self.rows[self.column[j]] -= 1
                j = right[j]
            i = down[i]

    def _uncover(self, c: int) -> None:
        up, down, left, right = self.up, self.down, self.left, self.right
        i = up[c]
        while i != c:
            j = left[i]
            while j != i:
                self.rows[self.column[j]] += 1
                down[up[j]] = up[down[j]] = j
                j = left[j]
            i = up[i]
        right[left[c]] = left[right[c]] = c

    def _take(self, node: int) -> None:
        j = self.right[node]
        while j != node:
            self._cover(self.column[j])
            j = self.right[j]

    def _give_back(self, node: int) -> None:
        j = self.left[node]
        while j != node:
            self._uncover(self.column[j])
            j = self.left[j]

    def solve(self) -> list[int] | None:
        """Offsets; [] if there are none within the height; None if time ran out."""
        stack: list[int] = []  # the row node chosen in each branch's column
        forward = True
        while True:
            if forward:
                self.budget.nodes += 1
                if self.budget.nodes & 15 == 0 and self.budget.over:
                    return None
                if self.right[0] == 0:
                    offsets = [0] * self.count
                    for node in stack:
                        offsets[self.column[node] - 1] = self.tag[node]
                    return offsets
                best, c = 0, self.right[0]
                while c != 0:
                    if not best or self.rows[c] < self.rows[best]:
                        best = c
                    c = self.right[c]
                self._cover(best)
                node = self.down[best]
            else:
                if not stack:
                    return []
                node = stack.pop()
                self._give_back(node)
                node = self.down[node]
            c = self.column[node]
            if node == c:
                self._uncover(c)
                forward = False
                continue
            self._take(node)
            stack.append(node)
            forward = True
