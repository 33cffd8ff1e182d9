# SPDX-License-Identifier: Apache-2.0
"""Accuracy and cost of the non-linear functions.

    python benchmarks/functions.py             # error in codes against correct rounding, over all codes
    python benchmarks/functions.py --boards    # and cost of a value on emulated cores, code and table bytes
    python benchmarks/functions.py --json

Costs are means over ordinary inputs (normal, deviation 2): cycles on AVR, instructions (not cycles) on ARM.
Flash counts code and tables, over an empty loop, at -O2.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from minun_pio.board.bare import build_and_run
from minun_pio.numerics import function_constants, functions
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.posit import Posit

ROOT = Path(__file__).resolve().parent.parent
Format = Posit | Fixed
FORMATS: tuple[Format, ...] = (Posit(12, 2), Posit(16, 1), Posit(16, 2), Fixed(16, -12))
ATTRS: dict[str, dict[str, float]] = {
    "leaky_relu": {"alpha": 0.125},
    "elu": {"alpha": 1.0},
    "hard_sigmoid": {"alpha": 0.25, "beta": 0.5},
}
TABLE_BYTES = {
    "exp": 4 * len(function_constants.EXP2_TABLE),
    "log": 8 * len(function_constants.LOG_TABLE),
    "tanh": 4 * len(function_constants.TANH_COEFFICIENTS),
    "erf": 4 * len(function_constants.ERF_COEFFICIENTS),
    "erfc": 4 * len(function_constants.ERFC_COEFFICIENTS),
}
TABLES = {
    "sigmoid": ("exp",),
    "tanh": ("exp", "tanh"),
    "exp": ("exp",),
    "log": ("log",),
    "erf": ("erf", "erfc", "exp"),
    "gelu": ("erf", "erfc", "exp"),
    "gelu_tanh": ("exp",),
    "silu": ("exp",),
    "softplus": ("exp", "log"),
    "elu": ("exp",),
}
BATCH = 32


def accuracy(function: str, fmt: Format) -> dict[str, Any]:
    """Distances in codes over every code of `fmt`, NaR and poles left out."""
    codes = np.arange(-(1 << (fmt.bits - 1)), 1 << (fmt.bits - 1)).astype(fmt.storage)
    values = fmt.decode(codes)
    attrs = ATTRS.get(function, {})
    got = functions.apply(function, codes, fmt, fmt, **attrs)
    wanted = functions.rounded_reference(function, values, fmt, **attrs)
    line = functions.curve(function, fmt, fmt)
    kept = np.isfinite(values)
    distance = np.abs(got.astype(np.int64) - wanted)[kept]
    absolute = np.abs(fmt.decode(got) - functions.reference(function, values, **attrs))[
        kept & (np.abs(values) < 8)
    ]
    absolute = absolute[np.isfinite(absolute)]
    return {
        "function": function,
        "format": fmt.name,
        "max_code_error": int(distance.max()),
        "within_one_code": round(float((distance <= 1).mean()), 6),
        "correctly_rounded": round(float((distance == 0).mean()), 6),
        "max_abs_error_below_8": float(f"{absolute.max():.3g}"),
        "way": "computed" if line is None else "curve",
        "table_bytes": sum(TABLE_BYTES[name] for name in TABLES.get(function, ()))
        if line is None
        else line.table_bytes,
    }


def cost(function: str, fmt: Format, core: str) -> dict[str, Any]:
    """Cycles or instructions a value, and flash over the empty loop, on one emulated core."""
    rng = np.random.default_rng(3)
    codes = fmt.encode(rng.normal(0, 2, BATCH))
    values = ", ".join(str(code) for code in codes.tolist())
    attrs = ATTRS.get(function, {})
    kind = functions.device_function(function, **attrs)
    call = f"minun::unary<{kind}, F, F>(in, out, {BATCH}, {functions.device_value(function, **attrs)});"
    tables = ""
    line = functions.curve(function, fmt, fmt)
    if line is not None:
        call = f"minun::curve<F, F>(in, out, {BATCH}, cells, nodes);"
        tables = (
            f"static const uint16_t cells[] MINUN_FLASH = {{{', '.join(map(str, line.cells))}}};\n"
            f"static const int16_t nodes[] MINUN_FLASH = {{{', '.join(map(str, line.nodes))}}};\n"
        )
    sizes, counts, unit = [], [], ""
    with tempfile.TemporaryDirectory() as folder:
        for body in (f"for (int i = 0; i < {BATCH}; ++i) out[i] = in[i];", call):
            source = Path(folder) / "function.cpp"
            source.write_text(
                f'#include "bare.h"\n#include "minun/functions.h"\ntypedef {fmt.cpp} F;\n'
                f"static volatile F::Code given[{BATCH}] = {{{values}}};\n{tables if body == call else ''}"
                f"static F::Code in[{BATCH}], out[{BATCH}];\n"
                f"int main() {{\n  for (int i = 0; i < {BATCH}; ++i) in[i] = given[i];\n  bare::begin(1);\n"
                f"  {body}\n  bare::end(1);\n  bare::write(out, sizeof out);\n  return 0;\n}}\n"
            )
            run = build_and_run(
                core, [str(source)], include_dirs=[str(ROOT / "include")], cflags=["-O2", "-std=c++11"]
            )
            sizes.append(run.sizes.flash)
            counts.append(run.marks[1])
            unit = run.unit
    expected = functions.apply(function, codes, fmt, fmt, **attrs)
    return {
        f"{core}_{unit}": round((counts[1] - counts[0]) / BATCH, 1),
        f"{core}_flash_bytes": sizes[1] - sizes[0],
        f"{core}_mismatches": int((np.frombuffer(run.output, fmt.storage) != expected).sum()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--boards", action="store_true")
    options = parser.parse_args()
    rows = []
    for function in functions.FUNCTIONS:
        for fmt in FORMATS:
            row = accuracy(function, fmt)
            if options.boards and fmt.bits == 16:
                for core in ("avr", "m3"):
                    row.update(cost(function, fmt, core))
            rows.append(row)
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))
    else:
        for row in rows:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
