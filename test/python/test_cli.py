# SPDX-License-Identifier: Apache-2.0
"""The `minun` command on the quickstart's models: JSON everywhere, one line on failure, quick to start."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quickstart's models without lock files, then built once for the Due."""
    folder = tmp_path_factory.mktemp("digits")
    for name in ("cnn", "protonn", "data"):
        shutil.copytree(DIGITS / name, folder / name, ignore=shutil.ignore_patterns("*.lock.json"))
    minun(folder, "build", "cnn/model.yaml", "--board", "due")
    return folder


def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "minun_pio", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def minun(folder: Path, *arguments: str) -> str:
    done = run(folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def minun_json(folder: Path, *arguments: str) -> Any:
    return json.loads(minun(folder, *arguments, "--json"))


def failure(folder: Path, *arguments: str, **environment: str) -> str:
    done = run(folder, *arguments, **environment)
    assert done.returncode != 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_help_lists_the_commands_without_importing_numpy(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('numpy was imported')")
    done = run(tmp_path, "--help", PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}")
    for name in ("build", "search", "evaluate", "plan", "report", "collect", "boards"):
        assert name in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize(
    "name", ["build", "search", "evaluate", "plan", "report", "collect", "check", "boards"]
)
def test_every_command_has_help_and_json(tmp_path: Path, name: str) -> None:
    assert "--json" in minun(tmp_path, name, "--help")


def test_a_virtual_board_is_named_like_its_environment_and_is_as_the_board_it_stands_for(
    digits: Path,
) -> None:
    build = ("build", "cnn/model.yaml", "--out", "generated", "--locked")
    assert minun_json(digits, *build, "--board", "due_sim")["target"] == "m3/98304/524288"


def test_a_python_without_a_package_is_told_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError('no', name='click')")
    done = run(tmp_path, "boards", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 1
    quoted = f'"{sys.executable}"' if " " in sys.executable else sys.executable
    assert done.stderr == (
        f"minun: error: {sys.executable} has no package 'click'; run: {quoted} -m pip install click\n"
    )


def test_a_package_is_called_what_pip_calls_it(digits: Path, tmp_path: Path) -> None:
    (tmp_path / "serial.py").write_text("raise ModuleNotFoundError('no', name='serial')")
    arguments = ("collect", "cnn/model.yaml", "--board", "due", "--port", "/no/port")
    line = failure(digits, *arguments, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert "the Python package 'pyserial' is missing; run: " in line
    assert line.endswith(" -m pip install pyserial")


def test_build_writes_the_same_bytes_from_the_lock_as_from_a_search(digits: Path, tmp_path: Path) -> None:
    first = minun_json(digits, "build", "cnn/model.yaml", "--board", "due", "--out", str(tmp_path / "a"))
    assert [Path(path).name for path in first["outputs"]] == [
        "cnn.cpp",
        "cnn.h",
        "cnn.vectors",
        "minun_models.h",
    ]
    lock = (digits / "cnn" / "model.lock.json").read_bytes()
    minun(digits, "build", "cnn/model.yaml", "--board", "due", "--out", str(tmp_path / "b"), "--renew")
    assert (digits / "cnn" / "model.lock.json").read_bytes() == lock
    for name in ("cnn.cpp", "cnn.h", "cnn.vectors", "minun_models.h"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_folder_stands_for_the_model_yaml_in_it(digits: Path, tmp_path: Path) -> None:
    minun(digits, "build", "cnn", "--board", "due", "--locked", "--out", str(tmp_path / "out"))
    assert (tmp_path / "out" / "cnn.h").is_file()
    assert not (digits / "cnn.lock.json").exists()
    for command in (("search",), ("report",), ("collect", "--port", "nowhere")):
        assert "no file 'model.yaml'" in failure(digits, *command, "data")


def test_weights_outside_an_onnx_file_are_watched_too(digits: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    shutil.copytree(digits / "cnn", tmp_path / "cnn", ignore=shutil.ignore_patterns("*.lock.json"))
    shutil.copytree(digits / "data", tmp_path / "data")
    path = tmp_path / "cnn" / "cnn.onnx"
    proto = onnx.load(str(path))
    onnx.save(proto, str(path), save_as_external_data=True, location="cnn.weights", size_threshold=0)
    minun(tmp_path, "build", "cnn/model.yaml", "--board", "due", "--out", "o")
    minun(tmp_path, "build", "cnn/model.yaml", "--board", "due", "--out", "o", "--locked")
    side = tmp_path / "cnn" / "cnn.weights"
    side.write_bytes(side.read_bytes()[:-4] + bytes(4))
    line = failure(tmp_path, "build", "cnn/model.yaml", "--board", "due", "--out", "o", "--locked")
    assert "cnn.weights has changed" in line


def test_two_models_share_a_folder_and_one_that_is_dropped_is_removed(digits: Path, tmp_path: Path) -> None:
    models = ("cnn/model.yaml", "protonn/model.yaml")
    minun(digits, "build", *models, "--out", str(tmp_path))
    assert (tmp_path / "protonn.h").is_file()
    (tmp_path / "mine.h").write_text("")
    minun(digits, "build", models[0], "--out", str(tmp_path))
    assert not (tmp_path / "protonn.h").exists()
    assert (tmp_path / "mine.h").is_file()


def test_two_models_of_one_name_are_refused(digits: Path, tmp_path: Path) -> None:
    shutil.copytree(digits / "cnn", digits / "again", dirs_exist_ok=True)
    done = run(
        digits, "build", "cnn/model.yaml", "again/model.yaml", "--board", "due", "--out", str(tmp_path)
    )
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith("minun: error: again/model.yaml: 'cnn' is also the name of cnn/model.yaml")
    assert not any(tmp_path.iterdir())


def test_locked_refuses_to_search(digits: Path, tmp_path: Path) -> None:
    line = failure(digits, "build", "cnn/model.yaml", "--board", "uno", "--locked", "--out", str(tmp_path))
    assert "model.lock.json has no entry for avr/2048/32256; run without --locked" in line


def test_evaluate_sets_the_formats_beside_uniform_ones_and_float32(digits: Path) -> None:
    found = minun_json(digits, "evaluate", "cnn/model.yaml", "--board", "due")
    rows = {row["formats"]: row for row in found["rows"]}
    assert list(rows) == ["float32", "posit<8,0>", "posit<8,2>", "posit<16,1>", "posit<16,2>", "locked"]
    assert found["samples"] >= 360
    assert rows["locked"]["accuracy"] >= rows["float32"]["accuracy"] - 0.02
    assert rows["posit<8,0>"]["arena_bytes"] < rows["float32"]["arena_bytes"]
    built = minun_json(digits, "report", "cnn/model.yaml", "--board", "due")["models"][0]
    assert rows["locked"]["flash_bytes"] == built["flash"]["total"]


def test_evaluate_layers_shows_the_tensors_of_the_chosen_formats(digits: Path) -> None:
    flags = ("evaluate", "cnn/model.yaml", "--board", "due", "--layers")
    locked = {row["tensor"]: row for row in minun_json(digits, *flags)["tensors"]}
    assert locked["scores"]["format"] == "posit<16,1>"
    assert locked["image"]["own_db"] == "exact"  # multiples of 1/16
    narrow = {row["tensor"]: row for row in minun_json(digits, *flags, "--formats", "posit<8,2>")["tensors"]}
    assert narrow["scores"]["own_db"] < locked["scores"]["own_db"] - 20
    line = failure(digits, *flags, "--formats", "posit<8,1>")
    assert "no formats 'posit<8,1>' here; --formats takes one of posit<8,0>, posit<8,2>" in line


def test_search_shows_strategies_side_by_side_within_the_limit_and_leaves_the_lock_alone(
    digits: Path,
) -> None:
    lock = (digits / "cnn" / "model.lock.json").read_bytes()
    strategies = ("haunter", "shiftry", "accuracy-based", "size-based", "uniform-low", "float32")
    flags = [part for name in strategies for part in ("-s", name)]
    found = minun_json(digits, "search", "cnn/model.yaml", "--board", "due", "--limit", "1000", *flags)
    outcomes = {outcome["strategy"]: outcome for outcome in found["outcomes"]}
    assert set(outcomes) == set(strategies)
    for name in ("haunter", "accuracy-based", "size-based", "uniform-low"):
        assert outcomes[name]["fits"]
        assert outcomes[name]["ram_bytes"] <= 1000
    assert outcomes["haunter"]["accuracy"] >= outcomes["uniform-low"]["accuracy"]
    assert outcomes["haunter"]["heat"]
    assert outcomes["haunter"]["ram_limit_bytes"] == 1000
    assert (digits / "cnn" / "model.lock.json").read_bytes() == lock


def test_search_says_what_it_counts_within_which_limits_and_by_how_much_it_is_over(digits: Path) -> None:
    flags = ("search", "protonn/model.yaml", "--core", "avr", "--ram", "2048", "--flash", "15000")
    text = minun(digits, *flags, "--limit", "100", "--trail")
    assert "protonn for avr, on the calibration samples; within arena 100 B and flash 9029 B" in text
    outcome = minun_json(digits, *flags, "--limit", "100")["outcomes"][0]
    over_ram, over_flash = outcome["ram_bytes"] - 100, outcome["flash_bytes"] - 9029
    assert f"no, arena over by {over_ram} B and flash over by {over_flash} B" in text
    assert "about cycles" in text
    assert f"flash {outcome['flash_bytes']} B, about {outcome['estimated_count']:,} cycles" in text


def test_without_labels_search_and_evaluate_say_agreement_and_which_samples(digits: Path) -> None:
    bare = digits / "cnn" / "bare.yaml"
    bare.write_text("name: bare\nsource: {onnx: cnn.onnx}\nsearch: uniform-low\n")
    assert "agreement %" in minun(digits, "search", "cnn/bare.yaml", "--board", "due")
    told = minun(digits, "evaluate", "cnn/bare.yaml", "--board", "due")
    assert "bare for due: 64 random samples: no 'data' in model.yaml" in told
    assert "agreement %" in told


def test_report_tells_formats_arena_and_trail(digits: Path, tmp_path: Path) -> None:
    found = minun_json(digits, "report", "cnn/model.yaml", "--board", "due")["models"][0]
    assert found["arena"]["bytes"] >= found["arena"]["lower_bound"]
    assert found["search"]["candidates"]
    text = minun(digits, "report", "cnn/model.yaml", "--board", "due", "--out", str(tmp_path))
    assert "arena" in text
    assert (tmp_path / "report.html").is_file()


def test_a_budget_that_cannot_be_met_says_need_have_and_over_by(digits: Path) -> None:
    text = (digits / "cnn" / "model.yaml").read_text() + "budgets: {ram: 100}\n"
    (digits / "cnn" / "small.yaml").write_text(text)
    done = run(digits, "build", "cnn/small.yaml", "--board", "due", "--json")
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert "small.yaml:" in line
    for word in ("needs", "have 100 B", "over by", "[budget.ram]"):
        assert word in line
    assert not (digits / "cnn" / "small.lock.json").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("build", "--board", "unno"), "minun: error: no board 'unno'; did you mean 'uno'?"),
        (("build", "nothing.yaml"), "minun: error: nothing.yaml: no file"),
        (("build", "--board", "x.json"), "minun: error: x.json: no such file"),
        (("build", "--renew", "--locked"), "minun: error: --renew searches, --locked forbids it"),
        (("build", "cnn/model.yaml", "cnn/model.yaml"), "minun: error: model.yaml: is named twice"),
        (("plan", "--timeout", "-1", "x.csv"), "minun: error: Invalid value for '--timeout'"),
        (("plan", "--timeout", "nan", "x.csv"), "minun: error: --timeout is not a number"),
        (
            ("report", "cnn/model.yaml", "--board", "uno"),
            "model.yaml: model.lock.json has no entry for avr/2048",
        ),
        (
            ("collect", "cnn/model.yaml", "--board", "due", "--port", "/no/port"),
            "minun: error: /no/port: cannot open the port: No such file or directory; `pio device list`",
        ),
        (
            ("collect", "cnn/model.yaml", "--board", "due", "--port", "/no/port", "--elf", "no.elf"),
            "minun: error: no.elf: cannot be read",
        ),
        (("boards", "stop", "nowhere"), "minun: error: nowhere: no such folder"),
        (("bild",), "minun: error: No such command 'bild'"),
        (("build", "--what"), "minun: error: No such option"),
    ],
)
def test_every_failure_is_one_line_on_stderr(digits: Path, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in failure(digits, *arguments)


def test_what_should_not_happen_is_one_line_too_unless_it_is_asked_for(tmp_path: Path) -> None:
    package = tmp_path / "minun_pio" / "cli"
    shutil.copytree(ROOT / "minun_pio", tmp_path / "minun_pio", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "boards.py").write_text("import click\n@click.command()\ndef boards():\n    [][1]\n")
    done = run(tmp_path, "boards", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("minun: error: boards.py:4: this should not happen (IndexError: list index")
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" in run(tmp_path, "boards", PYTHONPATH=str(tmp_path), MINUN_DEBUG="1").stderr


def test_a_reader_that_went_away_is_no_error_worth_a_line_on_windows_either(tmp_path: Path) -> None:
    (tmp_path / "closed.py").write_text(
        "import errno, sys\nfrom minun_pio.cli import main, root\n"
        "def closed(**_): raise OSError(errno.EINVAL, 'Invalid argument')\n"
        "sys.platform, root.main = sys.argv[1], closed\nmain()\n"
    )
    told = {
        system: subprocess.run(
            [sys.executable, tmp_path / "closed.py", system],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        for system in ("win32", "linux")
    }
    assert [done.returncode for done in told.values()] == [1, 1]
    assert told["win32"].stderr == ""
    assert "Invalid argument [file.error]" in told["linux"].stderr


def test_a_platformio_board_manifest_serves_as_a_board(digits: Path, tmp_path: Path) -> None:
    manifest = {"build": {"cpu": "cortex-m4"}, "upload": {"maximum_ram_size": 65536, "maximum_size": 262144}}
    (tmp_path / "some_board.json").write_text(json.dumps(manifest))
    board = str(tmp_path / "some_board.json")
    found = minun_json(digits, "build", "cnn/model.yaml", "--board", board, "--out", str(tmp_path / "out"))
    assert found["target"] == "m7/65536/262144"
    (tmp_path / "some_board.json").write_text("{}")
    assert "not a PlatformIO board manifest" in failure(digits, "build", "cnn/model.yaml", "--board", board)


def test_without_a_command_the_commands_are_shown(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0
    assert "  collect " in done.stdout
    assert not done.stderr


def test_evaluate_says_why_there_is_no_row_of_the_formats_searched(digits: Path) -> None:
    found = run(digits, "evaluate", "cnn/model.yaml", "--board", "uno").stdout
    assert "model.lock.json has no entry for avr/2048/32256: `minun build` for uno adds the row" in found


def test_the_trails_of_two_strategies_are_told_apart(digits: Path) -> None:
    arguments = ("-s", "uniform-low", "-s", "float32", "--trail", "--board", "due")
    lines = run(digits, "search", "cnn/model.yaml", *arguments).stdout.splitlines()
    assert lines[0] == "uniform-low:"
    assert "float32:" in lines[1:4]


def test_boards_are_listed(tmp_path: Path) -> None:
    found = {row["board"]: row for row in minun_json(tmp_path, "boards")}
    assert found["uno"]["ram_bytes"] == 2048
    assert minun_json(tmp_path, "boards", "stop") == {"stopped": []}


def test_paths_for_cmake_have_slashes_on_windows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class File(PureWindowsPath):
        def is_file(self) -> bool:
            return True

    outputs, inputs = (File("C:\\Users\\me\\out\\cnn.cpp"),), (File("C:\\Users\\me\\model.yaml"),)
    made = SimpleNamespace(outputs=outputs, inputs=inputs, lines=(), written=True)
    module = import_module("minun_pio.cli.build")
    monkeypatch.setattr(module, "generate", lambda *_, **__: made)
    told = json.loads(CliRunner().invoke(module.build, ["--json"]).stdout)
    assert (told["outputs"], told["inputs"]) == (["C:/Users/me/out/cnn.cpp"], ["C:/Users/me/model.yaml"])


AVR_TOOLCHAIN = """
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR avr)
set(CMAKE_CXX_COMPILER avr-g++)
set(CMAKE_CXX_FLAGS_INIT "-mmcu=atmega2560 -Os")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
"""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
@pytest.mark.skipif(shutil.which("avr-g++") is None, reason="avr-g++ is not installed")
def test_cmake_checks_after_linking_for_an_avr_that_lpm_reaches_the_constants(
    digits: Path, tmp_path: Path
) -> None:
    (tmp_path / "avr.cmake").write_text(AVR_TOOLCHAIN)
    (tmp_path / "CMakeLists.txt").write_text(
        f'cmake_minimum_required(VERSION 3.18)\nproject(firmware CXX)\nadd_subdirectory("{ROOT}" minun)\n'
        f"add_executable(firmware main.cpp)\nminun_add_models(firmware MODELS {digits}/cnn/model.yaml "
        "CORE avr RAM 8192 FLASH 253952)\n"
    )
    table = 'extern const char t{0}[30000] __attribute__((section(".progmem.gcc_first"))) = {{1}};\n'
    use = "const char* volatile kept;\nvoid use() {{{}}}\n"
    main = (
        "#include <cnn.h>\nstatic cnn::InputCode in[cnn::kInputElements];\nvoid use();\n"
        "static cnn::OutputCode out[cnn::kOutputElements];\nstatic uint8_t arena[cnn::kArenaBytes];\n"
        "int main() { use(); return static_cast<int>(cnn::infer(in, out, arena, sizeof arena)); }\n"
    )

    def firmware(tables: int) -> subprocess.CompletedProcess[str]:
        arrays = "".join(table.format(k) for k in range(tables))
        kept = "".join(f" kept = t{k}; " for k in range(tables))
        (tmp_path / "main.cpp").write_text(main + arrays + use.format(kept))
        options = (f"-DMINUN_PYTHON={sys.executable}", "-DCMAKE_TOOLCHAIN_FILE=avr.cmake")
        for arguments in (("-S", ".", "-B", "build", *options), ("--build", "build")):
            done = subprocess.run(
                ["cmake", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
            )
        return done

    done = firmware(1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "static SRAM" in done.stdout
    done = firmware(3)
    assert done.returncode != 0
    assert "minun: error: firmware: cnn::k" in done.stderr
    assert "[image.lpm]" in done.stderr


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_cmake_builds_a_firmware_and_configures_again_when_a_model_changes(
    digits: Path, tmp_path: Path
) -> None:
    project = tmp_path / "a project"
    shutil.copytree(digits, project)
    (project / "CMakeLists.txt").write_text(
        f'cmake_minimum_required(VERSION 3.18)\nproject(firmware CXX)\nadd_subdirectory("{ROOT}" minun)\n'
        "add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror)\n"
        "add_executable(firmware main.cpp)\nminun_add_models(firmware MODELS cnn/model.yaml)\n"
    )
    (project / "main.cpp").write_text("#include <cnn.h>\nint main() { return cnn::kInputElements - 64; }\n")

    def cmake(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["cmake", *arguments], cwd=project, capture_output=True, text=True, timeout=120, check=False
        )

    options = (f"-DMINUN_PYTHON={sys.executable}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    configured = cmake("-S", ".", "-B", "build", *options)
    assert "-- minun: cnn: posit<" in configured.stdout, configured.stderr
    commands = json.loads((project / "build" / "compile_commands.json").read_text())
    for command in commands:
        words = shlex.split(command["command"])
        assert ("-isystem", f"{ROOT}/include") in pairwise(words), words
    built = cmake("--build", "build")
    assert built.returncode == 0, built.stderr
    assert subprocess.run([project / "build" / "firmware"], check=False).returncode == 0
    assert "Configuring" not in cmake("--build", "build").stdout
    model = project / "cnn" / "model.yaml"
    model.write_text(model.read_text() + "serch: haunter\n")
    broken = cmake("--build", "build")
    assert broken.returncode != 0
    assert "unknown key 'serch'" in broken.stderr
