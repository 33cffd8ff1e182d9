# SPDX-License-Identifier: Apache-2.0
"""All cases of TensorFlow Lite's operators, each as often drawn as one likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tflite_cases_elementwise import ELEMENTWISE
from tflite_cases_linear import LINEAR
from tflite_cases_movement import MOVEMENT
from tflite_draw import Case

CASES: tuple[Case, ...] = (*LINEAR, *ELEMENTWISE, *MOVEMENT)

NOT_RUN: Mapping[str, str] = {}
"""Operators that the importer takes and the interpreter cannot run in any width, with the reason."""


def chosen(names: Sequence[str]) -> list[Case]:
    """The cases of the named operators, or cases of those names; all for none. Raises ValueError."""
    for name in names:
        if not any(name in (case.operator, case.name) for case in CASES):
            raise ValueError(f"no operator or case '{name}'")
    return [case for case in CASES if not names or case.operator in names or case.name in names]
