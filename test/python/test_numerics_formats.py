# SPDX-License-Identifier: Apache-2.0
"""Number formats against definitions written a second time, bit by bit, in fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minun_pio.errors import MinunError
from minun_pio.numerics.affine import Affine, affine_bias, affine_for_range, affine_for_weights
from minun_pio.numerics.fixed import Fixed, fixed_for_range
from minun_pio.numerics.floats import BFloat16, Float16, Float32
from minun_pio.numerics.format import Format, element_bytes
from minun_pio.numerics.index import Index32
from minun_pio.numerics.parse import PAPER_POSITS, parse_format
from minun_pio.numerics.posit import NO_UNIT, Posit

SMALL_POSITS = tuple(fmt for fmt in PAPER_POSITS if fmt.n <= 16)


def posit_value(code: int, n: int, es: int) -> Fraction | None:
    """The value of a posit's bit string, read character by character (Posit Standard 2022, section 3)."""
    if code == 0:
        return Fraction(0)
    if code == -(1 << (n - 1)):
        return None
    sign, bits = (-1, format(-code, f"0{n - 1}b")) if code < 0 else (1, format(code, f"0{n - 1}b"))
    run = len(bits) - len(bits.lstrip(bits[0]))
    regime = run - 1 if bits[0] == "1" else -run
    rest = bits[run + 1 :]
    exponent = int((rest[:es] + "0" * es)[:es] or "0", 2)
    fraction = Fraction(int(rest[es:] or "0", 2), 1 << len(rest[es:]))
    return sign * (1 + fraction) * Fraction(2) ** (regime * (1 << es) + exponent)


def posit_round(value: Fraction, n: int, es: int) -> int:
    """The code by the standard's rule: halfway between two n-bit strings lies the (n+1)-bit string."""
    if value == 0:
        return 0
    magnitude, top = abs(value), (1 << (n - 1)) - 1
    low, high = 1, top  # the largest code whose value is at most the magnitude, by bisection
    if magnitude <= posit_value(1, n, es):  # type: ignore[operator]
        low = 1
    elif magnitude >= posit_value(top, n, es):  # type: ignore[operator]
        low = top
    else:
        while high - low > 1:
            middle = (low + high) // 2
            if posit_value(middle, n, es) <= magnitude:  # type: ignore[operator]
                low = middle
            else:
                high = middle
        halfway = posit_value(2 * low + 1, n + 1, es)
        assert halfway is not None
        if magnitude > halfway or (magnitude == halfway and low % 2 == 1):
            low += 1
    return -low if value < 0 else low


def all_codes(fmt: Posit) -> np.ndarray:
    return np.arange(fmt.nar, fmt.max_code + 1).astype(fmt.storage)


@pytest.mark.parametrize("fmt", SMALL_POSITS, ids=lambda fmt: fmt.name)
def test_every_posit_code_decodes_to_the_value_of_its_bit_string(fmt: Posit) -> None:
    codes = all_codes(fmt) if fmt.n <= 12 else all_codes(fmt)[::7]
    for code, value in zip(codes.tolist(), fmt.decode(codes).tolist(), strict=True):
        expected = posit_value(code, fmt.n, fmt.es)
        assert math.isnan(value) if expected is None else Fraction(value) == expected


@pytest.mark.parametrize("fmt", PAPER_POSITS, ids=lambda fmt: fmt.name)
def test_every_posit_value_encodes_to_its_own_code(fmt: Posit) -> None:
    rng = np.random.default_rng(1)
    codes = all_codes(fmt) if fmt.n <= 16 else rng.integers(fmt.nar, fmt.max_code, 50_000, endpoint=True)
    np.testing.assert_array_equal(fmt.encode(fmt.decode(codes.astype(fmt.storage))), codes)


