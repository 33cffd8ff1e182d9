# SPDX-License-Identifier: Apache-2.0
"""The edges of a network: `encode_input` and `decode_output` of generated headers give the host's numbers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from emitted_model import INCLUDE, STRICT, emit
from small_networks import two_layers

from minun_pio.board.bare import build_and_run, missing_tools
from minun_pio.emit.write import write
from minun_pio.numerics.affine import Affine, affine_for_range, affine_for_weights
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import BFloat16, Float16, Float32
from minun_pio.numerics.format import Format
from minun_pio.numerics.index import Index32
from minun_pio.numerics.posit import Posit
from minun_pio.simulate.assign import uniform
from minun_pio.simulate.run import encode_inputs, from_floats

FORMATS: tuple[Format, ...] = (
    *(Posit(8, es) for es in (0, 1, 2, 3)),
    *(Posit(n, 2) for n in (9, 12, 16, 32)),
    Posit(16, 1),
    Posit(32, 3),  # its smallest numbers are below float's
    *(Fixed(8, scale) for scale in (-128, -4, 0, 127)),
    *(Fixed(16, scale) for scale in (-12, 3)),
    *(Fixed(32, scale) for scale in (-128, -16, 127)),
    Float32(),
    Float16(),
    BFloat16(),
    Index32(),
    *(
        Affine(8, (float(np.float32(s)),), z)
        for s, z in ((1 / 127.5, -1), (2 / 255, -128), (0.1, 127), (0.5, 5))
    ),
    *(Affine(8, (float(np.float32(s)),), 3) for s in (1e-45, 1e-38, 3e38)),
    *(Affine(16, (float(np.float32(s)),), z) for s, z in ((1 / 32767, 0), (0.37, 32767), (0.37, -32768))),
    Affine(32, (0.5,)),
    Affine(32, (float(np.float32(1e-3)),), -(2**31)),
)
"""Every kind of format at the ends of what it may be."""


def some_codes(fmt: Format) -> np.ndarray:
    """All codes of 8 bits; of wider formats a thousand evenly spread, both ends, and those about zero."""
    if isinstance(fmt, Float32):
        return awkward_floats()
    lowest, step = -(1 << (fmt.bits - 1)), 1 << max(0, fmt.bits - 10)
    spread = np.arange(lowest, -lowest, step, dtype=np.int64)
    codes = np.concatenate([spread, spread + step - 1, np.arange(-150, 150)])
    return np.unique(np.clip(codes, lowest, -lowest - 1)).astype(fmt.storage)


def awkward_floats() -> np.ndarray:
    """Wild and denormal numbers, the ends of float and of int32, and no numbers."""
    rng = np.random.default_rng(2)
    wild = rng.integers(0, 1 << 32, 1500, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ends = [
        0.0,
        1.0,
        0.5,
        1e-45,
        1.1754942e-38,
        1.1754944e-38,
        3.4028235e38,
        2.0**31,
        2.0**32,
        2.0**33,
        np.inf,
    ]
    return np.concatenate([wild, np.array([*ends, *np.negative(ends), np.nan, -np.nan], np.float32)])


def awkward(fmt: Format) -> np.ndarray:
    """Those, and of `fmt` the codes' own values, the ties between them, and the neighbours of all."""
    values = np.asarray(fmt.decode(some_codes(fmt)), np.float64)
    values = np.sort(values[np.isfinite(values)])
    if isinstance(fmt, Affine | Fixed):
        unit = fmt.scale if isinstance(fmt, Affine) else 2.0**fmt.scale_exp
        middles = np.concatenate([values - unit / 2, values + unit / 2])
    else:
        middles = (values[1:] + values[:-1]) / 2
    with np.errstate(all="ignore"):
        near = np.concatenate([values, middles]).astype(np.float32)
        above, below = np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))
    return np.concatenate([awkward_floats(), near, above, below])


