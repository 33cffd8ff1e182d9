# SPDX-License-Identifier: Apache-2.0
"""Damage ONNX and TensorFlow Lite files for some minutes: no traceback, no hang, no more than 2 GB.

    python benchmarks/fuzz_importers.py --minutes 10 --json
    pip install atheris && python benchmarks/fuzz_importers.py --atheris --minutes 10

Bytes of two sound files are changed, cut, repeated and moved, and operators get wild attributes and
constants. Memory
is limited for the whole process (Linux), every case has ten seconds. With `--atheris` libFuzzer chooses the
bytes by the coverage of the importers.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test" / "python"))
LIMIT_BYTES, CASE_SECONDS = 2 << 30, 10


def hang(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"a case took more than {CASE_SECONDS} s")


def mutated(content: bytes, rng: random.Random) -> bytes:
    """One to eight random edits."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        if not data:
            break
        place, kind = rng.randrange(len(data)), rng.randrange(6)
        length = rng.randint(1, 16)
        if kind == 0:
            data[place] = rng.randrange(256)
        elif kind == 1:
            data[place : place + length] = bytes(rng.randrange(256) for _ in range(length))
        elif kind == 2:
            del data[place : place + length]
        elif kind == 3:
            data[place:place] = data[place : place + length]
        elif kind == 4:
            data[place : place + 4] = rng.choice(
                [b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff\xff\xff\xff", bytes(4)]
            )
        elif rng.random() < 0.2:
            del data[place:]
    return bytes(data)


def random_node(rng: random.Random) -> bytes:
    """A model of one operator with attributes and constants that nobody would write."""
    import numpy as np
    from onnx_models import model, node
    from test_importer_hostile import NAMES, OPERATORS

    def integers() -> list[int]:
        return [rng.choice([-3, -1, 0, 1, 2, 4, 7, 1 << 31, -(1 << 62)]) for _ in range(rng.randint(1, 6))]

    inputs: list[str] = []
    constants: dict[str, Any] = {}
    for k in range(rng.randint(1, 6)):
        kind = rng.randrange(5)
        if kind < 2:
            inputs.append("x")
        elif kind == 2:
            inputs.append("")
        else:
            inputs.append(f"c{k}")
            shape = [rng.randint(0, 4) for _ in range(rng.randint(0, 4))]
            ones = np.ones(shape, rng.choice([np.float32, np.float64, np.int8, np.bool_]))
            constants[f"c{k}"] = np.array(integers(), np.int64) if kind == 3 else ones
    attrs: dict[str, Any] = {}
    for _ in range(rng.randint(0, 4)):
        wild = [rng.randint(-5, 9), integers(), rng.choice([0.5, float("nan"), 1e38]), "reverse", "tanh"]
        attrs[rng.choice(NAMES.split())] = rng.choice(wild)
    shape = rng.choice([[1, 2, 4, 4], [2, 3], [1, 4, 6], [], [1, 1, 1, 1, 2], [1 << 20, 1 << 20]])
    nodes = [node(rng.choice(OPERATORS), inputs, ["y"], **attrs)]
    return bytes(model(nodes, {"x": shape}, ["y"], constants, rng.randint(7, 23)).SerializeToString())


def fuzz(minutes: float, seed: int) -> dict[str, Any]:
    """Random damage until the time is up."""
    from hostile_files import sound_onnx, try_onnx, try_tflite
    from test_importer_tflite import convolutional

    rng = random.Random(seed)
    sound = {"onnx": sound_onnx(), "tflite": convolutional(True)}
    counts: Counter[str] = Counter()
    failures: list[str] = []
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end and len(failures) < 20:
        kind = rng.choice(["onnx", "tflite", "node"])
        content = b""
        try:
            content = random_node(rng) if kind == "node" else mutated(sound[kind], rng)
        except (ValueError, TypeError, OverflowError):
            continue  # onnx.helper would not write it
        signal.alarm(CASE_SECONDS)
        try:
            taken = try_tflite(content) if kind == "tflite" else try_onnx(content)
            counts[f"{kind} {'taken' if taken else 'refused'}"] += 1
        except Exception:
            failures.append(f"{kind}: {traceback.format_exc()}")
        finally:
            signal.alarm(0)
    return {"cases": sum(counts.values()), "counts": dict(counts), "failures": failures}


def with_atheris(minutes: float) -> None:
    """libFuzzer on the importers; ends by itself, or with a traceback."""
    import atheris

    with atheris.instrument_imports(include=["minun_pio"]):
        from hostile_files import sound_onnx, try_onnx, try_tflite
        from test_importer_tflite import convolutional

    corpus = ROOT / "build" / "fuzz"
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "onnx").write_bytes(b"\0" + sound_onnx())
    (corpus / "tflite").write_bytes(b"\1" + convolutional(True))

    def one(data: bytes) -> None:
        if data[:1] == b"\1":
            try_tflite(data[1:])
        else:
            try_onnx(data[1:])

    options = [
        *(f"-max_total_time={int(60 * minutes)}", "-rss_limit_mb=2048", f"-timeout={CASE_SECONDS}"),
        *(f"-artifact_prefix={corpus.parent}/fuzz-", "-print_final_stats=1"),
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    atheris.Fuzz()


def main() -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--atheris", action="store_true")
    options = parser.parse_args()
    if options.atheris:
        with_atheris(options.minutes)
        return 0
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    signal.signal(signal.SIGALRM, hang)
    report = fuzz(options.minutes, options.seed)
    report["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        print(f"{report['cases']} cases, {len(report['failures'])} failures, {report['peak_mb']} MB")
        print("\n".join(report["failures"]))
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
