# SPDX-License-Identifier: Apache-2.0
"""What makes an output folder up to date, and what is cleaned."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from minun_pio.filelock import write_whole
from minun_pio.generate import MANIFEST, clean
from minun_pio.stamp import read_stamp, up_to_date, write_stamp

KEY = "avr/2048/32256"
LONG_AGO = 1_600_000_000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("model.yaml", "net.onnx", "out.h"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (LONG_AGO, LONG_AGO))
    return tmp_path


def stamp(folder: Path) -> Path:
    path = folder / "build" / "stamp.json"
    inputs = [folder / "model.yaml", folder / "net.onnx", folder / "absent.npz"]
    write_stamp(path, KEY, [folder / "model.yaml"], inputs, [folder / "out.h"], ["model: fine"])
    return path


def vouched(folder: Path, path: Path, key: str = KEY) -> bool:
    return up_to_date([folder / "model.yaml"], key, path) is not None


def test_an_untouched_folder_is_up_to_date_and_its_line_is_kept(project: Path) -> None:
    found = up_to_date([project / "model.yaml"], KEY, stamp(project))
    assert found is not None
    assert found.lines == ("model: fine",)
    assert not found.written


@pytest.mark.parametrize("name", ["model.yaml", "net.onnx", "out.h"])
def test_a_file_that_changed_or_went_is_noticed(project: Path, name: str) -> None:
    path = stamp(project)
    (project / name).write_text(name.upper())  # the same size
    assert not vouched(project, path)
    (project / name).unlink()
    assert not vouched(project, path)


def test_data_that_appear_are_noticed(project: Path) -> None:
    path = stamp(project)
    assert vouched(project, path)
    (project / "absent.npz").write_text("")
    assert not vouched(project, path)


def test_an_input_written_just_before_the_stamp_is_not_trusted(project: Path) -> None:
    (project / "net.onnx").write_text("net.onnx")
    assert not vouched(project, stamp(project))


def test_another_target_other_models_and_another_version_are_not_vouched_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stamp(project)
    assert not vouched(project, path, "m3/98304/524288")
    assert up_to_date([project / "other.yaml"], KEY, path) is None
    monkeypatch.setattr("minun_pio.stamp._version", lambda: "another")
    assert not vouched(project, path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json"])
def test_a_damaged_stamp_is_no_stamp(project: Path, text: str) -> None:
    path = stamp(project)
    path.write_text(text)
    assert read_stamp(path) is None


def test_cleaning_removes_what_was_made_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "minun_models" / "uno"
    folder.mkdir(parents=True)
    (folder / "digits.h").write_text("")
    (tmp_path / "outside.h").write_text("")
    (folder / MANIFEST).write_text(json.dumps({"files": ["digits.h", "../../outside.h"]}))
    (folder / "mine.h").write_text("")
    assert [path.name for path in clean(folder)] == ["digits.h"]
    assert (folder / "mine.h").is_file()
    assert (tmp_path / "outside.h").is_file()
    (folder / "mine.h").unlink()
    (folder / MANIFEST).write_text(json.dumps({"files": []}))
    clean(folder)
    assert not (tmp_path / "minun_models").exists()


def test_files_are_written_whole_and_only_when_they_differ(tmp_path: Path) -> None:
    path = tmp_path / "a" / "digits.h"
    assert write_whole(path, b"one")
    os.utime(path, (LONG_AGO, LONG_AGO))
    assert not write_whole(path, b"one")
    assert path.stat().st_mtime == LONG_AGO
    assert write_whole(path, b"two")
    assert [entry.name for entry in path.parent.iterdir()] == ["digits.h"]
