# SPDX-License-Identifier: Apache-2.0
"""Cases of TensorFlow Lite: functions, arithmetic, reductions and conversions; over all codes if possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tflite_draw import Array, Case, Draw, Drawn, Shape, Step

CLIPS = {"relu": 1, "relu-n1-to-1": 2, "relu6": 3}
WHOLE = ("int8", "int16")
Sides = tuple[Shape, Shape]
_OPTIMISED = "BUILTIN_WITHOUT_DEFAULT_DELEGATES"


def _codes_shape(draw: Draw) -> Shape:
    """The shape that holds every code of the draw's width in one sample, or in 16 of a small model."""
    if draw.small:
        return (1, 16)
    return (1, 65536 if draw.width == "int16" else 256)


def unit(draw: Draw) -> Step:
    """The output format that the interpreter wants of probabilities."""
    return Step(1 / 256, -128) if draw.width == "int8" else Step(1 / 32768, 0)


def signed_unit(draw: Draw) -> Step:
    """The output format that the interpreter wants of values from -1 to 1."""
    return Step(1 / 128, 0) if draw.width == "int8" else Step(1 / 32768, 0)


def unary(
    operator: str,
    form: str = "",
    *,
    options: str = "",
    out: Callable[[Draw], Step] | None = None,
    like: bool = False,
    positive: bool = False,
    nonzero: bool = False,
    widths: tuple[str, ...] = (*WHOLE, "float32"),
    resolver: str = "BUILTIN_REF",
    **fields: Any,
) -> Case:
    """A function of one number, over every code. `like`: the output has the input's format."""

    def make(draw: Draw) -> Drawn:
        shape = _codes_shape(draw)
        x = draw.input(shape, positive=positive, nonzero=nonzero, every="codes")
        draw.output(shape, out(draw) if out else None, like=x if like else None)
        return draw.operator(operator, [x], options, **fields)

    return Case(operator, form, make, widths, resolver, library=operator == "GELU")


def _negated(draw: Draw) -> Drawn:
    """NEG turns codes whatever their formats are: with one scale and zero point 0 it is a negation."""
    shape, step = _codes_shape(draw), Step(draw.random_step().scale, 0)
    x = draw.input(shape, step, every="codes")
    draw.output(shape, step)
    return draw.operator("NEG", [x])


def rows(
    operator: str,
    form: str,
    shape: Shape,
    *,
    options: str = "",
    out: Callable[[Draw], Step] | None = None,
    small: Shape | None = None,
    **fields: Any,
) -> Case:
    """A function of rows along the last axis."""

    def make(draw: Draw) -> Drawn:
        taken = small if draw.small and small else shape
        x = draw.input(taken)
        draw.output(taken, out(draw) if out else None)
        return draw.operator(operator, [x], options, **fields)

    return Case(operator, form, make)


def binary(
    operator: str,
    form: str = "",
    *,
    options: str = "",
    shapes: Sides | None = None,
    constant: int | None = None,
    like: bool = False,
    scales: str = "",
    nonzero: bool = False,
    positive: bool = False,
    widths: tuple[str, ...] = (*WHOLE, "float32"),
    **fields: Any,
) -> Case:
    """Two operands: all pairs of int8 codes where no `shapes` are given. `constant`: the operand that is one.
    `nonzero`: the second is never zero; `scales`: instead of the draw's kind."""

    def make(draw: Draw) -> Drawn:
        draw.kind = scales or draw.kind
        if (
            operator in ("ADD", "SUB")
            and draw.width == "int16"
            and not like
            and "PotScaleInt16" not in fields
        ):
            draw.kind = "near" if draw.kind == "power" else draw.kind  # those are _powers_of_two
        pairs = (1, 16) if draw.small else (256, 256)
        sides = shapes or (pairs, pairs)
        step = draw.random_step() if like else None
        operands = []
        for k, (shape, every) in enumerate(zip(sides, ("rows", "columns"), strict=True)):
            if constant == k:
                operands.append(draw.constant(shape, step, nonzero=nonzero and k == 1))
            else:
                every = "" if shapes else every
                operands.append(
                    draw.input(shape, step, nonzero=nonzero and k == 1, positive=positive, every=every)
                )
        out = draw.output(np.broadcast_shapes(*sides), step)
        drawn = draw.operator(operator, operands, options, **fields)
        if operator != "DIV" or draw.is_float:
            return drawn
        return replace(drawn, defined=_defined_quotients(draw, drawn, operands, out))

    return Case(operator, form, make, widths)


