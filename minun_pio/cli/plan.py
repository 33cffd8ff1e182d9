# SPDX-License-Identifier: Apache-2.0
"""`minun plan`: memory planning of instances in minimalloc's CSV format."""

from __future__ import annotations

import json
from pathlib import Path

import click

from minun_pio.errors import MinunError
from minun_pio.planner import PLANNERS, Plan, csv_format
from minun_pio.planner import plan as solve
from minun_pio.planner.drawing import svg as draw


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "instances", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="INSTANCE.csv…"
)
@click.option(
    "--capacity", type=click.IntRange(min=0), help="Bytes there are; the default is NAME.CAPACITY.csv's."
)
@click.option("--planner", default="exact", show_default=True, type=click.Choice(list(PLANNERS)))
@click.option(
    "--timeout",
    default=10.0,
    type=click.FloatRange(0),
    show_default=True,
    help="Seconds an instance may take.",
)
@click.option("--pinned", is_flag=True, help="Keep the offsets of the file's offset column.")
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path), help="Write the plan there ('-': standard output)."
)
@click.option("--svg", "svg_file", type=click.Path(path_type=Path), help="Draw the arena there.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects instead of lines.")
def plan(
    instances: tuple[Path, ...],
    capacity: int | None,
    planner: str,
    timeout: float,
    pinned: bool,
    csv_file: Path | None,
    svg_file: Path | None,
    as_json: bool,
) -> None:
    """Give every buffer of each INSTANCE a place in one arena, and say how good that is.

    An instance has the columns id,lower,upper,size (live in [lower, upper), bytes) and may have alignment.
    With several instances, --csv and --svg name a directory. The exit status is 1 when an instance does not
    fit its --capacity.
    """
    if timeout != timeout:
        raise click.UsageError("--timeout is not a number; give seconds.")
    found = []
    fits = True
    for path in instances:
        problem = csv_format.read(path, capacity, pinned)
        try:
            answer = solve(problem, planner, timeout=timeout)
        except MinunError as error:
            raise MinunError(error.code, error.message, error.where or str(path)) from None
        if csv_file is not None:
            _write(csv_file, path, len(instances), ".plan.csv", csv_format.write(problem, answer))
        if svg_file is not None:
            _write(svg_file, path, len(instances), ".svg", draw(problem, answer, title=path.stem))
        found.append(_row(path, answer))
        fits &= answer.status != "infeasible" and (capacity is None or answer.height <= capacity)
        if not as_json and csv_file != Path("-"):
            click.echo(_line(path, answer))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    if not fits:
        raise click.exceptions.Exit(1)


def _row(path: Path, answer: Plan) -> dict[str, object]:
    return {
        "instance": str(path),
        "planner": answer.planner,
        "height": answer.height,
        "lower_bound": answer.lower_bound,
        "status": answer.status,
        "seconds": round(answer.seconds, 6),
        "proven": answer.proven,
        "nodes": answer.nodes,
        "certificate": {"step": answer.certificate.step, "live": list(answer.certificate.live)},
    }


def _line(path: Path, answer: Plan) -> str:
    """One line: the height, what is proven, and who is live at the peak."""
    live = answer.certificate.live
    who = ", ".join(live[:6]) + (f" and {len(live) - 6} more" if len(live) > 6 else "")
    gap = "" if answer.status == "optimal" else f", at least {answer.proven:,} needed"
    notes = "".join(f"; {note}" for note in answer.notes)
    return (
        f"{path.name}: {answer.height:,} B, {answer.status} (lower bound {answer.lower_bound:,}{gap}) "
        f"in {answer.seconds * 1e3:.2f} ms; peak at step {answer.certificate.step}: {who}{notes}"
    )


def _write(target: Path, instance: Path, count: int, suffix: str, text: str) -> None:
    if target == Path("-"):
        click.echo(text, nl=False)
        return
    try:
        if count > 1:
            target.mkdir(parents=True, exist_ok=True)
            target = target / (instance.stem + suffix)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MinunError(
            "plan.unwritable", f"cannot write the file: {error.strerror}; give another name", str(target)
        ) from None


if __name__ == "__main__":
    plan()
