# SPDX-License-Identifier: Apache-2.0
"""The planner's benchmark: every bar, measured in one run.

    python benchmarks/planner.py [--json] [--data DIR] [--quick] [--only NAME …]

`DIR` holds the instances (default: `../shared/data/planner` beside the repository). Times are CPU seconds of
this process (`time.process_time`), pure CPython, no numpy. `--quick` takes a tenth of the random cases.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import planner_networks as nets  # noqa: E402
from planner_overlap import simulate  # noqa: E402

from minun_pio.errors import MinunError  # noqa: E402
from minun_pio.planner import Buffer, Plan, Problem, csv_format, plan, violations  # noqa: E402
from minun_pio.planner.arena import arrange  # noqa: E402
from minun_pio.planner.layout import Sharing, lay_out  # noqa: E402


@dataclass(frozen=True)
class Row:
    """One bar: what was measured, what is asked, and whether it holds."""

    name: str
    value: str
    bar: str
    holds: bool


def timed(
    problem: Problem, planner: str = "exact", timeout: float = 10.0, target: int = 0
) -> tuple[Plan, float]:
    """A plan and the CPU seconds it took."""
    begin = time.process_time()
    answer = plan(problem, planner, timeout=timeout, target=target, clock=time.process_time)
    return answer, time.process_time() - begin


def network_instances(data: Path) -> list[tuple[str, Problem]]:
    return [(p.stem, csv_format.read(p)) for p in sorted(data.glob("*.csv")) if not p.name.startswith("mm_")]


def random_instances(count: int) -> list[tuple[str, Problem]]:
    """Random irregular CNNs, each tensor 8 or 16 bits wide."""
    found = []
    for seed in range(count):
        graph = nets.random_network(seed)
        layout = lay_out(Sharing(graph, ()), range(len(graph.steps)), in_place=False, overlap=False)
        chance = random.Random(seed)
        buffers = tuple(
            Buffer(b.id, b.start, b.end, b.size * chance.choice((1, 2))) for b in layout.problem.buffers
        )
        found.append((f"random{seed}", Problem(buffers)))
    return found


def networks_bar(data: Path, quick: bool) -> list[Row]:
    instances = network_instances(data) + random_instances(60 if quick else 600)
    times, optimal, wrong = [], 0, 0
    for _, problem in instances:
        answer, seconds = timed(problem)
        times.append(seconds)
        optimal += answer.status == "optimal" and answer.height == answer.lower_bound
        wrong += bool(violations(problem, answer))
    times.sort()
    n = len(times)
    median, p99, worst = times[n // 2], times[int(0.99 * n)], times[-1]
    return [
        Row(
            f"network instances and random CNNs at the lower bound, validated (of {n})",
            f"{optimal}, {wrong} wrong",
            f"{n}, 0 wrong",
            optimal == n and not wrong,
        ),
        Row("  median", f"{median * 1e3:.3f} ms", "0.3 ms", median <= 0.3e-3),
        Row("  p99", f"{p99 * 1e3:.1f} ms", "200 ms", p99 <= 0.2),
        Row("  worst", f"{worst:.2f} s", "1 s", worst <= 1),
    ]


def rnn_bar(data: Path, quick: bool) -> list[Row]:
    worst = 0.0
    for path in sorted(data.glob("*fastgrnn_T99*.csv")):
        problem = csv_format.read(path)
        if len(problem.buffers) >= 1192:
            worst = max(worst, timed(problem)[1])
    return [
        Row(
            "FastGRNN unrolled, 1,192 buffers, worst of its instances",
            f"{worst:.2f} s",
            "0.4 s",
            worst <= 0.4,
        )
    ]


def minimalloc_bar(data: Path, quick: bool) -> list[Row]:
    rows = []

    def instance(letter: str) -> Problem:
        return csv_format.read(next(data.glob(f"mm_{letter}.*.csv")))

    for letter in "BCF":
        answer, seconds = timed(instance(letter))
        good = answer.height == answer.lower_bound
        rows.append(
            Row(f"minimalloc {letter} at the lower bound", f"{seconds:.2f} s", "1 s", good and seconds <= 1)
        )
    for letter in "ADE":
        answer, seconds = timed(instance(letter), timeout=60, target=1 << 20)
        good = answer.height <= 1 << 20
        value = f"{answer.height} B, {seconds:.1f} s"
        rows.append(Row(f"minimalloc {letter} within 1 MiB", value, "30 s", good and seconds <= 30))
        if letter == "E":  # its lower bound is 1 MiB
            proven = answer.status == "optimal"
            rows.append(Row("minimalloc E proven at the bound", value, "60 s", proven and seconds <= 60))
    return rows


def full_section_instance(seed: int, count: int = 40, height: int = 100) -> Problem:
    """Every section is full: buffers that end make exactly the room for those that begin."""
    chance = random.Random(seed)

    def parts(total: int, k: int) -> list[int]:
        cuts = sorted(chance.sample(range(1, total), min(k, total) - 1))
        return [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]

    done: list[tuple[int, int, int]] = []
    live = [(0, s) for s in parts(height, chance.randint(4, 8))]
    step = 0
    while len(done) + len(live) < count:
        step += 1
        ending = chance.sample(live, chance.randint(1, min(3, len(live))))
        for b in ending:
            live.remove(b)
        done += [(start, step, size) for start, size in ending]
        room = count - len(done) - len(live)
        live += [(step, s) for s in parts(sum(s for _, s in ending), max(1, min(chance.randint(1, 4), room)))]
    done += [(start, step + 1, size) for start, size in live]
    return Problem(tuple(Buffer(str(i), *b) for i, b in enumerate(done)))


def full_section_bar(data: Path, quick: bool) -> list[Row]:
    """The first 15 instances whose optimum is above the bound. An optimum at or above the proven height
    counts; an instance whose bound stays open after 8 s counts as one that was not proven."""
    refuted, proven, seen, seed = [], 0, 0, 0
    while seen < (5 if quick else 15):
        problem = full_section_instance(seed)
        seed += 1
        low = max(sum(b.size for b in problem.buffers if b.start <= t < b.end) for t in range(40))
        begin = time.process_time()
        answer = plan(problem, timeout=8, clock=time.process_time)
        if answer.height == low:
            continue
        seen += 1
        seconds = time.process_time() - begin
        proven += answer.status == "optimal" and seconds <= 5
        refuted.append(time_to_refute(problem))
    refuted.sort()
    median = refuted[len(refuted) // 2]
    return [
        Row(
            "full sections, N = 40: infeasible at the bound, median",
            f"{median:.3f} s",
            "0.1 s",
            median <= 0.1,
        ),
        Row(
            f"full sections, N = 40, optimum above the bound: proven in 5 s (of {seen})",
            str(proven),
            "10 of 15",
            proven * 15 >= 10 * seen,
        ),
    ]


def time_to_refute(problem: Problem) -> float:
    """CPU seconds until the bound is proven infeasible, at most 20."""
    from minun_pio.planner.exact import Duel
    from minun_pio.planner.instance import Budget, bound
    from minun_pio.planner.reduce import reduce

    inst = reduce(problem).numbers(list(problem.buffers))
    begin = time.process_time()
    outcome = Duel(inst, bound(inst), Budget(begin + 20, clock=time.process_time)).go_on(1e9)
    return time.process_time() - begin if outcome is False else 20.0


def agreement_bar(data: Path, quick: bool) -> list[Row]:
    finished = differs = beaten = 0
    chance = random.Random(1)
    problems = []
    for _ in range(40 if quick else 300):
        n, span = chance.randint(3, 12), chance.randint(3, 9)
        buffers = []
        for i in range(n):
            start = chance.randrange(span)
            buffers.append(Buffer(str(i), start, start + chance.randint(1, span), chance.randint(1, 7)))
        problems.append(Problem(tuple(buffers)))
    problems += [p for _, p in network_instances(data)[:: 20 if quick else 4]]
    for problem in problems:
        best = plan(problem, timeout=20)
        for name in ("first-fit", "by-size", "by-conflicts", "hill-climb", "ping-pong"):
            beaten += best.status == "optimal" and plan(problem, name).height < best.height
        try:
            other = plan(problem, "dancing-links", timeout=2)
        except MinunError:
            continue
        if other.status == "optimal":
            finished += 1
            differs += other.height != best.height
    value = f"{finished} finished, {differs} differ; exact beaten {beaten} times"
    return [
        Row(
            f"dancing links equals exact, of {len(problems)}",
            value,
            "0 differ, 0 times",
            not differs + beaten,
        )
    ]


def sharing_bar(data: Path, quick: bool) -> list[Row]:
    logs: dict[str, float] = {}
    peaks: dict[str, int] = {}
    count = 0
    for name, graph in nets.networks():
        if quick and len(graph.steps) > 300:
            continue
        arena = arrange(graph)
        stages = {s.name: s.peak for s in arena.stages}
        peaks[name] = arena.height
        count += 1
        for stage, peak in stages.items():
            logs[stage] = logs.get(stage, 0.0) + math.log(peak / stages["optimal"])
    mean = {stage: math.exp(total / count) for stage, total in logs.items()}
    rows = [
        Row(
            f"{count} networks, int8, against optimal placement: {stage}", f"{value:.4f}", bar, value <= limit
        )
        for stage, bar, limit in (
            ("first-fit", "", 9.0),
            ("by size", "", 9.0),
            ("+ in-place", "", 9.0),
            ("+ concat", "", 9.0),
            ("+ overlap", "0.718", 0.718),
            ("+ reorder", "0.70", 0.70),
        )
        for value in [mean[stage]]
    ]
    for name, limit in (
        ("squeezenet1.0_224", 1_144_629),
        ("mobilenetv1_0.25_96", 36_880),
        ("resnet8", 33_312),
        ("ds_cnn", 8_448),
    ):
        rows.append(Row(f"{name}, int8, all on", f"{peaks[name]:,} B", f"{limit:,} B", peaks[name] <= limit))
    return rows


def kernels_bar(data: Path, quick: bool) -> list[Row]:
    """The same networks with what a build uses: the kernels' scratch, no interleaved writes (no bar)."""
    logs: dict[str, float] = {}
    count = reversing = 0
    for _, graph in nets.networks():
        if quick and len(graph.steps) > 300:
            continue
        arena = arrange(nets.offered_by_kernels(graph))
        stages = {s.name: s.peak for s in arena.stages}
        count += 1
        reversing += bool(arena.reverse)
        for stage, peak in stages.items():
            logs[stage] = logs.get(stage, 0.0) + math.log(peak / stages["optimal"])
    rows = [
        Row(f"{count} networks, int8, as built, scratch included: {stage}", f"{value:.4f}", "", True)
        for stage in ("+ in-place", "+ concat", "+ overlap", "+ reorder")
        for value in [math.exp(logs[stage] / count)]
    ]
    return [*rows, Row(f"  of {count}, those with a step in reverse", str(reversing), "", True)]


