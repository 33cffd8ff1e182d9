# SPDX-License-Identifier: Apache-2.0
"""dense, matmul and convolutions on the board compute, bit for bit, what the host simulates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_program import SANITISERS, Case, mismatches
from numpy.typing import NDArray

from minun_pio.board.bare import missing_tools
from minun_pio.numerics.affine import affine_bias, affine_for_range, affine_for_weights
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import BFloat16, Float16, Float32
from minun_pio.numerics.format import Codes, Format
from minun_pio.numerics.posit import Posit
from minun_pio.ops import REGISTRY

POSITS = [
    Posit(n, es) for n, es in ((8, 0), (8, 1), (8, 2), (9, 2), (10, 2), (12, 2), (16, 1), (16, 2), (32, 2))
]
FIXED = [Fixed(8, -5), Fixed(16, -11), Fixed(16, -3)]
FLOATS: list[Format] = [Float32(), Float16(), BFloat16()]


def edge_codes(rng: np.random.Generator, fmt: Any, shape: tuple[int, ...]) -> Codes:
    """Ordinary values and any finite code; sample 1 has a NaR, sample 2 extremes only, sample 3 zeros."""
    low, high = fmt.min_code, fmt.max_code
    wild = rng.integers(low, high + 1, shape)
    tame = fmt.encode(rng.normal(0, 1, shape)).astype(np.int64)
    codes = np.where(rng.random(shape) < 0.7, tame, wild)
    if shape[0] > 3:
        if fmt.nar is not None:
            codes[1].flat[codes[1].size // 2] = fmt.nar
        codes[2] = rng.choice([low, high, 1, -1, 0], shape[1:])
        codes[3] = 0
    return codes.astype(fmt.storage)


def any_values(rng: np.random.Generator, fmt: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Values of finite codes: mostly small weights, some anything."""
    wild = fmt.decode(rng.integers(fmt.min_code, fmt.max_code + 1, shape).astype(fmt.storage))
    return np.where(rng.random(shape) < 0.9, rng.normal(0, 0.3, shape), wild)


def dense_case(
    rng: np.random.Generator, x: Any, w: Any, out: Any, bias: Any = None, rows: int = 1, **more: Any
) -> Case:
    inputs, outputs = 13, 7
    constants = {1: any_values(rng, w, (outputs, inputs))}
    formats: dict[int, Format] = {0: x, 1: w}
    if bias is not None:
        constants[2], formats[2] = any_values(rng, bias, (outputs,)), bias
    codes = edge_codes(rng, x, (6, rows, inputs) if rows > 1 else (6, inputs))
    return Case("dense", {0: codes}, constants, formats, out, **more)


def exact_dense_cases() -> list[Case]:
    rng = np.random.default_rng(1)
    cases = []
    for family in (POSITS, FIXED):
        for i, x in enumerate(family):
            w, out, bias = family[(i * 3 + 1) % len(family)], family[(i * 5 + 2) % len(family)], family[i - 1]
            cases.append(dense_case(rng, x, x, x, x))
            cases.append(dense_case(rng, x, w, out, bias, rows=3, overlap=True))
            cases.append(dense_case(rng, x, x, x, attrs={"clip": (0.0, 1.5)}, overlap=True))
    return cases


