# SPDX-License-Identifier: Apache-2.0
"""The one build: from model.yaml to a program, with budgets that are gates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_networks import two_layers, wide

from minun_pio.board.target import Target
from minun_pio.budgets import check_accuracy
from minun_pio.build import compile_model
from minun_pio.config import Budgets, read_model
from minun_pio.emit.program import from_json, to_json
from minun_pio.emit.write import write
from minun_pio.errors import MinunError
from minun_pio.simulate.reference import reference

UNO = Target("uno", "avr", 2048, 32256)

YAML = """
name: tiny
source:
  input: [1, 6]
  weights: weights.npz
  layers:
    - dense: {w: w, b: b, activation: relu}
    - dense: {w: w2}
data:
  calibration: data.npz
formats:
  family: posit
  low: 8
  high: 16
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    graph = two_layers()
    np.savez(tmp_path / "weights.npz", **graph.constants)
    x = np.random.default_rng(4).normal(size=(80, 1, 6))
    y = reference(graph, x)["y"][:, 0].argmax(axis=1)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    (tmp_path / "model.yaml").write_text(YAML)
    return tmp_path / "model.yaml"


def build(model: Path, extra: str = "", target: Target = UNO):
    model.write_text(YAML + extra)
    return compile_model(read_model(model), target, graph=two_layers())


def test_a_build_chooses_plans_and_says_so_in_one_line(model: Path):
    built = build(model)
    line = built.summary["line"]
    assert line.startswith("tiny: posit<")
    assert "= lower bound" in line
    assert "accuracy" in line
    assert "(float32 100.0 %)" in line
    assert built.program.vectors.samples == 16
    assert built.program.arena.bytes == built.program.arena.lower_bound


def test_two_builds_are_the_same_program_to_the_byte(model: Path):
    one, two = build(model), build(model)
    assert one.program == two.program
    assert json.dumps(one.summary) == json.dumps(two.summary)
    assert write(from_json(json.loads(json.dumps(to_json(one.program))))) == write(two.program)


def test_the_search_is_a_parameter(model: Path):
    asked = []

    def mine(config, graph, ram, flash, costs):
        from minun_pio.search.choose import choose

        outcome = choose(config, graph, ram, flash, costs)
        asked.append((ram, flash, costs.ram(outcome.assignment) <= costs.packed(outcome.assignment).ram))
        return outcome

    compile_model(read_model(model), UNO, graph=two_layers(), search=mine)
    assert asked == [(2048, 32256, True)]


def test_a_ram_budget_that_is_too_small_names_need_have_over_and_who_is_live(model: Path):
    with pytest.raises(MinunError) as caught:
        build(model, "budgets:\n  ram: 5\n")
    error = caught.value
    assert error.code == "budget.ram"
    assert "have 5 B" in error.message
    assert "over by" in error.message
    assert "the peak is set at step" in error.message
    assert error.where.startswith("model.yaml:")


def test_a_flash_budget_that_is_too_small_names_the_largest_constants(model: Path):
    with pytest.raises(MinunError) as caught:
        build(model, "budgets:\n  flash: 100\n")
    assert caught.value.code == "budget.flash"
    assert "the largest are: " in caught.value.message
    assert "fc1" in caught.value.message


def test_a_board_whose_flash_is_too_small_says_what_it_has_and_what_is_kept_for_the_rest(model: Path):
    with pytest.raises(MinunError, match=r"have 2974 B \(the board's 8080 B less a reserve of 5106 B\)"):
        build(model, target=replace(UNO, flash_bytes=8080))
    with pytest.raises(MinunError, match=r"have 2000 B \(all that the board has\)"):
        build(model, "budgets: {flash: 1 MB}\n", target=replace(UNO, flash_bytes=2000))


def test_formats_are_searched_within_what_tables_and_code_leave_of_the_flash_budget(
    tmp_path: Path,
):
    np.savez(tmp_path / "w.npz", **wide().constants)
    x = np.random.default_rng(4).normal(size=(40, 256))
    np.savez(tmp_path / "c.npz", x=x, y=reference(wide(), x[:, None])["y"][:, 0].argmax(axis=1))
    (tmp_path / "model.yaml").write_text(
        "name: wide\nsource: {layers: [relu]}\ndata: {calibration: c.npz}\n"
        "search: {strategy: haunter-paper, tolerated_drop: 100}\n"
    )
    config = read_model(tmp_path / "model.yaml")
    roomy = compile_model(config, UNO, graph=wide())
    over = roomy.program.flash.total - 1000
    assert over > roomy.program.flash.constants  # the constants alone are no reason to search differently
    tight = compile_model(replace(config, budgets=Budgets(flash=over)), UNO, graph=wide())
    assert tight.program.flash.total <= over
    assert tight.summary["search"]["fits"]
    assert tight.summary["search"]["flash_bytes"] == tight.program.flash.total
    assert roomy.summary["search"]["flash_bytes"] == roomy.program.flash.total


def test_an_agreement_is_not_called_an_accuracy(model: Path):
    with pytest.raises(MinunError, match=r"1: agreement with float32 is 90.00 %: a drop of 10.00 points"):
        check_accuracy(read_model(model), 0.9, 1.0, labelled=False)


def test_an_accuracy_drop_over_the_tolerated_one_stops_the_build(model: Path):
    config = read_model(model)
    check_accuracy(config, 0.95, 0.965)
    with pytest.raises(MinunError, match=r"a drop of 5.00 points, 2 tolerated, over by 3.00"):
        check_accuracy(config, 0.90, 0.95)
    tight = replace(config, search=replace(config.search, tolerated_drop=0.5))
    with pytest.raises(MinunError, match=r"0\.5 tolerated"):
        check_accuracy(tight, 0.94, 0.95)


def test_a_network_that_came_quantised_is_not_refused_for_what_random_codes_do_to_it(model: Path):
    from minun_pio.config.model import Data, Formats

    config = replace(read_model(model), formats=Formats("int8"))
    with pytest.raises(MinunError, match="a drop of 60"):
        check_accuracy(config, 0.4, 1.0)
    check_accuracy(replace(config, data=Data()), 0.4, 1.0)


def test_sharing_can_be_switched_off(model: Path):
    off = "memory:\n  in_place: false\n  concat: false\n  overlap: false\n  reorder: false\n"
    plain = build(model, off).program.arena
    shared = build(model).program.arena
    assert [s.name for s in plain.stages] == ["first-fit", "by size", "optimal"]
    assert [s.name for s in shared.stages][-1] == "+ reorder"
    assert shared.bytes <= plain.bytes
