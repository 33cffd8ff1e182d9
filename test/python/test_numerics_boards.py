# SPDX-License-Identifier: Apache-2.0
"""Non-linear functions on the emulated cores: the host's bits, and neither float nor libm in the image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from minun_pio.board.bare import build_and_run
from minun_pio.errors import MinunError
from minun_pio.numerics import functions
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.posit import Posit

INCLUDE = Path(__file__).resolve().parents[2] / "include"
FORMATS: tuple[Posit | Fixed, ...] = (Posit(16, 1), Posit(16, 2), Fixed(16, -12))
ATTRS: dict[str, dict[str, float]] = {
    "leaky_relu": {"alpha": 0.125},
    "elu": {"alpha": 1.25},
    "hard_sigmoid": {"alpha": 0.25, "beta": 0.5},
}
FLOAT_ROUTINES = (
    "__addsf3",
    "__mulsf3",
    "__divsf3",
    "__subsf3",
    "__aeabi_f",
    "__aeabi_d",
    "__floatsisf",
    "expf",
)


def sample_codes(fmt: Posit | Fixed) -> np.ndarray:
    rng = np.random.default_rng(40)
    codes = fmt.encode(rng.normal(0, 2, 40))
    edges = np.array([0, 1, -1, fmt.max_code, fmt.min_code, -32768, 0x4000, -0x4000], np.int16)
    return np.concatenate([codes, edges])


def program(fmt: Posit | Fixed, codes: np.ndarray) -> str:
    """Every function of `codes` one after the other; each result is written when it is known."""
    lines = ['#include "bare.h"', '#include "minun/functions.h"', f"typedef {fmt.cpp} F;"]
    body = []
    for name in functions.FUNCTIONS:
        attrs = ATTRS.get(name, {})
        line = functions.curve(name, fmt, fmt)
        if line is None:
            kind, value = functions.device_function(name, **attrs), functions.device_value(name, **attrs)
            call = f"minun::unary<{kind}, F, F>(in, out, {codes.size}, {value});"
        else:
            lines.append(
                f"static const uint16_t {name}_cells[] MINUN_FLASH = {{{', '.join(map(str, line.cells))}}};"
            )
            lines.append(
                f"static const int16_t {name}_nodes[] MINUN_FLASH = {{{', '.join(map(str, line.nodes))}}};"
            )
            call = f"minun::curve<F, F>(in, out, {codes.size}, {name}_cells, {name}_nodes);"
        body += [f"  {call}", "  bare::write(out, sizeof out);"]
    given = ", ".join(str(code) for code in codes.tolist())
    lines += [f"static F::Code in[] = {{{given}}};", f"static F::Code out[{codes.size}];"]
    return "\n".join([*lines, "int main() {", *body, "  return 0;", "}", ""])


@pytest.mark.parametrize("core", ["avr", "m3", "m7"])
@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_functions_give_the_hosts_bits_on_the_core(fmt: Posit | Fixed, core: str, tmp_path: Path) -> None:
    codes = sample_codes(fmt)
    source = tmp_path / "functions.cpp"
    source.write_text(program(fmt, codes))
    try:
        run = build_and_run(core, [str(source)], include_dirs=[str(INCLUDE)], cflags=["-Os", "-std=c++11"])
    except MinunError as error:
        if error.code.startswith("board.no-"):
            pytest.skip(f"{core}: {error.message}")
        raise
    got = np.frombuffer(run.output, np.int16).reshape(len(functions.FUNCTIONS), codes.size)
    for name, result in zip(functions.FUNCTIONS, got, strict=True):
        expected = functions.apply(name, codes, fmt, fmt, **ATTRS.get(name, {}))
        np.testing.assert_array_equal(result, expected, err_msg=name)
    assert not [symbol for symbol in run.symbols if symbol.startswith(FLOAT_ROUTINES)]