@pytest.mark.parametrize("fmt", PAPER_POSITS, ids=lambda fmt: fmt.name)
def test_posits_round_by_the_bit_string_and_ties_go_to_the_even_one(fmt: Posit) -> None:
    rng = np.random.default_rng(2)
    spread = np.exp(rng.normal(0, 0.3 * fmt.max_scale, 300)) * rng.choice([-1.0, 1.0], 300)
    finer = Posit(min(fmt.n + 1, 32), fmt.es)  # odd codes of one bit more are the ties
    ties = finer.decode(
        (2 * rng.integers(-(1 << (fmt.n - 1)) + 1, 1 << (fmt.n - 1), 300) + 1) // (1 + (fmt.n == 32))
    )
    values = np.concatenate([spread, ties, np.nextafter(ties, 1e300), np.nextafter(ties, -1e300), [0.0]])
    values = values[np.isfinite(values)]
    codes = fmt.encode(values)
    for value, code in zip(values.tolist(), codes.tolist(), strict=True):
        assert code == posit_round(Fraction(value), fmt.n, fmt.es), value
        numerator, denominator = value.as_integer_ratio()
        assert code == fmt.encode_integer(numerator, 1 - denominator.bit_length())


@pytest.mark.parametrize("fmt", PAPER_POSITS, ids=lambda fmt: fmt.name)
def test_posits_never_round_to_zero_or_nar_and_nan_becomes_nar(fmt: Posit) -> None:
    codes = fmt.encode(np.array([1e-300, -1e-300, 1e300, -1e300, np.nan, np.inf, -np.inf, 0.0]))
    top = fmt.max_code
    assert codes.tolist() == [1, -1, top, -top, fmt.nar, fmt.nar, fmt.nar, 0]


@pytest.mark.parametrize("fmt", SMALL_POSITS, ids=lambda fmt: fmt.name)
def test_posit_codes_order_as_their_values(fmt: Posit) -> None:
    assert np.all(np.diff(fmt.decode(all_codes(fmt)[1:])) > 0)


@pytest.mark.parametrize("fmt", SMALL_POSITS, ids=lambda fmt: fmt.name)
def test_unit_exponents_are_those_of_the_lowest_set_bits(fmt: Posit) -> None:
    codes = all_codes(fmt)
    units = fmt.unit_exponents(codes)
    values = fmt.decode(codes)
    live = np.isfinite(values) & (values != 0)
    odd = values[live] * np.exp2(-units[live].astype(np.float64))
    assert np.all(odd == np.rint(odd))
    assert np.all(np.abs(odd) % 2 == 1)
    assert np.all(units[~live] == NO_UNIT)
    assert units[live].min() == fmt.unit_exponent


def test_narrow_posits_shifted_up_are_posits_of_sixteen_bits() -> None:
    for n in (9, 10, 12):
        codes = all_codes(Posit(n, 2))
        wide = codes.astype(np.int64) << (16 - n)
        np.testing.assert_array_equal(Posit(16, 2).decode(wide.astype(np.int16)), Posit(n, 2).decode(codes))


@given(st.floats(-300, 300), st.integers(2, 32), st.integers(-12, 6))
def test_fixed_point_rounds_half_up_and_saturates(value: float, width: int, scale: int) -> None:
    fmt = Fixed(width, scale)
    exact = math.floor(Fraction(value) / Fraction(2) ** scale + Fraction(1, 2))
    expected = max(fmt.min_code, min(fmt.max_code, exact))
    assert int(fmt.encode(np.array(value))) == expected
    numerator, denominator = value.as_integer_ratio()
    assert fmt.encode_integer(numerator, 1 - denominator.bit_length()) == expected
    assert Fraction(float(fmt.decode(np.array(expected)))) == expected * Fraction(2) ** scale


def test_fixed_point_ties_go_up_and_values_just_below_stay() -> None:
    fmt = Fixed(8, 0)
    values = np.array([0.5, -0.5, 1.5, -1.5, np.nextafter(0.5, 0), np.nextafter(-0.5, -1), np.nan])
    assert fmt.encode(values).tolist() == [1, 0, 2, -1, 0, -1, 0]


@pytest.mark.parametrize(
    ("largest", "exponent"), [(1.0, -6), (0.99, -7), (1.01, -6), (2.0, -5), (100.0, 0), (0.25, -8)]
)
def test_a_range_gets_shiftrys_scale(largest: float, exponent: int) -> None:
    # scale = ceil(log2 m) - (bits - 1), one more where m is a power of two
    fmt = fixed_for_range(largest, 8)
    assert fmt == Fixed(8, exponent)
    assert Fraction(largest) <= fmt.max_code * Fraction(2) ** exponent + Fraction(2) ** exponent
    assert fixed_for_range(largest, 8, -1) == Fixed(8, exponent - 1)


