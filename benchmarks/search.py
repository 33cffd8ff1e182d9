# SPDX-License-Identifier: Apache-2.0
"""Haunter beside its rivals on the classic models, all at the RAM that Shiftry comes out with.

    python benchmarks/search.py [--family posit] [--model protonn] [--samples 200] [--json]
    python benchmarks/search.py --core avr --share 0.5 --held 1000 --strategies haunter haunter-paper

The first `--samples` samples are searched on, the next `--held` (as many by default, fewer where there are
not so many) are reported on. Shiftry runs first (it has no RAM limit, only its tolerance); its packed arena
is the limit of the others. With `--share` the limit is this far from the arena with everything low to the
arena with everything high, and only `--strategies` run. Models and data come from `shared/data` beside the
checkout, or `--data`; they are not part of the project. Arena bytes are those of `--core`, the Cortex-M3 by
default; `estimated_count` is `minun_pio.search.speed`'s, of one inference.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from classic_models import DATA, MODELS, Model, network

from minun_pio.config.dataset import Samples
from minun_pio.config.model import Formats, Memory
from minun_pio.costs import Costs
from minun_pio.ir import Graph
from minun_pio.search import STRATEGIES
from minun_pio.search.measure import SimulatedMeasure
from minun_pio.search.rungs import soft_limits, space_of
from minun_pio.search.space import Limits, Outcome, Space
from minun_pio.simulate.reference import profile

RIVALS = (
    "haunter",
    "haunter-paper",
    "accuracy-based",
    "size-based",
    "uniform-low",
    "uniform-high",
    "float32",
)


@dataclass(frozen=True)
class Row:
    """One strategy on one model. `drop`: points below float32 on the samples that were not searched on."""

    model: str
    family: str
    strategy: str
    formats: str
    high: int
    groups: int
    arena_bytes: int
    limit_bytes: int
    flash_bytes: int
    estimated_count: int
    fits: bool
    float32: float
    accuracy: float
    drop: float
    simulations: int
    seconds: float


@dataclass(frozen=True)
class Setting:
    """`samples` are searched on, `held` others reported on; `share`: the module's docstring."""

    family: str
    samples: int
    held: int
    core: str
    share: float | None
    strategies: tuple[str, ...]


def parts(model: Model, data: Path, count: int, held: int) -> tuple[Samples, Samples]:
    x, y = model.samples(data)
    return Samples(x[:count], y[:count]), Samples(x[count : count + held], y[count : count + held])


def search(
    graph: Graph, space: Space, known: Samples, strategy: str, limits: Limits, core: str
) -> tuple[Outcome, float]:
    began = time.perf_counter()
    costs = Costs(graph, core, Memory(timeout_s=2.0))
    outcome = STRATEGIES[strategy](space, SimulatedMeasure(graph, known, costs), limits)
    return outcome, time.perf_counter() - began


def rows(model: Model, data: Path, setting: Setting) -> list[Row]:
    """Shiftry, then the others at its RAM; or all of them at the limit that `share` says."""
    graph = network(model, data)
    known, fresh = parts(model, data, setting.samples, setting.held)
    formats, core = Formats(setting.family), setting.core
    space = space_of(graph, formats, profile(graph, known.x))
    costs = Costs(graph, core, Memory())
    judge = SimulatedMeasure(graph, fresh, costs)
    soft = soft_limits(formats, None)
    outcomes: dict[str, tuple[Outcome, float]] = {}
    if setting.share is None:
        outcomes["shiftry"] = search(graph, space, known, "shiftry", Limits(soft=soft), core)
        limit = outcomes["shiftry"][0].ram_bytes
    else:
        low, high = (costs.packed(rung.formats).ram for rung in (space.low[0], space.high[0]))
        limit = int(low + setting.share * (high - low))
    for name in setting.strategies:
        outcomes[name] = search(graph, space, known, name, Limits(ram=limit, soft=soft), core)
    return [
        _row(model, setting.family, space, judge, name, limit, *found) for name, found in outcomes.items()
    ]


def _row(
    model: Model,
    family: str,
    space: Space,
    judge: SimulatedMeasure,
    name: str,
    limit: int,
    outcome: Outcome,
    seconds: float,
) -> Row:
    accuracy = judge.accuracy(outcome.assignment)
    return Row(
        model=model.name,
        family=family,
        strategy=name,
        formats=outcome.low if not outcome.promoted else f"{outcome.low} / {outcome.high}",
        high=len(outcome.promoted),
        groups=len(space.groups),
        arena_bytes=outcome.ram_bytes,
        limit_bytes=limit,
        flash_bytes=outcome.flash_bytes,
        estimated_count=outcome.estimated_count,
        fits=outcome.ram_bytes <= limit,
        float32=round(100 * judge.float_accuracy, 2),
        accuracy=round(100 * accuracy, 2),
        drop=round(100 * (judge.float_accuracy - accuracy), 2),
        simulations=outcome.evaluations,
        seconds=round(seconds, 2),
    )


def averages(found: list[Row]) -> Mapping[str, float]:
    """The mean drop in points of each strategy over the models."""
    names = dict.fromkeys(row.strategy for row in found)
    return {
        name: round(sum(row.drop for row in found if row.strategy == name) / len(found) * len(names), 3)
        for name in names
    }


def line(row: Row) -> str:
    return (
        f"{row.model:17} {row.strategy:15} {row.formats:25} {row.high:2} of {row.groups:2} high, "
        f"arena {row.arena_bytes:5} B of {row.limit_bytes:5}, about {row.estimated_count:10,}, "
        f"{row.accuracy:6.2f} % (drop {row.drop:5.2f}), "
        f"{row.simulations:3} simulations, {row.seconds:6.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", choices=("posit", "fixed"), default="posit")
    parser.add_argument("--model", default="", help="only models whose name contains this")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--held", type=int, help="samples to report on; default: as many as --samples")
    parser.add_argument("--strategies", nargs="+", choices=sorted(STRATEGIES), default=RIVALS)
    parser.add_argument("--core", choices=("avr", "m3", "m7"), default="m3")
    parser.add_argument("--share", type=float, help="the limit, from all low (0) to all high (1)")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        sys.exit(f"no models and data at {arguments.data}; name their folder with --data")
    setting = Setting(
        family=arguments.family,
        samples=arguments.samples,
        held=arguments.held or arguments.samples,
        core=arguments.core,
        share=arguments.share,
        strategies=tuple(arguments.strategies),
    )
    found: list[Row] = []
    for model in MODELS:
        if arguments.model not in model.name:
            continue
        made = rows(model, arguments.data, setting)
        found += made
        if not arguments.json:
            for row in made:
                print(line(row), flush=True)
    mean = averages(found)
    if arguments.json:
        print(json.dumps({"rows": [asdict(row) for row in found], "mean_drop": mean}, indent=1))
    else:
        print("mean drop in points: " + ", ".join(f"{name} {value}" for name, value in mean.items()))


if __name__ == "__main__":
    main()
