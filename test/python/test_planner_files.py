# SPDX-License-Identifier: Apache-2.0
"""CSV in and out, the command line, and the picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner

from minun_pio.cli.plan import plan as command
from minun_pio.errors import MinunError
from minun_pio.planner import Buffer, Problem, Region, csv_format, plan
from minun_pio.planner.drawing import svg

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "planner"
TEXT = "id,lower,upper,size\na,0,2,8\nb,1,3,4\n"


def test_a_plan_written_as_csv_reads_back_as_the_same_problem() -> None:
    problem = csv_format.parse(TEXT)
    answer = plan(problem)
    text = csv_format.write(problem, answer)
    assert text.splitlines()[0] == "id,lower,upper,size,offset"
    assert csv_format.parse(text) == problem
    pinned = csv_format.parse(text, pinned=True)
    assert {b.id: b.offset for b in pinned.buffers} == answer.offsets


def test_a_capacity_in_the_file_name_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "net.4096.csv"
    path.write_text(TEXT)
    assert csv_format.read(path).capacity == 4096
    assert csv_format.read(path, capacity=9).capacity == 9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "expected the columns id,lower,upper,size"),
        ("id,lower,upper,size\na,0,x,3\n", "net.csv:2: 'a,0,x,3' is not a buffer"),
        ("id,lower,upper,size\na,0\n", "net.csv:2: 'a,0' is not a buffer"),
        ("id,lower,upper,size\na,0,1,2,3\n", "net.csv:2: 'a,0,1,2,3' is not a buffer"),
    ],
)
def test_a_wrong_line_is_named(text: str, message: str) -> None:
    with pytest.raises(MinunError) as caught:
        csv_format.parse(text, "net.csv")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,0,2,4,0\nb,1,3,4,2\n", "net.csv: buffers 'a' and 'b' are pinned to 0 and 2 and share bytes"),
        ("a,0,2,4,0\na,1,3,4,8\n", "net.csv: buffer 'a' is listed twice"),
        ("a,0,2,4,0\nb,2,3,4,2\n", None),
    ],
)
def test_a_problem_without_meaning_is_told_with_its_file(
    tmp_path: Path, rows: str, message: str | None
) -> None:
    path = tmp_path / "net.csv"
    path.write_text("id,lower,upper,size,offset\n" + rows, encoding="utf-8-sig")
    result = CliRunner().invoke(command, [str(path), "--pinned"])
    assert (message in str(result.exception)) if message else result.exit_code == 0


def test_the_command_prints_a_list_of_objects(tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_text(TEXT)
    result = CliRunner().invoke(command, [str(path), str(path), "--json", "--planner", "by-size"])
    assert result.exit_code == 0
    rows = json.loads(result.output)
    assert len(rows) == 2
    keys = {"instance", "planner", "height", "lower_bound", "status", "seconds"}
    assert keys <= set(rows[0])
    assert (rows[0]["planner"], rows[0]["height"], rows[0]["status"]) == ("by-size", 12, "optimal")


def test_the_command_says_that_a_capacity_is_too_small(tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_text(TEXT)
    result = CliRunner().invoke(command, [str(path), "--capacity", "10"])
    assert result.exit_code == 1
    assert "infeasible" in result.output
    assert "needs 12 bytes, 10 are there" in result.output


def test_the_command_writes_the_plan_and_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_text(TEXT)
    result = CliRunner().invoke(
        command, [str(path), "--csv", str(tmp_path / "out.csv"), "--svg", str(tmp_path / "out.svg")]
    )
    assert result.exit_code == 0
    assert (tmp_path / "out.csv").read_text().startswith("id,lower,upper,size,offset\n")
    assert ElementTree.parse(tmp_path / "out.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize("count", [10, 1000])
def test_the_picture_has_a_rectangle_with_a_tooltip_for_every_buffer(count: int) -> None:
    buffers = tuple(Buffer(f"t<{i}>", i, i + 3, 10 + i % 50) for i in range(count))
    problem = Problem(buffers, capacity=500)
    text = svg(problem, plan(problem, "by-size"))
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    tips = [t.text for t in root.iter(f"{space}title")]
    assert len(tips) == count
    assert tips[0] is not None
    assert tips[0].startswith("t<0>: 10 bytes at")
    assert "capacity 500" in text
    assert "lower bound" in text


def test_the_picture_shows_every_region_that_is_used() -> None:
    regions = (Region("dtcm", 8, cost=1.0), Region("sram", 64, cost=2.0))
    problem = Problem((Buffer("a", 0, 1, 8), Buffer("b", 0, 1, 32)), regions=regions)
    text = svg(problem, plan(problem))
    assert "dtcm:" in text
    assert "sram:" in text


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the planner's instances are not there ({DATA.name})")
def test_a_sample_of_the_network_instances_is_planned_at_the_lower_bound() -> None:
    paths = [p for p in sorted(DATA.glob("*.csv")) if not p.name.startswith("mm_")]
    for path in paths[::8]:
        answer = plan(csv_format.read(path))
        assert answer.height == answer.lower_bound, path.name
