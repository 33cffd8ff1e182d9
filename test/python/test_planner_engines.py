# SPDX-License-Identifier: Apache-2.0
"""The finder's and the prover's single steps: what a step changes can be taken back, whatever it was."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from minun_pio.planner import Buffer, Problem, Separation
from minun_pio.planner.domains import components, members_of, offset_domains
from minun_pio.planner.exact_cover import ExactCover
from minun_pio.planner.finder import Finder
from minun_pio.planner.instance import Budget, Instance, bound, instance
from minun_pio.planner.prover import Prover
from minun_pio.planner.pushed_down import PushedDown
from minun_pio.planner.reduce import reduce

PLANNER = Path(__file__).resolve().parents[2] / "minun_pio" / "planner"


def random_buffers(chance: random.Random) -> tuple[Buffer, ...]:
    buffers = []
    for name in range(chance.randint(8, 16)):
        start = chance.randrange(8)
        buffers.append(Buffer(str(name), start, start + chance.randint(1, 5), chance.randint(1, 9)))
    return tuple(buffers)


def numbers(buffers: tuple[Buffer, ...], separations: tuple[Separation, ...] = ()) -> Instance:
    return reduce(Problem(buffers, separations=separations)).numbers(list(buffers))


@pytest.mark.parametrize("separated", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_a_placement_taken_back_leaves_the_finder_as_it_was(seed: int, separated: bool) -> None:
    chance = random.Random(seed)
    buffers = random_buffers(chance)
    apart = (Separation("0", "1", buffers[0].size // 2),) if separated else ()
    inst = numbers(buffers, apart)
    finder = Finder(inst, bound(inst) + 3, Budget(1e12))
    if inst.plain:
        finder.domains = offset_domains(inst, finder.capacity, finder.members, 8)
    search = PushedDown(
        inst,
        finder.capacity,
        finder.budget,
        members=finder.members,
        load=finder.load,
        domains=finder.domains,
        saved=finder.saved,
        weight=finder.weight,
    )
    everything = list(range(len(inst.sizes)))
    search.rank = everything
    changes = 0
    for _ in range(12):
        before = [search.low[:], search.floor[:], search.left[:], search.placed[:]]
        mark = len(search.trail)
        free = [i for i in everything if not search.placed[i]]
        if not free:
            break
        i = chance.choice(free)
        good, _ = search.place(i, search.low[i], free)
        changes += len(search.trail) - mark
        after = [search.low[:], search.floor[:], search.left[:], search.placed[:]]
        search.undo(mark)
        assert [search.low, search.floor, search.left, search.placed] == before
        if good:  # the same step again gives the same state
            assert search.place(i, search.low[i], free)[0]
            assert [search.low, search.floor, search.left, search.placed] == after
        else:
            search.undo(mark)
    assert changes > 12


@pytest.mark.parametrize("seed", range(20))
def test_a_buffer_taken_back_leaves_the_prover_as_it_was(seed: int) -> None:
    chance = random.Random(seed)
    inst = numbers(random_buffers(chance))
    capacity, members = bound(inst) + seed % 3, members_of(inst)
    domains = offset_domains(inst, capacity, members, 4)
    if domains is None:
        assert list(Prover(inst, capacity, Budget(1e12)).runs()) == [False]
        return
    search = ExactCover(
        inst, capacity, Budget(1e12), members=members, domains=domains, weight=[1.0] * inst.count
    )
    for _ in range(12):
        before = [search.domain[:], search.offset[:], search.taken[:]]
        reaches = [search.reach(k) for k in range(inst.count)]
        mark = len(search.trail)
        free = [i for i, at in enumerate(search.offset) if at < 0]
        if not free:
            break
        i = chance.choice(free)
        lowest = search.domain[i] & -search.domain[i]
        holds = search.put(i, lowest.bit_length() - 1)
        search.undo(mark)
        assert [search.domain, search.offset, search.taken] == before
        assert [search.reach(k) for k in range(inst.count)] == reaches
        if holds:
            assert search.put(i, lowest.bit_length() - 1)


def test_buffers_split_where_no_two_live_together() -> None:
    inst = instance([0, 4, 1, 2, 7], [2, 6, 3, 4, 8], [1] * 5)
    assert components(inst, [0, 1, 2, 3, 4]) == [[0, 2, 3], [1], [4]]
    assert components(inst, [3, 0]) == [[0], [3]]
    assert components(inst, [2]) == [[2]]


def test_every_function_of_the_planner_fits_on_two_screens() -> None:
    lengths = {
        f"{path.name}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in PLANNER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert not {name for name, lines in lengths.items() if lines > 90}
