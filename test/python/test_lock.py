# SPDX-License-Identifier: Apache-2.0
"""model.lock.json: when it serves, when it does not, and that nothing is lost when builds meet."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from minun_pio.compiler_id import compiler_id
from minun_pio.errors import MinunError
from minun_pio.lock import find, lock_path, save

PROGRAM = {
    "version": 1,
    "constants": [{"data": "A" * 500}, {"data": "short"}],
    "nested": {"deep": ["B" * 400]},
}
SUMMARY = {"line": "digits: fine", "accuracy": 0.96}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    model = tmp_path / "model.yaml"
    model.write_bytes(b"name: digits\nsource:\n  onnx: net.onnx\n")
    (tmp_path / "net.onnx").write_bytes(b"network")
    (tmp_path / "data.npz").write_bytes(b"samples")
    return model


def saved(model: Path, key: str = "avr/2048/32256") -> bool:
    folder = model.parent
    return save(
        model, key, {"source": folder / "net.onnx", "calibration": folder / "data.npz"}, PROGRAM, SUMMARY
    )


def test_what_was_saved_is_found_again_whole(project: Path) -> None:
    assert saved(project)
    entry = find(project, "avr/2048/32256").entry
    assert entry is not None
    assert entry.program == PROGRAM
    assert entry.summary == SUMMARY
    assert set(entry.inputs) == {"model", "source", "calibration"}


def test_saving_the_same_again_leaves_the_file_alone(project: Path) -> None:
    saved(project)
    before = lock_path(project).stat().st_mtime_ns
    assert not saved(project)
    assert lock_path(project).stat().st_mtime_ns == before


def test_the_lock_is_named_after_its_model_and_says_nothing_of_the_machine(project: Path) -> None:
    saved(project)
    assert lock_path(project).name == "model.lock.json"
    text = lock_path(project).read_text()
    assert str(project.parent) not in text
    assert "\r" not in text
    assert text.endswith("}\n")


def test_a_lock_of_another_version_is_not_called_absent(project: Path) -> None:
    lock_path(project).write_text('{"lock": 99, "targets": {}, "blobs": {}}')
    found = find(project, "avr/2048/32256")
    assert found.reason == "model.lock.json is laid out otherwise, by another version of minun_pio"
    saved(project)
    entry = json.loads(lock_path(project).read_text())
    del entry["targets"]["avr/2048/32256"]["compiler"]  # as the first versions wrote it
    lock_path(project).write_text(json.dumps(entry))
    found = find(project, "avr/2048/32256")
    assert found.reason == "model.lock.json was made by minun_pio of an earlier version, not by this one"


@pytest.mark.parametrize("name", ["model.yaml", "net.onnx", "data.npz"])
def test_a_changed_input_makes_the_lock_invalid_and_is_named(project: Path, name: str) -> None:
    saved(project)
    path = project.parent / name
    path.write_bytes(path.read_bytes() + b"#")
    found = find(project, "avr/2048/32256")
    assert found.entry is None
    assert found.reason == f"{name} has changed"


def test_data_may_be_absent_but_the_network_may_not(project: Path) -> None:
    saved(project)
    (project.parent / "data.npz").unlink()
    assert find(project, "avr/2048/32256").entry is not None
    (project.parent / "net.onnx").unlink()
    assert find(project, "avr/2048/32256").reason == "net.onnx is not there any more"


def test_line_ends_of_texts_do_not_matter(project: Path) -> None:
    saved(project)
    project.write_bytes(project.read_bytes().replace(b"\n", b"\r\n"))
    assert find(project, "avr/2048/32256").entry is not None


def test_another_compiler_or_another_target_is_not_served(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(project)
    assert find(project, "m3/98304/524288").reason == "model.lock.json has no entry for m3/98304/524288"
    monkeypatch.setattr("minun_pio.lock.compiler_id", lambda: "9.9.9+0")
    assert "was made by minun_pio" in find(project, "avr/2048/32256").reason


def test_a_compiler_is_told_by_its_sources_and_not_by_what_macos_puts_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "dense.py").write_bytes(b"1\n")
    monkeypatch.setattr("minun_pio.compiler_id.__file__", str(tmp_path / "compiler_id.py"))
    monkeypatch.setattr("minun_pio.compiler_id.DECIDING", ("ops",))
    told = compiler_id.__wrapped__()
    (tmp_path / "ops" / "._dense.py").write_bytes(b"resource fork")
    (tmp_path / "ops" / "dense.py").write_bytes(b"1\r\n")
    assert compiler_id.__wrapped__() == told
    (tmp_path / "ops" / "dense.py").write_bytes(b"2\n")
    assert compiler_id.__wrapped__() != told


def test_targets_share_long_strings_and_drop_those_no_longer_used(project: Path) -> None:
    saved(project, "avr/2048/32256")
    saved(project, "m3/98304/524288")
    lock = json.loads(lock_path(project).read_text())
    assert len(lock["blobs"]) == 2
    for key in ("avr/2048/32256", "m3/98304/524288"):
        save(project, key, {}, {"version": 2}, {})
    assert json.loads(lock_path(project).read_text())["blobs"] == {}


@pytest.mark.parametrize(
    "text",
    [
        "<<<<<<< ours\n{}",
        "[]",
        "{}",
        '{"lock": 1}',
        '{"lock": 1, "blobs": {}, "targets": {"k": {"inputs": {}}}}',
    ],
)
def test_a_broken_lock_is_one_line_that_tells_what_to_do(project: Path, text: str) -> None:
    lock_path(project).write_text(text)
    with pytest.raises(MinunError, match=r"model\.lock\.json: cannot be read: .*; delete it") as caught:
        find(project, "k")
    assert "\n" not in str(caught.value)


def test_a_lock_with_a_lost_part_is_named_as_broken(project: Path) -> None:
    saved(project)
    lock = json.loads(lock_path(project).read_text())
    lock["blobs"] = {}
    lock_path(project).write_text(json.dumps(lock))
    with pytest.raises(MinunError, match=r"lock\.broken"):
        find(project, "avr/2048/32256")


@pytest.mark.parametrize("place", ["program", "summary", "blobs", "blob's name"])
def test_a_part_that_somebody_or_a_merge_has_changed_is_never_built_from(project: Path, place: str) -> None:
    saved(project)
    lock = json.loads(lock_path(project).read_text())
    entry = lock["targets"]["avr/2048/32256"]
    if place == "program":
        entry["program"]["constants"][1]["data"] = "other"
    elif place == "summary":
        entry["summary"]["accuracy"] = 1
    elif place == "blobs":
        lock["blobs"] = {name: text.lower() for name, text in lock["blobs"].items()}
    else:
        entry["program"]["constants"][0]["data"] = {"$blob": 5}
    lock_path(project).write_text(json.dumps(lock))
    found = find(project, "avr/2048/32256")
    assert found.entry is None
    assert found.reason == "the entry for avr/2048/32256 in model.lock.json is not as it was written"


def test_a_broken_lock_is_replaced_when_a_search_saves(project: Path) -> None:
    lock_path(project).write_text("rubbish")
    assert saved(project)
    assert find(project, "avr/2048/32256").entry is not None


def _save_one(path: str, key: str) -> None:
    for _ in range(5):
        saved(Path(path), key)


def test_builds_that_save_at_once_lose_nothing(project: Path) -> None:
    keys = [f"m3/{k}/1" for k in range(4)]
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_save_one, args=(str(project), key)) for key in keys]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert all(find(project, key).entry is not None for key in keys)
    assert sorted(path.name for path in project.parent.iterdir()) == [
        "data.npz",
        "model.lock.json",
        "model.yaml",
        "net.onnx",
    ]


def test_a_build_from_the_lock_needs_neither_numpy_nor_yaml(project: Path) -> None:
    saved(project)
    program = (
        "import sys; from pathlib import Path\n"
        "import minun_pio.generate\n"
        "from minun_pio.lock import find\n"
        "assert find(Path(sys.argv[1]), 'avr/2048/32256').entry\n"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'yaml', 'click')))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(project)], check=False)
    assert done.returncode == 0


def test_the_quickstarts_lock_files_are_what_a_search_finds_now() -> None:
    """After a change of the compiler: python scripts/renew_locks.py, and commit the lock files."""
    script = Path(__file__).resolve().parents[2] / "scripts" / "renew_locks.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run: python scripts/renew_locks.py"
