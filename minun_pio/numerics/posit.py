# SPDX-License-Identifier: Apache-2.0
"""Posits: `Posit(n, es)`, codes right-aligned two's complement integers of n bits, NaR the most negative.

Rounding is to the nearest code, ties to the even bit string, never to zero and never to NaR
(Posit Standard 2022, section 4). NaN and infinities encode to NaR.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.numerics.format import Codes, Values, signed_storage

NO_UNIT = 9999
"""The unit exponent of zero: zero is a multiple of everything."""

_TABLE_BITS = 16  # widths up to this decode through a table of all codes


@dataclass(frozen=True)
class Posit:
    """A posit of `n` bits (3 to 32) with `es` exponent bits (0 to 3)."""

    n: int
    es: int

    def __post_init__(self) -> None:
        if not (3 <= self.n <= 32 and 0 <= self.es <= 3):
            found = f"posit<{self.n},{self.es}>"
            raise MinunError(
                "format.posit", f"{found} found; expected 3 to 32 bits and es 0 to 3, as in posit<8,2>"
            )

    @property
    def name(self) -> str:
        return f"posit<{self.n},{self.es}>"

    @property
    def family(self) -> str:
        return "posit"

    @property
    def bits(self) -> int:
        return self.n

    @property
    def storage(self) -> np.dtype[Any]:
        return signed_storage(self.n)

    @property
    def cpp(self) -> str:
        return f"minun::Posit<{self.n}, {self.es}>"

    @property
    def min_code(self) -> int:
        """The code of the most negative number, -maxpos (NaR is one below)."""
        return -self.max_code

    @property
    def max_code(self) -> int:
        return (1 << (self.n - 1)) - 1

    @property
    def nar(self) -> int:
        return -(1 << (self.n - 1))

    @property
    def max_scale(self) -> int:
        """log2 of maxpos; minpos is 2^-max_scale."""
        return (self.n - 2) << self.es

    @property
    def unit_exponent(self) -> int:
        """Every value is a multiple of 2^unit_exponent (= minpos)."""
        return -self.max_scale

    def decode(self, codes: Codes) -> Values:
        """The exact values as float64; NaR as NaN."""
        if self.n > _TABLE_BITS:
            return _decode_bits(self, codes)
        return np.take(value_table(self), bit_index(self, codes))

    def unit_exponents(self, codes: Codes) -> NDArray[np.int64]:
        """The exponent of each value's lowest set bit; NO_UNIT for zero and NaR."""
        if self.n > _TABLE_BITS:
            return lowest_bit_exponents(_decode_bits(self, codes))
        return np.take(unit_table(self), bit_index(self, codes)).astype(np.int64)

    def encode(self, values: NDArray[Any]) -> Codes:
        """The nearest code of each float64, by bit arithmetic on its IEEE pattern.

        The regime and exponent bits of the value's binade stand above its fraction, whose last bit also
        holds "something non-zero follows"; one shift then rounds the string as the standard says.
        """
        steps = _encode_steps(self)
        given = np.asarray(values, dtype=np.float64)
        magnitude = np.clip(np.abs(given), 2.0**-self.max_scale, 2.0**self.max_scale)
        pattern = magnitude.view(np.int64)
        binade = pattern >> 52
        cut = 52 - steps.fraction_bits
        fraction = (pattern & ((1 << 52) - 1)) >> cut
        fraction |= (pattern & ((1 << cut) - 1)) != 0
        string = np.take(steps.string, binade) + fraction
        shift = np.take(steps.shift, binade)
        code = (string + (np.left_shift(np.int64(1), shift - 1) - 1) + ((string >> shift) & 1)) >> shift
        code = np.where(given < 0, -code, code)
        code = np.where(given == 0, 0, code)
        finite = np.isfinite(given)
        if not np.all(finite):
            code = np.where(finite, code, self.nar)
        return code.astype(self.storage)

    def encode_integer(self, numerator: int, exponent: int) -> int:
        """The code of the exact number numerator * 2^exponent, in Python integers."""
        if numerator == 0:
            return 0
        magnitude = abs(numerator)
        fraction_bits = magnitude.bit_length() - 1
        scale = fraction_bits + exponent
        if scale >= self.max_scale:
            code = self.max_code
        elif scale < -self.max_scale:
            code = 1
        else:
            regime, regime_bits = regime_string(scale >> self.es)
            head = (regime << self.es) | (scale & ((1 << self.es) - 1))
            string = (head << fraction_bits) | (magnitude - (1 << fraction_bits))
            cut = regime_bits + self.es + fraction_bits - (self.n - 1)
            code = (
                string << -cut if cut <= 0 else (string + (1 << (cut - 1)) - 1 + ((string >> cut) & 1)) >> cut
            )
            code = max(1, min(code, self.max_code))
        return -code if numerator < 0 else code