def edge_calls(fmt: Format) -> tuple[str, str]:
    """The calls that a generated header makes for `fmt`, of `value` and of `code`."""
    if isinstance(fmt, Affine):
        numbers = f"{float(np.float32(fmt.scale)).hex()}f, static_cast<int32_t>(INT64_C({fmt.zero_point}))"
        return (
            f"minun::encode_affine<{fmt.width}>(value, {numbers})",
            f"minun::decode_affine(code, {numbers})",
        )
    return f"minun::FloatEdge<{fmt.cpp}>::encode(value)", f"minun::FloatEdge<{fmt.cpp}>::decode(code)"


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays are equal; every NaN of float32 equals every other."""
    return (a == b) | ((a != a) & (b != b))


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program: `encode` and a format's place in FORMATS, floats in, codes out; `decode`, the other way."""
    folder = tmp_path_factory.mktemp("edges")
    cases = ""
    for place, fmt in enumerate(FORMATS):
        encode, decode = edge_calls(fmt)
        cases += f"    case {place}: return run<float, {fmt.cpp}::Code>(encoding, "
        cases += (
            f"[](float value) {{ return {encode}; }}, []({fmt.cpp}::Code code) {{ return {decode}; }});\n"
        )
    (folder / "edges.cpp").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        '#include "minun/io.h"\n'
        "template <class From, class To, class F> void each(F&& step) {\n"
        "  From given;\n"
        "  while (fread(&given, sizeof given, 1, stdin) == 1) {\n"
        "    const To found = step(given);\n"
        "    fwrite(&found, sizeof found, 1, stdout);\n"
        "  }\n"
        "}\n"
        "template <class Value, class Code, class E, class D>\n"
        "int run(bool encoding, E&& encode, D&& decode) {\n"
        "  if (encoding) each<Value, Code>(encode);\n"
        "  if (!encoding) each<Code, Value>(decode);\n"
        "  return 0;\n"
        "}\n"
        "int main(int, char** argv) {\n"
        "  const bool encoding = argv[1][0] == 'e';\n"
        f"  switch (atoi(argv[2])) {{\n{cases}    default: return 1;\n  }}\n"
        "}\n"
    )
    options = ["-std=c++17" if word == "-std=c++11" else word for word in STRICT]  # for the literals in hex
    options += ["-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all", "-I", str(INCLUDE)]
    subprocess.run(["g++", *options, str(folder / "edges.cpp"), "-o", str(folder / "edges")], check=True)
    return folder / "edges"


