# SPDX-License-Identifier: Apache-2.0
"""Haunter and its rivals: which number format each tensor gets, within the RAM there is."""

from __future__ import annotations

from minun_pio.search.bracket import bracket
from minun_pio.search.haunter import haunter, haunter_paper
from minun_pio.search.ranked import accuracy_based, size_based
from minun_pio.search.shiftry import shiftry
from minun_pio.search.space import (
    Candidate,
    Group,
    Limits,
    Measure,
    Outcome,
    Rung,
    Space,
    Strategy,
)
from minun_pio.search.uniform import float32, uniform_high, uniform_low

STRATEGIES: dict[str, Strategy] = {
    "haunter": haunter,
    "haunter-paper": haunter_paper,
    "shiftry": shiftry,
    "accuracy-based": accuracy_based,
    "size-based": size_based,
    "uniform-low": uniform_low,
    "uniform-high": uniform_high,
    "float32": float32,
    "bracket": bracket,
}

__all__ = ["STRATEGIES", "Candidate", "Group", "Limits", "Measure", "Outcome", "Rung", "Space", "Strategy"]
