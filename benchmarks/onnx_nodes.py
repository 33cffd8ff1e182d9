# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests through the importer: what is in scope must pass, what is not must be refused with
a reason.

    python benchmarks/onnx_nodes.py --json

The cases come from the PyPI package `onnx` (its version is in the JSON). Inputs that are parameters
(shapes, axes,
weights that our operators need constant) are bound as initialisers, as an exported network has them. A case
is in scope
when the importer takes it; every other is listed under `refused` with the importer's own line. The float
path is the operators' reference in float64, compared by the case's own tolerances.

    python benchmarks/onnx_nodes.py --boards --json

also runs the small cases on emulated boards (Uno, Due, STM32H747) in float32 and posit<16,2>: their outputs
must be the host's, bit for bit.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minun_pio.errors import MinunError
from minun_pio.importers.onnx import convert, parse_onnx
from minun_pio.ir import Graph
from minun_pio.passes import optimise
from minun_pio.simulate.reference import reference

_BAR_SCOPE, _BAR_BOARDS = 250, 150


@dataclass
class Outcome:
    """What became of one case. `reason` is the refusal, or what differed."""

    name: str
    operator: str
    state: str  # 'passed', 'failed' or 'refused'
    reason: str = ""


@dataclass
class Taken:
    """A case that the importer took: its graph, the inputs that stayed inputs, the outputs to match."""

    name: str
    graph: Graph
    inputs: dict[str, np.ndarray]
    expected: list[np.ndarray]
    rtol: float
    atol: float
    bound: list[str] = field(default_factory=list)


