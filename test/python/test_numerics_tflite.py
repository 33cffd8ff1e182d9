# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's integer arithmetic against its C++ definitions, written again for single Python integers.

Whole operators are compared with the interpreter in test_op_tflite_oracle.py.
"""

from __future__ import annotations

import math
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minun_pio.errors import MinunError
from minun_pio.numerics import exact, gemmlowp, tflite
from minun_pio.numerics.affine import Affine, affine_bias
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.posit import Posit

int32 = st.integers(-(2**31), 2**31 - 1)


def c_divide(a: int, b: int) -> int:
    """C's integer division, toward zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def high_mul(a: int, b: int) -> int:
    if a == b == -(2**31):
        return 2**31 - 1
    product = a * b
    return c_divide(product + ((1 << 30) if product >= 0 else 1 - (1 << 30)), 1 << 31)


def divide_by_pot(x: int, exponent: int) -> int:
    mask = (1 << exponent) - 1
    return (x >> exponent) + int((x & mask) > (mask >> 1) + int(x < 0))


@given(int32, int32)
def test_high_products_round_and_saturate_as_gemmlowp_does(a: int, b: int) -> None:
    assert int(gemmlowp.high_mul(np.array(a), b)) == high_mul(a, b)


def test_the_one_high_product_that_overflows_saturates() -> None:
    low = -(2**31)
    assert int(gemmlowp.high_mul(np.array(low), low)) == 2**31 - 1


@given(int32, st.integers(0, 31))
def test_division_by_powers_of_two_rounds_half_away_from_zero(x: int, exponent: int) -> None:
    got = int(gemmlowp.divide_by_power(np.array(x), exponent))
    assert got == divide_by_pot(x, exponent)
    exact_quotient = Fraction(x, 1 << exponent)
    assert got == (math.floor(abs(exact_quotient) + Fraction(1, 2))) * (1 if x >= 0 else -1)


@given(st.floats(1e-9, 1e6))
def test_a_factor_becomes_a_fraction_of_31_bits_and_a_shift(factor: float) -> None:
    m = tflite.quantise_multiplier(factor)
    assert 2**30 <= m.fixed < 2**31
    assert abs(m.fixed * 2.0 ** (m.shift - 31) / factor - 1) <= 2.0**-31


def test_factors_at_the_edges_stay_representable() -> None:
    assert tflite.quantise_multiplier(0.0) == tflite.Multiplier(0, 0)
    assert tflite.quantise_multiplier(1.0 - 2.0**-40) == tflite.Multiplier(1 << 30, 1)
    assert tflite.quantise_multiplier(2.0**-40) == tflite.Multiplier(0, 0)


@given(st.integers(-(2**26), 2**26), st.floats(1e-6, 8.0))
def test_accumulators_are_multiplied_with_two_roundings(x: int, factor: float) -> None:
    m = tflite.quantise_multiplier(factor)
    left, right = max(m.shift, 0), max(-m.shift, 0)
    expected = divide_by_pot(high_mul(x << left, m.fixed), right)
    assert int(tflite.multiply_by_quantised_multiplier(np.array(x), m.fixed, m.shift)) == expected


@given(st.integers(-(2**40), 2**40), st.floats(1e-6, 0.9))
def test_wide_accumulators_use_a_multiplier_of_sixteen_bits(x: int, factor: float) -> None:
    m = tflite.quantise_multiplier(factor)
    reduced = (m.fixed + (1 << 15)) >> 16 if m.fixed < 0x7FFF0000 else 0x7FFF
    total = 15 - m.shift
    expected = (x * reduced + (1 << (total - 1))) >> total
    assert int(tflite.multiply_by_quantised_multiplier64(np.array(x), m.fixed, m.shift)) == expected


def test_int8_products_are_accumulated_exactly_and_requantised_per_channel() -> None:
    rng = np.random.default_rng(30)
    fx, out = Affine(8, (float(np.float32(0.05)),), 11), Affine(8, (float(np.float32(0.4)),), -5)
    scales = tuple(float(np.float32(s)) for s in rng.uniform(0.001, 0.02, 6))
    for depth in (8, 700):  # float32 sums suffice, and do not
        x = rng.integers(-128, 128, (5, depth)).astype(np.int8)
        w = rng.integers(-127, 128, (6, depth)).astype(np.int8)
        bias = rng.integers(-5000, 5000, 6).astype(np.int32)
        for fw in (Affine(8, scales, 0, 0, narrow=True), Affine(8, scales[:1], 0, None, narrow=True)):
            got = exact.dot(x, fx, w, fw, bias, affine_bias(fx, fw), out)
            for i in range(5):
                for j in range(6):
                    total = sum(
                        (a - 11) * b for a, b in zip(x[i].tolist(), w[j].tolist(), strict=True)
                    ) + int(bias[j])
                    scale = scales[0] if fw.axis is None else scales[j]
                    scaled = total * (fx.scale * scale / out.scale)
                    away = math.floor(abs(scaled) + 0.5) * (1 if scaled >= 0 else -1)
                    assert got[i, j] == max(-128, min(127, away - 5))


