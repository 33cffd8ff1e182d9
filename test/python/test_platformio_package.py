# SPDX-License-Identifier: Apache-2.0
"""`pio pkg pack`: the library as PlatformIO packs it, from a checkout in which work was done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = Path(os.environ.get("PLATFORMIO_CORE_DIR") or ROOT / ".platformio-core")
PACKED = (
    *("CHANGELOG.md", "CMakeLists.txt", "LICENSE", "README.md", "library.json", "extra_script.py", "cmake"),
    *("docs", "examples", "include/minun", "minun_pio", "src", "test/test_board", "virtual"),
    "test/test_custom_runner.py",
)
LEFT_BY_WORK = (
    *(".venv/bin/python", ".platformio-core/appstate.json", "build/ci/pytest.txt", "dist/minun_pio.whl"),
    *(".pio/build/native/program", "minun_pio.egg-info/PKG-INFO", ".mypy_cache/a.json", ".stamps/python"),
    *("include/minun_models/native/digits.h", "examples/digits/include/minun_models/native/digits.h"),
    *("examples/digits/.pio/build/native/program", "minun_pio/__pycache__/x.pyc", "platformio.ini"),
    *("test/python/test_cli.py", "benchmarks/kernels.py", ".git/config", "secret.txt"),
)

pytestmark = pytest.mark.skipif(
    find_spec("platformio") is None or not (CORE / "packages" / "tool-scons").is_dir(),
    reason="PlatformIO is not set up; run: make setup",
)

# `pio`, which would ask the network for the list of licences before it packs.
PIO = """
import sys
from platformio.__main__ import main
from platformio.package.manifest.schema import ManifestSchema
ManifestSchema.load_spdx_licenses = staticmethod(lambda: {"licenses": [{"licenseId": "Apache-2.0"}]})
sys.exit(main(["pio", *sys.argv[1:]]))
"""


def pio(folder: Path, *arguments: str) -> str:
    settings = {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no", "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true"}
    done = subprocess.run(
        [sys.executable, "-c", PIO, *arguments],
        cwd=folder,
        env={**os.environ, "PLATFORMIO_CORE_DIR": str(CORE), **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """The archive, and the names that belong into it."""
    folder = tmp_path_factory.mktemp("package")
    source = folder / "source"
    ignore = shutil.ignore_patterns("__pycache__", "minun_models", ".pio")
    for name in PACKED:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, source / name)
    expected = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    for name in LEFT_BY_WORK:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("; left by work")
    pio(source, "pkg", "pack", "--output", str(folder / "minun_pio.tar.gz"))
    return folder / "minun_pio.tar.gz", expected


def test_what_work_leaves_in_a_checkout_is_not_packed(package: tuple[Path, set[str]]) -> None:
    archive, expected = package
    with tarfile.open(archive) as packed:
        assert set(packed.getnames()) == expected


def test_a_firmware_builds_from_the_archive(package: tuple[Path, set[str]], tmp_path: Path) -> None:
    for name in ("protonn", "data", "src"):
        shutil.copytree(ROOT / "examples" / "digits" / name, tmp_path / name)
    (tmp_path / "platformio.ini").write_text(
        f"[env:native]\nplatform = symlink://{ROOT}/virtual\nboard = native\n"
        f"lib_deps = file://{package[0]}\ncustom_minun_model = protonn/model.yaml\n"
    )
    told = pio(tmp_path, "run", "-v")
    assert "\nminun: protonn: " in told
    assert f"-I{ROOT / 'include'}" not in told
    assert (tmp_path / ".pio" / "build" / "native" / "program").is_file()