def _defined_quotients(draw: Draw, drawn: Drawn, operands: list[int], out: int) -> tuple[Array, ...]:
    """Where DIV's kernel shifts its product to the right by 0 to 30 bits; elsewhere its codes are any: where
    the quotient is zero, well below a step or far beyond all codes."""
    steps = [draw.step[index] for index in (*operands, out)]
    scales = [np.float32(step.scale) for step in steps]
    shift = int(np.frexp(scales[0] / (scales[1] * scales[2]))[1])
    defined = []
    for sample in drawn.samples:
        live = iter(sample)
        known = (draw.file.tensors[index][3] for index in operands)
        a, b = (next(live) if data is None else data for data in known)
        x, y = a.astype(np.int64) - steps[0].zero, np.abs(b.astype(np.int64) - steps[1].zero)
        room = 31 - np.frexp(np.where(x < 0, ~x, x))[1]  # leading bits that are the sign
        places = np.frexp(y)[1] - 1
        bits = places + room - shift
        defined.append((bits >= 0) & (bits < 31))
    return tuple(defined)


def _powers_of_two(
    operator: str, options: str, form: str, shapes: tuple[Shape, Shape], clip: int = 0
) -> Case:
    """int16 ADD and SUB have kernels for powers of two alone, with the greater scale at the output."""

    def make(draw: Draw) -> Drawn:
        steps = [Step(2.0 ** -int(draw.rng.integers(8, 15)), 0) for _ in shapes]
        sides = [(1, 16) if draw.small and len(shape) == 2 else shape for shape in shapes]
        operands = [draw.input(shape, step) for shape, step in zip(sides, steps, strict=True)]
        draw.output(np.broadcast_shapes(*sides), max(steps, key=lambda step: step.scale))
        return draw.operator(operator, operands, options, FusedActivationFunction=clip)

    return Case(operator, f"powers of two {form}".strip(), make, ("int16",))


def reduce(
    operator: str,
    form: str,
    shape: Shape,
    axes: tuple[int, ...],
    *,
    keep: bool = False,
    like: bool = False,
    resolver: str = "BUILTIN_REF",
) -> Case:
    """A reduction. `like`: the output has the input's format."""

    def make(draw: Draw) -> Drawn:
        x = draw.input(shape)
        gone = {axis % len(shape) for axis in axes}
        left = tuple(1 if k in gone else n for k, n in enumerate(shape) if keep or k not in gone)
        draw.output(left, like=x if like else None)
        return draw.operator(operator, [x, draw.integers(axes)], "ReducerOptions", KeepDims=keep)

    return Case(operator, form, make, resolver=resolver)


def _extreme_index(operator: str, options: str) -> Case:
    def make(draw: Draw) -> Drawn:
        x = draw.input((3, 9))
        draw.outputs.append(draw.tensor((3,), "int32"))
        return draw.operator(operator, [x, draw.integers([1])], options, OutputType=2)

    return Case(operator, "", make)


def _between(operator: str, options: str, source: str, target: str) -> Case:
    """QUANTIZE or DEQUANTIZE from one type to another; the named width is the quantised side's, or the
    source's."""

    def make(draw: Draw) -> Drawn:
        shape = (1, 16) if draw.small else (1, 4096)
        wide = "float32" in (source, target)
        ends = []
        for kind in (source, target):
            draw.width = kind
            ends.append(None if kind == "float32" else draw.random_step(out=kind == target and not wide))
        draw.width = source
        x = draw.input(shape, ends[0], every="codes")
        draw.width = target
        draw.output(shape, ends[1])
        return draw.operator(operator, [x], options)

    width = target if source == "float32" else source
    return Case(operator, f"{source} to {target}", make, (width,))


def _prelu(form: str, slopes: Shape) -> Case:
    def make(draw: Draw) -> Drawn:
        x = draw.input((1, 5, 4, 8))
        if draw.width == "int16":  # whose slopes are weights, of int8
            step = Step(draw.random_step().scale * 256, 0)
            codes = draw.rng.integers(-127, 128, slopes).astype(np.int8)
            slope = draw.tensor(slopes, "int8", codes, scales=[step.scale], zero=step.zero)
        else:
            slope = draw.constant(slopes)
        draw.output((1, 5, 4, 8))
        return draw.operator("PRELU", [x, slope])

    return Case("PRELU", form, make)


