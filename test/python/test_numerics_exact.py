# SPDX-License-Identifier: Apache-2.0
"""Products, sums and elementwise arithmetic against fractions, and SoftPosit's quires where it has them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from minun_pio.errors import MinunError
from minun_pio.numerics import exact, odd_rounding
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import BFloat16, Float16, Float32
from minun_pio.numerics.format import Format
from minun_pio.numerics.parse import PAPER_POSITS
from minun_pio.numerics.posit import Posit
from minun_pio.numerics.rounding import round_sums

ExactFormat = Posit | Fixed
FORMATS: tuple[ExactFormat, ...] = (*PAPER_POSITS, Fixed(8, -5), Fixed(16, -12), Fixed(16, 3))
KINDS = ("network", "wild", "cancel", "tie", "saturate", "nar", "zero")


def named(fmt: Format) -> str:
    return fmt.name


def draw(fmt: ExactFormat, shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> np.ndarray:
    if kind == "network":
        return fmt.encode(rng.normal(0, 1, shape) * (rng.random(shape) < 0.7))
    if kind == "saturate":
        return rng.choice(np.array([fmt.min_code, -1, 0, 1, fmt.max_code], fmt.storage), shape)
    if kind == "zero":
        return np.zeros(shape, fmt.storage)
    low = fmt.nar if kind == "nar" and isinstance(fmt, Posit) else fmt.min_code
    codes = rng.integers(low, fmt.max_code, shape, endpoint=True).astype(fmt.storage)
    if kind == "tie":
        codes = np.where(rng.random(shape) < 0.2, codes, 0).astype(fmt.storage)
    return codes


def pair(
    fmt: ExactFormat, other: ExactFormat, kind: str, depth: int, rng: np.random.Generator
) -> tuple[Any, Any]:
    """x (9, depth) and w (7, depth); in 'cancel' the halves of every sum cancel but for its last term."""
    x, w = draw(fmt, (9, depth), kind, rng), draw(other, (7, depth), kind, rng)
    half = depth // 2
    if kind == "cancel" and half:
        x[:, half : 2 * half] = -x[:, :half]
        w[:, half : 2 * half] = w[:, :half]
        x[:, -1] = 1
    return x, w


def fractions(fmt: Format, codes: np.ndarray) -> list[Any]:
    values = fmt.decode(codes)
    return [None if np.isnan(value) else Fraction(value) for value in values.ravel().tolist()]


def code_of(fmt: ExactFormat, value: Fraction | None) -> int:
    if value is None:
        assert isinstance(fmt, Posit)
        return fmt.nar
    return exact.encode_ratio(fmt, value.numerator, value.denominator, 0)


def sum_of(terms: list[Any], divisor: int = 1) -> Fraction | None:
    return None if None in terms else sum(terms, Fraction(0)) / divisor


def sum_of_products(left: list[Any], right: list[Any], addend: Any = Fraction(0)) -> Fraction | None:
    if None in (*left, *right, addend):
        return None
    return sum((a * b for a, b in zip(left, right, strict=True)), addend)


def sum_of_squares(left: list[Any], right: list[Any]) -> Fraction | None:
    if None in (*left, *right):
        return None
    return sum(((a - b) ** 2 for a, b in zip(left, right, strict=True)), Fraction(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmt", FORMATS, ids=named)
def test_dot_is_the_exact_sum_with_its_bias_rounded_once(fmt: ExactFormat, kind: str) -> None:
    rng = np.random.default_rng(5)
    mixed = [other for other in FORMATS if other.family == fmt.family and other.bits <= 16]
    for depth in (1, 3, 40):
        other = mixed[depth % len(mixed)]
        x, w = pair(fmt, other, kind, depth, rng)
        bias = draw(fmt, (7,), kind, rng)
        for added, out in ((None, fmt), (bias, fmt), (bias, other)):
            got = exact.dot(x, fmt, w, other, added, None if added is None else fmt, out)
            assert got.dtype == out.storage
            extra = [Fraction(0)] * 7 if added is None else fractions(fmt, added)
            for i in range(9):
                row = fractions(fmt, x[i])
                for j in range(7):
                    column = fractions(other, w[j])
                    total = sum_of_products(row, column, extra[j])
                    assert got[i, j] == code_of(out, total), (depth, i, j)


@pytest.mark.parametrize("fmt", [f for f in PAPER_POSITS if f.n == 8], ids=named)
def test_all_pairs_of_eight_bits_add_subtract_multiply_and_divide_with_one_rounding(fmt: Posit) -> None:
    codes = np.arange(-128, 128).astype(np.int8)
    x, y = np.repeat(codes, 256), np.tile(codes, 256)
    values = fractions(fmt, codes)
    table = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b if b else None,
    }
    for name, operation in table.items():
        got = getattr(exact, name)(x, fmt, y, fmt, fmt)
        known: dict[Fraction | None, int] = {}
        for i, code in enumerate(got.tolist()):
            a, b = values[i // 256], values[i % 256]
            value = None if a is None or b is None else operation(a, b)  # type: ignore[no-untyped-call]
            if value not in known:
                known[value] = code_of(fmt, value)
            assert code == known[value], (name, a, b)


@pytest.mark.parametrize("fmt", FORMATS, ids=named)
def test_elementwise_results_of_mixed_widths_are_rounded_once(fmt: ExactFormat) -> None:
    rng = np.random.default_rng(6)
    others = [other for other in FORMATS if other.family == fmt.family]
    for other in (fmt, others[0], others[-1]):
        for kind in ("wild", "network", "nar"):
            x, y, z = (
                draw(fmt, (200,), kind, rng),
                draw(other, (200,), kind, rng),
                draw(fmt, (200,), kind, rng),
            )
            added, quotient = exact.add(x, fmt, y, other, fmt), exact.div(x, fmt, y, other, fmt)
            multiplied, fused = (
                exact.mul(x, fmt, y, other, other),
                exact.multiply_add(x, fmt, y, other, z, fmt, fmt),
            )
            summed = exact.round_sum([(x, fmt), (y, other), (z, fmt)], fmt)
            triples = zip(fractions(fmt, x), fractions(other, y), fractions(fmt, z), strict=True)
            for i, (a, b, c) in enumerate(triples):
                whole = None not in (a, b)
                assert added[i] == code_of(fmt, a + b if whole else None)
                assert multiplied[i] == code_of(other, a * b if whole else None)
                assert fused[i] == code_of(fmt, a * b + c if whole and c is not None else None)
                assert summed[i] == code_of(fmt, a + b + c if whole and c is not None else None)
                if b != 0:
                    assert quotient[i] == code_of(fmt, a / b if whole else None)


@pytest.mark.parametrize("fmt", [Posit(8, 2), Fixed(8, -5)], ids=named)
def test_many_pairs_give_what_few_pairs_give(fmt: ExactFormat) -> None:
    rng = np.random.default_rng(16)
    x, y = draw(fmt, (5000, 2), "nar", rng), draw(fmt, (2,), "wild", rng)
    for operation in (exact.add, exact.sub, exact.mul, exact.div, exact.maximum, exact.minimum):
        parts = [
            operation(x[i : i + 100], fmt, y, fmt, Posit(16, 1) if fmt.family == "posit" else fmt)
            for i in range(0, 5000, 100)
        ]
        out = Posit(16, 1) if fmt.family == "posit" else fmt
        np.testing.assert_array_equal(operation(x, fmt, y, fmt, out), np.concatenate(parts))


def test_division_by_zero_is_nar_in_posits_and_saturates_in_fixed_point() -> None:
    posit, fixed = Posit(8, 2), Fixed(8, -4)
    x, zero = np.array([5, -5, 0], np.int8), np.zeros(3, np.int8)
    assert exact.div(x, posit, zero, posit, posit).tolist() == [posit.nar] * 3
    assert exact.div(x, fixed, zero, fixed, fixed).tolist() == [127, -128, 0]


@pytest.mark.parametrize("fmt", FORMATS, ids=named)
def test_sums_means_and_squared_distances_are_exact_before_their_rounding(fmt: ExactFormat) -> None:
    rng = np.random.default_rng(7)
    for kind in ("wild", "network", "saturate", "nar"):
        x, centres = draw(fmt, (2, 5, 6), kind, rng), draw(fmt, (3, 6), kind, rng)
        total = exact.reduce_sum(x, fmt, [1], fmt, keepdims=True)
        mean = exact.reduce_mean(x, fmt, [-1, 1], fmt)
        distance = exact.squared_distance(x, fmt, centres, fmt, fmt)
        assert total.shape == (2, 1, 6)
        assert mean.shape == (2,)
        assert distance.shape == (2, 5, 3)
        for i in range(2):
            block = fractions(fmt, x[i])
            assert mean[i] == code_of(fmt, sum_of(block, 30))
            for j in range(6):
                line = fractions(fmt, x[i, :, j])
                assert total[i, 0, j] == code_of(fmt, sum_of(line))
            for j in range(5):
                point = fractions(fmt, x[i, j])
                for k in range(3):
                    centre = fractions(fmt, centres[k])
                    assert distance[i, j, k] == code_of(fmt, sum_of_squares(point, centre))


@pytest.mark.parametrize("kind", ["network", "wild", "tie", "nar"])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(
    "fmt", [Posit(8, 0), Posit(8, 2), Posit(16, 1), Fixed(16, -12), Posit(32, 2)], ids=named
)
def test_convolution_is_the_dot_of_its_patches(fmt: ExactFormat, groups: int, kind: str) -> None:
    rng = np.random.default_rng(8)
    x, w = draw(fmt, (3, 7, 6, 4), kind, rng), draw(fmt, (4, 3, 2, 4 // groups), kind, rng)
    bias = draw(fmt, (4,), kind, rng)
    window = exact.Window((3, 2), strides=(2, 1), pads=(1, 0, 2, 1), dilations=(1, 2))
    got = exact.conv(x, fmt, w, fmt, bias, fmt, fmt, window, groups)
    padded = np.zeros((3, 10, 7, 4), fmt.storage)
    padded[:, 1:8, :6] = x
    assert got.shape == (3, 4, 5, 4)
    for i, j, channel in np.ndindex(4, 5, 4):
        group = channel // (4 // groups)
        chosen = slice(group * (4 // groups), (group + 1) * (4 // groups))
        patch = padded[:, 2 * i : 2 * i + 3, j : j + 3 : 2, chosen].reshape(3, -1)
        kernel = w[channel].reshape(1, -1)
        expected = exact.dot(patch, fmt, kernel, fmt, bias[channel : channel + 1], fmt, fmt)[:, 0]
        np.testing.assert_array_equal(got[:, i, j, channel], expected)


def test_a_nar_in_a_patch_spoils_only_the_outputs_that_see_it() -> None:
    fmt = Posit(16, 1)
    x = np.full((1, 5, 5, 1), 0x4000, np.int16)
    x[0, 0, 0, 0] = fmt.nar
    w = np.full((1, 3, 3, 1), 0x4000, np.int16)
    got = exact.conv(x, fmt, w, fmt, None, None, fmt, exact.Window((3, 3)))
    assert got[0, 0, 0, 0] == fmt.nar
    assert np.count_nonzero(got == fmt.nar) == 1


def test_batched_products_broadcast_their_leading_axes() -> None:
    rng, fmt = np.random.default_rng(9), Posit(16, 2)
    a, b = draw(fmt, (4, 1, 3, 5), "network", rng), draw(fmt, (2, 5, 6), "network", rng)
    got = exact.dot_batched(a, fmt, b, fmt, fmt)
    assert got.shape == (4, 2, 3, 6)
    for i, j in np.ndindex(4, 2):
        np.testing.assert_array_equal(got[i, j], exact.dot(a[i, 0], fmt, b[j].T, fmt, None, None, fmt))


def test_many_rows_give_what_each_row_gives_alone() -> None:
    rng, fmt = np.random.default_rng(10), Posit(16, 2)
    x, w = draw(fmt, (700, 33), "wild", rng), draw(fmt, (70, 33), "wild", rng)
    whole = exact.dot(x, fmt, w, fmt, None, None, fmt)
    single = np.concatenate([exact.dot(x[i : i + 1], fmt, w, fmt, None, None, fmt) for i in range(0, 700, 7)])
    np.testing.assert_array_equal(whole[::7], single)


@pytest.mark.parametrize("storage", [Float32(), Float16(), BFloat16()], ids=named)
def test_float_products_are_added_in_order_in_float32_from_the_bias(storage: Format) -> None:
    rng = np.random.default_rng(11)
    x, w = storage.encode(rng.normal(0, 1, (4, 20))), storage.encode(rng.normal(0, 1, (3, 20)))
    bias = storage.encode(rng.normal(0, 1, 3))
    got = exact.dot(x, storage, w, storage, bias, storage, Float32())
    for i, j in np.ndindex(4, 3):
        total = np.float32(storage.decode(bias)[j])
        for k in range(20):
            total = np.float32(
                total + np.float32(storage.decode(x)[i, k]) * np.float32(storage.decode(w)[j, k])
            )
        assert got[i, j] == total


def test_families_do_not_meet_without_a_conversion() -> None:
    codes = np.ones((1, 1), np.int8)
    with pytest.raises(MinunError, match="convert"):
        exact.dot(codes, Posit(8, 2), codes, Fixed(8, 0), None, None, Posit(8, 2))
    with pytest.raises(MinunError, match="convert"):
        exact.add(codes, Posit(8, 2), codes, Fixed(8, 0), Posit(8, 2))


@pytest.mark.parametrize("source", [Posit(8, 2), Posit(16, 1), Fixed(16, -12), Posit(32, 2)], ids=named)
@pytest.mark.parametrize("target", [Posit(8, 0), Posit(12, 2), Fixed(8, -3)], ids=named)
def test_conversion_rounds_the_value_once(source: ExactFormat, target: ExactFormat) -> None:
    codes = draw(source, (400,), "wild", np.random.default_rng(12))
    got = exact.convert(codes, source, target)
    assert got.tolist() == [code_of(target, value) for value in fractions(source, codes)]


def test_clipping_is_done_on_codes_and_leaves_nar() -> None:
    fmt = Posit(8, 2)
    codes = np.arange(-128, 128).astype(np.int8)
    got = exact.clip_codes(codes, fmt, 0.0, 6.0)
    values = fmt.decode(got)
    assert got[0] == fmt.nar
    assert np.nanmin(values) == 0.0
    assert np.nanmax(values) == 6.0
    low, high = exact.clamp_codes(fmt, None, None)
    assert (low, high) == (-127, 127)


def test_results_rounded_to_odd_lie_on_the_right_side_of_every_tie() -> None:
    rng = np.random.default_rng(13)
    x, y = rng.normal(0, 1, 500) * np.exp(rng.normal(0, 12, 500)), rng.normal(0, 1, 500)
    for got, value in (
        (odd_rounding.add_odd(x, y), [Fraction(a) + Fraction(b) for a, b in zip(x, y, strict=True)]),
        (odd_rounding.multiply_odd(x, y), [Fraction(a) * Fraction(b) for a, b in zip(x, y, strict=True)]),
        (odd_rounding.divide_odd(x, y), [Fraction(a) / Fraction(b) for a, b in zip(x, y, strict=True)]),
    ):
        for near, true in zip(got.tolist(), value, strict=True):
            odd = np.float64(near).view(np.int64) & 1
            assert Fraction(near) == true or odd == 1
            step = Fraction(float(np.spacing(abs(near))))
            assert abs(Fraction(near) - true) < step


def test_rounding_of_sums_admits_every_doubt() -> None:
    rng = np.random.default_rng(14)
    for fmt in (Posit(8, 2), Posit(16, 1), Posit(32, 2), Fixed(16, -12)):
        spread = 0.3 * fmt.max_scale if isinstance(fmt, Posit) else 2.0
        total = (rng.normal(0, 1, (64, 64)) * np.exp(rng.normal(0, spread, (64, 64)))).astype(np.float64)
        error = np.abs(total) * 1e-6
        codes, doubtful = round_sums(total, 4 * error, fmt)
        assert doubtful is not None
        assert np.count_nonzero(~doubtful) > 0
        for shifted in (total - error, total + error):
            np.testing.assert_array_equal(codes[~doubtful], fmt.encode(shifted)[~doubtful])


@pytest.mark.parametrize("kind", ["network", "wild", "cancel", "tie", "nar"])
@pytest.mark.parametrize("fmt", [Posit(8, 0), Posit(16, 1)], ids=named)
def test_dot_agrees_with_softposits_quire(fmt: Posit, kind: str) -> None:
    softposit = pytest.importorskip("softposit", reason="SoftPosit (PyPI softposit) is not installed")
    number, quire = (
        (softposit.posit8, softposit.quire8) if fmt.n == 8 else (softposit.posit16, softposit.quire16)
    )
    rng, mask, differences = np.random.default_rng(15), (1 << fmt.n) - 1, 0
    for depth in (2, 17):
        x, w = pair(fmt, fmt, kind, depth, rng)
        got = exact.dot(x, fmt, w, fmt, None, None, fmt)
        for i, j in np.ndindex(*got.shape):
            total = quire()
            for a, b in zip(x[i].tolist(), w[j].tolist(), strict=True):
                total.qma(number(bits=a & mask), number(bits=b & mask))
            theirs = int(total.toPosit().v.v)
            if theirs != int(got[i, j]) & mask:  # its quires can overflow: fractions decide
                value = sum_of_products(fractions(fmt, x[i]), fractions(fmt, w[j]))
                assert got[i, j] == code_of(fmt, value)
                differences += 1
    if kind in ("network", "tie"):
        assert differences == 0
