# SPDX-License-Identifier: Apache-2.0
"""minimalloc's CSV format, in and out: `id,lower,upper,size` with optional `alignment` and `offset` columns.

A buffer is live in `[lower, upper)`; sizes are bytes. In an answer `offset` is where the buffer lies. On the
way in, an `offset` column is ignored unless `pinned=True`, so that an answer can be planned again. A file
named `NAME.CAPACITY.csv` carries its capacity in its name.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

from minun_pio.planner.problem import Buffer, Plan, Problem, bad


def parse(text: str, where: str = "", capacity: int | None = None, pinned: bool = False) -> Problem:
    """The problem a CSV text states. Raises MinunError with the line."""
    rows = csv.reader(io.StringIO(text))
    head = [c.strip().lower() for c in next(rows, [])]
    if not {"id", "lower", "upper", "size"} <= set(head):
        raise bad(
            "bad-csv",
            f"the first line is '{','.join(head)}'; expected the columns id,lower,upper,size",
            where,
        )
    column = {name: k for k, name in enumerate(head)}
    buffers = []
    for row in rows:
        if not row:
            continue
        try:
            if len(row) > len(head):
                raise ValueError
            align = row[column["alignment"]].strip() if "alignment" in column else ""
            offset = row[column["offset"]].strip() if pinned and "offset" in column else ""
            buffers.append(
                Buffer(
                    id=row[column["id"]].strip(),
                    start=int(row[column["lower"]]),
                    end=int(row[column["upper"]]),
                    size=int(row[column["size"]]),
                    align=int(align) if align else 1,
                    offset=int(offset) if offset else None,
                )
            )
        except (ValueError, IndexError):
            at = f"{where}:{rows.line_num}" if where else f"line {rows.line_num}"
            raise bad(
                "bad-csv",
                f"'{','.join(row)}' is not a buffer; expected whole numbers for {','.join(head)}",
                at,
            ) from None
    return Problem(tuple(buffers), capacity=capacity)


def read(path: Path, capacity: int | None = None, pinned: bool = False) -> Problem:
    """The problem in a file. `capacity` None: the one in the file's name, if it carries one."""
    if capacity is None and path.stem.rpartition(".")[2].isdigit():
        capacity = int(path.stem.rpartition(".")[2])
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise bad("unreadable", f"cannot read the file: {reason}; give a CSV file", str(path)) from None
    return parse(text, str(path), capacity, pinned)


def write(problem: Problem, plan: Plan | None = None) -> str:
    """The CSV text of a problem, with the offsets of `plan` where one is given."""
    aligned = any(b.align != 1 for b in problem.buffers)
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(
        ["id", "lower", "upper", "size"] + ["alignment"] * aligned + ["offset"] * (plan is not None)
    )
    for b in problem.buffers:
        row: list[object] = [b.id, b.start, b.end, b.size]
        if aligned:
            row.append(b.align)
        if plan is not None:
            row.append(plan.offsets.get(b.id, ""))
        rows.writerow(row)
    return out.getvalue()
