# SPDX-License-Identifier: Apache-2.0
"""Convolutions as AVR computes them: windows of every kind in all formats, and what the inputs ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_program import SANITISERS, Case, mismatches, run

from minun_pio.board.bare import missing_tools
from minun_pio.numerics.affine import affine_bias, affine_for_range, affine_for_weights
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Format
from minun_pio.numerics.posit import Posit
from minun_pio.ops import REGISTRY
from minun_pio.ops.guards import GuardOfPatches

FORMATS: tuple[Any, ...] = (
    *(Posit(8, 0), Posit(8, 2), Posit(12, 2), Posit(16, 1), Posit(16, 2)),
    *(Fixed(8, -5), Fixed(12, -8), Fixed(16, -11), "int8"),
)
# height, width, channels, outputs, kernel, groups, attributes
Layer = tuple[int, int, int, int, tuple[int, int], int, dict[str, Any]]
LAYERS: dict[str, Layer] = {
    "one channel": (6, 7, 1, 5, (3, 3), 1, {"pads": (1, 1, 1, 1)}),
    "pointwise": (3, 4, 9, 6, (1, 1), 1, {}),
    "pointwise with strides": (5, 5, 3, 6, (1, 1), 1, {"strides": (2, 2)}),
    "one row": (1, 17, 3, 4, (1, 5), 1, {"pads": (0, 2, 0, 2), "strides": (1, 2)}),
    "taps apart": (7, 8, 3, 4, (3, 2), 1, {"dilations": (2, 3), "pads": (2, 3, 1, 0)}),
    "windows all outside": (2, 2, 3, 4, (2, 2), 1, {"pads": (3, 2, 2, 4)}),
    "groups": (5, 4, 6, 9, (3, 3), 3, {"pads": (1, 1, 1, 1)}),
    "depthwise": (6, 5, 13, 13, (3, 3), 13, {"pads": (1, 1, 1, 1)}),
    "depthwise of few": (6, 5, 3, 3, (5, 3), 3, {"pads": (2, 1, 2, 1), "strides": (2, 1)}),
    "depthwise with taps apart": (6, 6, 9, 9, (2, 2), 9, {"dilations": (2, 2), "pads": (1, 1, 1, 1)}),
    "two outputs a channel": (4, 4, 3, 6, (3, 3), 3, {"pads": (1, 1, 1, 1)}),
    "many inputs": (3, 4, 67, 2, (3, 3), 1, {"pads": (1, 1, 0, 0)}),
    "a kernel of many rows": (300, 1, 1, 1, (299, 1), 1, {"pads": (1, 0, 1, 0)}),
    "many rows": (20, 2, 1, 2, (19, 2), 1, {"pads": (9, 0, 9, 0)}),
}
ON_A_BOARD = ("one channel", "depthwise", "taps apart", "windows all outside", "groups")


def conv(fmt: Any, layer: Layer, **more: Any) -> Case:
    """Four inputs: ordinary, one NaR, small beside large, any code."""
    height, width, channels, outputs, kernel, groups, attrs = layer
    rng = np.random.default_rng(height * width * channels)
    per_group = channels // groups
    weights = np.clip(
        rng.normal(0, 1 / np.sqrt(per_group * np.prod(kernel)), (outputs, *kernel, per_group)), -1, 1
    )
    bias = rng.normal(0, 0.3, outputs)
    x = rng.normal(0, 1, (4, 1, height, width, channels))
    formats: dict[int, Format]
    if fmt == "int8":
        fx, fw = affine_for_range(-2.0, 3.0), affine_for_weights(weights, 0)
        formats = {0: fx, 1: fw, 2: affine_bias(fx, fw)}
        out: Format = affine_for_range(-4.0, 4.0)
        codes = fx.encode(x)
        codes[2] = rng.integers(-128, 128, codes[2].shape)
    else:
        formats, out = {0: fmt, 1: fmt, 2: fmt}, fmt
        codes = fmt.encode(x)
        if fmt.nar is not None:
            codes[1].flat[codes[1].size // 2] = fmt.nar
        few = rng.random(codes[2].shape) < 0.1
        codes[2][few] = rng.choice([fmt.max_code, fmt.min_code, 1, 2, -1], codes[2].shape)[few]
        codes[3] = rng.integers(fmt.min_code, fmt.max_code + 1, codes[3].shape)
    attributes = {**attrs, "groups": groups}
    return Case("conv", {0: codes}, {1: weights, 2: bias}, formats, out, attributes, overlap=True, **more)


def chosen(case: Case) -> str:
    return REGISTRY["conv"].emit(case.binding("avr")).function


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: getattr(fmt, "name", fmt))
def test_every_window_has_an_avr_kernel_whose_twin_gives_the_hosts_bits(fmt: Any, tmp_path: Path) -> None:
    cases = [conv(fmt, layer) for layer in LAYERS.values()]
    assert [name for name, case in zip(LAYERS, cases, strict=True) if "conv_avr_" not in chosen(case)] == []
    cases += [replace(case, reverse=True) for case in cases]
    assert mismatches("host", cases, chosen_for="avr", folder=tmp_path, cflags=SANITISERS) == []


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: getattr(fmt, "name", fmt))
def test_an_avr_gives_the_hosts_bits(fmt: Any, tmp_path: Path) -> None:
    if missing_tools("avr"):
        pytest.skip(f"{', '.join(missing_tools('avr'))} not installed")
    cases = [conv(fmt, LAYERS[name], reverse=i % 2 == 1) for i, name in enumerate(ON_A_BOARD)]
    assert mismatches("avr", cases, folder=tmp_path, cflags=("-Os",), mcu="atmega1284p") == []
    for name in ("many inputs", "many rows"):
        case = conv(fmt, LAYERS[name])
        case = replace(case, inputs={0: case.inputs[0][2:]})
        assert mismatches("avr", [case], folder=tmp_path, cflags=("-O2",), mcu="atmega1284p") == []


def test_a_nar_reaches_only_the_outputs_that_read_it(tmp_path: Path) -> None:
    case = conv(Posit(8, 0), LAYERS["depthwise"])
    outputs, _, _ = run("host", [case], chosen_for="avr", folder=tmp_path)
    reached = outputs[0][1] == Posit(8, 0).nar
    assert reached.any(axis=(0, 1, 2)).sum() == 1
    assert 1 <= reached.sum() <= 9


def test_weights_as_large_as_they_can_be_do_not_overflow_their_sums(tmp_path: Path) -> None:
    """Rows of 1200 products of -128 and -128: more than 24 bits."""
    fmt = Fixed(8, -5)
    codes = np.full((1, 1, 4, 3, 100), -128, np.int8)
    weights = np.full((2, 4, 3, 100), -4.0)
    out = Fixed(16, 0)
    formats: dict[int, Format] = {0: fmt, 1: fmt}
    case = Case("conv", {0: codes}, {1: weights}, formats, out)
    dense = Case("dense", {0: codes.reshape(1, 1200)}, {1: weights.reshape(2, 1200)}, formats, out)
    assert case.expected().ravel().tolist() == [19200, 19200]
    for core in ("host", "avr"):
        if not missing_tools(core):
            more: dict[str, Any] = {"mcu": "atmega1284p"} if core == "avr" else {}
            assert mismatches(core, [case, dense], chosen_for="avr", folder=tmp_path, **more) == []


@pytest.mark.parametrize(("fmt", "small"), [(Posit(8, 2), -11), (Posit(16, 1), -16)])
def test_values_too_wide_for_one_plane_are_not_summed_exactly(fmt: Posit, small: int, tmp_path: Path) -> None:
    case = conv(fmt, LAYERS["one channel"])
    x = np.random.default_rng(3).normal(0, 1, (4, 1, 6, 7, 1))
    x[:, :, ::2, ::2] *= 2.0**small
    case = replace(case, inputs={0: fmt.encode(x)})
    outputs, calls, result = run("host", [case], chosen_for="avr", count_slow=True, folder=tmp_path)
    np.testing.assert_array_equal(outputs[0], case.expected())
    assert np.frombuffer(result.output[-4:], np.uint32)[0] == 0
    guard = calls[0].guard
    assert isinstance(guard, GuardOfPatches)
    plan = replace(guard.guard.plan, span_bits=15 if fmt.n == 8 else 23)
    in_one_plane = replace(guard, guard=replace(guard.guard, plan=plan))
    assert in_one_plane.trips(case.inputs[0]).mean() > 0.5