def cases() -> list[Any]:
    """All node cases of the installed `onnx`."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(load_model_tests(kind="node"), key=lambda case: case.name)


def take(case: Any) -> Taken:
    """Import a case, binding as constants what must be. Raises MinunError when it is refused."""
    from onnx import numpy_helper

    if not case.data_sets:
        raise MinunError("benchmark.no-data", "the case has no data")
    inputs, outputs = case.data_sets[0]
    inputs = [np.asarray(value) if isinstance(value, np.generic) else value for value in inputs]
    outputs = [np.asarray(value) if isinstance(value, np.generic) else value for value in outputs]
    if any(not isinstance(value, np.ndarray) for value in (*inputs, *outputs)):
        raise MinunError("onnx.unsupported-type", "sequences or optionals, tensors are expected")
    if any(value.dtype in (np.float16, np.complex64) for value in (*inputs, *outputs)):
        raise MinunError(
            "benchmark.half", "float16 arithmetic is the case's subject; the float path is wider"
        )
    names = [value.name for value in case.model.graph.input]
    data = dict(zip(names, inputs, strict=False))
    bound = [name for name, value in data.items() if value.dtype.kind not in "f"]
    while True:
        model = type(case.model)()
        model.CopyFrom(case.model)
        keep = [value for value in model.graph.input if value.name not in bound]
        if not keep:
            raise MinunError("benchmark.constant", "every input is a parameter: nothing is left to run")
        del model.graph.input[:]
        model.graph.input.extend(keep)
        model.graph.initializer.extend(numpy_helper.from_array(data[name], name) for name in bound)
        for value in keep:  # the case's own sizes are the static shapes
            value.type.tensor_type.shape.Clear()
            for extent in data[value.name].shape:
                value.type.tensor_type.shape.dim.add().dim_value = extent
        try:
            raw = convert(parse_onnx(model.SerializeToString(), f"{case.name}.onnx", None))
            break
        except MinunError as error:
            match = re.search(r"'([^']+)' is not a constant", error.message)
            if match is None or match[1] not in data or match[1] in bound:
                raise
            bound.append(match[1])
    graph = optimise(raw)
    # an exported name may have changed; inputs keep their order
    arrays = {ours: data[value.name] for ours, value in zip(graph.inputs, keep, strict=True)}
    return Taken(case.name, graph, arrays, list(outputs), case.rtol, case.atol, bound)


def difference(taken: Taken, results: list[np.ndarray]) -> str:
    """'' when the results are the expected ones."""
    for number, (result, wanted) in enumerate(zip(results, taken.expected, strict=False)):
        if result.shape != wanted.shape:
            return f"output {number} has shape {result.shape}, expected {wanted.shape}"
        if wanted.dtype.kind in "iub":
            if not np.array_equal(result, wanted):
                return f"output {number} differs"
        elif not np.allclose(
            result, wanted.astype(np.float64), rtol=taken.rtol, atol=taken.atol, equal_nan=True
        ):
            worst = float(np.nanmax(np.abs(result - wanted.astype(np.float64))))
            return f"output {number} differs by up to {worst:.3g}"
    return ""


def run(case: Any) -> Outcome:
    """One case: imported, run in float, compared."""
    operator = case.model.graph.node[0].op_type if case.model.graph.node else ""
    try:
        taken = take(case)
    except MinunError as error:
        return Outcome(case.name, operator, "refused", str(error))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = reference(taken.graph, {name: value[None] for name, value in taken.inputs.items()})
    reason = difference(taken, [np.asarray(found[name])[0] for name in taken.graph.outputs])
    return Outcome(case.name, operator, "failed" if reason else "passed", reason)


def is_small(graph: Graph) -> bool:
    """Whether a case is worth a board: few hundred values, no loop that unrolls to much."""
    return sum(tensor.elements for tensor in graph.tensors.values()) <= 500 and len(graph.nodes) <= 24


def on_boards(boards: Sequence[str], at_most: int | None) -> dict[str, Any]:
    """The small cases on each board in both formats; per board and format how many were equal."""
    from board_batches import BOARDS, DIFFERENT, EQUAL, TOO_LARGE, Job, outcomes

    from minun_pio.numerics.parse import parse_format
    from minun_pio.simulate.assign import uniform
    from minun_pio.simulate.legalise import legalise
    from minun_pio.simulate.run import encode_inputs

    small: list[Taken] = []
    for case in cases():
        try:
            taken = take(case)
        except MinunError:
            continue
        if is_small(taken.graph):
            small.append(taken)
    if at_most is not None and at_most < len(small):
        small = [small[k * len(small) // at_most] for k in range(at_most)]
    jobs: list[Job] = []
    for taken in small:
        for fmt in ("float32", "posit<16,2>"):
            assignment = uniform(taken.graph, parse_format(fmt))
            batch = {name: value[None] for name, value in taken.inputs.items()}
            codes = encode_inputs(taken.graph, legalise(taken.graph, assignment).formats, batch)
            jobs.append(Job(f"{taken.name} {fmt}", taken.graph, assignment, codes))
    seen = {taken.name for taken in small}
    report: dict[str, Any] = {"cases": len(seen)}
    both = set(seen)
    for board in boards:
        found = outcomes(BOARDS[board], jobs, 12 if board != "uno" else 3)
        states = Counter(s if s in (EQUAL, DIFFERENT, TOO_LARGE) else "refused" for s in found.values())
        others = {name: s for name, s in found.items() if s not in (EQUAL, TOO_LARGE)}
        report[board] = {"runs": len(found), **states, "not_equal": others}
        both &= {
            name
            for name in seen
            if all(found.get(f"{name} {f}") == EQUAL for f in ("float32", "posit<16,2>"))
        }
    report["equal_everywhere"] = len(both)
    report["met"] = len(both) >= _BAR_BOARDS and all(not report[b].get("different") for b in boards)
    return report


def main() -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--json", action="store_true", help="print JSON, with every refusal")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--boards", action="store_true", help="run the small cases on emulated boards")
    parser.add_argument("--board", action="append", choices=["uno", "due", "stm32h747"], help="only these")
    parser.add_argument("--at-most", type=int, default=None, help="with --boards: so many cases")
    options = parser.parse_args()
    import onnx

    if options.boards or options.board:
        report = on_boards(options.board or ["uno", "due", "stm32h747"], options.at_most)
        print(json.dumps(report, indent=1))
        return 0 if report["met"] else 1

    outcomes = [run(case) for case in cases() if options.only in case.name]
    counts = Counter(outcome.state for outcome in outcomes)
    scope = counts["passed"] + counts["failed"]
    per_operator: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        per_operator.setdefault(outcome.operator, Counter())[outcome.state] += 1
    failed = {o.name: o.reason for o in outcomes if o.state == "failed"}
    refused = {o.name: o.reason for o in outcomes if o.state == "refused"}
    met = scope >= _BAR_SCOPE and not failed
    if options.json:
        report = {
            "onnx": onnx.__version__,
            "cases": len(outcomes),
            "scope": scope,
            "passed": counts["passed"],
            "failed": failed,
            "operators": {name: dict(counter) for name, counter in sorted(per_operator.items())},
            "refused": refused,
            "bar": {"scope": _BAR_SCOPE, "passed": "all of scope", "met": met},
        }
        print(json.dumps(report, indent=1))
    else:
        print(f"onnx {onnx.__version__}: {counts['passed']} of {scope} in scope passed")
        print(f"{counts['refused']} refused, each with its reason (--json)")
        for name, reason in failed.items():
            print(f"  failed {name}: {reason}")
    return 0 if met or options.only else 1


if __name__ == "__main__":
    sys.exit(main())