def overlap_bar(data: Path, quick: bool) -> list[Row]:
    count = 2_000 if quick else 20_000
    overlapping, unsafe, loose = simulate(count)
    value = f"{unsafe} of {overlapping} ({loose} could be a byte closer)"
    return [Row(f"unsafe overlaps in {count:,} random operator shapes", value, "0", not unsafe)]


def rivals_table(data: Path) -> list[dict[str, object]]:
    """The other planners on the network instances: height over the optimum, and how often they reach it."""
    table = []
    instances = [(name, p) for name, p in network_instances(data)]
    optimum = {name: plan(p).height for name, p in instances}
    for planner in ("exact", "first-fit", "by-size", "by-conflicts", "ping-pong", "dancing-links"):
        ratios, refused, unfinished, spent = [], 0, 0, 0.0
        for name, problem in instances:
            try:
                answer, seconds = timed(problem, planner, timeout=1.0)
            except MinunError:
                refused += 1
                continue
            spent += seconds
            if answer.notes:
                unfinished += 1
                continue
            ratios.append(answer.height / optimum[name])
        table.append(
            {
                "planner": planner,
                "answered": len(ratios),
                "refused": refused,
                "unfinished": unfinished,
                "optimal": sum(r == 1 for r in ratios),
                "mean": round(sum(ratios) / max(1, len(ratios)), 4),
                "worst": round(max(ratios, default=0), 4),
                "seconds": round(spent, 2),
            }
        )
    return table


