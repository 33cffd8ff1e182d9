# SPDX-License-Identifier: Apache-2.0
"""What the operators' kernels bring into an image: no float, no libm, no heap, and little code."""

from __future__ import annotations

import re

import pytest
from op_cases import BUILDERS, FORMAT_SETS, cases
from op_harness import kernel_bytes, linked_symbols

_FLOAT = re.compile(
    r"__aeabi_(f|d)(add|sub|rsub|mul|div|cmp\w*|2\w+)|__aeabi_(u?[il]2[fd]|u?l2[fd])"
    r"|__(add|sub|mul|div)[sd]f3|__float\w+|__fix\w+"
    r"|(exp|log|sqrt|tanh|erf|pow|fma|ldexp|floor|round)f?"
)
_HEAP = {"malloc", "free", "calloc", "realloc", "_sbrk", "_Znwj", "_ZdlPv"}


@pytest.mark.parametrize("name", ["posit<8,0>", "posit 16/8 mixed", "posit<32,2>", "fixed mixed", "int8"])
def test_no_kernel_of_integers_brings_float_libm_or_heap(name: str) -> None:
    (formats,) = (f for f in FORMAT_SETS if f.name == name)
    every = [case for op in sorted(BUILDERS) if op != "convert" for case in cases(op, formats)]
    symbols = set(linked_symbols(every, "m3"))
    assert any("5minun" in symbol for symbol in symbols)
    assert sorted(s for s in symbols if _FLOAT.fullmatch(s)) == []
    assert sorted(symbols & _HEAP) == []


def test_float_kernels_do_bring_float_so_the_search_for_it_works() -> None:
    (formats,) = (f for f in FORMAT_SETS if f.name == "float32")
    symbols = linked_symbols(cases("add", formats), "m3")
    assert any(_FLOAT.fullmatch(symbol) for symbol in symbols)


@pytest.mark.parametrize("name", ["posit<16,2>", "int8", "float32"])
def test_all_operators_together_take_less_than_50_kb(name: str) -> None:
    (formats,) = (f for f in FORMAT_SETS if f.name == name)
    every = [case for op in sorted(BUILDERS) if op != "convert" for case in cases(op, formats)]
    assert kernel_bytes(every) < 50 * 1024
