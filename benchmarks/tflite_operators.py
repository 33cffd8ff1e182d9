# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's operators, one by one: our import and simulation against the interpreter, bit for bit.

    pip install ai-edge-litert
    python benchmarks/tflite_operators.py --json
    python benchmarks/tflite_operators.py --only ADD 'CONV_2D relu6' --draws 100
    python benchmarks/tflite_operators.py --boards      # small models on emulated boards against the host

A case is an operator in one form; each of its draws has its own scales, zero points, constants and inputs:
functions of one number take every code of int8 and int16, int8 arithmetic all pairs. The file is imported
and run as `minun evaluate` does with `formats: {family: int8}`. The interpreter runs its reference kernels
(BUILTIN_REF), but for SUM, whose reference kernel leaves int8 and int16 outputs unwritten
(test/python/test_importer_tflite_bits.py shows it): there, and where there is no reference kernel, its
optimised kernel is asked. `float` counts draws in which a tensor had another format than one of the file's,
`converted` those in which the import had to convert between two of them. `undefined` outputs are not
compared: quotients for which the interpreter shifts by more bits than there are, or by less than none.
`library` outputs of GELU are one code off: the interpreter's C library did not round erfc or tanh correctly.
Float32 is compared within 1e-4.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test" / "python"))  # before this folder, which has a tflite_models too

from tflite_bits import Outcome, compared, feeds, take  # noqa: E402
from tflite_cases import NOT_RUN, chosen  # noqa: E402
from tflite_draw import SCALES, WIDTHS, Case  # noqa: E402
from tflite_oracle import Oracle, oracle  # noqa: E402

from minun_pio.errors import MinunError  # noqa: E402
from minun_pio.simulate.run import run_codes  # noqa: E402

DRAWS = 40
COUNTS = (
    "draws", "outputs", "different", "refused", "broken", "unanswered", "undefined", "library",
    "through_float", "converted",
)  # fmt: skip


@dataclass
class Row:
    """A case, or all of an operator's, in one width. `first` names the first draw that differs."""

    operator: str
    form: str
    width: str
    draws: int = 0
    outputs: int = 0
    different: int = 0
    largest: float = 0.0
    refused: int = 0
    broken: int = 0
    unanswered: int = 0
    undefined: int = 0
    library: int = 0
    through_float: int = 0
    converted: int = 0
    first: str = ""
    reasons: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome, draw: int) -> None:
        """Count one draw."""
        self.draws += 1
        self.outputs += outcome.outputs
        self.different += outcome.different
        self.undefined += outcome.undefined
        self.library += outcome.library
        self.largest = max(self.largest, outcome.largest)
        self.through_float += bool(outcome.through_float)
        self.converted += bool(outcome.converted)
        if outcome.state != "compared":
            setattr(self, outcome.state, getattr(self, outcome.state) + 1)
        reason = outcome.reason or ", ".join(outcome.through_float)
        if reason and reason not in self.reasons and len(self.reasons) < 4:
            self.reasons.append(reason)
        if not self.first and (outcome.different or outcome.state == "broken"):
            self.first = f"draw {draw} ({SCALES[draw % len(SCALES)]})"

    @property
    def bad(self) -> bool:
        return bool(self.different or self.broken)


def measure(case: Case, width: str, draws: int, interpreter: Oracle) -> Row:
    """All draws of a case in a width; no more where the interpreter has no kernel, or we refuse the form."""
    row = Row(case.operator, case.form, width)
    for draw in range(draws):
        row.add(compared(case, width, draw, interpreter), draw)
        if draw == 3 and row.draws in (row.unanswered, row.refused):
            break
    return row


