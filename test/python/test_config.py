# SPDX-License-Identifier: Apache-2.0
"""model.yaml: what is read, and the one line that each mistake gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minun_pio.config import flash_budget, ram_budget, read_model
from minun_pio.config.dataset import load_samples
from minun_pio.errors import MinunError
from minun_pio.planner.planners import PLANNERS

PLAIN = "name: digits\nsource:\n  layers: [relu]\n"


def model(folder: Path, text: str) -> Path:
    path = folder / "model.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def error_of(folder: Path, text: str) -> str:
    with pytest.raises(MinunError) as caught:
        read_model(model(folder, text))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_full_model_yaml_is_read_with_every_key(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", W=np.zeros(2))
    np.savez(tmp_path / "c.npz", x=np.zeros((1, 2)), y=np.zeros(1))
    config = read_model(
        model(
            tmp_path,
            """
name: digits
source:
  input: [1, 64]
  weights: w.npz
  layers:
    - relu
    - dense: {weights: W}
    - op: clip
      lo: 0
data: {calibration: c.npz, evaluation: {file: c.npz, x: images, y: labels}}
formats: {family: posit, low: "posit<8, 2>", high: 16}
search: {strategy: shiftry, soft_limits: [0.9, 1.0], tolerated_drop: 0.5, samples: 100, ram: 700}
budgets: {ram: 1.5 KB, flash: auto, reserve_flash: 2048}
memory: {input: arena, in_place: false, planner: first-fit, timeout_s: 3}
outputs: [scores]
""",
        )
    )
    assert config.name == "digits"
    assert config.source.input_shape == (1, 64)
    assert [(layer.kind, dict(layer.attrs), layer.line) for layer in config.source.layers] == [
        ("relu", {}, 7),
        ("dense", {"weights": "W"}, 8),
        ("clip", {"lo": 0}, 9),
    ]
    assert config.data.evaluation is not None
    assert (config.data.evaluation.x, config.data.evaluation.y) == ("images", "labels")
    assert (config.formats.low, config.formats.high) == ("posit<8,2>", 16)
    assert (config.search.strategy, config.search.soft_limits) == ("shiftry", (0.9, 1.0))
    assert (config.search.tolerated_drop, config.search.samples, config.search.ram) == (0.5, 100, 700)
    assert (config.budgets.ram, config.budgets.flash, config.budgets.reserve_flash) == (1536, None, 2048)
    assert (config.memory.input, config.memory.in_place, config.memory.concat) == ("arena", False, True)
    assert config.outputs == ("scores",)
    assert sorted(config.inputs()) == ["calibration", "evaluation", "weights"]


MISTAKES = {
    "serch: haunter": "model.yaml:4: unknown key 'serch'; did you mean 'search'? [config.unknown-key]",
    "memory: {overlp: true}": "model.yaml:4: unknown key 'overlp' in 'memory'; did you mean 'overlap'?",
    "memory: {overlap: maybe}": "model.yaml:4: 'memory.overlap' is 'maybe', expected true or false",
    "memory: {planner: exactly}": "model.yaml:4: 'memory.planner' is 'exactly', expected one of exact,",
    "memory: 3": "model.yaml:4: 'memory' is '3', expected a mapping of input, in_place",
    "search: hunter": "model.yaml:4: 'search' is 'hunter', expected one of haunter, haunter-paper, shiftry",
    "search:\n  tolerated_drop: 200": "model.yaml:5: 'search.tolerated_drop' is 200, expected 0 to 100",
    "search: {samples: 0}": "model.yaml:4: 'search.samples' is 0, expected 1 to",
    "search: {samples: 1.5}": "model.yaml:4: 'search.samples' is '1.5', expected a whole number",
    "search: {samples: true}": "model.yaml:4: 'search.samples' is true, expected a whole number",
    "search: {tolerated_drop: true}": "model.yaml:4: 'search.tolerated_drop' is true, expected a number",
    "budgets: {ram: true}": "model.yaml:4: 'budgets.ram' is true, expected bytes",
    "budgets: {ram: 2 fortnights}": "model.yaml:4: 'budgets.ram' is '2 fortnights', expected bytes",
    "budgets: {ram: -4}": "model.yaml:4: 'budgets.ram' is '-4', expected bytes",
    "formats: {family: posits}": "model.yaml:4: 'formats.family' is 'posits', expected one of",
    "formats: {low: 7}": "model.yaml:4: 'formats.low' is '7', expected a width of family posit (8, 9, 10, 12",
    "formats: {low: 16, high: 8}": "model.yaml:4: 'formats.low' (16 bits)",
    "formats: {low: 'posit<7,1>'}": "model.yaml:4: 'formats.low' is 'posit<7,1>'",
    "data: {calibration: none.npz}": "model.yaml:4: 'data.calibration': no file 'none.npz'; paths",
    "data: {calibration: x.txt}": "model.yaml:4: 'data.calibration' is 'x.txt', expected",
    "data: {evaluation: {x: a}}": "model.yaml:4: 'data.evaluation' needs the key 'file'",
    "name: twice": "model.yaml:4: key 'name' stands twice, first in line 1; remove one",
    "outputs: []": "model.yaml:4: 'outputs' is a list of 0, expected a list of different names",
    "outputs: [a, a]": "model.yaml:4: 'outputs' is a list of 2, expected a list of different names",
    "memory: {in_place: [": "model.yaml:5: not valid YAML:",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_each_mistake_is_one_line_with_its_place_and_what_was_expected(tmp_path: Path, line: str) -> None:
    assert MISTAKES[line] in error_of(tmp_path, PLAIN + line + "\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "model.yaml:1: the file is empty"),
        ("- a\n", "model.yaml:1: 'model.yaml' is a list of 1, expected a mapping"),
        ("name: a\n", "model.yaml:1: the key 'source' is missing"),
        ("source: {layers: [relu]}\n", "model.yaml:1: the key 'name' is missing"),
        (
            "name: class\nsource: {layers: [relu]}\n",
            "'name' is 'class', it is a keyword of C++",
        ),
        (
            "name: string\nsource: {layers: [relu]}\n",
            "'string', a header of that name is there already; add",
        ),
        ("name: minun_models\nsource: {layers: [relu]}\n", "'minun_models', a header of that name is there"),
        ("name: features\nsource: {layers: [relu]}\n", "'features', a header of that name is there"),
        ("name: aux\nsource: {layers: [relu]}\n", "'aux', Windows can have no file of that name; add"),
        ("name: lpt1\nsource: {layers: [relu]}\n", "'lpt1', Windows can have no file of that name; add"),
        ("name: setup\nsource: {layers: [relu]}\n", "'setup', C, C++ or Arduino have it already"),
        ("name: Digits\nsource: {layers: [relu]}\n", "'Digits', expected up to 40 lower-case"),
        ("name: a\nsource: {}\n", "model.yaml:2: 'source' needs exactly one of 'onnx', 'tflite', 'layers'"),
        ("name: a\nsource: {onnx: a.onnx, tflite: b.tflite}\n", "found 'onnx' and 'tflite'"),
        ("name: a\nsource:\n  onnx: missing.onnx\n", "model.yaml:3: 'source.onnx': no file 'missing.onnx'"),
        ("name: a\nsource: {layers: []}\n", "model.yaml:2: 'source.layers' has no layer"),
        ("name: a\nsource:\n  layers:\n    - {a: 1, b: 2}\n", "model.yaml:4: 'source.layers' is a mapping"),
        (
            "name: a\nsource: {input: [0], layers: [relu]}\n",
            "model.yaml:2: 'source.input' is 0, expected 1 to",
        ),
        ("name: &a [*a]\n", "model.yaml:1: nested deeper than 32 levels"),
        ("a: \x01\n", "model.yaml:1: not valid YAML: character #x0001 is not allowed"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in error_of(tmp_path, text)


def test_a_network_in_place_of_a_model_yaml_is_told_what_to_write() -> None:
    with pytest.raises(MinunError, match=r"this is a network; .*'source: \{tflite: net.tflite\}'"):
        read_model("net.tflite")


def test_a_file_of_nearly_the_right_name_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "digits.npz").write_bytes(b"")
    found = error_of(tmp_path, PLAIN + "data: {calibration: digit.npz}\n")
    assert "did you mean 'digits.npz'?" in found


def test_aliases_that_multiply_are_refused_quickly(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{k}: &a{k} [{','.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 12)]
    assert "config.too-large" in error_of(tmp_path, "\n".join(lines))


def test_a_missing_model_yaml_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(MinunError, match=r"nothing.yaml: no file 'nothing.yaml'"):
        read_model(tmp_path / "nothing.yaml")


def outcome(path: Path) -> str:
    try:
        return read_model(path).name
    except MinunError as error:
        return str(error)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=80))
def test_no_text_ends_in_anything_but_a_model_or_one_line(tmp_path_factory: Any, text: str) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    for whole in (text, PLAIN + text, f"name: a\nsource: {text}\n"):
        path = folder / "model.yaml"
        path.write_bytes(whole.encode("utf-8", "surrogatepass"))
        assert "\n" not in outcome(path)


def test_reading_a_model_imports_no_numpy(tmp_path: Path) -> None:
    path = model(tmp_path, PLAIN)
    program = (
        "import sys; from minun_pio.config import read_model; read_model(sys.argv[1]); "
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 0


def test_budgets_are_the_boards_less_the_stated_reserve_unless_written(tmp_path: Path) -> None:
    auto = read_model(model(tmp_path, PLAIN))
    assert ram_budget(auto, 2048) == 2048 - 512 - 128
    assert flash_budget(auto, 32768) == 32768 - 4096 - 4096
    assert ram_budget(auto, None) is None
    stated = read_model(model(tmp_path, PLAIN + "budgets: {reserve_ram: 1000, flash: 8 KB}\n"))
    assert ram_budget(stated, 2048) == 1048
    assert flash_budget(stated, 32768) == 8192


def test_a_budget_is_never_more_than_the_board_has(tmp_path: Path) -> None:
    large = read_model(model(tmp_path, PLAIN + "budgets: {ram: 1 MB, flash: 4 MB}\n"))
    assert ram_budget(large, 2048) == 2048
    assert flash_budget(large, 32768) == 32768
    assert ram_budget(large, None) == 1 << 20


def test_a_reserve_beside_a_stated_budget_is_refused_for_it_would_do_nothing(tmp_path: Path) -> None:
    text = PLAIN + "budgets:\n  ram: 1000\n  reserve_ram: 100\n"
    assert error_of(tmp_path, text).startswith("model.yaml:6: 'budgets.reserve_ram' is what")
    read_model(model(tmp_path, PLAIN + "budgets: {ram: auto, reserve_ram: 100, flash: 9}\n"))


def test_a_width_in_quotes_is_a_width(tmp_path: Path) -> None:
    assert read_model(model(tmp_path, PLAIN + 'formats: {low: "8", high: "12"}\n')).formats.high == 12


def test_int8_has_no_second_width_to_ask_for(tmp_path: Path) -> None:
    found = error_of(tmp_path, PLAIN + "formats: {family: int8, low: 16}\n")
    assert "'formats.low' is '16', expected a width of family int8 (8), or 'auto'" in found


def config_with(tmp_path: Path, **arrays: Any) -> Any:
    np.savez(tmp_path / "d.npz", **arrays)
    return read_model(model(tmp_path, PLAIN + "data:\n  calibration: d.npz\n"))


def samples_error(config: Any, classes: int | None = 3) -> str:
    with pytest.raises(MinunError) as caught:
        load_samples(config, "calibration", {"in": (1, 4)}, classes)
    return str(caught.value)


def test_samples_are_read_from_npz_npy_and_csv_alike(tmp_path: Path) -> None:
    x, y = np.arange(8.0).reshape(2, 4), np.array([0, 2])
    np.savez(tmp_path / "d.npz", x=x, y=y)
    np.save(tmp_path / "d.npy", x)
    np.savetxt(
        tmp_path / "d.csv", np.column_stack([x, y]), delimiter=",", header="a,b,c,d,label", comments=""
    )
    for name, labelled in (("d.npz", True), ("d.npy", False), ("d.csv", True)):
        config = read_model(model(tmp_path, PLAIN + f"data: {{calibration: {name}}}\n"))
        found = load_samples(config, "calibration", {"in": (1, 4)}, 3)
        assert np.array_equal(np.asarray(found.x), x)
        assert (found.y is not None and found.y.tolist() == [0, 2]) if labelled else found.y is None


def test_rows_with_a_single_one_are_labels_too(tmp_path: Path) -> None:
    y = np.array([2, 0, 1])
    found = load_samples(
        config_with(tmp_path, x=np.zeros((3, 4)), y=np.eye(3)[y]), "calibration", {"in": (1, 4)}, 3
    )
    assert found.y is not None
    assert found.y.tolist() == y.tolist()


def test_inputs_with_different_numbers_of_samples_are_refused_with_the_line(tmp_path: Path) -> None:
    config = config_with(tmp_path, a=np.zeros((3, 4)), b=np.zeros((2, 4)))
    with pytest.raises(MinunError, match=r"model.yaml:5: .*'d.npz' differ in samples: 'a' 3, 'b' 2; give"):
        load_samples(config, "calibration", {"a": (1, 4), "b": (1, 4)}, None)


def test_one_output_has_labels_where_they_are_all_0_or_1_and_none_otherwise(tmp_path: Path) -> None:
    for y, labels in (([0, 1, 1], [0, 1, 1]), ([[1.0], [0.0], [1.0]], [1, 0, 1]), ([0.5, 1, 0], None)):
        config = config_with(tmp_path, x=np.zeros((3, 4)), y=np.array(y))
        found = load_samples(config, "calibration", {"in": (1, 4)}, None, binary=True)
        assert (None if found.y is None else found.y.tolist()) == labels
    assert load_samples(config, "calibration", {"in": (1, 4)}, None).y is None


@pytest.mark.parametrize("key", ["x", "y"])
def test_an_array_that_is_named_has_to_be_there(tmp_path: Path, key: str) -> None:
    np.savez(tmp_path / "d.npz", **{"x": np.zeros((2, 4)), "in": np.zeros((2, 4)), "y": np.zeros(2)})
    config = read_model(model(tmp_path, PLAIN + f"data: {{calibration: {{file: d.npz, {key}: pixels}}}}\n"))
    assert "model.yaml:4: 'd.npz' has no array 'pixels'" in samples_error(config)


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"x": np.zeros((0, 4)), "y": np.zeros(0)}, "model.yaml:5: 'd.npz' has no sample [data.empty]"),
        ({"x": np.zeros((2, 5)), "y": np.zeros(2)}, "samples of shape (5,), the network takes (1, 4)"),
        (
            {"x": np.full((2, 4), np.nan)},
            "array 'x' of 'd.npz' has NaN or infinite values, first in sample 0",
        ),
        ({"x": np.zeros((2, 4)), "y": np.array([0, 3])}, "label 3 of sample 1 in 'd.npz' is outside 0 to 2"),
        ({"x": np.zeros((2, 4)), "y": np.array([-1, 0])}, "label -1 of sample 0"),
        ({"x": np.zeros((2, 4)), "y": np.array([0.5, 0])}, "labels that are not integers"),
        ({"x": np.zeros((2, 4)), "y": np.zeros(3)}, "'d.npz' has 2 samples and 3 labels"),
        ({"x": np.array(["a", "b"])}, "has <U1, expected numbers"),
        ({"images": np.zeros((2, 4))}, "'d.npz' has no array 'in'; it has: images"),
    ],
)
def test_data_that_do_not_serve_are_one_line_with_model_yamls_line(
    tmp_path: Path, arrays: dict[str, Any], expected: str
) -> None:
    found = samples_error(config_with(tmp_path, **arrays))
    assert expected in found
    assert found.startswith("model.yaml:5: ")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04rubbish", b"\x93NUMPY\x01\x00", b"1,2\n3\n"])
@pytest.mark.parametrize("suffix", ["npz", "npy", "csv"])
def test_files_that_are_no_arrays_are_one_line(tmp_path: Path, content: bytes, suffix: str) -> None:
    (tmp_path / f"d.{suffix}").write_bytes(content)
    config = read_model(model(tmp_path, PLAIN + f"data:\n  calibration: d.{suffix}\n"))
    assert "\n" not in samples_error(config)


def test_a_csv_file_of_a_spreadsheet_with_semicolons_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a;b;c;d;label\n1,5;2;3;4;0\n")
    config = read_model(model(tmp_path, PLAIN + "data: {calibration: d.csv}\n"))
    assert "columns are separated by semicolons, expected commas" in samples_error(config)


def test_a_csv_file_without_a_column_of_labels_is_told_that_the_last_is_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("1,2,3,4\n5,6,7,8\n")
    config = read_model(model(tmp_path, PLAIN + "data: {calibration: d.csv}\n"))
    assert "samples of shape (3,), the network takes (1, 4); the last column is taken" in samples_error(
        config
    )


def test_an_array_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    config = config_with(tmp_path, x=np.array([{"a": 1}], dtype=object))
    assert "data.unreadable" in samples_error(config)


def test_the_schema_for_editors_knows_exactly_the_keys_that_are_read() -> None:
    from minun_pio.config import model as fields
    from minun_pio.config.read import TOP_KEYS

    schema = json.loads((Path(fields.__file__).parent / "model.schema.json").read_text())
    assert set(schema["properties"]) == set(TOP_KEYS)
    assert schema["additionalProperties"] is False
    for key, kind in (("budgets", fields.Budgets), ("memory", fields.Memory)):
        assert set(schema["properties"][key]["properties"]) == set(kind.__dataclass_fields__)
    strategies = schema["definitions"]["strategy"]["enum"]
    assert strategies == list(fields.STRATEGIES)
    assert list(PLANNERS) == list(fields.PLANNERS)
    assert schema["properties"]["formats"]["oneOf"][1]["properties"]["family"]["enum"] == [
        *fields.FAMILIES,
        "auto",
    ]
