# SPDX-License-Identifier: Apache-2.0
"""The PlatformIO plugin in real runs: a firmware with a tiny locked model, in a folder with a space."""

from __future__ import annotations

import io
import json
import ntpath
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace

import numpy as np
import pytest

from minun_pio.board.target import Target
from minun_pio.config import read_model
from minun_pio.errors import pip_install
from minun_pio.integrations.platformio import _print, _relative, interrupted, missing_package
from minun_pio.ir import Graph, Node, Tensor
from minun_pio.lock import lock_path, save

ROOT = Path(__file__).resolve().parents[2]
CORE = Path(os.environ.get("PLATFORMIO_CORE_DIR") or ROOT / ".platformio-core")

pytestmark = [
    pytest.mark.skipif(
        find_spec("platformio") is None, reason="PlatformIO is not installed; run: make setup"
    ),
    pytest.mark.skipif(
        not (CORE / "packages" / "tool-scons").is_dir(),
        reason="PlatformIO's core is not set up; run: make setup",
    ),
    pytest.mark.skipif(
        shutil.which("arm-none-eabi-g++") is None, reason="arm-none-eabi-g++ is not installed"
    ),
]

INI = """
[env]
platform = symlink://{root}/virtual
test_framework = custom
custom_minun_model = model.yaml
{extra}
[env:native]
board = native
[env:due]
board = due_sim
[env:h747]
board = stm32h747_sim
"""
MODEL = """name: tiny
source:
  input: [1, 6]
  weights: w.npz
  layers:
    - dense: {weights: W, bias: b}
    - relu
"""
MAIN = """
#include <tiny.h>
static uint8_t arena[tiny::kArenaBytes + 1];
static tiny::InputCode input[tiny::kInputElements];
static tiny::OutputCode output[tiny::kOutputElements];
int main() { return (int)tiny::infer(input, output, arena, sizeof arena); }
"""
TARGETS = (
    Target("native", "host"),
    Target("due", "m3", 98_304, 524_288),
    Target("h747", "m7", 524_288, 2_097_152),
)