def joined(rows: Sequence[Row]) -> list[Row]:
    """The rows of each operator and width together."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        whole = found.setdefault((row.operator, row.width), Row(row.operator, "", row.width))
        for name in COUNTS:
            setattr(whole, name, getattr(whole, name) + getattr(row, name))
        whole.largest = max(whole.largest, row.largest)
        whole.first = whole.first or (f"{row.form or 'plain'}, {row.first}" if row.first else "")
        whole.reasons += [reason for reason in row.reasons if reason not in whole.reasons]
    return list(found.values())


def table(rows: Sequence[Row]) -> str:
    """Operators by width, with the first reason of what was not compared."""
    from tabulate import tabulate

    head = (
        "operator",
        "width",
        "draws",
        "outputs",
        "different",
        "largest",
        "refused",
        "float",
        "converted",
        "",
    )
    lines = []
    for row in rows:
        no_kernel = row.unanswered == row.draws
        remark = row.first or (row.reasons[0] if row.reasons else "")
        if row.unanswered:
            remark = f"the interpreter: {row.reasons[0]}" if no_kernel else remark
        different = (row.different, f"{row.largest:g}" if row.different else "")
        rest = (row.refused, row.through_float, row.converted, remark[:90])
        lines.append(
            (f"{row.operator} {row.form}".strip(), row.width, row.draws, row.outputs, *different, *rest)
        )
    return str(tabulate(lines, headers=(*head, "")))


def on_boards(cases: Sequence[Case], boards: Sequence[str], draws: int) -> dict[str, Any]:
    """Each case's first draws, small, in their own formats on each board: whose codes are the host's."""
    from board_batches import BOARDS, EQUAL, TOO_LARGE, Job, outcomes

    jobs, refused = [], {}
    for case, width, draw in product(cases, ("int8", "int16"), range(draws)):
        if width not in case.widths:
            continue
        name = f"{case.name} {width} {draw}"
        try:
            drawn = case.draw(width, draw, small=True)
            taken = take(drawn, False)
            codes = feeds(drawn, taken.graph)
            run_codes(taken.legal, codes)
        except MinunError as error:
            refused[name] = str(error)
            continue
        jobs.append(Job(name, taken.graph, taken.formats, codes))
    report: dict[str, Any] = {"models": len(jobs), "refused": refused}
    for board in boards:
        found = outcomes(BOARDS[board], jobs, 3 if board == "uno" else 12)
        bad = {name: state for name, state in found.items() if state not in (EQUAL, TOO_LARGE)}
        large = [name for name, state in found.items() if state == TOO_LARGE]
        equal = len(found) - len(bad) - len(large)
        report[board] = {"equal": equal, "not_equal": bad, "too_large": large}
    report["met"] = all(not report[board]["not_equal"] for board in boards)
    return report


def main() -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="operators, or cases of them")
    parser.add_argument("--width", action="append", choices=WIDTHS, help="only these")
    parser.add_argument("--draws", type=int, help=f"of each case: {DRAWS} unless told, 1 on boards")
    parser.add_argument("--forms", action="store_true", help="a row for every case, not every operator")
    parser.add_argument("--boards", action="store_true", help="small models on emulated boards")
    parser.add_argument("--board", action="append", choices=["uno", "due", "stm32h747"], help="only these")
    options = parser.parse_args()
    try:
        cases = chosen(options.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.boards or options.board:
        report = on_boards(cases, options.board or ["uno", "due", "stm32h747"], options.draws or 1)
        print(json.dumps(report, indent=1))
        return 0 if report["met"] else 1
    started = time.perf_counter()
    rows: list[Row] = []
    with oracle() as interpreter:
        for case in cases:
            for width in case.widths:
                if options.width is None or width in options.width:
                    rows.append(measure(case, width, options.draws or DRAWS, interpreter))
    seconds = time.perf_counter() - started
    whole = Row("all", "", "")
    for name in COUNTS:
        setattr(whole, name, sum(getattr(row, name) for row in rows))
    met = not any(row.bad for row in rows)
    if options.json:
        report = {
            "cases": len(rows), **{name: getattr(whole, name) for name in COUNTS},
            "not_run": dict(NOT_RUN), "seconds": round(seconds, 1), "met": met,
            "operators": [asdict(row) for row in (rows if options.forms else joined(rows))],
        }  # fmt: skip
        print(json.dumps(report, indent=1))
    else:
        print(table(rows if options.forms else joined(rows)))
        print(f"{len(rows)} cases, {seconds:.0f} s")
        print(", ".join(f"{getattr(whole, name):,} {name.replace('_', ' ')}" for name in COUNTS))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