def bit_index(fmt: Posit, codes: Codes) -> NDArray[Any]:
    """Position of each code in a table over all codes: the code's bits read as unsigned."""
    array = np.asarray(codes)
    if array.dtype == fmt.storage:  # unsigned indices are the ones that numpy gathers without a detour
        unsigned = array.view(f"u{fmt.storage.itemsize}")
        return (
            unsigned
            if fmt.n == 8 * fmt.storage.itemsize
            else unsigned & unsigned.dtype.type((1 << fmt.n) - 1)
        )
    return array.astype(np.int64) & ((1 << fmt.n) - 1)


def regime_string(k: int) -> tuple[int, int]:
    """The regime's bit string for run value k, and its length."""
    return (((1 << (k + 1)) - 1) << 1, k + 2) if k >= 0 else (1, 1 - k)


@functools.cache
def value_table(fmt: Posit) -> Values:
    """float64 values of all 2^n codes, indexed by the code's bits; NaR is NaN. For n up to 16."""
    return _frozen(_decode_bits(fmt, np.arange(1 << fmt.n)))


@functools.cache
def unit_table(fmt: Posit) -> NDArray[np.int16]:
    """`unit_exponents` of all codes, indexed by the code's bits. For n up to 16."""
    table: NDArray[np.int16] = _frozen(lowest_bit_exponents(value_table(fmt)).astype(np.int16))
    return table


def _frozen(table: NDArray[Any]) -> NDArray[Any]:
    table.flags.writeable = False
    return table


def lowest_bit_exponents(values: Values) -> NDArray[np.int64]:
    """Exponent of the lowest set bit of each float64; NO_UNIT for zero and NaN."""
    pattern = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    mantissa = (pattern & ((1 << 52) - 1)) | (1 << 52)
    lowest = mantissa & -mantissa
    zeros = np.frexp(lowest.astype(np.float64))[1].astype(np.int64) - 1
    exponent = ((pattern >> 52) & 0x7FF) - 1075 + zeros
    return np.where(np.isfinite(values) & (np.asarray(values) != 0), exponent, NO_UNIT)


def _decode_bits(fmt: Posit, codes: Codes) -> Values:
    """Decoding by arithmetic: count the regime run, split the rest into exponent and fraction."""
    signed = np.asarray(codes).astype(np.int64)
    top = 1 << (fmt.n - 1)
    signed = ((signed + top) & ((1 << fmt.n) - 1)) - top
    magnitude = np.abs(signed)
    body_bits = fmt.n - 1
    leading = (magnitude >> (body_bits - 1)) & 1
    flipped = np.where(leading == 1, magnitude ^ ((1 << body_bits) - 1), magnitude)
    run = body_bits - np.where(flipped == 0, 0, np.frexp(flipped.astype(np.float64))[1].astype(np.int64))
    k = np.where(leading == 1, run - 1, -run)
    rest_bits = np.maximum(body_bits - 1 - run, 0)
    rest = magnitude & ((np.int64(1) << rest_bits) - 1)
    aligned = rest << (fmt.n - rest_bits)  # exponent and fraction with n bits, zeros where the code ended
    exponent = aligned >> (fmt.n - fmt.es)
    fraction = aligned & ((1 << (fmt.n - fmt.es)) - 1)
    significand = 1.0 + np.ldexp(fraction.astype(np.float64), -(fmt.n - fmt.es))
    value = np.ldexp(significand, (k * (1 << fmt.es) + exponent).astype(np.int32))
    value = np.where(signed < 0, -value, value)
    value = np.where(signed == 0, 0.0, value)
    return np.where(signed == -top, np.nan, value)


@dataclass(frozen=True)
class _EncodeSteps:
    """Per biased float64 exponent: the string's head, already shifted above the fraction, and the cut."""

    string: NDArray[np.int64]
    shift: NDArray[np.int64]
    fraction_bits: int


@functools.cache
def _encode_steps(fmt: Posit) -> _EncodeSteps:
    # The longest string has n regime bits, es exponent bits and the fraction: it has to fit 63 bits.
    fraction_bits = min(32, 63 - fmt.n - fmt.es)
    string = np.zeros(2048, np.int64)
    shift = np.ones(2048, np.int64)
    for scale in range(-fmt.max_scale, fmt.max_scale + 1):
        regime, regime_bits = regime_string(scale >> fmt.es)
        head = (regime << fmt.es) | (scale & ((1 << fmt.es) - 1))
        string[scale + 1023] = head << fraction_bits
        shift[scale + 1023] = regime_bits + fmt.es + fraction_bits - (fmt.n - 1)
    return _EncodeSteps(_frozen(string), _frozen(shift), fraction_bits)
