# SPDX-License-Identifier: Apache-2.0
"""`pio test` on a virtual board: a case per check, valid JUnit, and failures where something is wrong."""

from __future__ import annotations

import json
import shutil
import struct
import sys
import xml.etree.ElementTree as ElementTree
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from board_projects import ROOT, make_project, need_virtual_boards, pio

from minun_pio.board import virtual
from minun_pio.board.vectors import Vectors, to_bytes, vectors

NAMES = [
    "toy: handshake",
    "toy: 4 samples bit for bit",
    "toy: arena high-water mark is the plan's",
    "toy: stack within its room",
    "toy: latency recorded",
]


def _vectors(build_hash: int = 0x12345678, wrong: int = 0, arena_bytes: int = 16) -> Vectors:
    inputs = [bytes([0, 1, 2, 3, 4, 5, 6, k]) for k in range(4)]
    outputs = [struct.pack("<hH", sum(sample) + wrong, 0) for sample in inputs]
    return vectors("toy", build_hash, arena_bytes, inputs, outputs)


@pytest.mark.parametrize("way", ["copy", "checkout", "installed", "none"])
def test_the_runner_finds_minun_wherever_the_project_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    pytest.importorskip("platformio", reason="the runner is PlatformIO's; run: make setup")
    runner = tmp_path / "project" / "test" / "test_custom_runner.py"
    runner.parent.mkdir(parents=True)
    shutil.copy(ROOT / "test" / "test_custom_runner.py", runner)
    libraries = tmp_path / "project" / ".pio" / "libdeps"
    (libraries / "uno").mkdir(parents=True)
    home = {"copy": libraries / "uno" / "minun_pio"}.get(way, tmp_path / "elsewhere")
    if way != "none":
        (home / "minun_pio").mkdir(parents=True)
        (home / "minun_pio" / "__init__.py").touch()
    if way in ("checkout", "installed"):
        uri = "symlink://../elsewhere" + ("/minun_pio/library" if way == "installed" else "")
        noted = {"cwd": str(tmp_path / "project"), "spec": {"uri": uri}}
        (libraries / "uno" / "minun.pio-link").write_text(json.dumps(noted))
    spec = spec_from_file_location("the_runner", runner)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "minun_pio", None)
    monkeypatch.setattr("sys.path", [])
    if way == "none":
        with pytest.raises(module.UnitTestSuiteError, match="install it from its repository: "):
            module._find_minun(libraries)
    else:
        module._find_minun(libraries)
        assert sys.path == [str(home)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_virtual_boards()
    section = "test_build_src = yes\n[env:due_sim]\nboard = due_sim\n"
    folder = make_project(tmp_path_factory.mktemp("pio test") / "a project", section)
    shutil.copytree(ROOT / "test" / "test_board", folder / "test" / "test_board")
    shutil.copy(ROOT / "test" / "test_custom_runner.py", folder / "test")
    return folder


def _run(project: Path, expected: Vectors) -> tuple[int, dict[str, str | None]]:
    """Exit status, and for each case None when it passed or why it failed."""
    place = project / "include" / "minun_models" / "due_sim"
    place.mkdir(parents=True, exist_ok=True)
    (place / "toy.vectors").write_bytes(to_bytes(expected))
    report = project / "report.xml"
    report.unlink(missing_ok=True)
    done = pio(project, "test", "-e", "due_sim", "--junit-output-path", str(report), check=False)
    assert report.is_file(), done.stdout + done.stderr
    cases: dict[str, str | None] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        bad = [child for child in case if child.tag in ("failure", "error")]
        cases[case.attrib["name"]] = bad[0].attrib.get("message", "") if bad else None
        assert float(case.attrib["time"]) >= 0
    assert virtual.running(virtual.board_dir(project, "due_sim")) is None
    return done.returncode, cases


def test_a_board_that_computes_the_hosts_bits_passes_every_case(project: Path) -> None:
    status, cases = _run(project, _vectors())
    assert cases == dict.fromkeys(NAMES)
    assert status == 0


def test_a_wrong_bit_fails_its_case_and_no_other(project: Path) -> None:
    status, cases = _run(project, _vectors(wrong=1))
    assert status != 0
    assert [name for name, why in cases.items() if why is not None] == [NAMES[1]]
    assert "4 of 4 samples differ; sample 0 gave 1500" in str(cases[NAMES[1]])


def test_another_build_on_the_board_fails_the_handshake(project: Path) -> None:
    status, cases = _run(project, _vectors(build_hash=7))
    assert status != 0
    assert list(cases) == NAMES[:1]
    assert "the board runs build 12345678, this is 00000007" in str(cases[NAMES[0]])


def test_an_arena_that_is_not_what_was_planned_fails(project: Path) -> None:
    status, cases = _run(project, _vectors(arena_bytes=24))
    assert status != 0
    assert "arena, input and output bytes are (16, 8, 4), expected (24, 8, 4)" in str(cases[NAMES[0]])
