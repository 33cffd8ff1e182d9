# SPDX-License-Identifier: Apache-2.0
"""Reports: one line, a text, a page that needs nothing else, and the table over boards."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from test_emit import by_hand

from minun_pio.board.target import Target
from minun_pio.emit.program import to_json
from minun_pio.errors import MinunError
from minun_pio.lock import save
from minun_pio.report.arena_picture import arena_svg
from minun_pio.report.banks import banks_of, banks_text
from minun_pio.report.demo import HEAD, BoardResult, Latency, chosen, results_json, results_rows, write_demo
from minun_pio.report.html import model_sections, page
from minun_pio.report.lines import formats_text, kilobytes, summary_line
from minun_pio.report.locked import report_files
from minun_pio.report.text import details

UNO = Target("uno", "avr", 2048, 32256)

SUMMARY = {
    "model": "digits",
    "formats": {"low": "posit<8,2>", "high": "posit<16,2>", "promoted": ["h"]},
    "tensors": [
        {"name": "x", "format": "posit<8,2>", "shape": [1, 6], "role": "input"},
        {"name": "h", "format": "posit<16,2>", "shape": [1, 6], "role": "computed"},
    ],
    "arena": {"bytes": 112, "lower_bound": 112, "status": "optimal", "stages": []},
    "flash": {"constants": 1000, "tables": 482, "code_estimate": 2000, "total": 3482},
    "accuracy": {"samples": 360, "host": 0.961, "float32": 0.964, "labelled": True},
    "search": {
        "strategy": "haunter",
        "evaluations": 3,
        "heat": [["h", 0.5]],
        "notes": ["a note"],
        "candidates": [
            {"origin": "base", "soft_limit": 0.9, "low": "posit<8,2>", "high": "posit<16,2>"}
            | {"promoted": ["h"], "ram_bytes": 112, "flash_bytes": 1000, "accuracy": 0.961, "fits": True},
            {"origin": "<all>", "soft_limit": None, "low": "posit<8,2>", "high": "posit<16,2>"}
            | {"promoted": [], "ram_bytes": 300, "flash_bytes": 1000, "accuracy": None, "fits": False},
        ],
    },
}

RESULT = BoardResult(
    board="uno",
    model="protonn",
    formats={"x": "posit<8,2>", "w": "posit<16,2>", "y": "posit<8,2>"},
    samples=360,
    mismatches=0,
    accuracy_board=0.961,
    accuracy_host=0.961,
    accuracy_float32=0.964,
    arena_bytes=112,
    lower_bound_bytes=112,
    flash_bytes=9000,
    sram_bytes=1200,
    stack_bytes=150,
    latency=Latency(123456, "cycles", "simavr"),
)


def test_the_line_of_a_build_is_as_the_design_shows_it():
    assert summary_line(SUMMARY) == (
        "digits: posit<8,2>/<16,2>, arena 112 B = lower bound, flash 3.4 KB, accuracy 96.1 % (float32 96.4 %)"
    )


def test_the_line_says_when_the_arena_is_above_its_bound_and_when_there_were_no_labels():
    summary = {**SUMMARY, "arena": {"bytes": 120, "lower_bound": 112}}
    summary["accuracy"] = {**SUMMARY["accuracy"], "labelled": False}
    line = summary_line(summary)
    assert "arena 120 B (lower bound 112 B)" in line
    assert line.endswith("agreement with float32 96.1 %")


def test_the_line_says_that_samples_were_random_where_a_model_has_no_data():
    summary = {**SUMMARY, "accuracy": {"samples": 64, "labelled": False, "random": True, "host": 0.4}}
    assert summary_line(summary).endswith(
        "agreement with float32 40.0 % on 64 random samples: no 'data' in model.yaml"
    )


@pytest.mark.parametrize(
    ("low", "high", "promoted", "text"),
    [
        ("posit<8,2>", "posit<16,2>", [], "posit<8,2>"),
        ("fixed<8> scale-1", "fixed<16>", ["a"], "fixed<8> scale-1/<16>"),
        ("float32", "float32", ["a"], "float32"),
    ],
)
def test_formats_are_named_shortly(low, high, promoted, text):
    assert formats_text({"low": low, "high": high, "promoted": promoted}) == text


def test_sizes_are_bytes_below_a_kilobyte():
    assert [kilobytes(n) for n in (0, 1023, 1024, 3482)] == ["0 B", "1023 B", "1.0 KB", "3.4 KB"]


def test_the_text_holds_formats_arena_calls_and_the_trail():
    text = "\n".join(details(by_hand(), SUMMARY))
    parts = ("posit<8,2>", "lower bound 6 B", "live at step 1 (act): a, b", "relu 'act'", "base", "a note")
    for part in parts:
        assert part in text


def test_the_page_is_well_formed_complete_and_escaped():
    text = page("a <page>", model_sections(by_hand(), SUMMARY))
    body = text.replace("<!DOCTYPE html>", "").replace('<meta charset="utf-8">', "")
    body = re.sub(r"<meta [^>]*>", "", body)
    tree = ET.fromstring(body)
    assert tree.find(".//{http://www.w3.org/2000/svg}svg") is not None
    assert "&lt;all&gt;" in text
    assert not re.search(r"(src|href)=", text)
    assert "96.10 %" in text


def test_the_picture_has_a_rectangle_for_every_buffer():
    svg = ET.fromstring(arena_svg(by_hand().arena))
    titles = [e.text or "" for e in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == len(by_hand().arena.rows)
    assert titles[0].startswith("a")


def test_an_empty_arena_has_a_picture_too():
    empty = replace(by_hand().arena, rows=(), bytes=0, lower_bound=0, certificate_live=())
    ET.fromstring(arena_svg(empty))


def test_a_report_is_made_from_the_lock_alone(tmp_path: Path):
    model = tmp_path / "model.yaml"
    model.write_text("name: by_hand\n")
    save(model, UNO.key, {}, to_json(by_hand()), SUMMARY)
    lines = report_files([model], UNO, tmp_path / "out")
    assert lines[-1].endswith("report.html")
    data = json.loads((tmp_path / "out" / "report.json").read_text())
    assert data["models"][0]["build_hash"] == f"{by_hand().build_hash:08x}"
    assert data["models"][0]["arena"]["buffers"][0]["bytes"] == 4
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()


def test_a_report_names_the_banks_that_hold_the_arena_fastest_first(tmp_path: Path):
    board = Target("stm32h747", "m7", 524_288, 2_097_152)
    model = tmp_path / "model.yaml"
    model.write_text("name: by_hand\n")
    save(model, board.key, {}, to_json(by_hand()), SUMMARY)
    text = "\n".join(report_files([model], board, tmp_path / "out"))
    assert "fits in DTCM (131072 B, section .dtcm), ITCM (65536 B, section .itcm), AXI (524288 B, de" in text
    assert "It fits in DTCM" in (tmp_path / "out" / "report.html").read_text()
    data = json.loads((tmp_path / "out" / "report.json").read_text())
    assert data["models"][0]["banks"][2] == {"name": "AXI", "bytes": 524_288, "section": ""}


def test_banks_that_are_too_small_are_not_named():
    board = Target("stm32h747", "m7", 524_288, 2_097_152)
    assert [bank["name"] for bank in banks_of(131_073, board)] == ["AXI", "SRAM1-3"]
    assert banks_text(banks_of(600_000, board)) == "fits in no single bank of the board"
    assert banks_text(banks_of(2_048, Target("mystery", "m3", 2_048))) == "fits in RAM (2048 B, default)"
    assert banks_text(None) == ""


def test_a_report_without_a_lock_is_one_clear_line(tmp_path: Path):
    model = tmp_path / "model.yaml"
    model.write_text("name: by_hand\n")
    with pytest.raises(MinunError, match="build the model for uno first"):
        report_files([model], UNO, tmp_path)


def test_the_boards_report_has_the_stated_fields(tmp_path: Path):
    data_file, html_file = write_demo([RESULT], tmp_path, [(by_hand(), SUMMARY)])
    (result,) = json.loads(data_file.read_text())["results"]
    assert set(result) == {
        *("board", "model", "formats", "samples", "mismatches", "accuracy_board", "accuracy_host"),
        *("accuracy_float32", "arena_bytes", "lower_bound_bytes", "flash_bytes", "sram_bytes", "stack_bytes"),
        "latency",
    }
    assert result["latency"] == {"value": 123456, "unit": "cycles", "source": "simavr"}
    assert result == results_json([RESULT])["results"][0]
    html = html_file.read_text()
    assert "123,456 cycles (simavr)" in html
    assert "instructions are not cycles" in html


def test_the_boards_table_has_a_cell_for_every_heading():
    (row,) = results_rows([RESULT])
    assert len(row) == len(HEAD)
    assert chosen(RESULT.formats) == "posit<8,2> x 2, posit<16,2> x 1"
