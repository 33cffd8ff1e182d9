# SPDX-License-Identifier: Apache-2.0
"""Overlap distances proven by following every byte of random operators, each read against each write.

Shares nothing with `raster.py` but the operator's description: the kernels' loops are written out here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from minun_pio.planner.raster import (
    Distances,
    Window,
    concat_first_distance,
    dense_distances,
    elementwise_distances,
    resize_distances,
    row_distances,
    window_distances,
)

Turn = tuple[list[int], list[int]]  # input bytes read, then output bytes written


@dataclass(frozen=True)
class Case:
    """An operator with its turns in forward order, its sizes in bytes and the distances claimed for it."""

    what: str
    turns: list[Turn]
    input_size: int
    output_size: int
    distances: Distances
    reversible: bool = True


def window_turns(w: Window) -> Iterator[Turn]:
    """The loops of convolution and pooling."""
    ins, outs = w.channels // w.groups, w.out_channels // w.groups
    for r in range(w.out_height):
        for c in range(w.out_width):
            for g in range(w.groups):
                reads: list[int] = []
                for i in range(w.kernel[0]):
                    y = r * w.stride[0] - w.padding[0] + i * w.dilation[0]
                    for j in range(w.kernel[1]):
                        x = c * w.stride[1] - w.padding[1] + j * w.dilation[1]
                        if 0 <= y < w.height and 0 <= x < w.width:
                            at = ((y * w.width + x) * w.channels + g * ins) * w.in_bytes
                            reads += range(at, at + ins * w.in_bytes)
                at = ((r * w.out_width + c) * w.out_channels + g * outs) * w.out_bytes
                if w.gathered:
                    yield reads, list(range(at, at + outs * w.out_bytes))
                else:
                    for n in range(outs):
                        yield reads, list(range(at + n * w.out_bytes, at + (n + 1) * w.out_bytes))


def row_turns(rows: int, in_row: int, out_row: int) -> Iterator[Turn]:
    """A row is read whole, then its output is written."""
    for r in range(rows):
        yield list(range(r * in_row, (r + 1) * in_row)), list(range(r * out_row, (r + 1) * out_row))


def dense_turns(rows: int, inputs: int, outputs: int, in_bytes: int, out_bytes: int) -> Iterator[Turn]:
    """A row is read anew for every output."""
    for r in range(rows):
        reads = list(range(r * inputs * in_bytes, (r + 1) * inputs * in_bytes))
        for n in range(outputs):
            at = (r * outputs + n) * out_bytes
            yield reads, list(range(at, at + out_bytes))


def resize_turns(
    width: int, channels: int, rows: list[tuple[int, int]], columns: list[tuple[int, int]], i: int, o: int
) -> Iterator[Turn]:
    """One channel of one output position after the other."""
    for y, (r0, r1) in enumerate(rows):
        for x, (c0, c1) in enumerate(columns):
            for c in range(channels):
                reads = []
                for r in sorted({r0, r1}):
                    for k in sorted({c0, c1}):
                        at = ((r * width + k) * channels + c) * i
                        reads += range(at, at + i)
                at = ((y * len(columns) + x) * channels + c) * o
                yield reads, list(range(at, at + o))


def concat_turns(rows: int, run: int, stride: int) -> Iterator[Turn]:
    """The first input's runs, one after the other."""
    for r in range(rows):
        yield list(range(r * run, (r + 1) * run)), list(range(r * stride, r * stride + run))


def survives(turns: list[Turn], input_offset: int, output_offset: int) -> bool:
    """Whether every byte of the input is still there when it is read."""
    written: set[int] = set()
    for reads, writes in turns:
        if any(a + input_offset in written for a in reads):
            return False
        written.update(a + output_offset for a in writes)
    return True


