# SPDX-License-Identifier: Apache-2.0
"""Cost of the classic models' kernels on the emulated cores: distances, trees, elementwise operators, exp.

    python benchmarks/classic_kernels.py [--cores avr,m3,m7] [--json]

Instructions (Cortex-M, exact, not cycles) or cycles (AVR) of a term, row element or value, GCC -O2, rounding
and decoding included; `exact` is the same by the exact sums. Outputs are compared with the host's simulation.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test" / "python"))

import op_harness  # noqa: E402
from op_harness import Case, prepare  # noqa: E402

from minun_pio.board.bare import build_and_run  # noqa: E402
from minun_pio.numerics.posit import Posit  # noqa: E402

FORMATS = (Posit(8, 0), Posit(8, 2), Posit(16, 1), Posit(16, 2))
MODULES = {"squared_distance": "squared_distance", "bonsai_tree": "bonsai_tree"}


def cases(fmt: Posit) -> list[tuple[str, int, Case]]:
    """Name, units of work, case."""
    tree = ((1, 20), (30, 20), (30, 20), (7, 20))
    attrs = {"depth": 3, "classes": 2, "gate": "clip"}
    more: dict[str, Any] = {"samples": 3, "tame": True}
    made = [
        ("squared_distance", 300, Case("squared_distance", ((1, 10), (30, 10)), (fmt, fmt), (fmt,), {},
                                       frozenset({1}), **more)),
        ("bonsai_tree", 19 * 20, Case("bonsai_tree", tree, (fmt,) * 4, (fmt,), attrs, frozenset({1, 2, 3}),
                                      **more)),
    ]  # fmt: skip
    for op in ("add", "sub", "mul"):
        made.append((op, 64, Case(op, ((64,), (64,)), (fmt, fmt), (fmt,), **more)))
    made.append(("exp", 64, Case("exp", ((64,),), (fmt,), (fmt,), **more)))
    return made


def measure(case: Case, core: str) -> tuple[float, int]:
    """Mean cost of a call, and differences from the host."""
    prepared = prepare(case, core)
    places = op_harness.placements(prepared)[:1]
    source = op_harness._program([prepared], [places])
    source = source.replace("\n    minun::", "\n    bare::begin(1);\n    minun::")
    source = source.replace("\n    bare::write(", "\n    bare::end(1);\n    bare::write(")
    given = [codes for index, codes in enumerate(prepared.inputs) if index not in case.constants]
    stdin = b"".join(codes[sample].tobytes() for sample in range(case.samples) for codes in given)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.cpp"
        program.write_text(source, encoding="utf-8")
        run = build_and_run(
            core,
            [program],
            cflags=("-O2", "-fno-inline-functions-called-once"),
            include_dirs=[ROOT / "include"],
            stdin_bytes=stdin,
            mcu="atmega1284p" if core == "avr" else None,
        )
    counts = [count for _, count, _ in run.all_marks]
    return sum(counts) / len(counts), len(op_harness._compare([prepared], [places], run.output))


def collect(cores: list[str]) -> list[dict[str, Any]]:
    rows = []
    for fmt in FORMATS:
        for name, work, case in cases(fmt):
            row: dict[str, Any] = {"kernel": name, "format": fmt.name, "differences": 0}
            for core in cores:
                cost, wrong = measure(case, core)
                row[core] = round(cost / work, 1)
                row["differences"] += wrong
                if name in MODULES:
                    with patch(f"minun_pio.ops.{MODULES[name]}.choose", lambda _: None):
                        row[f"{core} exact"] = round(measure(case, core)[0] / work, 1)
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cores", default="avr,m3,m7")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = collect(arguments.cores.split(","))
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
    sys.exit(1 if any(row["differences"] for row in rows) else 0)


if __name__ == "__main__":
    main()
