# SPDX-License-Identifier: Apache-2.0
"""Tables and coefficients of the non-linear functions, for the host's twin and for the board's header.

`header_text()` is the content of include/minun/function_constants.h; a test holds the two together. The
tables come from 50-digit decimal arithmetic; the polynomials are Chebyshev fits (tanh on 0..1/4, erf on
0..1/2, both in the square of the argument; log(erfc(z) e^(z^2) / t) in t = 1 / (1 + z/2), for t from 0.05 to
1), rounded.
"""

from __future__ import annotations

from decimal import Decimal, getcontext
from math import floor

getcontext().prec = 50

_LN2 = Decimal(2).ln()


def _floor(value: Decimal) -> int:
    return int(value.to_integral_value(rounding="ROUND_FLOOR"))


EXP2_TABLE = tuple(_floor(Decimal(2) ** (31 + Decimal(i) / 64)) for i in range(64))
"""2^(i/64), Q31."""

_STEP = _LN2 / 64
EXP2_COEFFICIENTS = (_floor(_STEP * 2**32), _floor(_STEP**2 / 2 * 2**32), _floor(_STEP**3 / 6 * 2**32))
"""2^(u/64) - 1 = C0 u + C1 u^2 + C2 u^3 for u in [0, 1), Q32."""

LOG2_E = _floor(1 / _LN2 * 2**31)
"""Q31."""

LOG_INVERSE = tuple(_floor(2**32 / (1 + (Decimal(i) + Decimal("0.5")) / 32)) for i in range(32))
"""1 / c_i, Q32, where c_i is the middle of the i-th of 32 parts of [1, 2)."""

LOG_TABLE = tuple(_floor(-(Decimal(inverse) / 2**32).ln() * 2**32) for inverse in LOG_INVERSE)
"""-ln(LOG_INVERSE[i]), Q32."""

LN2_Q35 = _floor(_LN2 * 2**35)

INVERSE_SQRT2 = _floor(Decimal(2).sqrt() * 2**31)
"""1/sqrt(2) = this * 2^(-1-31)."""

GELU_SCALE = _floor(
    (Decimal(8) / Decimal("3.14159265358979323846264338327950288419716939937511")).sqrt() * 2**31
)
"""2 sqrt(2/pi), Q31: the factor inside the sigmoid that GELU's tanh form is."""

GELU_CUBE = _floor(Decimal("0.044715") * 2**36)
"""0.044715 = this * 2^(-5-31)."""

_TANH = (1.0, -0.33333332, 0.13333174, -0.05389658, 0.02054053)
_ERF = (1.1283791670, -0.376126385, 0.112837741, -0.0268631502, 0.00520044640, -0.000769505674)
_ERFC = (
    -1.26551248, 1.00001672, 0.37471363, 0.08553451, -0.09157215, -0.17228496,
    0.18768323, -0.98779909, 2.14649872, -2.03539587, 0.92580621, -0.16768847,
)  # fmt: skip


def _fixed_point(values: tuple[float, ...], bits: int) -> tuple[int, ...]:
    return tuple(floor(value * 2.0**bits + 0.5) for value in values)


TANH_COEFFICIENTS = _fixed_point(_TANH, 30)
"""tanh(x) / x in w = x^2, Q30, |x| < 1/4."""

ERF_COEFFICIENTS = _fixed_point(_ERF, 30)
"""erf(x) / x in w = x^2, Q30, |x| < 1/2."""

ERFC_COEFFICIENTS = _fixed_point(_ERFC, 28)
"""log(erfc(z) e^(z^2) / t) in t, Q28."""


def header_text() -> str:
    """include/minun/function_constants.h."""
    parts = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Tables and coefficients of functions.h. Written by minun_pio.numerics.function_constants.",
        "// clang-format off",
        "#ifndef MINUN_FUNCTION_CONSTANTS_H",
        "#define MINUN_FUNCTION_CONSTANTS_H",
        "",
        '#include "minun/flash.h"',
        "",
        "namespace minun {",
        "namespace constants {",
        "",
        _array("uint32_t", "kExp2", EXP2_TABLE, "2^(i / 64), Q31"),
        _array("uint32_t", "kLogInverse", LOG_INVERSE, "1 / c_i, Q32, c_i the middle of part i of [1, 2)"),
        _array("uint32_t", "kLog", LOG_TABLE, "-ln(kLogInverse[i]), Q32"),
        _array("int32_t", "kTanh", TANH_COEFFICIENTS, "tanh(x) / x in x^2, Q30"),
        _array("int32_t", "kErf", ERF_COEFFICIENTS, "erf(x) / x in x^2, Q30"),
        _array("int32_t", "kErfc", ERFC_COEFFICIENTS, "log(erfc(z) e^(z^2) / t) in t = 1 / (1 + z/2), Q28"),
    ]
    scalars = {
        "kExp2First": EXP2_COEFFICIENTS[0],
        "kExp2Second": EXP2_COEFFICIENTS[1],
        "kExp2Third": EXP2_COEFFICIENTS[2],
        "kLog2E": LOG2_E,
        "kInverseSqrt2": INVERSE_SQRT2,
        "kGeluScale": GELU_SCALE,
        "kGeluCube": GELU_CUBE,
    }
    parts += [f"static const uint32_t {name} = {value}u;" for name, value in scalars.items()]
    parts += [f"static const int64_t kLn2 = INT64_C({LN2_Q35});  // Q35", ""]
    parts += [
        "}  // namespace constants",
        "}  // namespace minun",
        "",
        "#endif  // MINUN_FUNCTION_CONSTANTS_H",
        "",
    ]
    return "\n".join(parts)


def _array(ctype: str, name: str, values: tuple[int, ...], comment: str) -> str:
    suffix = "u" if ctype.startswith("u") else ""
    lines = [f"// {comment}", f"static const {ctype} {name}[{len(values)}] MINUN_FLASH = {{"]
    line = "   "
    for value in values:
        item = f" {value}{suffix},"
        if len(line) + len(item) > 110:
            lines.append(line)
            line = "   "
        line += item
    return "\n".join([*lines, line, "};"])
