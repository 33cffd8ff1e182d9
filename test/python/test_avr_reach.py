# SPDX-License-Identifier: Apache-2.0
"""AVR reads constants in the lower 64 KB of flash only: what does not lie there is refused, never garbage."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minun_pio.board.bare import Image, build, missing_tools
from minun_pio.board.target import HOST, Target, lpm_may_not_reach
from minun_pio.budgets import ARRAY_BYTES, LPM_BYTES, check_reach
from minun_pio.build import compile_model
from minun_pio.config import read_model
from minun_pio.emit import link_check
from minun_pio.emit.program import Program
from minun_pio.emit.write import write
from minun_pio.errors import MinunError
from minun_pio.generate import clean, generate, models_in

ROOT = Path(__file__).resolve().parents[2]
MEGA = Target("mega", "avr", 8_192, 253_952)
KB_128, KB_256 = "atmega1284p", "atmega2560"

MODEL = """name: NAME
source:
  input: [1, INPUTS]
  weights: NAME.npz
  layers:
    - dense: {weights: w0, bias: b0, activation: relu}
    - dense: {weights: w1, bias: b1, activation: relu}
    - dense: {weights: w2, bias: b2}
formats: {family: posit, low: 8, high: 16}
search: {strategy: STRATEGY, tolerated_drop: 100}
"""


def write_model(folder: Path, name: str, widths: tuple[int, ...], strategy: str = "uniform-low") -> Path:
    """A model.yaml with three dense layers, `widths` from the input to the output."""
    rng = np.random.default_rng(1)
    arrays = {}
    for k, (inputs, outputs) in enumerate(pairwise(widths)):
        arrays[f"w{k}"] = rng.normal(size=(outputs, inputs)) / inputs**0.5
        arrays[f"b{k}"] = rng.normal(size=outputs) / 8
    np.savez(folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    path = folder / f"{name}.yaml"
    text = MODEL.replace("NAME", name).replace("INPUTS", str(widths[0]))
    path.write_text(text.replace("STRATEGY", strategy))
    return path


def lpm_bytes(program: Program) -> int:
    return sum(len(base64.b64decode(c.data)) for c in program.constants if c.in_flash)


BELOW, ABOVE = (150, 142, 145, 144), (150, 142, 145, 145)
"""Widths whose constants and tables are just below and just above what AVR reads."""


@pytest.fixture(scope="module")
def below(tmp_path_factory: pytest.TempPathFactory) -> Program:
    config = read_model(write_model(tmp_path_factory.mktemp("below"), "below", BELOW))
    return compile_model(config, MEGA).program


def linked(
    programs: list[Program], folder: Path, first: str = "", last: str = "", flags: Any = (), mcu: str = KB_128
) -> Image:
    """A firmware for simavr that answers all samples of the last program, with other sources around it."""
    absent = missing_tools("avr")
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")
    for program in programs:
        for name, text in write(program).items():
            (folder / name).write_text(text)
    name, samples = programs[-1].model, programs[-1].vectors.samples
    include = "".join(f'#include "{program.model}.h"\n' for program in programs)
    others = "".join(f"  {p.model}::infer(0, 0, 0, 0);\n" for p in programs[:-1])
    (folder / "main.cpp").write_text(
        f'#include "bare.h"\n{include}using namespace {name};\nextern const char first[], last[];\n'
        f"static uint8_t arena[kArenaBytes];\nstatic InputCode in[kInputElements];\n"
        f"static OutputCode out[kOutputElements];\nint main() {{\n{others}"
        f"  for (int s = 0; s < {samples}; ++s) {{\n    bare::read(in, sizeof in);\n"
        "    infer(in, out, arena, sizeof arena);\n    bare::write(out, sizeof out);\n  }\n"
        "  return first + 1 == 0 || last + 1 == 0;\n}\n"
    )
    for place, size in (("first", first), ("last", last)):
        attribute = "__attribute__((__progmem__)) " if size else ""
        (folder / f"{place}.cpp").write_text(
            f"extern const char {place}[];\nconst char {place}[{size or 1}] {attribute}= {{1}};\n"
        )
    sources = ["first.cpp", *(f"{program.model}.cpp" for program in programs), "last.cpp", "main.cpp"]
    return build(
        "avr",
        [folder / source for source in sources],
        folder / "firmware.elf",
        include_dirs=[ROOT / "include", folder],
        cflags=("-Os",),
        mcu=mcu,
        link_flags=flags,
    )


def right_answers(image: Image, program: Program) -> bool:
    output = image.run(base64.b64decode(program.vectors.inputs), timeout_s=200).output
    return output == base64.b64decode(program.vectors.outputs)


@pytest.mark.parametrize("mcu", [KB_128, KB_256])
def test_just_below_the_limit_every_answer_is_the_hosts(below: Program, tmp_path: Path, mcu: str) -> None:
    assert LPM_BYTES - 500 < lpm_bytes(below) <= LPM_BYTES
    image = linked([below], tmp_path, mcu=mcu)
    assert link_check.check_reach(image.elf, ["below"]) == ()
    assert right_answers(image, below)


def test_just_above_the_limit_the_sum_the_limit_and_the_largest_are_named(tmp_path: Path) -> None:
    with pytest.raises(MinunError) as caught:
        compile_model(read_model(write_model(tmp_path, "above", ABOVE)), MEGA)
    assert caught.value.code == "budget.lpm"
    assert caught.value.where == "above.yaml:2"
    need = int(
        re.findall(r"need (\d+) B of flash, AVR's lpm instruction reads 64512 B", str(caught.value))[0]
    )
    assert LPM_BYTES < need < LPM_BYTES + 500
    assert f"over by {need - LPM_BYTES} B; the largest are: dense.weights" in str(caught.value)
    compile_model(read_model(tmp_path / "above.yaml"), replace(MEGA, core="host"))


def test_a_firmware_whose_own_progmem_pushes_a_model_beyond_is_refused_with_the_symbols_name(
    below: Program, tmp_path: Path
) -> None:
    image = linked([below], tmp_path, first="4000")
    with pytest.raises(MinunError, match=r"firmware.elf: below::k\w+ ends at byte \d+ of flash") as caught:
        link_check.check_reach(image.elf, ["below"])
    assert caught.value.code == "image.lpm"
    assert not right_answers(image, below), "so it is needed"


def test_other_constants_beyond_are_told_and_not_refused(below: Program, tmp_path: Path) -> None:
    image = linked([below], tmp_path, last="4000")
    assert link_check.check_reach(image.elf, ["below"]) == ("last",)
    assert right_answers(image, below)


def test_an_image_without_symbols_is_refused_only_where_it_is_larger_than_what_is_read(
    below: Program, tmp_path: Path
) -> None:
    image = linked([below], tmp_path, flags=("-s",))
    with pytest.raises(MinunError, match=r"no symbols.*link without -s"):
        link_check.check_reach(image.elf, ["below"])
    small = tmp_path / "small"
    small.mkdir()
    config = read_model(write_model(small, "small", (8, 8, 8, 8)))
    image = linked([compile_model(config, MEGA).program], small, flags=("-s",))
    assert link_check.check_reach(image.elf, ["small"]) == ()


def test_models_that_fit_one_by_one_are_refused_together(tmp_path: Path) -> None:
    models = [write_model(tmp_path, name, (110, 112, 112, 110)) for name in ("one", "two")]
    out = tmp_path / "out"
    generate(models[:1], MEGA, out)
    assert models_in(out) == ("one",)
    with pytest.raises(MinunError) as caught:
        generate(models, MEGA, out)
    assert caught.value.code == "budget.lpm"
    assert re.search(r"need (\d+) B of flash \(one \d+ B, two \d+ B\)", str(caught.value))
    assert "firmwares of their own" in str(caught.value)
    assert models_in(out) == ("one",), "the folder is as it was"
    with pytest.raises(MinunError, match="firmwares of their own"):
        generate(models, MEGA, out)  # from the lock files too
    generate(models, HOST, out)
    clean(out)


def test_a_constant_that_the_compiler_does_not_take_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(MinunError, match=r"model 'wide', dense\.weights_1 as dense_5 reads it: ") as caught:
        compile_model(read_model(write_model(tmp_path, "wide", (4, 181, 182, 4))), MEGA)
    assert (caught.value.code, caught.value.where) == ("budget.array", "wide.yaml:2")
    assert f"32942 B in one array, and AVR's compiler takes {ARRAY_BYTES} B at most" in str(caught.value)
    fits = compile_model(read_model(write_model(tmp_path, "fits", (4, 181, 181, 4))), MEGA).program
    linked([fits], tmp_path)


def test_an_input_output_or_arena_that_the_compiler_does_not_take_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(
        "name: siren\nsource: {input: [1, 33000], layers: [relu]}\n"
        "formats: {family: posit, low: 8, high: 8}\nsearch: {strategy: uniform-low, tolerated_drop: 100}\n"
    )
    with pytest.raises(MinunError, match="model 'siren': the input takes 33000 B, and AVR's compiler"):
        compile_model(read_model(path), Target("avr", "avr"))
    compile_model(read_model(path), HOST)


def test_formats_are_searched_within_what_is_read(tmp_path: Path) -> None:
    path = write_model(tmp_path, "high", (110, 120, 120, 110), "haunter-paper")
    built = compile_model(read_model(path), MEGA)
    assert built.summary["search"]["fits"]
    assert lpm_bytes(built.program) <= LPM_BYTES
    assert built.summary["formats"]["promoted"], "what there is room for"


def test_only_an_avr_with_more_flash_than_lpm_reads_is_checked() -> None:
    assert lpm_may_not_reach(MEGA)
    assert lpm_may_not_reach(Target("avr", "avr"))
    assert not lpm_may_not_reach(Target("uno", "avr", 2_048, 32_256))
    assert not lpm_may_not_reach(HOST)


def test_the_largest_that_fits_is_not_refused(below: Program) -> None:
    check_reach([below])
    assert json.dumps(link_check.readable("__c.123")) == '"__c.123"'
    assert (
        link_check.readable("_ZN6digits12_GLOBAL__N_1L13kDenseWeightsE.lto_priv.4") == "digits::kDenseWeights"
    )
