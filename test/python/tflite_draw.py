# SPDX-License-Identifier: Apache-2.0
"""A random model of one TensorFlow Lite operator: its scales, zero points, constants and input codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite
from numpy.typing import NDArray
from tflite_models import File

Array = NDArray[Any]
Shape = tuple[int, ...]
WIDTHS = ("int8", "int16", "float32")
SCALES = ("near", "same", "wide", "power", "fine", "near", "coarse", "near")
"""What the scales of a draw have to do with each other, by the draw's number. fine: the output's step is much
smaller than the input's, so that multipliers exceed 1; coarse: much greater."""


@dataclass(frozen=True)
class Drawn:
    """A file's bytes and its input samples, an array for each input. `defined`, where it is given, tells for
    each sample which outputs C++ defines in the interpreter's kernel."""

    content: bytes
    samples: tuple[tuple[Array, ...], ...]
    defined: tuple[Array, ...] = ()


@dataclass(frozen=True)
class Input:
    """An input of the model: `low`..`high` are its codes, without `never`; `every` wants each of them."""

    tensor: int
    shape: Shape
    dtype: str
    low: int
    high: int
    never: int | None = None
    every: str = ""
    spread: bool = False


@dataclass(frozen=True)
class Step:
    """Scale and zero point of a tensor."""

    scale: float
    zero: int