def _sum_of_many(draw: Draw) -> Drawn:
    step = draw.random_step()
    parts = [draw.input((1, 12), step) for _ in range(3)]
    draw.output((1, 12), step)
    return draw.operator("ADD_N", parts, "AddNOptions")


def _running_sum(draw: Draw) -> Drawn:
    x = draw.input((3, 8))
    draw.output((3, 8), like=x)
    return draw.operator("CUMSUM", [x, draw.integers(1, ())], "CumsumOptions")


_IMAGE, _CHANNEL, _ROW = (1, 5, 4, 8), (8,), (2, 7, 12)
_BOTH, _SQUARE = (_IMAGE, _CHANNEL), ((64, 256), (64, 256))


def _arithmetic(operator: str, options: str, **more: Any) -> list[Case]:
    def case(form: str, **changed: Any) -> Case:
        return binary(operator, form, options=options, **more, **changed)

    cases = [case(""), case("one format", like=True), case("power scales", scales="power")]
    cases += [case(name, FusedActivationFunction=number) for name, number in CLIPS.items()]
    cases += [
        case("channel", shapes=_BOTH),
        case("first channel", shapes=(_CHANNEL, _IMAGE)),
        case("both broadcast", shapes=((3, 1, 8), (1, 5, 1))),
        case("constant", shapes=_BOTH, constant=1),
        case("constant first relu6", shapes=(_CHANNEL, _IMAGE), constant=0, FusedActivationFunction=3),
        case("constant number", shapes=(_IMAGE, ()), constant=1),
    ]
    return cases


def _general(operator: str, options: str) -> Case:
    """Scales that are powers of two, and the file forbids the kernel for those."""
    return binary(
        operator, "general scales", options=options, scales="power", PotScaleInt16=False, widths=("int16",)
    )


def _long_softmax(draw: Draw) -> Drawn:
    """Large steps, no equal codes: the interpreter's process ends where a row's terms sum to 512 or more."""
    shape, step = (2, 100 if draw.small else 1024), draw.random_step()
    least = 0.05 / (256 if draw.width == "int16" else 1)
    x = draw.input(shape, Step(max(step.scale, least), step.zero), spread=True)
    draw.output(shape, unit(draw))
    return draw.operator("SOFTMAX", [x], "SoftmaxOptions", Beta=1.0)


_SIMPLE = (
    "ABS", "NEG", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "HARD_SWISH", "EXP", "SQUARE", "SIN",
    "COS", "FLOOR", "SIGN",
)  # fmt: skip

