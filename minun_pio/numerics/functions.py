# SPDX-License-Identifier: Apache-2.0
"""Unary functions on codes: what the device computes, and the tables it computes with.

Formats of up to 8 bits use a table over all codes, correctly rounded. Sigmoid and tanh of 9 to 16 bits are
interpolated in code space (`curves`). The other functions of wider posits and fixed-point, and all of
floats, are computed in 32-bit integer arithmetic (`real_functions`) and rounded once. int8 and int16 with a
scale give TensorFlow Lite's bits (`tflite_functions`): the former by a table as well.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minun_pio.errors import MinunError
from minun_pio.numerics import tflite_functions as tflite
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.curves import Curve, cached_curve, evaluate, has_curve
from minun_pio.numerics.elementwise import nearest_away
from minun_pio.numerics.format import Codes, Format, Values
from minun_pio.numerics.posit import Posit
from minun_pio.numerics.real import from_real, real_literal, to_real
from minun_pio.numerics.real_functions import REAL_FUNCTIONS

FUNCTIONS = tuple(REAL_FUNCTIONS)
"""Names of all functions."""

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "leaky_relu": ("alpha",),
    "elu": ("alpha",),
    "hard_sigmoid": ("alpha", "beta"),
}

_BEYOND = 1e300  # more than any posit holds
_POLES = ("log", "reciprocal", "reciprocal_sqrt")
_POSITIVE = ("exp", "sigmoid", "softplus")
_NEGATIVE_TAIL = ("gelu", "gelu_tanh", "silu")

_CPP = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "exp": "Exp",
    "log": "Log",
    "erf": "Erf",
    "gelu": "Gelu",
    "gelu_tanh": "GeluTanh",
    "silu": "Silu",
    "softplus": "Softplus",
    "sqrt": "Sqrt",
    "reciprocal_sqrt": "ReciprocalSqrt",
    "reciprocal": "Reciprocal",
    "leaky_relu": "LeakyRelu",
    "elu": "Elu",
    "hard_sigmoid": "HardSigmoid",
    "hard_swish": "HardSwish",
}


def uses_table(fin: Format) -> bool:
    """Whether the device computes functions of `fin` by a table over all its codes."""
    return fin.bits <= 8


def apply(function: str, codes: Codes, fin: Format, fout: Format, **attrs: float) -> Codes:
    """`function` of codes of `fin` as codes of `fout`: the definition, equal to the device's on every code.

    attrs: alpha (leaky_relu, elu), alpha and beta (hard_sigmoid). Raises MinunError from affine formats wider
    than 8 bits to others than int16.
    """
    if isinstance(fin, Affine) and fin.width == 16 and isinstance(fout, Affine) and fout.width == 16:
        return _affine16(function, codes, fin, fout, **attrs)
    if uses_table(fin) or has_curve(fin, fout):
        table = _code_table(function, fin, fout, tuple(attrs.items()))  # type: ignore[arg-type]
        return np.take(table, _table_index(codes, fin))
    if isinstance(fin, Affine) or isinstance(fout, Affine):
        raise MinunError(
            "operator.family",
            f"{function} from {fin.name} to {fout.name} has no definition; "
            "convert it to int8 or another family",
        )
    return computed(function, codes, fin, fout, **attrs)


def _affine16(function: str, codes: Codes, fin: Affine, fout: Affine, **attrs: float) -> Codes:
    if tflite.has_sigmoid_table(function, fin, fout):
        return tflite.sigmoid16(codes, fin, function == "tanh")
    if function == "leaky_relu":
        return tflite.leaky_relu(codes, fin, fout, **attrs)
    if function == "sqrt":
        return tflite.sqrt(codes, fin, fout)
    return tflite.lookup(codes, affine_lookup(function, fin, fout, **attrs))


def affine_lookup(function: str, fin: Affine, fout: Affine, **attrs: float) -> tuple[int, ...]:
    """The 513 entries of a function of int16 that has neither a formula nor the sigmoid's table."""
    return _affine_lookup(function, fin, fout, tuple(attrs.items()))


@functools.lru_cache(maxsize=64)
def _affine_lookup(
    function: str, fin: Affine, fout: Affine, attrs: tuple[tuple[str, float], ...]
) -> tuple[int, ...]:
    ends = {"log": fout.min_code * fout.scale, "reciprocal_sqrt": fout.max_code * fout.scale}

    def values(x: Values) -> Values:
        with np.errstate(all="ignore"):
            single = tflite.SINGLE.get(function) if attrs in ((), (("alpha", 1.0),)) else None
            y: Any = reference(function, x, **dict(attrs)) if single is None else single(x.astype(np.float32))
        result: Values = np.where(x > 0, y, ends[function]) if function in ends else y
        return result

    return tflite.lookup_table(values, fin, fout)


@functools.lru_cache(maxsize=64)
def _code_table(function: str, fin: Format, fout: Format, attrs: tuple[tuple[str, float], ...]) -> Codes:
    """What the device gives for every code of up to 16 bits, so that a simulation computes each once."""
    if uses_table(fin):
        return unary_table(function, fin, fout, **dict(attrs))
    bits = np.arange(1 << fin.bits)
    codes = np.where(bits >= 1 << (fin.bits - 1), bits - (1 << fin.bits), bits).astype(fin.storage)
    line = curve(function, fin, fout)
    if line is not None:
        return evaluate(line, codes, fin, fout)  # type: ignore[arg-type]
    return computed(function, codes, fin, fout, **dict(attrs))