def _factor(rng: np.random.Generator, least: float) -> float:
    kind = rng.integers(4)
    if kind == 0:
        return float(2.0 ** -int(rng.integers(0, 40)))
    factor = float(np.exp(rng.uniform(np.log(least), np.log(8.0))))
    return float(np.float32(factor)) if kind == 1 else factor


@pytest.mark.parametrize(
    ("kind", "limit", "least"),
    [("small", 2**31, 2.0**-33), ("any", 2**31, 2.0**-35), ("wide", 2**42, 2.0**-45)],
)
def test_boards_round_sums_as_doubles_do_next_to_every_tie(
    kind: str, limit: int, least: float, tmp_path: Path
) -> None:
    rng = np.random.default_rng(60)
    factors = [_factor(rng, least) for _ in range(20_000)]
    if kind == "small":
        factors = [factor for factor in factors if 3 <= tflite.double_factor(factor).drop <= 32]
    ties = rng.integers(-40_000, 40_000, len(factors)) + 0.5
    sums = [
        max(1 - limit, min(limit - 1, round(tie / factor) + int(near)))
        for tie, factor, near in zip(ties, factors, rng.integers(-1, 2, len(factors)), strict=True)
    ]
    source = tmp_path / "sums.cpp"
    source.write_text(
        '#include <stdio.h>\n#include "minun/quantised.h"\nint main() {\n'
        "  long long x; unsigned high, low; int drop;\n"
        '  while (scanf("%lld %u %u %d", &x, &high, &low, &drop) == 4) {\n'
        f"    const int{64 if kind == 'wide' else 32}_t sum = x;\n"
        f"    const {'uint8_t' if kind == 'small' else 'int'} given = drop;\n"
        '    printf("%d\\n", minun::scale_in_double(sum, high, low, given));\n  }\n'
        "}\n",
        encoding="utf-8",
    )
    program = tmp_path / "sums"
    flags = ("-std=c++11", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    include = Path(__file__).resolve().parents[2] / "include"
    subprocess.run(["g++", *flags, f"-I{include}", str(source), "-o", str(program)], check=True)
    parts = [tflite.double_factor(factor) for factor in factors]
    lines = [f"{x} {p.high} {p.low} {p.drop}\n" for x, p in zip(sums, parts, strict=True)]
    run = subprocess.run([str(program)], input="".join(lines), capture_output=True, text=True, check=True)
    wanted = tflite.round_in_double(np.array(sums), np.array(factors))
    np.testing.assert_array_equal(np.array(run.stdout.split(), np.int64), wanted)


def test_factors_beyond_doubles_of_any_use_are_refused() -> None:
    with pytest.raises(MinunError, match="quantise the model again"):
        tflite.double_factor(2.0**21)


def test_padding_of_an_affine_convolution_is_its_zero_point() -> None:
    fx, fw, out = Affine(8, (0.5,), 7), Affine(8, (0.25,), 0, 0, narrow=True), Affine(8, (1.0,), 0)
    x = np.full((1, 2, 2, 1), 7, np.int8)  # all zeros
    w = np.full((1, 3, 3, 1), 100, np.int8)
    window = exact.Window((3, 3), pads=(1, 1, 1, 1))
    assert not exact.conv(x, fx, w, fw, None, None, out, window).any()


@given(st.integers(-128, 127), st.floats(0.001, 3.0), st.integers(-100, 100))
def test_conversions_into_affine_divide_once_and_round_half_away(code: int, scale: float, zero: int) -> None:
    out = Affine(8, (float(np.float32(scale)),), zero)
    for source in (Posit(8, 2), Fixed(8, -5)):
        value = float(source.decode(np.array([code], np.int8))[0])
        got = int(exact.convert(np.array([code], np.int8), source, out)[0])
        if math.isnan(value):
            assert got == zero
            continue
        quotient = Fraction(value) / Fraction(out.scale)
        rounded = math.floor(abs(quotient) + Fraction(1, 2)) * (1 if quotient >= 0 else -1) + zero
        assert got == max(-128, min(127, rounded))


def test_float32_is_quantised_and_dequantised_in_float32() -> None:
    fmt = Affine(8, (float(np.float32(0.1)),), 3)
    values = np.array([0.05, -0.05, 0.15, 12.5, -99.0], np.float32)
    quotient = values / np.float32(0.1)
    expected = np.clip(np.trunc(quotient + np.copysign(np.float32(0.5), quotient)) + 3, -128, 127)
    assert exact.convert(values, Float32(), fmt).tolist() == expected.tolist()
    codes = np.arange(-128, 128).astype(np.int8)
    dequantised = (codes.astype(np.int32) - 3).astype(np.float32) * np.float32(0.1)
    np.testing.assert_array_equal(exact.convert(codes, fmt, Float32()), dequantised)
