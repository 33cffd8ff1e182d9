# SPDX-License-Identifier: Apache-2.0
"""How near the search's estimates of time come: candidates of the classic models on emulated cores.

    python benchmarks/search_estimates.py [--core avr --core m3] [--model usps] [--json]

For each model, family and core: up to `--candidates` different assignments that Haunter looks at, and the one
with everything high, are built as a build would (-Os) and run on four samples; cycles are simavr's,
instructions QEMU's. Beside each stands the estimate (`minun_pio.search.speed`). A pair whose counts differ by
over 5 % is in order, taken as equal (estimates within 5 %), or in the wrong order. Models and data come from
`shared/data` beside the checkout, or `--data`; they are not part of the project.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from classic_models import DATA, MODELS, Model, network

from minun_pio.board.bare import build_and_run
from minun_pio.config.dataset import Samples
from minun_pio.config.model import Formats, Memory
from minun_pio.costs import Costs
from minun_pio.emit.lower import lower
from minun_pio.emit.program import Program
from minun_pio.emit.write import write
from minun_pio.ir import Graph
from minun_pio.schedule.arena import place
from minun_pio.schedule.layout import lay_out
from minun_pio.search import STRATEGIES, Limits
from minun_pio.search.measure import SimulatedMeasure
from minun_pio.search.rungs import soft_limits, space_of
from minun_pio.search.space import Assignment
from minun_pio.search.trail import EQUALLY_QUICK
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.reference import profile
from minun_pio.simulate.run import encode_inputs

INCLUDE = Path(__file__).resolve().parents[1] / "include"
SEARCHED, RUN = 60, 4  # samples

MAIN = """// SPDX-License-Identifier: Apache-2.0
#include "bare.h"
#include "model.h"
using namespace model;
static InputCode in[kInputBytes / sizeof(InputCode)];
static OutputCode out[kOutputBytes / sizeof(OutputCode)];
alignas(8) static uint8_t arena[kArenaBytes + 8];
int main() {
  for (int k = 0; k < SAMPLE_COUNT; ++k) {
    bare::read(in, kInputBytes);
    bare::begin(1);
    infer(in, out, arena, kArenaBytes);
    bare::end(1);
    bare::write(out, kOutputBytes);
  }
  return 0;
}
"""


@dataclass(frozen=True)
class Row:
    model: str
    family: str
    core: str
    high: int
    count: int
    estimate: int


def counted(program: Program, core: str) -> int:
    """Cycles or instructions of one inference, the mean over the program's samples. Bits are compared."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in write(program).items():
            (folder / file).write_text(text, encoding="utf-8")
        (folder / "main.cpp").write_text(MAIN, encoding="utf-8")
        run = build_and_run(
            core,
            [folder / "main.cpp", folder / "model.cpp"],
            include_dirs=[INCLUDE, folder],
            defines={"SAMPLE_COUNT": program.vectors.samples},
            cflags=["-Os"],
            stdin_bytes=base64.b64decode(program.vectors.inputs),
            mcu="atmega1284p" if core == "avr" else None,
        )
    if run.output != base64.b64decode(program.vectors.outputs):
        sys.exit("the emulated core's answers differ from the host's")
    return round(sum(count for _, count, _ in run.all_marks) / program.vectors.samples)


def rows(model: Model, data: Path, family: str, core: str, most: int) -> list[Row]:
    graph = network(model, data)
    x, y = model.samples(data)
    known = Samples(x[:SEARCHED], y[:SEARCHED])
    space = space_of(graph, Formats(family), profile(graph, known.x))
    costs = Costs(graph, core, Memory(timeout_s=0.25))
    low, high = (costs.packed(rung.formats).ram for rung in (space.low[0], space.high[0]))
    limits = Limits(ram=int(low + 0.7 * (high - low)), soft=soft_limits(Formats(family), None))
    found = STRATEGIES["haunter"](space, SimulatedMeasure(graph, known, costs), limits)
    rungs = {rung.name: rung for rung in (*space.low, *space.high)}
    chosen: dict[tuple[str, ...], tuple[int, Assignment]] = {}
    for candidate in found.candidates:
        promoted = frozenset(candidate.promoted)
        assignment = space.assign(rungs[candidate.low], rungs[candidate.high], promoted)
        chosen.setdefault(tuple(fmt.name for fmt in assignment.values()), (len(promoted), assignment))
    pairs = [*list(chosen.values())[:most], (len(space.groups), space.high[0].formats)]
    return [
        Row(
            model.name,
            family,
            core,
            count,
            counted(program_of(graph, assignment, known, core), core),
            estimate,
        )
        for count, assignment in pairs
        for estimate in [round(costs.packed(assignment).count)]
    ]


def program_of(graph: Graph, assignment: Assignment, known: Samples, core: str) -> Program:
    legal = legalise(graph, assignment)
    codes = encode_inputs(graph, legal.formats, known.first(RUN).x)
    return lower(place(lay_out(legal, core)), "model", input_codes=codes)


def summary(found: list[Row]) -> dict[str, float]:
    """Percentiles of estimate by count, and how pairs of one model, family and core are ordered."""
    ratios = [row.estimate / row.count for row in found]
    order = {"in_order": 0, "taken_as_equal": 0, "wrong": 0}
    for one, other in combinations(found, 2):
        if (one.model, one.family, one.core) != (other.model, other.family, other.core):
            continue
        slow, quick = (one, other) if one.count > other.count else (other, one)
        if slow.count <= EQUALLY_QUICK * quick.count:
            continue
        if max(slow.estimate, quick.estimate) <= EQUALLY_QUICK * min(slow.estimate, quick.estimate):
            order["taken_as_equal"] += 1
        else:
            order["in_order" if slow.estimate > quick.estimate else "wrong"] += 1
    names = ("least", "tenth", "median", "nine_tenths", "greatest")
    values = np.percentile(ratios, (0, 10, 50, 90, 100)).round(2).tolist()
    return {**dict(zip(names, values, strict=True)), **order}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--core", action="append", choices=("avr", "m3", "m7"))
    parser.add_argument("--model", default="usps", help="only models whose name contains this")
    parser.add_argument("--candidates", type=int, default=5)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        sys.exit(f"no models and data at {arguments.data}; name their folder with --data")
    found: list[Row] = []
    for model in MODELS:
        for core in (arguments.core or ["avr", "m3"]) if arguments.model in model.name else []:
            for family in ("posit", "fixed"):
                made = rows(model, arguments.data, family, core, arguments.candidates)
                found += made
                for row in () if arguments.json else made:
                    off = 100 * (row.estimate / row.count - 1)
                    print(
                        f"{row.model:17} {row.core:4} {row.family:6} {row.high:2} high: "
                        f"{row.count:10,} counted, {row.estimate:10,} estimated ({off:+.0f} %)",
                        flush=True,
                    )
    told = summary(found)
    print(
        json.dumps({"rows": [asdict(row) for row in found], "summary": told}, indent=1)
        if arguments.json
        else told
    )


if __name__ == "__main__":
    main()
