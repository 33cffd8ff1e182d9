# SPDX-License-Identifier: Apache-2.0
"""scripts/env.sh: the shell's way to `pio` and `minun`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHELLS = [shell for shell in ("sh", "bash") if shutil.which(shell)]


def answer(shell: str, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [shell, "-c", f'{script}; echo "$MINUN_ROOT"']
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize("shell", SHELLS)
def test_a_first_try_in_a_wrong_folder_does_not_spoil_the_next_one(shell: str, tmp_path: Path) -> None:
    (tmp_path / "copy.sh").write_text((ROOT / "scripts" / "env.sh").read_text())
    done = answer(shell, f". ./copy.sh; cd '{ROOT}'; . scripts/env.sh", tmp_path)
    assert "env.sh: source it from the repository's root, or set MINUN_ROOT to it" in done.stderr
    assert done.stdout.strip() == str(ROOT)


@pytest.mark.skipif("bash" not in SHELLS, reason="bash is not installed")
def test_bash_finds_the_repository_from_anywhere(tmp_path: Path) -> None:
    done = answer("bash", f"MINUN_ROOT=/elsewhere; . '{ROOT}/scripts/env.sh'", tmp_path)
    assert (done.stdout.strip(), done.stderr) == (str(ROOT), "")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_clone_on_windows_has_shell_scripts_and_lock_files_as_they_are_here(tmp_path: Path) -> None:
    cnn = "examples/digits/cnn"
    names = (".gitattributes", "scripts/env.sh", f"{cnn}/model.lock.json", f"{cnn}/cnn.onnx")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for name in names:
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "here" / name)
    for command in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", *identity, *command], cwd=tmp_path / "here", check=True, capture_output=True)
    clone = ["git", "-c", "core.autocrlf=true", "clone", "-q", "here", "there"]
    subprocess.run(clone, cwd=tmp_path, check=True, capture_output=True)
    for name in names:
        assert (tmp_path / "there" / name).read_bytes() == (ROOT / name).read_bytes(), name
