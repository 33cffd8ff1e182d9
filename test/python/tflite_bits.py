# SPDX-License-Identifier: Apache-2.0
"""A TensorFlow Lite file of one operator in our import and simulation against the interpreter's outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tflite_draw import Case, Drawn
from tflite_oracle import Oracle, Unanswered

from minun_pio.errors import MinunError
from minun_pio.importers.tflite import convert, parse_tflite
from minun_pio.ir import Graph
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.format import Format
from minun_pio.passes import optimise
from minun_pio.search.rungs import affine_rung
from minun_pio.simulate.assign import index_tensors, real_tensors, uniform
from minun_pio.simulate.legalise import Legal, legalise
from minun_pio.simulate.reference import profile
from minun_pio.simulate.run import run_codes

Array = NDArray[Any]
_RELATIVE, _ABSOLUTE = 1e-4, 1e-5  # float32: both sum in their own order, with their own libm


@dataclass(frozen=True)
class Taken:
    """A file as `minun evaluate` takes it with `formats: {family: int8}`. `through_float`: the tensors that
    had to get another format than the file's; `converted`: those of conversions between its formats."""

    graph: Graph
    formats: Mapping[str, Format]
    legal: Legal
    through_float: tuple[str, ...] = ()
    converted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """One draw. `state`: compared, refused (by us), unanswered (by the interpreter) or broken. `undefined`
    outputs are not among those that are compared; `library` of these differ by one code, as the interpreter's
    C library makes them (of a hundred outputs one at most, else they count as different)."""

    state: str
    reason: str = ""
    outputs: int = 0
    different: int = 0
    largest: float = 0.0
    undefined: int = 0
    library: int = 0
    through_float: tuple[str, ...] = ()
    converted: tuple[str, ...] = ()


def take(drawn: Drawn, is_float: bool) -> Taken:
    """Import, optimise, assign and legalise. Raises MinunError."""
    model = parse_tflite(drawn.content, "model.tflite")
    graph = optimise(convert(model))
    if is_float:
        formats: Mapping[str, Format] = uniform(graph, Float32())
        return Taken(graph, formats, legalise(graph, formats))
    own = {info.name for info in model.tensors if info.dtype == np.float32}
    formats = dict(graph.quantised)
    unknown = [scoped.name for scoped in real_tensors(graph) if scoped.name not in formats]
    formats.update((name, Float32()) for name in unknown if name in own)
    left = [name for name in unknown if name not in own]
    if left:
        formats = {**affine_rung(graph, profile(graph, _values(drawn, graph, formats))).formats, **formats}
    legal = legalise(graph, formats)
    added = [name for name in legal.graph.tensors if name not in graph.tensors]
    left += [name for name in added if not isinstance(legal.formats[name], Affine)]
    return Taken(graph, formats, legal, tuple(left), tuple(name for name in added if name not in left))


def feeds(drawn: Drawn, graph: Graph) -> dict[str, Array]:
    """The samples' codes by input, `(samples, *S)`."""
    return {
        name: np.stack([sample[k] for sample in drawn.samples]).reshape(-1, *graph.tensors[name].shape)
        for k, name in enumerate(graph.inputs)
    }


def _values(drawn: Drawn, graph: Graph, formats: Mapping[str, Format]) -> dict[str, Array]:
    codes = feeds(drawn, graph)
    indices = index_tensors(graph)
    return {n: v if n in indices or n not in formats else formats[n].decode(v) for n, v in codes.items()}


def compared(case: Case, width: str, number: int, oracle: Oracle) -> Outcome:
    """The number-th draw of a case: our codes of all outputs against the interpreter's."""
    drawn = case.draw(width, number)
    try:
        wanted = oracle.outputs(drawn.content, drawn.samples, case.resolver)
    except Unanswered as error:
        return Outcome("unanswered", str(error))
    try:
        taken = take(drawn, width == "float32")
        run = run_codes(taken.legal, feeds(drawn, taken.graph))
    except MinunError as error:
        return Outcome("refused", str(error))
    except Exception as error:  # a defect of ours, which must not hide the other cases
        return Outcome("broken", f"{type(error).__name__}: {error}")
    outputs, different, largest, undefined, library = 0, 0, 0.0, 0, 0
    for k, name in enumerate(taken.graph.outputs):
        theirs = np.stack([sample[k] for sample in wanted])
        ours = np.asarray(run.codes[name])
        if ours.shape != theirs.shape:
            return Outcome("broken", f"output {k} has shape {ours.shape[1:]}, not {theirs.shape[1:]}")
        gap = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
        bad = gap != 0
        if theirs.dtype == np.float32:
            near = np.isclose(ours, theirs, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True)
            bad = ~near if width == "float32" else ~((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))
        defined = np.stack(drawn.defined) if drawn.defined else np.ones(bad.shape, bool)
        bad &= defined
        if case.library and bad.sum() * 100 <= bad.size and np.max(gap[bad], initial=0.0) <= 1:
            library += int(bad.sum())
            bad[...] = False
        outputs, different = outputs + int(defined.sum()), different + int(bad.sum())
        undefined += int(np.sum(~defined))
        largest = max(largest, float(np.max(gap[bad], initial=0.0)))
    counts = outputs, different, largest, undefined, library
    return Outcome("compared", "", *counts, taken.through_float, taken.converted)
