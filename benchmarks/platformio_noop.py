# SPDX-License-Identifier: Apache-2.0
"""What the plugin adds to an unchanged `pio run`: the quickstart with it, and the same sources without it.

    python benchmarks/platformio_noop.py [--runs 9] [--environment native] [--json]

Both projects are built once; then unchanged runs of each alternate. The medians by the clock and in
processor time are given; the latter decides, because other work on the machine does not change it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BOARDS = {"native": ("native", ""), "uno_sim": ("uno_sim", "framework = arduino"), "due_sim": ("due_sim", "")}
ALLOWED_MS = 50.0


def ini(environment: str, lines: str) -> str:
    board, framework = BOARDS[environment]
    return (
        f"[env:{environment}]\nplatform = symlink://{ROOT}/virtual\nboard = {board}\n{framework}\n"
        f"test_framework = custom\n{lines}\n"
    )


def with_plugin(folder: Path, environment: str) -> None:
    shutil.copytree(
        ROOT / "examples" / "digits", folder, ignore=shutil.ignore_patterns(".pio", "minun_models")
    )
    models = "protonn/model.yaml" if environment == "uno_sim" else "protonn/model.yaml\n  cnn/model.yaml"
    lines = f"lib_deps = symlink://{ROOT}\ncustom_minun_model =\n  {models}"
    (folder / "platformio.ini").write_text(ini(environment, lines))


def without_plugin(folder: Path, made: Path, environment: str) -> None:
    """The same firmware with the generated code as ordinary sources."""
    shutil.copytree(made / "src", folder / "src")
    for path in (ROOT / "src").glob("*.cpp"):
        shutil.copy(path, folder / "src" / path.name)
    for path in (made / "include" / "minun_models" / environment).iterdir():
        if path.suffix in (".h", ".cpp"):
            shutil.copy(path, folder / "src" / path.name)
    (folder / "platformio.ini").write_text(ini(environment, f'build_flags = "-I{ROOT}/include"'))


def run(folder: Path, environment: str) -> tuple[float, float]:
    """Seconds of one `pio run`: by the clock, and of the processor."""
    settings = {
        "PLATFORMIO_CORE_DIR": os.environ.get("PLATFORMIO_CORE_DIR", str(ROOT / ".platformio-core")),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
        "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true",
    }
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "platformio", "run", "-e", environment],
        cwd=folder,
        env={**inherited, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return seconds, processor


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--environment", choices=BOARDS, default="native")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folders = {"with": Path(name) / "with", "without": Path(name) / "without"}
        with_plugin(folders["with"], arguments.environment)
        first = run(folders["with"], arguments.environment)
        without_plugin(folders["without"], folders["with"], arguments.environment)
        run(folders["without"], arguments.environment)
        times: dict[str, list[tuple[float, float]]] = {"with": [], "without": []}
        for _ in range(arguments.runs + 1):
            for kind, folder in folders.items():
                times[kind].append(run(folder, arguments.environment))
    clock, processor = (
        {kind: 1000 * statistics.median(pair[k] for pair in values[1:]) for kind, values in times.items()}
        for k in (0, 1)
    )
    cost = processor["with"] - processor["without"]
    result = {
        "environment": arguments.environment,
        "first_build_s": round(first[0], 2),
        "with_plugin_ms": {"clock": round(clock["with"], 1), "processor": round(processor["with"], 1)},
        "without_plugin_ms": {
            "clock": round(clock["without"], 1),
            "processor": round(processor["without"], 1),
        },
        "plugin_ms": {"clock": round(clock["with"] - clock["without"], 1), "processor": round(cost, 1)},
        "allowed_ms": ALLOWED_MS,
        "runs": arguments.runs,
    }
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        print(
            f"{arguments.environment}: an unchanged run takes {clock['with']:.0f} ms with the plugin, "
            f"{clock['without']:.0f} ms without; processor time {processor['with']:.0f} and "
            f"{processor['without']:.0f} ms: the plugin costs {cost:.1f} ms, {ALLOWED_MS:g} allowed"
        )
    sys.exit(0 if cost <= ALLOWED_MS else 1)


if __name__ == "__main__":
    main()
