# SPDX-License-Identifier: Apache-2.0
"""What an installed package has: firmware is built from it, without the repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    *("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE", "library.json"),
    *("CMakeLists.txt", "extra_script.py", "cmake", "include", "src", "minun_pio"),
)
MODEL = "name: tiny\nsource: {input: [1, 6], weights: w.npz, layers: [dense: {weights: W, bias: b}]}\n"
MAIN = """
#include <tiny.h>
static uint8_t arena[tiny::kArenaBytes + 1];
static tiny::InputCode input[tiny::kInputElements];
static tiny::OutputCode output[tiny::kOutputElements];
int main() { return (int)tiny::infer(input, output, arena, sizeof arena); }
"""


def run(folder: Path, *command: str, **more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, **more},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the wheel of the source archive in it."""
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip("building needs setuptools 77 or newer; run: make setup")
    folder = tmp_path_factory.mktemp("installation")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "minun_models")
            shutil.copytree(ROOT / name, source / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, source / name)
    (source / "include" / "minun_models").mkdir()
    (source / "include" / "minun_models" / "digits.h").write_text("// a build's\n")
    archive = "import setuptools.build_meta as b; print(b.build_sdist('..'))"
    name = run(source, sys.executable, "-c", archive).split()[-1]
    with tarfile.open(folder / name) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    unpacked = folder / "unpacked" / name.removesuffix(".tar.gz")
    stale = unpacked / "build" / "lib" / "minun_pio" / "of_an_earlier_version.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps"]
    run(folder, *pip, "wheel", str(unpacked), "--no-build-isolation", *offline, "-w", "wheels")
    (wheel,) = (folder / "wheels").glob("*.whl")
    run(folder, *pip, "install", *offline, "--target", "site", str(wheel))
    return folder / "site"


@pytest.fixture
def project(site: Path, tmp_path: Path) -> Path:
    """A project with a model, in a folder with a space."""
    import numpy as np

    folder = tmp_path / "a project"
    folder.mkdir()
    random = np.random.default_rng(3)
    np.savez(folder / "w.npz", W=random.standard_normal((4, 6)), b=random.standard_normal(4))
    (folder / "model.yaml").write_text(MODEL)
    (folder / "main.cpp").write_text(MAIN)
    return folder


def minun(site: Path, folder: Path, *arguments: str) -> str:
    return run(folder, sys.executable, "-m", "minun_pio", *arguments, PYTHONPATH=str(site)).strip()


def test_an_installed_package_has_the_repositorys_files_and_no_others(site: Path, tmp_path: Path) -> None:
    source = site.parent / "source"  # the repository, as it was copied
    library = Path(minun(site, tmp_path, "where"))
    assert library == site / "minun_pio" / "library"
    found = {path.relative_to(library).as_posix() for path in library.rglob("*.*") if path.suffix != ".pyc"}
    folders = ("cmake", "include/minun", "src")
    paths = [path for name in folders for path in (source / name).rglob("*") if path.is_file()]
    paths += [source / name for name in ("CMakeLists.txt", "extra_script.py", "library.json")]
    assert found == {path.relative_to(source).as_posix() for path in paths}
    assert all((library / path.relative_to(source)).read_bytes() == path.read_bytes() for path in paths)
    modules = {path.relative_to(site).as_posix() for path in (site / "minun_pio").rglob("*.py")}
    here = {path.relative_to(source).as_posix() for path in (source / "minun_pio").rglob("*.py")}
    assert modules == here | {"minun_pio/library/extra_script.py"}