BARS: dict[str, Callable[[Path, bool], list[Row]]] = {
    "networks": networks_bar,
    "rnn": rnn_bar,
    "minimalloc": minimalloc_bar,
    "full-sections": full_section_bar,
    "agreement": agreement_bar,
    "sharing": sharing_bar,
    "kernels": kernels_bar,
    "overlap": overlap_bar,
}


def main() -> int:
    args = argparse.ArgumentParser(description="Measure the memory planner against its bars.")
    args.add_argument("--json", action="store_true")
    args.add_argument("--quick", action="store_true")
    args.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "planner")
    args.add_argument("--only", nargs="*", choices=[*BARS, "rivals"])
    given = args.parse_args()
    wanted = given.only or [*BARS, "rivals"]
    needs_data = {"networks", "rnn", "minimalloc", "agreement", "rivals"}
    if not given.data.is_dir() and needs_data.intersection(wanted):
        print(f"no instances in {given.data}; give --data DIR", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for name in wanted:
        if name in BARS:
            rows += BARS[name](given.data, given.quick)
    rivals = rivals_table(given.data) if "rivals" in wanted else []
    if given.json:
        print(json.dumps({"bars": [row.__dict__ for row in rows], "rivals": rivals}, indent=2))
    else:
        for row in rows:
            print(
                f"{'ok  ' if row.holds else 'MISS'} {row.name}: {row.value}"
                + (f" (bar {row.bar})" if row.bar else "")
            )
        for line in rivals:
            print(line)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
