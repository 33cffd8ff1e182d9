# SPDX-License-Identifier: Apache-2.0
"""What makes an output folder up to date, and what is cleaned."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from small_networks import two_layers

from minun_pio import build
from minun_pio.board.target import HOST, Target
from minun_pio.compiler_id import DECIDING
from minun_pio.config.model import ModelConfig
from minun_pio.filelock import exclusive, write_whole
from minun_pio.generate import MANIFEST, clean, generate
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


@pytest.mark.parametrize(
    ("seconds_before", "vouches"),
    [(0.5, False), (0.4, True), (2.5, True)],
    ids=["whole", "fraction", "older"],
)
def test_an_input_whose_time_has_whole_seconds_must_be_two_of_them_old(
    project: Path, seconds_before: float, vouches: bool
) -> None:
    began = 1_700_000_000_500_000_000
    modified = began - int(seconds_before * 10**9)
    os.utime(project / "net.onnx", ns=(modified, modified))
    inputs, path = [project / "model.yaml", project / "net.onnx"], project / "stamp.json"
    write_stamp(path, KEY, inputs[:1], inputs, [project / "out.h"], [], began_ns=began)
    assert vouched(project, path) is vouches


def test_another_target_other_models_and_another_version_are_not_vouched_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stamp(project)
    assert not vouched(project, path, "m3/98304/524288")
    assert up_to_date([project / "other.yaml"], KEY, path) is None
    monkeypatch.setattr("minun_pio.stamp._version", lambda: "another")
    assert not vouched(project, path)


def _git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("kind", ["worktree", "installation"])
def test_another_compiler_of_the_same_version_is_noticed_where_git_is_a_file_and_where_it_is_not(
    project: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    home = project / "first"
    (home / "minun_pio" / "emit").mkdir(parents=True)
    for name in ("stamp.py", "emit/write.py"):
        (home / "minun_pio" / name).write_text("1")
    if kind == "worktree":
        _git(home, "init", "-q")
        _git(home, "add", ".")
        _git(home, "commit", "-q", "-m", "first")
        _git(home, "worktree", "add", "-q", "../second")
        home = project / "second"
        assert (home / ".git").is_file()
    monkeypatch.setattr("minun_pio.stamp.__file__", str(home / "minun_pio" / "stamp.py"))
    source = home / "minun_pio" / "emit" / "write.py"
    path = stamp(project)
    assert vouched(project, path)
    source.write_text("2")  # the same size, later
    assert not vouched(project, path)
    path = stamp(project)
    source.write_text("22")
    os.utime(source, (LONG_AGO, LONG_AGO))  # an archive's older file, of another size
    os.utime(home / "minun_pio" / "stamp.py", (LONG_AGO, LONG_AGO))
    assert not vouched(project, path)
    path = stamp(project)
    (home / "minun_pio" / "emit" / "empty.py").touch()
    os.utime(home / "minun_pio" / "emit" / "empty.py", (LONG_AGO, LONG_AGO))
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


@pytest.mark.parametrize("number", [errno.EACCES, errno.EDEADLK, errno.EINVAL])
def test_on_windows_a_lock_waits_for_its_holder_and_for_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    calls, refusals = [], iter([OSError(number, "no")] * 2)

    def locking(handle: int, mode: str, count: int) -> None:
        calls.append(mode)
        for refusal in refusals:
            raise refusal

    monkeypatch.setitem(
        sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK="take", LK_UNLCK="give", locking=locking)
    )
    monkeypatch.setattr("minun_pio.filelock._WAIT_S", 0.001)
    monkeypatch.setattr("sys.platform", "win32")
    if number == errno.EINVAL:
        with pytest.raises(OSError, match="no"), exclusive(tmp_path / "lock"):
            pass
        return
    with exclusive(tmp_path / "lock"):
        assert calls == ["take"] * 3
    assert calls[3:] == ["give"]


def test_a_file_that_another_program_reads_for_a_moment_is_replaced_on_windows_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals, replace = iter([PermissionError(13, "in use")] * 3), os.replace

    def refused_at_first(source: str, target: Path) -> None:
        for refusal in refusals:
            raise refusal
        replace(source, target)

    monkeypatch.setattr("os.replace", refused_at_first)
    monkeypatch.setattr("minun_pio.filelock._WAIT_S", 0.001)
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "digits.h", b"one")  # elsewhere a refusal is one
    monkeypatch.setattr("sys.platform", "win32")
    assert write_whole(tmp_path / "digits.h", b"two")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"two"]


MODEL = """
name: tiny
source:
  input: [1, 6]
  weights: weights.npz
  layers:
    - dense: {weights: w, bias: b, activation: relu}
    - dense: {weights: w2}
formats:
  low: 8
  high: 8
search:
  strategy: uniform-low
  tolerated_drop: 100
"""


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="needs a folder that even root cannot write to: /proc"
)
def test_a_folder_that_cannot_be_written_to_is_named_by_the_file_that_was_meant() -> None:
    with pytest.raises(OSError, match=r"'/proc/minun\.json'$"):
        write_whole(Path("/proc/minun.json"), b"one")


def test_a_file_in_the_place_of_the_output_folder_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OSError, match=r"a file stands where its folder is to be: '.*digits\.h'$"):
        write_whole(tmp_path / "out" / "digits.h", b"one")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full: /dev/full")
def test_a_disk_that_is_full_is_told_with_the_file_that_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    opened = os.fdopen
    monkeypatch.setattr("os.fdopen", lambda handle, mode: opened(os.dup2(full, handle), mode))
    with pytest.raises(OSError, match=r"No space left on device: '.*digits\.h'$"):
        write_whole(tmp_path / "digits.h", b"one")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    np.savez(tmp_path / "weights.npz", **two_layers().constants)
    (tmp_path / "model.yaml").write_text(MODEL)
    for name in ("weights.npz", "model.yaml"):
        os.utime(tmp_path / name, (LONG_AGO, LONG_AGO))
    return tmp_path / "model.yaml"


@pytest.mark.parametrize("name", ["model.yaml", "weights.npz"])
def test_a_file_that_is_saved_while_its_model_is_compiled_is_compiled_next_time(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder, stamp_file, compile_model = tiny.parent / "out", tiny.parent / "stamp.json", build.compile_model
    runs: list[int] = []

    def edited_meanwhile(config: ModelConfig, target: Target, **others: Any) -> build.Built:
        runs.append(1)
        built = compile_model(config, target, **others)
        if len(runs) == 1:
            changed = tiny.parent / name
            changed.write_bytes(changed.read_bytes() + b"\n")
            time.sleep(0.1)  # as long as planning and writing take
        return built

    monkeypatch.setattr(build, "compile_model", edited_meanwhile)
    for _ in range(2):
        generate([tiny], HOST, folder, stamp_file=stamp_file)
    assert len(runs) == 2
    time.sleep(0.1)
    generate([tiny], HOST, folder, stamp_file=stamp_file)
    assert len(runs) == 2
    assert up_to_date([tiny], HOST.key, stamp_file) is not None


def test_every_module_that_a_build_imports_is_in_the_compilers_digest_or_decides_nothing() -> None:
    program = "import sys, minun_pio.build; print(*(m for m in sys.modules if m.startswith('minun_pio.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    deciding = {part.removesuffix(".py") for part in DECIDING}
    left = {name for name in done.stdout.split() if name.split(".")[1] not in deciding}
    said_not_decided = {
        "report",
        "report.lines",
        "errors",
        "heartbeat",
        "board",
        "board.target",
    }  # a target is in the key
    assert left <= {f"minun_pio.{name}" for name in said_not_decided}