def tiny_graph(folder: Path) -> Graph:
    with np.load(folder / "w.npz") as weights:
        constants = {name: weights[name] for name in ("W", "b")}
    shapes = {"x": (1, 6), "W": (4, 6), "b": (4,), "y": (1, 4)}
    node = Node("fc", "dense", ("x", "W", "b"), ("y",), {"clip": (0.0, None)})
    tensors = {name: Tensor(name, shape) for name, shape in shapes.items()}
    return Graph("tiny", tensors, (node,), ("x",), ("y",), constants)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A firmware project with its lock file, never built."""
    from minun_pio.build import compile_model
    from minun_pio.emit.program import to_json

    folder = tmp_path_factory.mktemp("template") / "my firmware"
    (folder / "src").mkdir(parents=True)
    random = np.random.default_rng(7)
    np.savez(folder / "w.npz", W=random.standard_normal((4, 6)), b=random.standard_normal(4))
    (folder / "model.yaml").write_text(MODEL)
    (folder / "src" / "main.cpp").write_text(MAIN)
    config = read_model(folder / "model.yaml")
    for target in TARGETS:
        built = compile_model(config, target, graph=tiny_graph(folder))
        save(config.path, target.key, config.inputs(), to_json(built.program), built.summary)
    return folder


Pio = Callable[..., "subprocess.CompletedProcess[str]"]


class Project:
    """A copy of the template; `pio` runs PlatformIO in it without a network."""

    def __init__(self, folder: Path, extra: str) -> None:
        self.folder = folder
        self.ini(extra)

    def ini(self, extra: str) -> None:
        (self.folder / "platformio.ini").write_text(INI.format(root=ROOT, extra=extra))

    @staticmethod
    def environment(**more: str) -> dict[str, str]:
        return {
            **os.environ,
            "PLATFORMIO_CORE_DIR": str(CORE),
            "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
            "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true",
            **more,
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "platformio", "run", *arguments]

    def pio(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def built(self, *arguments: str, **more: str) -> str:
        done = self.pio(*arguments, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def failed(self, *arguments: str, **more: str) -> str:
        """The one line of a failure."""
        done = self.pio(*arguments, **more)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr + done.stdout
        lines = [line for line in done.stderr.splitlines() if line.startswith("Error: minun: ")]
        assert len(lines) == 1, done.stderr
        return lines[0]

    def generated(self, environment: str) -> Path:
        return self.folder / "include" / "minun_models" / environment


@pytest.fixture
def project(template: Path, tmp_path: Path) -> Project:
    folder = tmp_path / "my firmware"
    shutil.copytree(template, folder)
    return Project(folder, f"lib_deps = symlink://{ROOT}")


PRE = f"extra_scripts = pre:{ROOT}/extra_script.py"


def test_lib_deps_alone_builds_at_once_and_an_unchanged_second_run_makes_nothing_again(
    project: Project,
) -> None:
    first = project.built("-e", "native")
    assert "minun: tiny: posit<" in first
    assert (project.generated("native") / "tiny.h").is_file()
    marker = project.folder / ".pio" / "build" / "survives"
    marker.write_text("")
    before = {path: path.stat().st_mtime_ns for path in project.folder.rglob("*") if path.is_file()}
    second = project.built("-e", "native")
    assert "Compiling" not in second
    assert "minun: tiny: posit<" in second
    assert marker.is_file(), ".pio/build was wiped"
    after = {path: path.stat().st_mtime_ns for path in before if path.is_file()}
    touched = {path.name for path in before if after.get(path) != before[path]}
    assert touched <= {"minun_stamp.json", ".sconsign311.dblite", *_pio_files(touched)}


def _pio_files(names: set[str]) -> set[str]:
    """Files that PlatformIO itself writes at every run."""
    return {name for name in names if name.startswith(".sconsign") or name == "idedata.json"}


def test_the_same_script_works_as_pre_and_clean_removes_what_it_made(project: Project) -> None:
    project.ini(PRE)
    project.built("-e", "native")
    project.built("-e", "due")
    assert (project.generated("native") / "tiny.cpp").is_file()
    cleaned = project.built("-e", "native", "-t", "clean")
    assert "Removing include/minun_models/native/tiny.h" in cleaned
    assert not project.generated("native").exists()
    assert (project.generated("due") / "tiny.h").is_file()
    assert "Compiling" not in project.built("-e", "due"), "cleaning one environment wiped another"
    project.built("-e", "native")


def test_both_ways_at_once_generate_and_compile_once(project: Project) -> None:
    project.ini(f"lib_deps = symlink://{ROOT}\n{PRE}")
    output = project.built("-e", "native")
    assert output.count("minun: tiny:") == 1
    assert output.count("minun_models/tiny.o") == 1


def test_details_are_told_with_v(project: Project) -> None:
    told = project.built("-e", "native", "-v")
    assert "\ncalls:\n" in told
    assert "\nsearch: haunter, " in told
    assert "\ncalls:\n" not in project.built("-e", "native")


def test_a_heap_is_refused_where_the_project_says_so(project: Project) -> None:
    project.ini(f"lib_deps = symlink://{ROOT}\ncustom_minun_no_heap = yes")
    project.built("-e", "due")
    source = project.folder / "src" / "main.cpp"
    source.write_text(
        "#include <stdlib.h>\nvoid *volatile kept;\n" + MAIN.replace("{ ", "{ kept = malloc(9); ")
    )
    assert "has heap functions: " in project.failed("-e", "due")
    assert "has heap functions: " in project.failed("-e", "due"), "the second run forgot"


@pytest.mark.skipif(shutil.which("avr-g++") is None, reason="avr-g++ is not installed")
def test_a_firmware_for_a_mega_whose_constants_lpm_does_not_reach_is_refused_and_others_are_told(
    project: Project,
) -> None:
    (project.folder / "platformio.ini").write_text(
        f"[env:mega]\nplatform = symlink://{ROOT}/virtual\nboard = uno_sim\nframework = arduino\n"
        "board_build.mcu = atmega2560\nboard_build.variant = mega\nboard_upload.maximum_size = 253952\n"
        f"board_upload.maximum_ram_size = 8192\nlib_deps = symlink://{ROOT}\n"
    )
    source = project.folder / "src" / "main.cpp"
    sketch = "#include <Arduino.h>\n" + MAIN.replace("int main() { return (int)", "void loop() { ")

    def firmware(tables: int, section: str) -> str:
        where = f'__attribute__((section("{section}")))'
        arrays = "".join(f"extern const char t{k}[30000] {where} = {{1}};\n" for k in range(tables))
        read = "".join(f" kept = t{k};" for k in range(tables))
        return f"{sketch}{arrays}const char* volatile kept;\nvoid setup() {{{read} }}\n"

    source.write_text(firmware(1, ".progmem.gcc_first"))
    assert "note: " not in project.built("-e", "mega")
    source.write_text(firmware(3, ".progmem.gcc_first"))  # which the linker lays before ours
    for _ in range(2):
        assert re.search(r"tiny::k\w+ ends at byte \d+ of flash.*\[image.lpm\]", project.failed("-e", "mega"))
    source.write_text(firmware(3, ".lowtext.last"))  # behind them, still among constants
    told = project.built("-e", "mega")
    assert "minun: note: 1 other constants in program memory end beyond 65536 B, the first is t" in told
    assert "note: " not in project.built("-e", "mega"), "nothing was linked"


def test_the_targets_are_listed(project: Project) -> None:
    output = project.built("--list-targets", "-e", "native")
    for name in ("minun_search", "minun_report", "minun_collect"):
        assert name in output


def test_a_build_from_the_lock_needs_neither_numpy_nor_yaml_nor_the_data(
    project: Project, tmp_path: Path
) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for name in ("numpy", "yaml"):
        (blocked / f"{name}.py").write_text(f"raise ImportError('no {name} here', name='{name}')\n")
    project.built("-e", "native", PYTHONPATH=str(blocked))
    lock_path(project.folder / "model.yaml").unlink()
    line = project.failed("-e", "due", PYTHONPATH=str(blocked))
    assert "is missing in PlatformIO's Python; run: " in line
    assert "-m pip install numpy pyyaml" in line


def test_all_packages_that_a_python_lacks_are_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.yaml").write_text("name: a\nsource: {onnx: a.onnx}\n")
    monkeypatch.setattr("minun_pio.integrations.platformio.find_spec", lambda name: None)
    line = missing_package(ImportError("no", name="yaml"), "python", [tmp_path / "model.yaml"])
    assert line.startswith("the Python package 'pyyaml' is missing in PlatformIO's Python")
    assert "-m pip install numpy pyyaml onnx [" in line


def test_a_line_is_told_whatever_letters_the_consoles_code_page_has(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="cp1252", newline="\n"))
    _print("модель.yaml: é")
    assert written.getvalue().decode("cp1252") == (
        "minun: \\u043c\\u043e\\u0434\\u0435\\u043b\\u044c.yaml: é\n"
    )


def test_a_folder_on_another_drive_can_be_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path", ntpath)
    assert _relative(PureWindowsPath("D:/made/tiny.h"), PureWindowsPath("C:/project")) == r"D:\made\tiny.h"
    assert _relative(PureWindowsPath("C:/project/a/tiny.h"), PureWindowsPath("C:/project")) == r"a\tiny.h"


def test_a_command_is_one_that_powershell_runs_too() -> None:
    wanted = r"run: C:\pio\python.exe -m pip install numpy pyyaml [extra.missing]"
    assert missing_package(ImportError("no", name="numpy"), r"C:\pio\python.exe").endswith(wanted)
    assert pip_install("onnx", python="/a b/python") == '"/a b/python" -m pip install onnx'


def test_ctrl_c_is_seen_where_scons_notes_it() -> None:
    from SCons.Taskmaster.Job import Jobs

    jobs = Jobs(1, SimpleNamespace(trace=None, stop=lambda: None))
    jobs._setup_sig_handler()
    try:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
    finally:
        jobs._reset_sig_handler()
    assert not interrupted()


def test_a_mistake_in_model_yaml_is_one_line_with_its_place(project: Project) -> None:
    (project.folder / "model.yaml").write_text(MODEL + "serch: haunter\n")
    assert "model.yaml:8: unknown key 'serch'; did you mean 'search'?" in project.failed("-e", "native")
    assert not project.generated("native").exists()


def test_a_model_that_is_not_there_is_one_line_with_its_environment(project: Project) -> None:
    (project.folder / "model.yaml").rename(project.folder / "other.yaml")
    line = project.failed("-e", "native")
    assert "platformio.ini: [env:native]: custom_minun_model: no file 'model.yaml'" in line


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "custom_minun_modle = other.yaml",
            "unknown option 'custom_minun_modle'; there are custom_minun_model, ",
        ),
        (
            "custom_minun_output_dir = src/models",
            "custom_minun_output_dir is 'src/models', which is among the",
        ),
        ("custom_minun_no_heap = maybe", "custom_minun_no_heap is 'maybe', expected yes or no"),
    ],
)
def test_a_mistake_in_platformio_ini_is_one_line_with_its_environment(
    project: Project, option: str, message: str
) -> None:
    ini = project.folder / "platformio.ini"
    ini.write_text(f"{ini.read_text()}{option}\n")
    environment = ini.read_text().rpartition("[env:")[2].partition("]")[0]
    assert f"platformio.ini: [env:{environment}]: {message}" in project.failed("-e", environment)


def test_a_firmware_without_a_model_gets_the_headers_only(project: Project) -> None:
    (project.folder / "model.yaml").unlink()
    ini = (project.folder / "platformio.ini").read_text().replace("custom_minun_model = model.yaml", "")
    (project.folder / "platformio.ini").write_text(ini)
    (project.folder / "src" / "main.cpp").write_text("#include <minun/formats.h>\nint main() { return 0; }\n")
    assert "nothing to generate" in project.built("-e", "native")


def test_searching_again_renews_the_lock(project: Project) -> None:
    lock = lock_path(project.folder / "model.yaml")
    lock.unlink()
    output = project.built("-e", "native", "-t", "minun_search")
    assert "searching formats for native" in output
    assert "Searching formats" in output
    assert list(json.loads(lock.read_text())["targets"]) == ["host/any/any"]


def test_compiledb_has_the_generated_source(project: Project) -> None:
    project.built("-e", "native", "-t", "compiledb")
    entries = json.loads((project.folder / "compile_commands.json").read_text())
    assert any(entry["file"].endswith("minun_models/native/tiny.cpp") for entry in entries)


def test_three_environments_at_once_do_not_hurt_one_another(project: Project) -> None:
    project.built("-e", "native")  # PlatformIO itself races for a .pio/build that is not there yet
    shutil.rmtree(project.folder / "include")
    names = ("native", "due", "h747")
    running = [
        subprocess.Popen(
            project.command("-e", name, "--disable-auto-clean"),
            cwd=project.folder,
            env=project.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in names
    ]
    for name, process in zip(names, running, strict=True):
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        assert (project.generated(name) / "tiny.h").is_file()
    assert not [path for path in (project.folder / "include").rglob("*") if path.name.startswith(".tiny")]
    assert "Compiling" not in project.built(*(part for name in names for part in ("-e", name)))


def test_the_output_folder_can_be_chosen(project: Project) -> None:
    project.ini(f"lib_deps = symlink://{ROOT}\ncustom_minun_output_dir = made here")
    project.built("-e", "native")
    assert (project.folder / "made here" / "tiny.h").is_file()
    assert "Compiling" not in project.built("-e", "native")


def test_a_project_reached_by_a_symlink_builds_the_same_bytes(project: Project, tmp_path: Path) -> None:
    project.built("-e", "native")
    direct = (project.generated("native") / "tiny.cpp").read_bytes()
    link = tmp_path / "link"
    link.symlink_to(project.folder, target_is_directory=True)
    shutil.rmtree(project.folder / "include")
    Project(link, f"lib_deps = symlink://{ROOT}").built("-e", "native")
    assert (project.generated("native") / "tiny.cpp").read_bytes() == direct


def test_a_changed_weight_file_is_noticed(project: Project) -> None:
    project.built("-e", "native")
    np.savez(project.folder / "w.npz", W=np.zeros((4, 6)), b=np.ones(4))
    done = project.pio("-e", "native")
    assert "w.npz has changed; searching formats for native" in done.stdout
