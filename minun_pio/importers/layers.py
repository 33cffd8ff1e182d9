# SPDX-License-Identifier: Apache-2.0
"""A network as a list of layers in model.yaml, with weights in an NPZ: each layer reads what the one before
gives.

`KINDS` maps a layer's name to the function that builds it. Shapes keep a batch of 1; images are (1, H, W,
C) and sequences (1, steps, features).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.importers.arrays import Arrays, read_arrays
from minun_pio.importers.builder import GraphBuilder
from minun_pio.ir import Graph, Shape

Floats = NDArray[np.float64]

ACTIVATIONS: Mapping[str, tuple[str, Mapping[str, float | None]]] = {
    "relu": ("relu", {}),
    "relu6": ("clip", {"lo": 0.0, "hi": 6.0}),
    "sigmoid": ("sigmoid", {}),
    "tanh": ("tanh", {}),
    "gelu": ("gelu", {}),
    "hard_sigmoid": ("hard_sigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "hard_swish": ("hard_swish", {}),
}


class Entry(Protocol):
    """A layer as the config gives it."""

    @property
    def kind(self) -> str: ...
    @property
    def attrs(self) -> Mapping[str, Any]: ...
    @property
    def line(self) -> int: ...


@dataclass
class Stack:
    """The network so far: `x` is the tensor that the next layer reads, `saved` those named by `name:`."""

    builder: GraphBuilder
    arrays: Arrays
    x: str
    file: str
    saved: dict[str, str] = field(default_factory=dict)


@dataclass
class Options:
    """One layer's options, each read once; what nobody asked for is refused by `done`."""

    stack: Stack
    kind: str
    attrs: Mapping[str, Any]
    where: str
    label: str = ""
    asked: set[str] = field(default_factory=set)

    def error(self, message: str, code: str = "layers.value") -> MinunError:
        return MinunError(code, f"layer '{self.kind}': {message}", self.where)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return self.attrs.get(key, default)

    def array(self, key: str, rank: int | None = None) -> Floats:
        """A required array."""
        wanted = self.get(key)
        if wanted is None:
            raise self.error(f"the option '{key}' is missing; name an array of the NPZ", "layers.missing-key")
        found = self.stack.arrays.take(wanted, f"{self.kind}.{key}", self.where)
        if rank is not None and found.ndim != rank:
            raise self.error(f"'{key}' has shape {found.shape}, rank {rank} expected", "layers.shape")
        return found

    def optional(self, key: str) -> Floats | None:
        return self.array(key) if self.get(key) is not None else None

    def vector(self, key: str, size: int, default: float | None = None) -> Floats:
        """An array of `size` numbers, whatever its axes; one number serves all."""
        if self.get(key) is None and default is not None:
            return np.full(size, default)
        found = self.array(key).reshape(-1)
        if found.size not in (1, size):
            raise self.error(f"'{key}' has {found.size} numbers, {size} expected", "layers.shape")
        return np.array(np.broadcast_to(found, (size,)))

    def number(self, key: str, default: float | None = None) -> float:
        if self.get(key) is None and default is not None:
            return default
        found = self.array(key)
        if found.size != 1:
            raise self.error(f"'{key}' has shape {found.shape}, one number expected", "layers.shape")
        value = float(found.reshape(()))
        if not np.isfinite(value):
            raise self.error(f"'{key}' is {value}, a finite number expected")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.number(key, None if default is None else float(default))
        if not value.is_integer():
            raise self.error(f"'{key}' is {value}, a whole number expected")
        return int(value)

    def axis(self) -> int:
        """The option 'axis' of what the layer reads, the last one by default, counted from 0."""
        rank = len(self.shape)
        found = self.whole("axis", -1)
        if not -rank <= found < rank:
            raise self.error(f"'axis' is {found}, -{rank} to {rank - 1} expected")
        return found % rank

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.error(f"'{key}' is {value!r}, true or false expected")
        return value

    def choice(self, key: str, allowed: Iterable[str], default: str) -> str:
        value, options = self.get(key, default), list(allowed)
        if value not in options:
            raise self.error(f"'{key}' is {value!r}, one of {', '.join(options)} expected")
        return str(value)

    def wholes(self, key: str, size: int, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """`size` whole numbers; one number serves all."""
        value = self.get(key)
        if value is None and default is not None:
            return tuple(default)
        items = value if isinstance(value, (list, tuple)) else [value] * size
        if len(items) != size or any(not isinstance(n, int) or isinstance(n, bool) for n in items):
            raise self.error(f"'{key}' is {value!r}, {size} whole numbers expected")
        return tuple(items)

    def done(self) -> None:
        for key in self.attrs:
            if key not in self.asked:
                near = difflib.get_close_matches(key, sorted(self.asked), n=1)
                hint = f"did you mean '{near[0]}'?" if near else f"it takes {', '.join(sorted(self.asked))}"
                raise self.error(f"unknown option '{key}'; {hint}", "layers.unknown-key")

    # what most layers build with
    @property
    def shape(self) -> Shape:
        return self.stack.builder.shape(self.stack.x)

    def constant(self, values: Any, what: str) -> str:
        return self.stack.builder.constant(
            np.asarray(values, dtype=np.float64), f"{self.label or self.kind}.{what}"
        )

    def add(
        self, op: str, inputs: Sequence[str], attrs: Mapping[str, Any] | None = None, name: str = ""
    ) -> str:
        return self.stack.builder.add(op, inputs, attrs, name=name or self.kind)

    def activated(self, x: str) -> str:
        """`x` through the layer's `activation`."""
        kind = self.get("activation")
        if kind is None:
            return x
        if kind not in ACTIVATIONS:
            raise self.error(f"activation {kind!r}; one of {', '.join(ACTIVATIONS)} expected")
        op, attrs = ACTIVATIONS[kind]
        return self.add(op, [x], attrs)


Kind = Callable[[Options], str]
"""Builds a layer on `options.stack.x`; returns its output."""


def load_layers(
    layers: Sequence[Entry],
    weights: Path | None,
    input_shape: Shape | None,
    *,
    name: str = "model",
    file: str = "model.yaml",
    outputs: Sequence[str] = (),
    where: str = "",
) -> Graph:
    """The network of a layer list. `outputs` are names that layers were given by `name:`; none: the last
    layer.

    Raises MinunError with `file:LINE` of the layer.
    """
    from minun_pio.importers.layer_kinds import KINDS

    arrays = read_arrays(weights)
    if input_shape is None:
        raise MinunError("layers.input", "a layer list needs 'source.input', like [1, 64]", where or file)
    builder = GraphBuilder(name, file)
    stack = Stack(builder, arrays, builder.input("input", input_shape), file)
    for entry in layers:
        place = f"{file}:{entry.line}"
        kind = KINDS.get(entry.kind)
        if kind is None:
            near = difflib.get_close_matches(entry.kind, list(KINDS), n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(KINDS))}"
            raise MinunError("layers.unknown", f"unknown layer '{entry.kind}'; {hint}", place)
        label = entry.attrs.get("name")
        options = Options(
            stack, entry.kind, entry.attrs, place, "" if label is None else str(label), {"name"}
        )
        builder.where = place
        source = options.get("from")
        if source is not None:
            stack.x = _saved(stack, source, options)
        result = kind(options)
        options.done()
        stack.x = result
        if label is not None:
            if str(label) in stack.saved:
                raise MinunError(
                    "layers.name", f"an earlier layer has 'name: {label}'; names must differ", place
                )
            if result not in stack.saved.values():
                stack.x = builder.rename(result, str(label))
            stack.saved[str(label)] = stack.x
    builder.where = file
    last = [stack.x]
    if outputs:
        missing = [output for output in outputs if output not in stack.saved]
        if missing:
            raise MinunError(
                "layers.output",
                f"no layer has 'name: {missing[0]}'; add it to the one that you mean",
                where or file,
            )
        last = [stack.saved[output] for output in outputs]
    return builder.finish(last)


def _saved(stack: Stack, name: Any, options: Options) -> str:
    if name not in stack.saved:
        known = ", ".join(stack.saved) or "none"
        raise options.error(
            f"no earlier layer has 'name: {name}'; named ones: {known}", "layers.unknown-name"
        )
    return stack.saved[name]