ELEMENTWISE: tuple[Case, ...] = (
    *(unary(name) for name in _SIMPLE),
    *(unary(name, resolver=_OPTIMISED) for name in ("ELU", "CEIL", "ROUND")),  # there is no reference kernel
    *(unary(name, "one format", like=True) for name in ("ABS", "NEG", "RELU", "RELU6", "HARD_SWISH")),
    Case("NEG", "around zero", _negated),
    unary("CAST", options="CastOptions", widths=("float32",)),
    unary("LOGISTIC", out=unit),
    unary("TANH", out=signed_unit),
    unary("TANH", "other output", widths=("int8",)),
    unary("LOG", positive=True, nonzero=True),
    unary("LOG", "not positive too", widths=WHOLE),
    unary("SQRT", positive=True),
    unary("RSQRT", positive=True),
    unary("RSQRT", "positive", positive=True, nonzero=True),
    *(unary("LEAKY_RELU", f"{a:g}", options="LeakyReluOptions", Alpha=a) for a in (0.1, 0.01, -0.3, 1.7)),
    unary("LEAKY_RELU", "one format", options="LeakyReluOptions", like=True, Alpha=0.2),
    unary("GELU", "exact", options="GeluOptions", Approximate=False),
    unary("GELU", "tanh", options="GeluOptions", Approximate=True),
    *_arithmetic("ADD", "AddOptions"),
    _general("ADD", "AddOptions"),
    _powers_of_two("ADD", "AddOptions", "", _SQUARE),
    *_arithmetic("SUB", "SubOptions"),
    _general("SUB", "SubOptions"),
    _powers_of_two("SUB", "SubOptions", "", _SQUARE),
    _powers_of_two("SUB", "SubOptions", "relu", _SQUARE, 1),
    _powers_of_two("SUB", "SubOptions", "channel", _BOTH),
    _powers_of_two("SUB", "SubOptions", "first channel", (_CHANNEL, _IMAGE)),
    *_arithmetic("MUL", "MulOptions"),
    *_arithmetic("DIV", "DivOptions", nonzero=True),
    binary("MAXIMUM", options="MaximumMinimumOptions", like=True),
    binary("MAXIMUM", "constant", options="MaximumMinimumOptions", shapes=_BOTH, constant=1, like=True),
    binary("MINIMUM", options="MaximumMinimumOptions", like=True),
    binary("MINIMUM", "channel", options="MaximumMinimumOptions", shapes=_BOTH, like=True),
    binary("SQUARED_DIFFERENCE", options="SquaredDifferenceOptions"),
    binary("SQUARED_DIFFERENCE", "one format", options="SquaredDifferenceOptions", like=True),
    binary("SQUARED_DIFFERENCE", "channel", options="SquaredDifferenceOptions", shapes=_BOTH),
    binary("SQUARED_DIFFERENCE", "constant", options="SquaredDifferenceOptions", shapes=_BOTH, constant=1),
    binary("POW", options="PowOptions", positive=True),
    binary("FLOOR_DIV", options="FloorDivOptions", nonzero=True, widths=("float32",)),
    _prelu("channel", (1, 1, 8)),
    _prelu("one slope", (1, 1, 1)),
    _prelu("place", (5, 4, 8)),
    rows("SOFTMAX", "", (6, 12), options="SoftmaxOptions", out=unit, Beta=1.0),
    rows("SOFTMAX", "one row", (10,), options="SoftmaxOptions", out=unit, Beta=1.0),
    rows("SOFTMAX", "image", (1, 3, 4, 10), options="SoftmaxOptions", out=unit, Beta=1.0),
    rows("SOFTMAX", "200", (2, 200), options="SoftmaxOptions", out=unit, small=(2, 100), Beta=1.0),
    Case("SOFTMAX", "1024", _long_softmax),
    rows("SOFTMAX", "beta 0.5", (6, 12), options="SoftmaxOptions", out=unit, Beta=0.5),
    rows("LOG_SOFTMAX", "", (6, 12), options="LogSoftmaxOptions", out=lambda draw: Step(16 / 256, 127)),
    rows("L2_NORMALIZATION", "", (6, 12), options="L2NormOptions", out=signed_unit),
    rows("L2_NORMALIZATION", "image", (1, 2, 3, 8), options="L2NormOptions", out=signed_unit),
    rows("L2_NORMALIZATION", "1024", (2, 1024), options="L2NormOptions", out=signed_unit, small=(2, 100)),
    reduce("MEAN", "", _ROW, (1,)),
    reduce("MEAN", "one format", _ROW, (1,), like=True),
    reduce("MEAN", "image", (1, 5, 6, 3), (1, 2)),
    reduce("MEAN", "image kept", (1, 5, 6, 3), (1, 2), keep=True),
    reduce("MEAN", "image one format", (1, 5, 6, 3), (1, 2), keep=True, like=True),
    reduce("MEAN", "last", _ROW, (-1,), keep=True),
    reduce("MEAN", "all", _ROW, (0, 1, 2)),
    reduce("MEAN", "1024", (1, 1024, 2), (1,)),
    reduce("SUM", "", _ROW, (1,), resolver=_OPTIMISED),
    reduce("SUM", "one format", _ROW, (1,), like=True, resolver=_OPTIMISED),
    reduce("SUM", "image kept", (1, 5, 6, 3), (1, 2), keep=True, resolver=_OPTIMISED),
    reduce("SUM", "1024", (1, 1024, 2), (1,), resolver=_OPTIMISED),
    reduce("REDUCE_MAX", "", _ROW, (1,), like=True),
    reduce("REDUCE_MAX", "image kept", (1, 5, 6, 3), (1, 2), keep=True, like=True),
    reduce("REDUCE_MIN", "", _ROW, (-1,), like=True),
    reduce("REDUCE_PROD", "", (2, 5, 4), (1,)),
    _extreme_index("ARG_MAX", "ArgMaxOptions"),
    _extreme_index("ARG_MIN", "ArgMinOptions"),
    *(_between("QUANTIZE", "QuantizeOptions", "float32", width) for width in WHOLE),
    *(_between("QUANTIZE", "QuantizeOptions", a, b) for a in WHOLE for b in WHOLE),
    *(_between("DEQUANTIZE", "DequantizeOptions", width, "float32") for width in WHOLE),
    Case("ADD_N", "", _sum_of_many),
    Case("CUMSUM", "", _running_sum),
)  # fmt: skip
