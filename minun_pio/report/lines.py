# SPDX-License-Identifier: Apache-2.0
"""The one line a build prints for a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def kilobytes(count: int) -> str:
    """1023 -> '1023 B', 3482 -> '3.4 KB'."""
    return f"{count} B" if count < 1024 else f"{count / 1024:.1f} KB"


def formats_text(formats: Mapping[str, Any], used: Collection[str] = ()) -> str:
    """`posit<8,2>/<16,2>` for a mix, one name where there is only one. `used`: the tensors' formats."""
    real = {name for name in used if name != "index32"}
    if len(real) == 1:
        return real.pop()
    low, high = str(formats["low"]), str(formats["high"])
    if not formats["promoted"] or low == high:
        return low
    family = low.partition("<")[0]
    return f"{low}/{high.removeprefix(family)}" if high.startswith(f"{family}<") else f"{low}/{high}"


def summary_line(summary: Mapping[str, Any]) -> str:
    """`digits: posit<8,2>, arena 112 B = lower bound, flash 3.4 KB, accuracy 96.1 % (float32 96.4 %)`."""
    arena, accuracy = summary["arena"], summary["accuracy"]
    bound = (
        "= lower bound"
        if arena["bytes"] == arena["lower_bound"]
        else f"(lower bound {arena['lower_bound']} B)"
    )
    used = [tensor["format"] for tensor in summary["tensors"]]
    word = "accuracy" if accuracy["labelled"] else "agreement with float32"
    beside = f" (float32 {100 * accuracy['float32']:.1f} %)" if accuracy["labelled"] else ""
    if accuracy.get("random"):
        beside = f" on {accuracy['samples']} random samples: no 'data' in model.yaml"
    return (
        f"{summary['model']}: {formats_text(summary['formats'], used)}, arena {arena['bytes']} B {bound}, "
        f"flash {kilobytes(summary['flash']['total'])}, {word} {100 * accuracy['host']:.1f} %{beside}"
    )
