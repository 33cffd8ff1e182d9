# SPDX-License-Identifier: Apache-2.0
"""Emission: the same bytes every time, from JSON alone, in the house's format, guarded against misuse."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emitted_model import INCLUDE, STRICT, emit
from small_networks import branches, recurrent, tensors, two_layers

from minun_pio.emit.names import Identifiers, check_model_name
from minun_pio.emit.program import (
    Arena,
    ArenaRow,
    Constant,
    Flash,
    Port,
    Program,
    Statement,
    Vectors,
    canonical,
    from_json,
    to_json,
)
from minun_pio.emit.text import comment, literal, table
from minun_pio.emit.write import write, write_shared
from minun_pio.errors import MinunError
from minun_pio.ir import Graph, Node
from minun_pio.numerics.posit import Posit
from minun_pio.simulate.assign import uniform

GOLDEN = Path(__file__).parent / "golden"


def by_hand() -> Program:
    """A program with one of everything, made without the compiler."""
    posit = {"format": "posit<8,2>", "cpp": "minun::Posit<8, 2>", "ctype": "int8_t", "code_bytes": 1}
    body = (
        Statement(
            "call", "1: relu 'act': x -> y", "minun/clip.h", "minun::clip", ("in + 2 * t0", "out"), "fast"
        ),
        Statement("copy", "2: y", args=("arena + 4", "arena + 0"), bytes=2),
    )
    return Program(
        model="by_hand",
        core="host",
        inputs=(Port("x", "x", (1, 6), offset_bytes=0, **posit),),
        outputs=(Port("y", "y", (1, 2), offset_bytes=0, **posit),),
        constants=(
            Constant(
                "kW", "int16_t", 3, base64.b64encode(b"\1\0\xff\xff\0\x80").decode(), 4, True, "w: posit"
            ),
        ),
        statements=(
            Statement("copy", "0: x", args=("arena + 0", "kW"), bytes=2, in_flash=True),
            Statement("loop", "time: 3 steps", variable="t0", steps=3, body=body),
        ),
        arena=Arena(
            6, 1, 6, "optimal", "exact", 1, "act", ("a", "b"), (ArenaRow("a", 0, 4, 0, 3, "a posit<8,2>"),)
        ),
        flash=Flash(6, 0, 500),
        formats={"x": "posit<8,2>"},
        vectors=Vectors(1, "AAAA", "AAA="),
        package_version="0.0.0",
    )


@pytest.mark.parametrize("name", ["by_hand.h", "by_hand.cpp", "minun_models.h"])
def test_the_text_of_a_program_is_the_golden_one(name: str):
    """After a wanted change: MINUN_GOLDEN=write pytest test/python/test_emit.py"""
    import os

    files = {**write(by_hand()), **write_shared([by_hand(), replace(by_hand(), model="other")])}
    if os.environ.get("MINUN_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / name).write_text(files[name], encoding="utf-8")
    assert files[name] == (GOLDEN / name).read_text(encoding="utf-8")


def test_two_runs_emit_the_same_bytes_and_the_same_hash(tmp_path: Path):
    graph = recurrent()
    x = np.random.default_rng(0).normal(size=(3, 5, 1, 3))
    texts, hashes = [], []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        emitted = emit(graph, uniform(graph, Posit(8, 2)), x, tmp_path / name, options=("-O0",))
        texts.append(write(emitted.program))
        hashes.append(emitted.program.build_hash)
    assert texts[0] == texts[1]
    assert hashes[0] == hashes[1]


def test_the_hash_changes_with_one_weight():
    program = by_hand()
    changed = replace(program, constants=(replace(program.constants[0], data="AQD//wCB"),))
    assert changed.build_hash != program.build_hash


def test_json_and_back_is_the_same_program():
    program = by_hand()
    again = from_json(json.loads(json.dumps(to_json(program))))
    assert again == program
    assert canonical(again) == canonical(program)
    assert write(again) == write(program)


@pytest.mark.parametrize("damage", [{"version": 99}, {"surplus": 1}, {"arena": {"bytes": 1}}])
def test_a_damaged_program_is_one_clear_line(damage: dict):
    with pytest.raises(MinunError, match="run the search again"):
        from_json({**to_json(by_hand()), **damage})


def test_writing_from_json_imports_no_numpy(tmp_path: Path):
    file = tmp_path / "program.json"
    file.write_text(json.dumps(to_json(by_hand())))
    script = (
        "import json, sys\n"
        "from minun_pio.emit.program import from_json\n"
        "from minun_pio.emit.write import write, write_shared\n"
        f"p = from_json(json.load(open({str(file)!r})))\n"
        "write(p), write_shared([p])\n"
        "assert 'numpy' not in sys.modules and 'yaml' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_generated_code_is_formatted(tmp_path: Path):
    if shutil.which("clang-format") is None:
        pytest.skip("clang-format is not installed")
    files = dict(write(by_hand()), **write_shared([by_hand()]))
    for graph in (two_layers(), recurrent(), branches()):
        folder = tmp_path / graph.name
        folder.mkdir()
        x = {n: np.ones((1, *graph.tensors[n].shape)) for n in graph.inputs}
        emitted = emit(graph, uniform(graph, Posit(16, 1)), x, folder, model=graph.name, options=("-O0",))
        files.update(write(emitted.program))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    style = Path(__file__).resolve().parents[2] / ".clang-format"
    command = ["clang-format", f"--style=file:{style}", "--dry-run", "-Werror"]
    done = subprocess.run([*command, *[str(tmp_path / n) for n in files]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


def test_no_name_in_a_network_joins_a_comment_with_the_code_after_it():
    for name in ("x \\", "x \\ ", "x ??/", "x ????/", "a " * 60 + "\\ b"):
        for line in (*comment(name), *table([["1", name]])):
            assert not line.rstrip().endswith(("\\", "??/"))


@pytest.mark.parametrize("name", ["Digits", "int", "a__b", "9lives", "", "std", "x" * 41, "a-b", "minun"])
def test_a_name_that_is_no_namespace_is_refused(name: str):
    with pytest.raises(MinunError, match=r"emit\.model-name"):
        check_model_name(name)


def test_identifiers_never_collide():
    names = Identifiers()
    given = ["fc1.weight", "fc1/weight", "fc1 weight", "1", "", "class"]
    found = [names.constant(n) for n in given] + [names.member(n) for n in given]
    assert len(set(found)) == len(found)
    assert all(n.isidentifier() for n in found)


@pytest.mark.parametrize("value", [0.1, 1e-45, 3.4028234e38, -0.0, 1.0, 16777216.0, 1e10, 123456.79])
def test_a_float_literal_reads_back_to_the_same_bits(value: float):
    single = np.float32(value)
    assert np.float32(literal(float(single), "float").rstrip("f")).tobytes() == single.tobytes()


def test_another_runtime_stops_the_compiler_with_a_clear_line(tmp_path: Path):
    graph = two_layers()
    emitted = emit(graph, uniform(graph, Posit(8, 2)), np.ones((1, 1, 6)), tmp_path)
    for name, text in write(replace(emitted.program, runtime_version=99)).items():
        (tmp_path / name).write_text(text)
    command = ["g++", *STRICT, "-I", str(INCLUDE), "-fsyntax-only", str(tmp_path / "tiny.cpp")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "build the model again" in done.stderr


def test_an_input_that_no_output_depends_on_is_no_warning(tmp_path: Path):
    node = Node("positive", "relu", ("k",), ("y",))
    graph = Graph(
        "deaf", tensors(x=(1, 2), k=(1, 2), y=(1, 2)), (node,), ("x",), ("y",), {"k": np.array([[1.0, -1.0]])}
    )
    answered, expected = emit(graph, uniform(graph, Posit(8, 2)), np.ones((1, 1, 2)), tmp_path).self_test()
    assert answered == expected


def test_an_arena_too_small_or_askew_is_refused(tmp_path: Path):
    graph = two_layers()
    emit(graph, uniform(graph, Posit(16, 1)), np.ones((1, 1, 6)), tmp_path)
    (tmp_path / "main.cpp").write_text(
        '#include "tiny.h"\n'
        "alignas(8) static uint8_t arena[tiny::kArenaBytes + 8];\n"
        "int main() {\n"
        "  tiny::InputCode in[tiny::kInputElements] = {};\n"
        "  tiny::OutputCode out[tiny::kOutputElements];\n"
        "  const tiny::Status small = tiny::infer(in, out, arena, tiny::kArenaBytes - 1);\n"
        "  const tiny::Status askew = tiny::infer(in, out, arena + 1, tiny::kArenaBytes);\n"
        "  const tiny::Status good = tiny::infer(in, out, arena, tiny::kArenaBytes);\n"
        "  return small == tiny::Status::kArenaTooSmall && askew == tiny::Status::kArenaMisaligned &&\n"
        "                 good == tiny::Status::kOk ? 0 : 1;\n"
        "}\n"
    )
    sources = [str(tmp_path / "main.cpp"), str(tmp_path / "tiny.cpp")]
    binary = str(tmp_path / "check")
    subprocess.run(["g++", *STRICT, "-I", str(INCLUDE), *sources, "-o", binary], check=True)
    assert subprocess.run([binary]).returncode == 0