def test_where_names_every_part_and_they_are_there_in_a_checkout_too(site: Path, tmp_path: Path) -> None:
    for home in (site, ROOT):
        parts = json.loads(minun(home, tmp_path, "where", "--json"))
        for part, path in parts.items():
            assert Path(path).exists()
            assert minun(home, tmp_path, "where", part) == path
        assert parts["library"] == (ROOT if home == ROOT else site / "minun_pio" / "library").as_posix()


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_what_an_installed_minun_builds_compiles_by_hand(site: Path, project: Path) -> None:
    assert minun(site, project, "build", "--out", "made").startswith("tiny: ")
    include, sources = minun(site, project, "where", "include"), minun(site, project, "where", "sources")
    files = ["main.cpp", "made/tiny.cpp", *(str(path) for path in Path(sources).glob("*.cpp"))]
    run(project, "g++", "-std=c++11", "-Wall", "-Werror", "-Imade", f"-I{include}", *files, "-o", "firmware")
    run(project, "./firmware")


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_cmake_builds_a_firmware_from_an_installed_package(site: Path, project: Path) -> None:
    function = minun(site, project, "where", "cmake")
    (project / "CMakeLists.txt").write_text(
        f'cmake_minimum_required(VERSION 3.19)\nproject(firmware CXX)\ninclude("{function}")\n'
        "add_executable(firmware main.cpp)\nminun_add_models(firmware MODELS model.yaml)\n"
    )
    told = run(project, "cmake", "-S", ".", "-B", "build", f"-DMINUN_PYTHON={sys.executable}")
    assert "-- minun: tiny: " in told
    run(project, "cmake", "--build", "build")
    run(project, "build/firmware")
    commands = (project / "build" / "CMakeFiles" / "firmware.dir" / "flags.make").read_text()
    assert f"-I{ROOT}" not in commands


@pytest.mark.parametrize("way", ["lib_deps = symlink://{}", "extra_scripts = pre:{}/extra_script.py"])
def test_platformio_builds_a_firmware_from_an_installed_package(site: Path, project: Path, way: str) -> None:
    core = Path(os.environ.get("PLATFORMIO_CORE_DIR") or ROOT / ".platformio-core")
    if find_spec("platformio") is None or not (core / "packages" / "tool-scons").is_dir():
        pytest.skip("PlatformIO is not set up; run: make setup")
    (project / "src").mkdir()
    (project / "main.cpp").rename(project / "src" / "main.cpp")
    (project / "platformio.ini").write_text(
        f"[env:native]\nplatform = symlink://{ROOT}/virtual\nboard = native\n"
        f"custom_minun_model = model.yaml\n{way.format(minun(site, project, 'where'))}\n"
    )
    told = run(
        project,
        *(sys.executable, "-m", "platformio", "run", "-v"),
        PLATFORMIO_CORE_DIR=str(core),
        PLATFORMIO_SETTING_ENABLE_TELEMETRY="no",
        PLATFORMIO_DISABLE_UPGRADE_CHECK="true",
    )
    assert "\nminun: tiny: " in told
    assert f"-I{site / 'minun_pio' / 'library' / 'include'}" in told
    assert f"-I{ROOT / 'include'}" not in told
    program = project / ".pio" / "build" / "native" / "program"
    assert subprocess.run([program], stdin=subprocess.DEVNULL, check=False).returncode == 0


def test_every_package_that_tests_need_has_an_upper_bound() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dev = \[(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    assert block is not None
    required = re.findall(r'"([^"]+)"', block[1])
    assert len(required) > 10
    assert [text for text in required if "<" not in text and "==" not in text] == []


def test_nobody_is_told_to_install_a_name_that_is_not_reserved() -> None:
    folders = ("docs", "examples", "minun_pio", "scripts", "cmake", "benchmarks", "test")
    files = [path for name in folders for path in (ROOT / name).rglob("*")]
    files = [path for path in files if path.suffix in (".md", ".ini", ".py") and ".pio" not in path.parts]
    files += [ROOT / "README.md", ROOT / "platformio.ini"]
    bare = re.compile(r"(pip install|lib_deps *=|pkg install.*)" + r" *['\"]?minun[_]pio(?![/\w])")
    assert len(files) > 300
    texts = {str(path): path.read_text(encoding="utf-8", errors="replace") for path in files}
    assert [name for name, text in texts.items() if bare.search(text)] == []


def test_the_licence_is_told_as_spdx_does(site: Path) -> None:
    (told,) = site.glob("minun_pio-*.dist-info/METADATA")
    assert "\nLicense-Expression: Apache-2.0\nRequires-Python: >=3.10\n" in told.read_text(encoding="utf-8")
