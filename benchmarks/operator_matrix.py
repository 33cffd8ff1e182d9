# SPDX-License-Identifier: Apache-2.0
"""Runs every operator's cases on the host and the emulated cores, and writes the table docs/operators.md.

A core is named in a cell where all of that operator's cases in that format gave the simulation's bits there,
in every placement that the operator's memory traits allow. `--json` prints the same as JSON, with the code
size of all operators' kernels linked together on a Cortex-M7 (-Os). `--operators add,mul --write` runs only
those and keeps the table's other rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test" / "python"))
sys.path.insert(0, str(ROOT))

from op_cases import BUILDERS, FORMAT_SETS, cases  # noqa: E402
from op_harness import BOARD_FLAGS, HOST_FLAGS, Case, failing, kernel_bytes  # noqa: E402

CORES = ("host", "avr", "m3", "m7")
_MARKS = {"host": "h", "avr": "a", "m3": "3", "m7": "7"}
_IMAGE = {"host": 64, "avr": 12, "m3": 64, "m7": 64}  # cases an image
_SIZED = ("posit<8,2>", "posit<16,2>", "fixed 16", "int8", "int16", "float32")


@dataclass(frozen=True)
class Row:
    """One operator in one set of formats."""

    operator: str
    formats: str
    cases: int
    cores: tuple[str, ...]


Place = tuple[str, str]  # operator, format set
Listed = tuple[Place, Case]


def _bad(chosen: Sequence[Listed], core: str) -> set[Place]:
    """The operators and formats with a case that fails on `core`; a failing image is run case by case."""
    flags = HOST_FLAGS if core == "host" else BOARD_FLAGS
    mcu = "atmega1284p" if core == "avr" else None
    with tempfile.TemporaryDirectory() as folder:
        problems = failing([case for _, case in chosen], Path(folder), core, flags, mcu)
    if not problems:
        return set()
    if len(chosen) == 1:
        print(problems[0], file=sys.stderr)
        return {chosen[0][0]}
    half = len(chosen) // 2
    return _bad(chosen[:half], core) | _bad(chosen[half:], core)


def matrix(cores: Sequence[str], operators: Sequence[str]) -> list[Row]:
    """One row an operator and format set: the cores on which it is bit-exact."""
    every = [((op, f.name), case) for op in operators for f in FORMAT_SETS for case in cases(op, f)]
    good: dict[Place, list[str]] = {place: [] for place, _ in every}
    for core in cores:
        bad: set[Place] = set()
        for start in range(0, len(every), _IMAGE[core]):
            bad |= _bad(every[start : start + _IMAGE[core]], core)
            print(f"{core}: {min(start + _IMAGE[core], len(every))} of {len(every)} cases", file=sys.stderr)
        for place, passed in good.items():
            if place not in bad:
                passed.append(core)
    counts = Counter(place for place, _ in every)
    return [Row(op, formats, counts[op, formats], tuple(passed)) for (op, formats), passed in good.items()]


def code_bytes(operators: Sequence[str]) -> dict[str, int]:
    """Bytes of kernel code on a Cortex-M7 by format set, all operators linked together."""
    return {
        formats.name: kernel_bytes(
            [case for op in operators if op != "convert" for case in cases(op, formats)]
        )
        for formats in FORMAT_SETS
        if formats.name in _SIZED
    }


def kept_lines(table: str) -> dict[str, str]:
    """The lines of an existing table by operator."""
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return {line.split("|")[1].strip(): line for line in lines}


def markdown(rows: Sequence[Row], code: Mapping[str, int], before: str) -> str:
    """docs/operators.md; operators without rows keep their line of the table `before`."""
    kept = kept_lines(before)
    done = {row.operator for row in rows}
    names = [formats.name for formats in FORMAT_SETS]
    cell = {(row.operator, row.formats): row.cores for row in rows}
    lines = [
        "<!-- SPDX-License-Identifier: Apache-2.0 -->",
        "# Operators, formats, boards",
        "",
        "Written by `benchmarks/operator_matrix.py --write` from the cases that passed: `h` host (g++),",
        "`a` ATmega core (simavr), `3` Cortex-M3 and `7` Cortex-M7 (QEMU). A letter means that every case of",
        "the operator in that format gave the simulation's bits there. Empty: the operator is not defined",
        "in the family; put a `convert` around it. `scan` runs any of them in a loop.",
        "",
        "| operator | " + " | ".join(name.replace("<", "&lt;") for name in names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for op in sorted(BUILDERS):
        if op not in done and op in kept:
            lines.append(kept[op])
            continue
        marks = ["".join(_MARKS[core] for core in cell.get((op, name), ())) for name in names]
        lines.append(f"| {op} | " + " | ".join(marks) + " |")
    lines += [
        "",
        "Bytes of kernel code on a Cortex-M7, -Os, without weights: all but `convert` linked together.",
        "",
        "| formats | bytes |",
        "|---|---|",
        *(f"| {name.replace('<', '&lt;')} | {size} |" for name, size in code.items()),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--write", action="store_true", help="write docs/operators.md")
    parser.add_argument("--cores", default=",".join(CORES), help="comma-separated")
    parser.add_argument("--operators", default="", help="comma-separated; all by default")
    chosen = parser.parse_args()
    operators = sorted(BUILDERS) if not chosen.operators else chosen.operators.split(",")
    rows = matrix(chosen.cores.split(","), operators)
    code = code_bytes(sorted(BUILDERS))
    if chosen.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "code_bytes": code}, indent=1))
    if chosen.write:
        page = ROOT / "docs" / "operators.md"
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        page.write_text(markdown(rows, code, before), encoding="utf-8")
    expected = set(chosen.cores.split(","))
    return 0 if all(set(row.cores) == expected for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