def random_window(chance: random.Random) -> Window:
    """Convolution, grouped, depthwise or pooling, with any stride, padding and dilation."""
    kind = chance.choice(("conv", "grouped", "depthwise", "pool"))
    while True:
        h, w = chance.randint(1, 8), chance.randint(1, 8)
        kernel = (chance.randint(1, 4), chance.randint(1, 4))
        stride = (chance.randint(1, 3), chance.randint(1, 3))
        dilation = (chance.choice((1, 1, 2)), chance.choice((1, 1, 2)))
        before, after = [(chance.randint(0, 2), chance.randint(0, 2)) for _ in range(2)]
        out = [
            (n + b + a - (k - 1) * d - 1) // s + 1
            for n, b, a, k, d, s in zip((h, w), before, after, kernel, dilation, stride, strict=True)
        ]
        if min(out) > 0:
            break
    groups, channels, out_channels = 1, chance.randint(1, 4), chance.randint(1, 5)
    if kind == "grouped":
        groups, channels, out_channels = 2, 2 * chance.randint(1, 2), 2 * chance.randint(1, 2)
    elif kind != "conv":
        groups, out_channels = channels, channels * (chance.randint(1, 2) if kind == "depthwise" else 1)
    return Window(
        height=h,
        width=w,
        channels=channels,
        out_height=out[0],
        out_width=out[1],
        out_channels=out_channels,
        kernel=kernel,
        stride=stride,
        padding=before,
        dilation=dilation,
        groups=groups,
        in_bytes=chance.choice((1, 2, 4)),
        out_bytes=chance.choice((1, 2, 4)),
        gathered=chance.random() < 0.7,
    )


def random_case(chance: random.Random) -> Case:
    """One operator of any kind, four in five with a window."""
    i, o = chance.choice((1, 2, 4)), chance.choice((1, 2, 4))
    dice = chance.random()
    if dice < 0.8:
        w = random_window(chance)
        return Case(repr(w), list(window_turns(w)), w.input_size, w.output_size, window_distances(w))
    rows, a, b = chance.randint(1, 6), chance.randint(1, 6), chance.randint(1, 6)
    if dice < 0.85:
        d = dense_distances(rows, a, b, i, o, gathered=False)
        return Case(
            f"dense {rows}x{a}x{b}", list(dense_turns(rows, a, b, i, o)), rows * a * i, rows * b * o, d
        )
    if dice < 0.88:
        d = row_distances(rows, a, b)
        return Case(f"rows {rows} {a} {b}", list(row_turns(rows, a, b)), rows * a, rows * b, d)
    if dice < 0.92:
        d = elementwise_distances(rows * a, i, o)
        return Case(
            f"each {rows * a} {i} {o}", list(row_turns(rows * a, i, o)), rows * a * i, rows * a * o, d
        )
    if dice < 0.95:
        forward = concat_first_distance(rows, a, a + b)
        turns = list(concat_turns(rows, a, a + b))
        return Case(f"concat {rows} {a} {b}", turns, rows * a, rows * (a + b), Distances(forward, 0), False)
    h, w, up = chance.randint(1, 5), chance.randint(1, 5), chance.randint(1, 3)
    soft = chance.random() < 0.5
    ys = [(y // up, min(h - 1, y // up + soft)) for y in range(h * up)]
    xs = [(x // up, min(w - 1, x // up + soft)) for x in range(w * up)]
    c = chance.randint(1, 3)
    d = resize_distances(h, w, c, ys, xs, i, o)
    turns = list(resize_turns(w, c, ys, xs, i, o))
    return Case(f"resize {h}x{w}x{c} by {up}", turns, h * w * c * i, len(ys) * len(xs) * c * o, d)


def check(case: Case) -> tuple[int, int, int]:
    """(directions with an overlap, unsafe ones, ones that could be a byte closer)."""
    overlapping = unsafe = loose = 0
    forward, reverse = case.distances
    if forward < case.output_size:
        overlapping += 1
        unsafe += not survives(case.turns, forward, 0)
        loose += forward > 0 and survives(case.turns, forward - 1, 0)
    if case.reversible and reverse < case.input_size:
        overlapping += 1
        backward = case.turns[::-1]
        unsafe += not survives(backward, 0, reverse)
        loose += reverse > 0 and survives(backward, 0, reverse - 1)
    return overlapping, unsafe, loose


def simulate(count: int, seed: int = 0) -> tuple[int, int, int]:
    """The sums of `check` over `count` random operators."""
    chance = random.Random(seed)
    total = [0, 0, 0]
    for _ in range(count):
        for k, n in enumerate(check(random_case(chance))):
            total[k] += n
    return total[0], total[1], total[2]