def conv_case(rng: np.random.Generator, op: str, x: Any, w: Any, out: Any, bias: Any, **attrs: Any) -> Case:
    groups = attrs.get("groups", 1)
    per_group, out_channels = (1, 4) if groups == 4 else (4 // groups, 6)
    constants = {1: any_values(rng, w, (out_channels, 3, 2, per_group))}
    formats: dict[int, Format] = {0: x, 1: w}
    if bias is not None:
        constants[2], formats[2] = any_values(rng, bias, (out_channels,)), bias
    return Case(op, {0: edge_codes(rng, x, (5, 1, 5, 4, 4))}, constants, formats, out, attrs, overlap=True)


WINDOWS: list[dict[str, Any]] = [
    {},
    {"pads": (1, 0, 1, 1), "strides": (2, 1)},
    {"groups": 2, "pads": (1, 1, 1, 1), "dilations": (2, 1)},
    {"groups": 4, "pads": (2, 1, 0, 1), "strides": (1, 2), "clip": (0.0, None)},
]
TRANSPOSED: list[dict[str, Any]] = [
    {},
    {"strides": (2, 2), "pads": (1, 0, 1, 1), "output_padding": (1, 0)},
    {"groups": 2, "strides": (1, 2), "dilations": (2, 1)},
    {"groups": 4, "pads": (2, 1, 1, 0), "strides": (3, 2)},
]


def exact_conv_cases() -> list[Case]:
    rng = np.random.default_rng(2)
    cases = []
    for family in (POSITS, FIXED):
        for i, x in enumerate(family):
            w, out, bias = family[(i * 3 + 1) % len(family)], family[(i * 5 + 2) % len(family)], family[i - 1]
            cases.append(conv_case(rng, "conv", x, w, out, bias, **WINDOWS[i % 4]))
            cases.append(conv_case(rng, "conv", x, x, x, None, **WINDOWS[(i + 1) % 4]))
            cases.append(conv_case(rng, "conv_transpose", x, w, out, bias, **TRANSPOSED[(i + 1) % 4]))
            cases.append(conv_case(rng, "conv_transpose", x, x, x, x, **TRANSPOSED[(i + 2) % 4]))
    return cases


def matmul_cases() -> list[Case]:
    rng = np.random.default_rng(3)
    cases = []
    for family in (POSITS, FIXED):
        for i, a in enumerate(family):
            b, out = family[(i + 1) % len(family)], family[(i * 5 + 2) % len(family)]
            inputs = {0: edge_codes(rng, a, (5, 2, 3, 4)), 1: edge_codes(rng, b, (5, 4, 3))}
            cases.append(Case("matmul", inputs, {}, {0: a, 1: b}, out))
            inputs = {0: edge_codes(rng, a, (5, 2, 1, 4, 3)), 1: edge_codes(rng, b, (5, 3, 2, 4))}
            attrs = {"transpose_a": True, "transpose_b": True}
            cases.append(Case("matmul", inputs, {}, {0: a, 1: b}, out, attrs))
            constant = {1: any_values(rng, b, (4, 5))}
            cases.append(Case("matmul", {0: edge_codes(rng, a, (5, 3, 4))}, constant, {0: a, 1: b}, out))
    return cases


def float_cases() -> list[Case]:
    rng = np.random.default_rng(4)
    cases = []
    for i, x in enumerate(FLOATS):
        w, out = FLOATS[(i + 1) % 3], FLOATS[(i + 2) % 3]
        codes = x.encode(rng.normal(0, 3, (4, 2, 11)).astype(np.float32))
        constants = {1: rng.normal(0, 1, (5, 11)), 2: rng.normal(0, 1, 5)}
        formats: dict[int, Format] = {0: x, 1: w, 2: x}
        cases.append(Case("dense", {0: codes}, constants, formats, out, {"clip": (0.0, 6.0)}))
        cases.append(Case("dense", {0: codes}, constants, formats, out))
        image = x.encode(rng.normal(0, 3, (3, 1, 5, 4, 4)).astype(np.float32))
        constants = {1: rng.normal(0, 1, (6, 3, 2, 2)), 2: rng.normal(0, 1, 6)}
        attrs = {"groups": 2, "pads": (1, 1, 1, 1)}
        cases.append(Case("conv", {0: image}, constants, formats, out, attrs, overlap=True))
        cases.append(
            Case("conv_transpose", {0: image}, constants, formats, out, {**attrs, "strides": (2, 2)})
        )
        right = w.encode(rng.normal(0, 1, (4, 11, 3)).astype(np.float32))
        cases.append(Case("matmul", {0: codes, 1: right}, {}, {0: x, 1: w}, out))
    return cases


def quantised_cases() -> list[Case]:
    rng = np.random.default_rng(5)
    cases = []
    for width in (8, 16):
        x = affine_for_range(-3.0, 5.0, width)
        out = affine_for_range(-4.0, 9.0, width)
        dense_w = rng.normal(0, 0.5, (7, 13))
        conv_w = rng.normal(0, 0.5, (6, 3, 2, 4))
        depthwise_w = rng.normal(0, 0.5, (4, 3, 3, 1))
        for axis, clip in ((None, None), (0, (0.0, 6.0))):
            w = affine_for_weights(dense_w, axis)
            codes = rng.integers(x.min_code, x.max_code + 1, (5, 13)).astype(x.storage)
            constants = {1: dense_w, 2: rng.normal(0, 1, 7)}
            formats: dict[int, Format] = {0: x, 1: w, 2: affine_bias(x, w)}
            cases.append(Case("dense", {0: codes}, constants, formats, out, {"clip": clip} if clip else {}))
        image = rng.integers(x.min_code, x.max_code + 1, (4, 1, 5, 4, 4)).astype(x.storage)
        for weights, attrs in (
            (conv_w, {"pads": (1, 1, 0, 0), "strides": (2, 1)}),
            (depthwise_w, {"groups": 4, "pads": (1, 1, 1, 1), "clip": (0.0, None)}),
        ):
            w = affine_for_weights(weights, 0)
            constants = {1: weights, 2: rng.normal(0, 1, weights.shape[0])}
            formats = {0: x, 1: w, 2: affine_bias(x, w)}
            cases.append(Case("conv", {0: image}, constants, formats, out, attrs, overlap=True))
        w = affine_for_weights(conv_w, 0)
        formats = {0: x, 1: w}
        attrs = {"strides": (2, 2)}
        cases.append(Case("conv_transpose", {0: image}, {1: conv_w}, formats, out, attrs, overlap=True))
    return cases


ALL = {
    "dense": exact_dense_cases,
    "conv": exact_conv_cases,
    "matmul": matmul_cases,
    "float": float_cases,
    "quantised": quantised_cases,
}


def sparse_cases() -> list[Case]:
    rng = np.random.default_rng(6)
    cases = []
    for family in (POSITS, FIXED):
        for i, x in enumerate(family):
            w, bias = family[(i * 3 + 1) % len(family)], family[i - 1]
            weights = np.where(rng.random((7, 300)) < 0.05, rng.normal(0, 1, (7, 300)), 0.0)
            weights[3] = 0.0
            constants = {1: weights, 2: rng.normal(0, 1, 7)}
            codes = edge_codes(rng, x, (5, 2, 300))
            formats: dict[int, Format] = {0: x, 1: w, 2: bias}
            attrs = {"storage": "csc", "clip": (None, 2.0)}
            small = bool(i % 2)
            cases.append(
                Case(
                    "sparse_dense",
                    {0: codes},
                    constants,
                    formats,
                    x,
                    attrs,
                    overlap=True,
                    small_scratch=small,
                )
            )
    codes = Float32().encode(rng.normal(0, 1, (4, 300)))
    formats = {0: Float32(), 1: Float32(), 2: Float32()}
    cases.append(Case("sparse_dense", {0: codes}, constants, formats, Float32()))
    return cases


def tame_cases() -> list[Case]:
    """Weights and inputs as trained networks have them: the fast kernels, their tails and their guards."""
    rng = np.random.default_rng(7)
    cases = []
    families: list[list[Any]] = [POSITS[:-1], FIXED]
    for family in families:
        for i, x in enumerate(family):
            mixed = (family[(i + 2) % len(family)], family[i - 1], family[(i + 3) % len(family)])
            for w, out, bias in ((x, x, x), mixed):
                weights = rng.normal(0, 0.2, (10, 21))
                weights[0, 0], weights[3, 7] = 0.5 + i % 2, 1e-4
                codes = x.encode(rng.normal(0, 1, (5, 21)))
                image = x.encode(rng.normal(0, 1, (3, 1, 6, 7, 5)))
                for values in (codes, image):
                    if x.nar is not None:
                        values[1].flat[3] = x.nar
                    values[2] = rng.choice([x.min_code, x.max_code, 1, -1, 0], values[2].shape)
                formats: dict[int, Format] = {0: x, 1: w, 2: bias}
                constants = {1: weights, 2: rng.normal(0, 0.2, 10)}
                cases.append(Case("dense", {0: codes}, constants, formats, out, overlap=True))
                kernels = rng.normal(0, 0.2, (6, 3, 3, 5))
                kernels[3, 1, 1, 1] = 1e-4
                constants = {1: kernels, 2: rng.normal(0, 0.2, 6)}
                attrs = {"pads": (1, 1, 1, 1), "strides": (1 + i % 2, 1), "clip": (0.0, None)}
                cases.append(Case("conv", {0: image}, constants, formats, out, attrs, overlap=True))
                depthwise = rng.normal(0, 0.3, (5, 3, 3, 1))
                depthwise[2, 1, 1] = 1e-4
                constants = {1: depthwise, 2: rng.normal(0, 0.2, 5)}
                attrs = {"pads": (1, 1, 1, 1), "groups": 5}
                cases.append(Case("conv", {0: image}, constants, formats, out, attrs, overlap=True))
    return cases


def far_cases() -> list[Case]:
    """posit<8,0> weights of at most one beside inputs of two and more: none, few, far apart, many, all."""
    rng = np.random.default_rng(9)
    x = Posit(8, 0)
    cases = []
    for inputs, shares in (
        (64, (0.0, 0.05, 0.3, 0.34, 1.0)),
        (21, (0.1, 0.4)),
        (3, (0.5,)),
        (700, (0.003, 0.36)),
    ):
        weights = x.decode(rng.integers(-64, 65, (5, inputs)).astype(x.storage))
        for share in shares:
            codes = rng.integers(-95, 96, (3, inputs))
            far = rng.integers(96, 128, codes.shape) * rng.choice([-1, 1], codes.shape)
            codes = np.where(rng.random(codes.shape) < share, far, codes)
            codes[1, -1] = -127
            codes[2, inputs // 2] = x.nar
            constants = {1: weights, 2: rng.normal(0, 0.2, 5)}
            formats: dict[int, Format] = {0: x, 1: x, 2: x}
            cases.append(Case("dense", {0: codes.astype(x.storage)}, constants, formats, Posit(8, 2)))
    return cases


def tiled_cases() -> list[Case]:
    """Dense layers with little scratch: groups of rows, tiles of inputs; one group may run in place."""
    rng = np.random.default_rng(8)
    cases = []
    for i, x in enumerate(POSITS[:-1]):
        w, bias = POSITS[(i + 2) % 8], POSITS[i - 1]
        for outputs, rows, weight, out, large in (
            (21, 2, x, x, 0.9),
            (7, 1, x, bias, 1.5),
            (22, 1, w, x, 0.9),
        ):
            weights = np.clip(rng.normal(0, 0.1, (outputs, 150)), -0.9, 0.9)
            weights[0, 0], weights[3, 7] = large, 1e-4
            codes = x.encode(rng.normal(0, 1, (5, rows, 150) if rows > 1 else (5, 150)))
            if x.nar is not None:
                codes[1].flat[3] = x.nar
            codes[2] = rng.choice([x.min_code, x.max_code, 1, -1, 0], codes[2].shape)
            formats: dict[int, Format] = {0: x, 1: weight, 2: bias}
            constants = {1: weights, 2: rng.normal(0, 0.2, outputs)}
            cases.append(Case("dense", {0: codes}, constants, formats, out, overlap=True, small_scratch=True))
    return cases


def variant_of(case: Case, core: str) -> str:
    return REGISTRY[case.op].emit(case.binding(core)).variant


ALL["sparse"] = sparse_cases
ALL["tame"] = tame_cases
ALL["tiled"] = tiled_cases
ALL["far"] = far_cases


def test_trained_weights_get_fast_kernels_on_every_core() -> None:
    for core in ("m3", "m7", "avr"):
        for case in tame_cases():
            if case.op == "dense":
                assert variant_of(case, core) != "exact", (core, case.formats)


@pytest.mark.parametrize("core", ["avr", "m3", "m7"])
def test_tiles_take_less_scratch_than_whole_rows(core: str) -> None:
    for case in tiled_cases():
        binding = case.binding(core)
        small = REGISTRY["dense"].traits(binding).scratch_bytes
        assert small <= 256 < REGISTRY["dense"].traits(replace(binding, small_scratch=False)).scratch_bytes
        assert "in tiles" in variant_of(case, core)


@pytest.mark.parametrize("core", ["avr", "m7"])
def test_the_portable_twins_of_the_assembly_give_the_same_bits(core: str, tmp_path: Path) -> None:
    """Calls chosen for another core, compiled for the host: their loops in C++."""
    cases = tame_cases() + tiled_cases() + far_cases()
    assert mismatches("host", cases, chosen_for=core, folder=tmp_path, cflags=SANITISERS) == []


@pytest.mark.parametrize("group", list(ALL))
def test_host_kernels_equal_the_simulation_under_sanitisers(group: str, tmp_path: Path) -> None:
    assert mismatches("host", ALL[group](), folder=tmp_path, cflags=SANITISERS) == []


@pytest.mark.parametrize("group", list(ALL))
@pytest.mark.parametrize("core", ["m3", "m7"])
def test_arm_kernels_equal_the_simulation(core: str, group: str, tmp_path: Path) -> None:
    missing = missing_tools(core)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    cases = ALL[group]() if group == "tame" else ALL[group]()[:: 1 if core == "m3" else 3]
    assert mismatches(core, cases, folder=tmp_path, cflags=("-Os",)) == []


@pytest.mark.parametrize("group", list(ALL))
def test_avr_kernels_equal_the_simulation(group: str, tmp_path: Path) -> None:
    missing = missing_tools("avr")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    cases = ALL[group]()
    chosen = cases[::3] if group == "tame" else cases if group == "far" else cases[:: max(1, len(cases) // 7)]
    for start in range(0, len(chosen), 3):  # few at a time: program memory is small
        part = chosen[start : start + 3]
        assert mismatches("avr", part, folder=tmp_path, cflags=("-Os",), mcu="atmega1284p") == []