def answer(device: Path, way: str, fmt: Format, given: np.ndarray) -> bytes:
    command = [device, way, str(FORMATS.index(fmt))]
    done = subprocess.run(command, input=given.tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_a_float_at_the_edge_becomes_the_hosts_code(fmt: Format, device: Path):
    values = awkward(fmt)
    found = np.frombuffer(answer(device, "encode", fmt, values), fmt.storage)
    expected = from_floats(values, fmt)
    wrong = ~same(found, expected)
    assert not wrong.any(), list(zip(values[wrong], found[wrong], expected[wrong], strict=True))[:5]


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_a_code_at_the_edge_becomes_the_float_nearest_to_its_value(fmt: Format, device: Path):
    codes = some_codes(fmt)
    found = np.frombuffer(answer(device, "decode", fmt, codes), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = np.asarray(fmt.decode(codes)).astype(np.float32)
    wrong = ~same(found, nearest)
    if (
        isinstance(fmt, Affine) and fmt.width == 32
    ):  # the code becomes a float before it is scaled: the last bit
        wrong &= (found != np.nextafter(nearest, -np.inf)) & (found != np.nextafter(nearest, np.inf))
    assert not wrong.any(), list(zip(codes[wrong], found[wrong], nearest[wrong], strict=True))[:5]


def test_an_affine_input_is_divided_in_float32_ties_away_from_zero_and_no_number_is_the_zero_point():
    fmt = Affine(8, (0.5,), 3)
    values = np.array([0.25, -0.25, 0.75, 1e30, -1e30, np.inf, -np.inf, np.nan])
    assert from_floats(values, fmt).tolist() == [4, 2, 5, 127, -128, 127, -128, 3]
    scale = float(np.float32(1 / 127.5))
    pixels = (np.arange(256) / 127.5 - 1).astype(np.float32)
    fmt = Affine(8, (scale,))
    assert from_floats(pixels, fmt)[32] == -96  # -0.7490196 / scale: in float32 -95.5, a tie
    assert fmt.encode(pixels)[32] == -95  # in float64 just above


def test_codes_of_a_file_that_came_quantised_come_back_from_their_values():
    rng = np.random.default_rng(5)
    for width in (8, 16, 32):
        low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
        codes = np.concatenate(
            [rng.integers(low, high + 1, (6, 2000)), np.full((6, 1), low), np.full((6, 1), high)], 1
        )
        scales = tuple(float(np.float32(s)) for s in np.exp2(rng.uniform(-40, 10, 6)))
        fmt = Affine(width, scales, 0, axis=0)
        assert np.array_equal(fmt.encode(fmt.decode(codes)), codes)
        alone = Affine(width, scales[:1], int(rng.integers(low, high + 1)))
        assert np.array_equal(alone.encode(alone.decode(codes)), codes)


def test_samples_reach_the_simulator_as_the_floats_that_a_sketch_would_pass():
    graph = two_layers()
    fmt = Fixed(16, -12)
    just_below = np.full((1, 1, 6), 0.5 * 2.0**-12 - 2.0**-45)  # as a float32: a tie, which goes up
    codes = encode_inputs(graph, uniform(graph, fmt), just_below)["x"]
    assert codes.tolist() == [[[1] * 6]]
    assert fmt.encode(just_below).tolist() == [[[0] * 6]]


def test_the_generated_header_encodes_samples_as_evaluation_does(tmp_path: Path):
    graph = two_layers()
    pixels = (np.arange(258).reshape(43, 1, 6) / 127.5 - 1).astype(np.float32)
    scale = 1 / 127.5  # not a float32: both sides take the nearest one
    formats = {
        **uniform(graph, affine_for_range(-8.0, 8.0)),
        "x": Affine(8, (scale,), -1),
        **{name: affine_for_weights(graph.constants[name]) for name in ("w", "w2")},
    }
    emitted = emit(graph, formats, pixels, tmp_path)
    (tmp_path / "pixels.cpp").write_text(
        '#include <stdio.h>\n#include "tiny.h"\n'
        "int main() {\n"
        "  float value;\n"
        "  while (fread(&value, sizeof value, 1, stdin) == 1) {\n"
        "    const tiny::InputCode code = tiny::encode_input(value);\n"
        "    fwrite(&code, sizeof code, 1, stdout);\n"
        "  }\n"
        "  return 0;\n"
        "}\n"
    )
    binary = tmp_path / "pixels"
    sources = [str(tmp_path / "pixels.cpp"), str(tmp_path / "tiny.cpp")]
    subprocess.run(["g++", *STRICT, "-I", str(INCLUDE), *sources, "-o", str(binary)], check=True)
    answer = subprocess.run([binary], input=pixels.tobytes(), capture_output=True, check=True).stdout
    expected = encode_inputs(graph, formats, pixels)["x"]
    assert answer == expected.tobytes()
    text = write(emitted.program)["tiny.h"]
    literal = re.search(r"encode_affine<8>\(value, ([0-9.e-]+)f, -1\)", text)
    assert literal is not None
    assert np.float32(literal[1]) == np.float32(scale)


@pytest.mark.parametrize("core", ["avr", "m3", "m7"])
def test_the_emulated_cores_encode_affine_inputs_as_the_host_does(core: str, tmp_path: Path):
    if missing_tools(core):
        pytest.skip(f"{', '.join(missing_tools(core))} not installed")
    formats = [fmt for fmt in FORMATS if isinstance(fmt, Affine)]
    batches = [awkward(fmt)[::9] for fmt in formats]
    body = ""
    for fmt in formats:
        encode, _ = edge_calls(fmt)
        body += "  for (bare::read(&count, 4); count != 0; --count) { bare::read(&value, 4); "
        body += f"{fmt.cpp}::Code code = {encode}; bare::write(&code, sizeof code); }}\n"
    (tmp_path / "edges.cpp").write_text(
        '#include "bare.h"\n#include "minun/io.h"\n'
        f"int main() {{\n  float value;\n  uint32_t count;\n{body}  return 0;\n}}\n"
    )
    done = build_and_run(
        core,
        [tmp_path / "edges.cpp"],
        include_dirs=[INCLUDE],
        cflags=["-Os", *("-std=gnu++11" if word == "-std=c++11" else word for word in STRICT)],
        stdin_bytes=b"".join(np.uint32(b.size).tobytes() + b.tobytes() for b in batches),
    )
    expected = b"".join(from_floats(b, fmt).tobytes() for b, fmt in zip(batches, formats, strict=True))
    assert done.output == expected