def computed(function: str, codes: Codes, fin: Format, fout: Format, **attrs: float) -> Codes:
    """`function` in 32-bit integer arithmetic, rounded once: the board's `minun::unary`."""
    array = np.asarray(codes)
    distinct, inverse = np.unique(array, return_inverse=True)  # a function of the code: each code once
    result = from_real(REAL_FUNCTIONS[function](to_real(distinct, fin), **attrs), fout)
    return np.take(result, inverse).reshape(array.shape)


def curve(function: str, fin: Format, fout: Format) -> Curve | None:
    """The tables of sigmoid and tanh between posit or fixed-point formats of 9 to 16 bits (output: up to 16).

    For `minun::curve<Out, In>(in, out, count, cells, nodes)`; None where the device does not work so.
    """
    if function not in _CURVED or not has_curve(fin, fout):
        return None
    return cached_curve(_CURVED[function], fin, fout)  # type: ignore[arg-type]


def unary_table(function: str, fin: Format, fout: Format, **attrs: float) -> Codes:
    """`fout` codes at all 2^n codes of `fin` (n up to 8), by the code's bits read as unsigned: correctly
    rounded, from int8 to int8 TensorFlow Lite's.
    """
    if not uses_table(fin):
        raise MinunError(
            "operator.table", f"a table of {function} over all codes of {fin.name} would be too large"
        )
    bits = np.arange(1 << fin.bits)
    codes = np.where(bits >= 1 << (fin.bits - 1), bits - (1 << fin.bits), bits).astype(fin.storage)
    if isinstance(fin, Affine) and isinstance(fout, Affine) and fout.width == 8:
        found = tflite.narrow(function, codes, fin, fout, **attrs)
        if found is not None:
            return found
    return rounded_reference(function, fin.decode(codes), fout, **attrs)


def rounded_reference(function: str, values: Values, fout: Format, **attrs: float) -> Codes:
    """The function of real `values`, correctly rounded into `fout` (as far as float64 tells)."""
    results = reference(function, values, **attrs)
    if isinstance(fout, Affine):
        return nearest_away(results / fout.scale, fout)
    if isinstance(fout, Posit):
        results = _for_posits(function, values, results)
    return fout.encode(results)


def _for_posits(function: str, inputs: Values, values: Values) -> Values:
    """`values` where float64 ran out of range: posits round neither to zero nor, but at a pole, to NaR."""
    if function not in _POLES:
        values = np.where(np.isinf(values), np.copysign(_BEYOND, values), values)
    if function in _POSITIVE:
        values = np.where(values == 0, 1 / _BEYOND, values)
    if function in _NEGATIVE_TAIL:
        values = np.where((values == 0) & (inputs < 0), -1 / _BEYOND, values)
    return values


def device_function(function: str, **attrs: float) -> str:
    """The C++ type of include/minun/functions.h, in namespace minun."""
    del attrs
    return f"minun::{_CPP[function]}"


def device_value(function: str, **attrs: float) -> str:
    """The C++ expression of the function object with its parameters."""
    parameters = ", ".join(real_literal(attrs[name]) for name in _PARAMETERS.get(function, ()))
    return f"minun::{_CPP[function]}{{{parameters}}}" if parameters else f"minun::{_CPP[function]}()"


def reference(function: str, values: Values, **attrs: float) -> Values:
    """The function in real numbers (float64); poles are infinities, undefined values NaN."""
    with np.errstate(all="ignore"):
        result: Values = _REFERENCE[function](np.asarray(values, dtype=np.float64), **attrs)
        return result


def _table_index(codes: Codes, fin: Format) -> Codes:
    array = np.asarray(codes)
    if fin.bits == 8 * array.itemsize:
        return array.view(f"u{array.itemsize}")
    return array.astype(np.int64) & ((1 << fin.bits) - 1)


def _sigmoid(x: Values) -> Values:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _softplus(x: Values) -> Values:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _gelu(x: Values) -> Values:
    return np.where(x == -np.inf, 0.0, x * 0.5 * _erfc(-x / math.sqrt(2.0)))


def _gelu_tanh(x: Values) -> Values:
    return np.where(x == -np.inf, 0.0, x * _sigmoid(math.sqrt(8.0 / math.pi) * (x + 0.044715 * x**3)))


def _silu(x: Values) -> Values:
    return np.where(x == -np.inf, 0.0, x * _sigmoid(x))


def _leaky_relu(x: Values, alpha: float) -> Values:
    return np.where(x < 0, alpha * x, x)


def _elu(x: Values, alpha: float = 1.0) -> Values:
    return np.where(x < 0, alpha * np.expm1(x), x)


def _hard_sigmoid(x: Values, alpha: float = 0.2, beta: float = 0.5) -> Values:
    return np.clip(alpha * x + beta, 0.0, 1.0)


def _hard_swish(x: Values) -> Values:
    return np.where(x == -np.inf, 0.0, x * np.clip(x + 3.0, 0.0, 6.0) / 6.0)


_REFERENCE: dict[str, Callable[..., Any]] = {
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "erf": _erf,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
    "softplus": _softplus,
    "sqrt": np.sqrt,
    "reciprocal_sqrt": lambda x: np.where(x == 0, np.inf, 1.0 / np.sqrt(x)),
    "reciprocal": lambda x: 1.0 / x,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
}

# Positive to the end, as the sigmoid is: posits do not round it to zero.
_CURVED: dict[str, Callable[[Values], Values]] = {
    "sigmoid": lambda x: np.maximum(_sigmoid(x), 1 / _BEYOND),
    "tanh": np.tanh,
}
