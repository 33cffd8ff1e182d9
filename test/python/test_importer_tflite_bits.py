# SPDX-License-Identifier: Apache-2.0
"""An imported TensorFlow Lite operator gives the interpreter's bits, in every form and at any scales.

Some draws of each case; benchmarks/tflite_operators.py makes more of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
import tflite
import tflite_bits
from tflite_bits import compared
from tflite_cases import CASES, NOT_RUN, chosen
from tflite_draw import SCALES
from tflite_models import File
from tflite_oracle import OPTIMISED, Oracle, Unanswered, oracle

from minun_pio.importers.tflite.convert import HANDLERS

pytest.importorskip(
    "ai_edge_litert", reason="the TensorFlow Lite interpreter (ai-edge-litert) is not installed"
)

_DRAWS = (0, 1, 2, 3, 4, 6)  # each kind of scales once

_REFUSED = ("NEG", "NEG one format", "FULLY_CONNECTED weights with a zero point")
"""Cases of operators that the importer takes, in a form that it does not."""

_NO_KERNEL: Mapping[str, str] = {
    "int8": "ADD_N CEIL COS CUMSUM FLOOR L2_POOL_2D POW ROUND SIGN SIN SQUARE",
    "int16": "ADD_N ARG_MAX ARG_MIN CEIL COS CUMSUM DEPTH_TO_SPACE ELU FLOOR HARD_SWISH L2_NORMALIZATION "
    "L2_POOL_2D LOG_SOFTMAX POW RELU_0_TO_1 RELU_N1_TO_1 ROUND SIGN SIN SPACE_TO_DEPTH SQUARE "
    "SQUARED_DIFFERENCE",
    "float32": "",
}
"""Operators, by width, that the interpreter does not have or refuses."""


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Oracle]:
    with oracle() as found:
        yield found


def test_each_kind_of_scales_is_drawn() -> None:
    assert {SCALES[draw] for draw in _DRAWS} == set(SCALES)


def test_every_operator_that_the_importer_takes_has_a_case_or_a_reason() -> None:
    assert set(HANDLERS) <= {case.operator for case in CASES} | set(NOT_RUN)


@pytest.mark.parametrize(
    ("operator", "width"), sorted({(case.operator, width) for case in CASES for width in case.widths})
)
def test_the_outputs_are_the_interpreters(operator: str, width: str, interpreter: Oracle) -> None:
    problems, answered = [], 0
    for case in chosen([operator]):
        for draw in (_DRAWS[:1] if width == "float32" else _DRAWS) if width in case.widths else ():
            found = compared(case, width, draw, interpreter)
            if found.state == "unanswered":
                continue
            answered += 1
            taken = operator in HANDLERS and case.name not in _REFUSED
            if found.different or found.state == "broken" or (found.state == "refused" and taken):
                problems.append(f"{case.name}, draw {draw}: {found}")
            elif found.through_float and taken:
                problems.append(f"{case.name}, draw {draw}: {found.through_float} left the file's formats")
    assert not problems, "\n".join(problems[:5])
    assert answered or operator in _NO_KERNEL[width].split()


def test_one_code_more_is_seen(interpreter: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = chosen(["REVERSE_V2"])
    honest = tflite_bits.feeds

    def changed(drawn: tflite_bits.Drawn, graph: tflite_bits.Graph) -> dict[str, np.ndarray]:
        codes = honest(drawn, graph)
        first = codes[graph.inputs[0]]
        first.reshape(-1)[0] ^= 64
        return codes

    assert compared(case, "int8", 0, interpreter).different == 0
    monkeypatch.setattr(tflite_bits, "feeds", changed)
    assert compared(case, "int8", 0, interpreter).different == 1


def _sum(codes: np.ndarray) -> bytes:
    file = File()
    x = file.tensor("x", codes.shape, "int8", None, [0.05], 3)
    axis = file.tensor("axis", (1,), "int32", np.array([1], np.int32))
    y = file.tensor("y", (1, codes.shape[2]), "int8", None, [0.2], -7)
    file.operator(tflite.BuiltinOperator.SUM, [x, axis], [y], "ReducerOptions", KeepDims=False)
    return file.bytes([x], [y])


def test_the_reference_kernel_of_sum_leaves_its_outputs_unwritten(interpreter: Oracle) -> None:
    """Why SUM is compared with the optimised kernel: this one gives what the memory held before."""
    codes = np.random.default_rng(1).integers(-128, 128, (1, 5, 8)).astype(np.int8)
    exact = (codes.astype(float) - 3).sum(1) * 0.05 / 0.2 - 7
    wanted = np.clip(np.rint(exact), -128, 127)
    (reference,), (optimised,) = (
        interpreter.outputs(_sum(codes), [[codes]], *resolver)[0] for resolver in ((), (OPTIMISED,))
    )
    assert np.abs(optimised - wanted).max() <= 1
    assert np.abs(reference - wanted).max() > 20


def test_an_abort_of_the_interpreter_is_an_answer_and_the_next_question_works(interpreter: Oracle) -> None:
    drawn = chosen(["SOFTMAX 1024"])[0].draw("int8", 0)
    even = np.zeros((2, 1024), np.int8)
    with pytest.raises(Unanswered, match="ended"):
        interpreter.outputs(drawn.content, [[even]])
    (made,) = interpreter.outputs(drawn.content, drawn.samples[:1])[0]
    assert made.shape == even.shape
