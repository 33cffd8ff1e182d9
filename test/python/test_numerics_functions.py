# SPDX-License-Identifier: Apache-2.0
"""Non-linear functions: device code compiled here gives the host's bits on every code, within bounds."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minun_pio.errors import MinunError
from minun_pio.numerics import function_constants, functions
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import BFloat16, Float16, Float32
from minun_pio.numerics.format import Format
from minun_pio.numerics.posit import Posit
from minun_pio.numerics.real import from_real, to_real

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
FORMATS: tuple[Format, ...] = (
    Posit(9, 2),
    Posit(10, 2),
    Posit(12, 2),
    Posit(16, 1),
    Posit(16, 2),
    Posit(32, 2),
    Fixed(16, -12),
    Fixed(16, -4),
    Fixed(16, 3),
    Fixed(32, -16),
    Float32(),
    Float16(),
    BFloat16(),
)
CURVED: tuple[Posit | Fixed, ...] = (
    Posit(9, 2),
    Posit(10, 2),
    Posit(12, 2),
    Posit(16, 1),
    Posit(16, 2),
    Fixed(12, -8),
    Fixed(16, -13),
    Fixed(16, -12),
    Fixed(16, -4),
    Fixed(16, 3),
)
CURVED_OUTS: tuple[Posit | Fixed, ...] = (
    Posit(8, 0),
    Posit(8, 2),
    Posit(12, 2),
    Posit(16, 1),
    Posit(16, 2),
    Fixed(8, -7),
    Fixed(16, -15),
    Fixed(16, -12),
)
ATTRS: dict[str, dict[str, float]] = {
    "leaky_relu": {"alpha": float(np.float32(0.01))},
    "elu": {"alpha": 1.25},
    "hard_sigmoid": {"alpha": float(np.float32(0.2)), "beta": 0.5},
}
POLES = ("log", "reciprocal", "reciprocal_sqrt")


def named(fmt: Format) -> str:
    return fmt.name


def attrs(function: str) -> dict[str, float]:
    return ATTRS.get(function, {})


def sample_codes(fmt: Format) -> np.ndarray:
    """All codes of up to 16 bits; of 32 bits random patterns, ordinary numbers and the edges."""
    if fmt.bits <= 16:
        codes = np.arange(1 << fmt.bits)
        return (
            codes.astype(np.uint16)
            if fmt.family == "float"
            else (codes - (codes.size >> 1)).astype(fmt.storage)
        )
    rng = np.random.default_rng(20)
    patterns = rng.integers(0, 1 << 32, 20_000, dtype=np.uint32)
    ordinary = fmt.encode(rng.normal(0, 1, 20_000) * np.exp(rng.normal(0, 2, 20_000)))
    edges = np.array(
        [0, 1 << 31, (1 << 31) - 1, (1 << 31) + 1, 0x7F800000, 0xFF800000, 0x7FC00000, 1], np.uint32
    )
    return np.concatenate([patterns.view(fmt.storage), ordinary, edges.view(fmt.storage)])


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Every function of every format from functions.h, compiled with UBSan as a shared library."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    folder = tmp_path_factory.mktemp("functions")
    lines = ['#include "minun/functions.h"']
    for i, fmt in enumerate(FORMATS):
        for name in functions.FUNCTIONS:
            kind = functions.device_function(name, **attrs(name))
            value = functions.device_value(name, **attrs(name))
            code = f"{fmt.cpp}::Code"
            lines.append(
                f'extern "C" void f{i}_{name}(const {code}* in, {code}* out, int32_t count) '
                f"{{ minun::unary<{kind}, {fmt.cpp}, {fmt.cpp}>(in, out, count, {value}); }}"
            )
    for i, fmt in enumerate(CURVED):
        for j, out in enumerate(CURVED_OUTS):
            if out.family == fmt.family:
                lines.append(
                    f'extern "C" void curve{i}_{j}(const {fmt.cpp}::Code* in, {out.cpp}::Code* out, '
                    "int32_t count, "
                    f"const uint16_t* cells, const int16_t* nodes) "
                    f"{{ minun::curve<{out.cpp}, {fmt.cpp}>(in, out, count, cells, nodes); }}"
                )
    source, binary = folder / "functions.cpp", folder / "functions.so"
    source.write_text("\n".join(lines))
    flags = ["-std=c++11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{INCLUDE}"]
    sanitise = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    subprocess.run([compiler, *flags, *sanitise, str(source), "-o", str(binary)], check=True)
    return ctypes.CDLL(str(binary))


def on_device(device: Any, fmt: Format, function: str, codes: np.ndarray) -> np.ndarray:
    given = np.ascontiguousarray(codes)
    out = np.empty_like(given)
    call = getattr(device, f"f{FORMATS.index(fmt)}_{function}")
    call(
        given.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int32(given.size)
    )
    return out


def code_distance(fmt: Format, function: str, values: np.ndarray, got: np.ndarray) -> np.ndarray:
    """How many codes `got` of `fmt` is away from the correctly rounded function of `values`."""
    wanted = functions.reference(function, values, **attrs(function))
    if isinstance(fmt, Posit):
        wanted = np.where(
            np.isinf(wanted), np.nan if function in POLES else np.copysign(1e300, wanted), wanted
        )
        # float64 underflows where a posit still has its smallest number
        vanished = (wanted == 0) & (values != 0) & np.isin(function, ("exp", "sigmoid", "softplus"))
        wanted = np.where(vanished, 1e-300, wanted)
        vanished = (wanted == 0) & (values < 0) & np.isin(function, ("gelu", "gelu_tanh", "silu"))
        wanted = np.where(vanished, -1e-300, wanted)
    rounded = fmt.encode(wanted)
    if fmt.family != "float":
        return np.abs(got.astype(np.int64) - rounded)
    a, b = fmt.decode(got), fmt.decode(rounded)
    integer = np.dtype(f"i{fmt.storage.itemsize}")
    distance = np.abs(got.view(integer).astype(np.int64) - rounded.view(integer))
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)) | np.isinf(b), 0, distance)


def test_the_header_holds_the_hosts_constants() -> None:
    assert (INCLUDE / "minun" / "function_constants.h").read_text() == function_constants.header_text()


@pytest.mark.parametrize("function", functions.FUNCTIONS)
@pytest.mark.parametrize("fmt", FORMATS, ids=named)
def test_the_device_computes_the_hosts_bits_on_every_code(device: Any, fmt: Format, function: str) -> None:
    codes = sample_codes(fmt)
    got = on_device(device, fmt, function, codes)
    expected = functions.computed(function, codes, fmt, fmt, **attrs(function))
    if fmt.storage.kind == "f":
        both_nan = np.isnan(got) & np.isnan(expected)
        got, expected = np.where(both_nan, 0, got), np.where(both_nan, 0, expected)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("function", functions.FUNCTIONS)
@pytest.mark.parametrize("fmt", [f for f in FORMATS if f.bits <= 16], ids=named)
def test_computed_functions_of_up_to_sixteen_bits_are_within_one_code(fmt: Format, function: str) -> None:
    codes = sample_codes(fmt)
    got = functions.computed(function, codes, fmt, fmt, **attrs(function))
    distance = code_distance(fmt, function, fmt.decode(codes), got)
    assert distance.max() <= 1
    assert (distance == 0).mean() > 0.995


@pytest.mark.parametrize("function", ["sigmoid", "tanh"])
@pytest.mark.parametrize("fmt", CURVED, ids=named)
def test_curves_are_within_one_code_on_nearly_all_codes_and_two_kilobytes(fmt: Format, function: str) -> None:
    codes = sample_codes(fmt)
    outs = [f for f in (*CURVED, Posit(8, 0), Posit(8, 2), Fixed(8, -7)) if f.family == fmt.family]
    for out in outs:
        line = functions.curve(function, fmt, out)
        assert line is not None
        assert line.table_bytes <= 2048
        distance = code_distance(out, function, fmt.decode(codes), functions.apply(function, codes, fmt, out))
        assert (distance <= 1).mean() >= 0.9995, out.name
        if out == fmt:
            assert distance.max() <= 2


@pytest.mark.parametrize("fmt", CURVED, ids=named)
def test_curves_keep_zero_the_ends_and_nar(fmt: Format) -> None:
    zero = np.zeros(1, fmt.storage)
    ends = fmt.encode(np.array([-1e9, 1e9]))
    assert functions.apply("tanh", zero, fmt, fmt).tolist() == [0]
    assert (
        fmt.decode(functions.apply("sigmoid", zero, fmt, fmt)).tolist()
        == fmt.decode(fmt.encode(np.array([0.5]))).tolist()
    )
    assert code_distance(fmt, "tanh", fmt.decode(ends), functions.apply("tanh", ends, fmt, fmt)).max() <= 1
    if isinstance(fmt, Posit):
        nar = np.array([fmt.nar], fmt.storage)
        assert functions.apply("tanh", nar, fmt, fmt).tolist() == [fmt.nar]
        assert functions.apply("sigmoid", ends, fmt, fmt)[0] > 0


@pytest.mark.parametrize("fmt", CURVED, ids=named)
def test_the_device_interpolates_the_hosts_curves(device: Any, fmt: Format) -> None:
    codes = np.ascontiguousarray(sample_codes(fmt))
    for out in (f for f in CURVED_OUTS if f.family == fmt.family):
        for function in ("sigmoid", "tanh"):
            line = functions.curve(function, fmt, out)
            assert line is not None
            cells, nodes = np.array(line.cells, np.uint16), np.array(line.nodes, np.int16)
            got = np.empty(codes.shape, out.storage)
            call = getattr(device, f"curve{CURVED.index(fmt)}_{CURVED_OUTS.index(out)}")  # type: ignore[arg-type]
            pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (codes, got, cells, nodes)]
            call(pointers[0], pointers[1], ctypes.c_int32(codes.size), pointers[2], pointers[3])
            np.testing.assert_array_equal(got, functions.apply(function, codes, fmt, out))


@pytest.mark.parametrize(
    ("fmt", "bound"),
    [(Posit(32, 2), 128), (Fixed(32, -16), 8), (Float32(), 16)],
    ids=lambda p: getattr(p, "name", p),
)
def test_functions_of_thirty_two_bits_stay_within_their_stated_bounds(fmt: Format, bound: int) -> None:
    codes = sample_codes(fmt)
    for function in functions.FUNCTIONS:
        got = functions.computed(function, codes, fmt, fmt, **attrs(function))
        distance = code_distance(fmt, function, fmt.decode(codes), got)
        assert distance.max() <= bound, function
        assert (distance <= 1).mean() > 0.97, function


@pytest.mark.parametrize(
    "fmt", [Posit(16, 1), Posit(16, 2), Posit(32, 2), Fixed(16, -12), Float32()], ids=named
)
@pytest.mark.parametrize("function", ["sqrt", "reciprocal"])
def test_square_roots_and_reciprocals_are_correctly_rounded(fmt: Format, function: str) -> None:
    codes = sample_codes(fmt)
    codes = codes[fmt.decode(codes) != 0]  # -0.0 has no sign here
    assert (
        code_distance(fmt, function, fmt.decode(codes), functions.apply(function, codes, fmt, fmt)).max() == 0
    )


@pytest.mark.parametrize("fmt", [Posit(8, 0), Posit(8, 1), Posit(8, 2), Fixed(8, -5)], ids=named)
@pytest.mark.parametrize(
    "out", [Posit(16, 2), Fixed(16, -9), None], ids=lambda o: "same" if o is None else o.name
)
def test_tables_of_eight_bits_are_correctly_rounded(fmt: Format, out: Format | None) -> None:
    target = fmt if out is None or out.family != fmt.family else out
    codes = np.arange(-128, 128).astype(np.int8)
    for function in functions.FUNCTIONS:
        got = functions.apply(function, codes, fmt, target, **attrs(function))
        assert code_distance(target, function, fmt.decode(codes), got).max() == 0
        table = functions.unary_table(function, fmt, target, **attrs(function))
        np.testing.assert_array_equal(table[codes.view(np.uint8)], got)
        if isinstance(target, Posit):
            assert got[0] == target.nar
            assert (got[128] == target.nar) == (function in POLES)


def test_tables_of_int8_dequantise_and_requantise_half_away_from_zero() -> None:
    fin, fout = Affine(8, (0.05,), 10), Affine(8, (1 / 256,), -128)
    table = functions.unary_table("sigmoid", fin, fout)
    code = np.array([10, 127, -128], np.int8)
    expected = np.floor(256 / (1 + np.exp(-fin.decode(code))) + 0.5) - 128
    np.testing.assert_array_equal(table[code.view(np.uint8)], np.minimum(expected, 127))
    assert functions.apply("sigmoid", code, fin, fout).tolist() == table[code.view(np.uint8)].tolist()


def test_tables_and_arithmetic_agree_where_posits_run_out_of_range() -> None:
    small, wide = Posit(8, 2), Posit(16, 2)
    far = small.encode(np.array([2.0**20, -(2.0**20)]))
    assert functions.apply("exp", far, small, small).tolist() == [small.max_code, 1]
    assert functions.apply("silu", far, small, small).tolist() == [far[0], -1]
    assert functions.apply("exp", far.astype(np.int16) * 256, wide, wide).tolist() == [wide.max_code, 1]
    for function in functions.FUNCTIONS:
        codes = np.arange(-128, 128).astype(np.int8)
        table = functions.apply(function, codes, small, wide, **attrs(function))
        same = wide.encode(small.decode(codes))
        computed = functions.apply(function, same, wide, wide, **attrs(function))
        assert np.abs(table.astype(np.int32) - computed).max() <= 2


def test_special_values_have_their_place() -> None:
    posit, fixed, single = Posit(16, 1), Fixed(16, -8), Float32()
    zero = np.zeros(1, np.int16)
    nar = np.array([posit.nar], np.int16)
    assert functions.apply("log", zero, posit, posit).tolist() == [posit.nar]
    assert functions.apply("log", zero, fixed, fixed).tolist() == [fixed.min_code]
    assert functions.apply("reciprocal", zero, fixed, fixed).tolist() == [fixed.max_code]
    one = posit.encode(np.array([1.0, -1.0]))
    assert posit.decode(functions.apply("exp", zero, posit, posit)).tolist() == [1.0]
    assert posit.decode(functions.apply("sigmoid", zero, posit, posit)).tolist() == [0.5]
    assert functions.apply("log", one, posit, posit).tolist() == [0, posit.nar]
    for function in functions.FUNCTIONS:
        assert functions.apply(function, nar, posit, posit, **attrs(function)).tolist() == [posit.nar]
        nan = functions.apply(function, np.array([np.nan], np.float32), single, single, **attrs(function))
        assert np.isnan(nan).all(), function
    infinite = np.array([np.inf, -np.inf], np.float32)
    assert functions.apply("exp", infinite, single, single).tolist() == [np.inf, 0.0]
    assert functions.apply("tanh", infinite, single, single).tolist() == [1.0, -1.0]
    assert functions.apply("sqrt", infinite[:1], single, single).tolist() == [np.inf]
    assert functions.apply("gelu", infinite, single, single).tolist() == [np.inf, 0.0]


@pytest.mark.parametrize("fmt", FORMATS, ids=named)
def test_every_code_survives_the_way_to_real_and_back(fmt: Format) -> None:
    codes = sample_codes(fmt)
    back = from_real(to_real(codes, fmt), fmt)
    np.testing.assert_array_equal(fmt.decode(back), fmt.decode(codes))


def test_affine_codes_of_two_widths_have_no_functions() -> None:
    wide, narrow = Affine(16, (0.1,)), Affine(8, (0.1,))
    with pytest.raises(MinunError, match="convert"):
        functions.apply("tanh", np.zeros(1, np.int16), wide, narrow)