class Draw:
    """The number-th draw of a case in one width. `small` asks for shapes that fit on the smallest board."""

    def __init__(self, case: str, width: str, number: int, small: bool = False) -> None:
        seed = [*case.encode(), WIDTHS.index(width), number]
        self.rng = np.random.default_rng(seed)
        self.width, self.small = width, small
        self.kind = SCALES[number % len(SCALES)]
        self.file = File()
        self.inputs: list[Input] = []
        self.outputs: list[int] = []
        self.step: dict[int, Step] = {}
        self._one = Step(self._scale("near"), self.zero())
        self.tensors = 0

    @property
    def is_float(self) -> bool:
        return self.width == "float32"

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest code."""
        bits = 8 if self.width == "int8" else 16
        return -(1 << bits - 1), (1 << bits - 1) - 1

    def _scale(self, kind: str) -> float:
        if kind == "power":
            scale = 2.0 ** -int(self.rng.integers(3, 9))
        elif kind == "wide":
            scale = float(np.exp(self.rng.uniform(np.log(1e-3), np.log(1.0))))
        else:
            scale = self.rng.uniform(0.01, 0.1)
        return float(np.float32(scale / (256 if self.width == "int16" else 1)))

    def zero(self) -> int:
        """A zero point; the ends of the range are as likely as all between them."""
        if self.width != "int8":
            return 0
        choices = (int(self.rng.integers(-128, 128)), int(self.rng.integers(-60, 60)), -128, 127, 0)
        return choices[int(self.rng.choice(5, p=[0.3, 0.4, 0.12, 0.08, 0.1]))]

    def random_step(self, out: bool = False) -> Step:
        """Scale and zero point as the draw's kind has them, for an input or for the output."""
        if self.kind == "same":
            return self._one
        if self.kind in ("wide", "power"):
            return Step(self._scale(self.kind), self.zero())
        scale = self._scale("near")
        if out and self.kind in ("fine", "coarse"):
            ratio = float(np.exp(self.rng.uniform(np.log(3), np.log(60))))
            scale = float(np.float32(scale / ratio if self.kind == "fine" else scale * ratio))
        return Step(scale, self.zero())

    def tensor(self, shape: Shape, dtype: str, data: Array | None = None, **more: Any) -> int:
        """Any tensor of the file."""
        self.tensors += 1
        return self.file.tensor(f"t{self.tensors}", shape, dtype, data, **more)

    def of_width(self, shape: Shape, step: Step, data: Array | None = None) -> int:
        """A tensor of the draw's width."""
        if self.is_float:
            return self.tensor(shape, "float32", data)
        index = self.tensor(shape, self.width, data, scales=[step.scale], zero=step.zero)
        self.step[index] = step
        return index

    def input(
        self,
        shape: Shape,
        step: Step | None = None,
        *,
        positive: bool = False,
        nonzero: bool = False,
        every: str = "",
        spread: bool = False,
    ) -> int:
        """A model input. `positive`: no code below its zero point; `nonzero`: never its zero point.
        `every`: 'codes' or, of the first and second input, 'rows' and 'columns' of all pairs. `spread`: no
        sample of few values."""
        step = step or self.random_step()
        low, high = self.limits
        if positive:
            step = Step(step.scale, min(step.zero, high - 8))
            low = step.zero + nonzero
        index = self.of_width(shape, step)
        never = step.zero if nonzero else None
        self.inputs.append(Input(index, shape, self.width, low, high, never, every, spread))
        return index

    def constant(self, shape: Shape, step: Step | None = None, *, nonzero: bool = False) -> int:
        """A constant of the draw's width."""
        step = step or self.random_step()
        if self.is_float:
            data = self.rng.uniform(0.2, 2, shape) * self.rng.choice([-1, 1], shape)
            return self.of_width(shape, step, data.astype(np.float32))
        data = self.rng.integers(self.limits[0], self.limits[1] + 1, shape)
        if nonzero:
            data = np.where(data == step.zero, step.zero + (1 if step.zero < 0 else -1), data)
        return self.of_width(shape, step, data.astype(self.width))

    def integers(self, values: Any, shape: Shape | None = None) -> int:
        """A constant of int32: axes, shapes, paddings."""
        data = np.asarray(values, np.int32)
        return self.tensor(data.shape if shape is None else shape, "int32", data)

    def output(self, shape: Shape, step: Step | None = None, *, like: int | None = None) -> int:
        """A model output, in the format of the tensor `like` where that is given."""
        if like is not None:
            step = self.step.get(like)
        index = self.of_width(shape, step or self.random_step(out=True))
        self.outputs.append(index)
        return index

    def operator(
        self, name: str, inputs: Sequence[int], options: str = "", version: int = 1, **fields: Any
    ) -> Drawn:
        """The finished model: `name` of `inputs`, giving the outputs made so far."""
        code = getattr(tflite.BuiltinOperator, name)
        self.file.operator(code, list(inputs), self.outputs, options, **fields)
        given = [made.tensor for made in self.inputs]
        content = self.file.bytes(given, self.outputs, version)
        return Drawn(content, self._samples())

    def _samples(self) -> tuple[tuple[Array, ...], ...]:
        if any(made.every for made in self.inputs):
            count = 16 if self.small else 1
        else:
            count = 4 if self.small else 6
        return tuple(tuple(self._codes(made, k, count) for made in self.inputs) for k in range(count))

    def _codes(self, made: Input, sample: int, count: int) -> Array:
        """One array of input codes: everything, ends, middle, anything, by the sample's number."""
        rng, size = self.rng, int(np.prod(made.shape, dtype=np.int64))
        if made.dtype == "float32":
            values = rng.standard_normal(made.shape) * (1.0, 3.0, 0.1)[sample % 3]
            if made.low >= self.limits[0] + 1 or made.never is not None:
                values = np.abs(values) + 0.01
            return values.astype(np.float32)
        low, high = made.low, made.high
        codes = np.arange(low, high + 1)
        if made.every == "codes" and size * count >= len(codes):
            whole = np.resize(codes, size * count)
            flat = np.random.default_rng(1).permutation(whole)[sample * size : (sample + 1) * size]
        elif made.every in ("rows", "columns") and made.shape[-2:] == (256, 256):
            grid = np.resize(codes, 256)
            flat = np.repeat(grid, 256) if made.every == "rows" else np.tile(grid, 256)
        else:
            flat = rng.integers(low, high + 1, size)
            part = rng.random(size)
            ends = rng.choice([low, low + 1, high - 1, high], size)
            middle = np.clip(np.rint(rng.standard_normal(size) * (high - low) / 9), low, high)
            if made.every:
                flat = np.where(part < 0.1, ends, np.where(part < 0.4, middle, flat))
            elif not made.spread:
                flat = (flat, ends, middle, np.full(size, low), np.full(size, high), flat)[sample]
        if made.never is not None:
            away = made.never + (1 if made.never < high else -1)
            flat = np.where(flat == made.never, away, flat)
        return np.asarray(flat).reshape(made.shape).astype(made.dtype)


@dataclass(frozen=True)
class Case:
    """An operator in one form. `make` builds a draw; `resolver` names the kernels that are asked. `library`:
    its tables come from functions of the interpreter's C library that not every library rounds correctly."""

    operator: str
    form: str
    make: Callable[[Draw], Drawn]
    widths: tuple[str, ...] = WIDTHS
    resolver: str = "BUILTIN_REF"
    library: bool = False

    @property
    def name(self) -> str:
        return f"{self.operator} {self.form}".strip()

    def draw(self, width: str, number: int, small: bool = False) -> Drawn:
        """The number-th model of the case in a width."""
        return self.make(Draw(self.name, width, number, small))
