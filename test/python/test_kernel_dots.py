# SPDX-License-Identifier: Apache-2.0
"""A sample of benchmarks/dot_products.py: the kernels agree with exact sums on adversarial dot products."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from kernel_program import ROOT

sys.path.append(str(ROOT / "benchmarks"))
import dot_products


@pytest.mark.parametrize("fmt", dot_products.FORMATS, ids=lambda fmt: str(fmt.name))
def test_fast_kernels_tiles_and_exact_sums_agree_on_adversarial_dot_products(fmt: Any) -> None:
    rows = dot_products.check(fmt, dots=4_000, seed=11)
    assert {row["kind"] for row in rows} >= {"ties", "cancelling", "extremes", "any_codes", "with_nar"}
    assert sum(row["dots"] for row in rows) >= 4_000
    assert [row for row in rows if row["chosen"] or row["tiles"] or row["exact"]] == []