def test_affine_formats_represent_zero_and_saturate() -> None:
    fmt = affine_for_range(-1.0, 3.0)
    assert int(fmt.encode(np.array(0.0))) == fmt.zero_point
    assert fmt.encode(np.array([-9.0, 9.0])).tolist() == [-128, 127]
    assert np.abs(fmt.decode(fmt.encode(np.linspace(-1, 3, 99))) - np.linspace(-1, 3, 99)).max() < fmt.scale
    assert affine_for_range(2.0, 3.0).zero_point == -128  # a range that lacks zero is widened to it
    assert affine_for_range(-1.0, 3.0, 16).zero_point == 0


def test_affine_codes_round_half_away_from_zero() -> None:
    assert Affine(8, (2.0,), 3).encode(np.array([1.0, -1.0, 3.0, -3.0, 0.999])).tolist() == [4, 2, 5, 1, 3]


def test_a_tensor_of_almost_nothing_gets_the_finest_scale_there_is() -> None:
    assert fixed_for_range(1e-42, 16) == Fixed(16, -128)
    assert fixed_for_range(2.0**-112, 16, -1) == Fixed(16, -127)


def test_weights_have_a_scale_per_channel_and_biases_the_product() -> None:
    weights = np.array([[1.0, -2.0], [0.5, 0.25]])
    fmt = affine_for_weights(weights)
    codes = fmt.encode(weights)
    assert codes.min() == -127
    assert codes.tolist() == [[64, -127], [127, 64]]
    bias = affine_bias(Affine(8, (0.5,), 7), fmt)
    assert bias.scales == tuple(0.5 * s for s in fmt.scales)
    assert bias.storage == np.int32


def test_sixteen_bit_floats_round_once_to_even() -> None:
    rng = np.random.default_rng(3)
    values = np.concatenate(
        [rng.normal(0, 1, 500) * np.exp(rng.normal(0, 8, 500)), [0.0, 65519.9, 65520.0, 1e-8]]
    )
    half, brain = Float16(), BFloat16()
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).astype(np.float64)
    np.testing.assert_array_equal(half.decode(half.encode(values)), expected)
    normal = values[(np.abs(values) > 1e-30) & (np.abs(values) < 1e30)]
    step = np.exp2(np.floor(np.log2(np.abs(normal))) - 7)
    np.testing.assert_array_equal(brain.decode(brain.encode(normal)), np.rint(normal / step) * step)
    tie = 1.0 + 2.0**-8  # between 1 and 1 + 2^-7
    assert brain.encode(np.array([tie, tie + 2.0**-40, tie + 2.0**-7])).tolist() == [0x3F80, 0x3F81, 0x3F82]


@pytest.mark.parametrize(
    "fmt", [*PAPER_POSITS, Fixed(16, -12), Fixed(8, 3), Float32(), Float16(), BFloat16(), Index32()]
)
def test_formats_are_read_back_by_their_names(fmt: Format) -> None:
    assert parse_format(fmt.name) == fmt
    assert parse_format(f"  {fmt.name} ".replace(",", " , ")) == fmt
    assert hash(parse_format(fmt.name)) == hash(fmt)
    assert isinstance(fmt, Format)


def test_formats_name_their_device_types_and_storage() -> None:
    assert Posit(8, 2).cpp == "minun::Posit<8, 2>"
    assert Fixed(16, -12).cpp == "minun::Fixed<16, -12>"
    assert [element_bytes(f) for f in (Posit(8, 0), Posit(9, 2), Posit(32, 2), Affine(8, (1.0,)))] == [
        1,
        2,
        4,
        1,
    ]


@pytest.mark.parametrize(
    "text", ["posit", "posit<8>", "float64", "posit<2,0>", "posit<8,9>", "fixed<40,0>", ""]
)
def test_unknown_formats_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(MinunError) as caught:
        parse_format(text)
    assert "\n" not in str(caught.value)
    assert "expected" in str(caught.value)
