# SPDX-License-Identifier: Apache-2.0
"""The loop: a body graph run once a time step with carried state (see `ir`).

Not one kernel call: the simulator iterates the body with `iterate`, the scheduler lays its buffers out and
the emitter writes a `for` loop around the body's calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.ir import Node, Shape
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.operator import Binding, Floats

Array = NDArray[Any]


def time_axis(node: Node) -> int:
    return int(node.attrs.get("axis", 0))


RunBody = Callable[[list[Array], int], list[Array]]


def iterate(node: Node, inputs: Sequence[Array | None], states: int, run_body: RunBody) -> list[Array]:
    """Runs the body over all steps. Arrays carry the leading sample axis, so time is on axis 1 + `axis`.

    `run_body(inputs, t)` gets the states and the slices of step t and gives next states and output slices.
    """
    assert node.body is not None
    steps, axis = int(node.attrs["steps"]), 1 + time_axis(node)
    present = [a for a in inputs if a is not None]
    samples = max((a.shape[0] for a in present), default=1)
    carried: list[Array] = []
    for k in range(states):
        first = inputs[k]
        shape = (samples, *node.body.tensors[node.body.inputs[k]].shape)
        if first is None:
            kind = present[0].dtype if present else np.dtype(np.float64)
            carried.append(np.zeros(shape, dtype=kind))
        else:
            carried.append(np.broadcast_to(first, shape))
    collected: list[list[Array]] = [[] for _ in node.outputs[states:]]
    order = range(steps - 1, -1, -1) if node.attrs.get("reverse") else range(steps)
    for t in order:
        slices = [np.take(a, t, axis=axis) for a in inputs[states:] if a is not None]
        results = run_body([*carried, *slices], t)
        carried = list(results[:states])
        for kept, result in zip(collected, results[states:], strict=True):
            kept.append(result)
    stacked = []
    for kept in collected:
        if node.attrs.get("reverse"):
            kept = kept[::-1]
        count = max(a.shape[0] for a in kept)
        wide = [np.broadcast_to(a, (count, *a.shape[1:])) for a in kept]
        stacked.append(np.stack(wide, axis=axis))
    return carried + stacked


class Scan:
    """Shapes and float reference of a loop; see the module's docstring for the rest."""

    name = "scan"
    policy = "scan"
    families = frozenset({"posit", "fixed", "affine", "float"})

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[Array | None]
    ) -> list[Shape]:
        body = node.body
        if body is None or len(shapes) != len(body.inputs) or len(node.outputs) != len(body.outputs):
            raise MinunError(
                "op.bad-scan",
                f"scan '{node.name}' and its body differ in their inputs or outputs; one for one is expected",
            )
        steps, axis = int(node.attrs.get("steps", 0)), time_axis(node)
        if steps < 1:
            raise MinunError("op.bad-scan", f"scan '{node.name}' has {steps} steps; at least 1 is expected")
        states = 0
        scanning = False
        for k, shape in enumerate(shapes):
            inside = body.tensors[body.inputs[k]].shape
            if shape is not None and len(shape) == len(inside) + 1:
                scanning = True
                expected = (*inside[:axis], steps, *inside[axis:])
            else:
                expected = inside
                states += 1
                if scanning:
                    raise MinunError(
                        "op.bad-scan",
                        f"scan '{node.name}': state {k} stands after a scanned input; states come first",
                    )
            if shape is not None and tuple(shape) != expected:
                raise MinunError(
                    "op.bad-scan",
                    f"scan '{node.name}': input {k} has shape {tuple(shape)}; expected {expected}",
                )
        result: list[Shape] = []
        for k, name in enumerate(body.outputs):
            inside = body.tensors[name].shape
            if k < states:
                if inside != body.tensors[body.inputs[k]].shape:
                    raise MinunError(
                        "op.bad-scan",
                        f"scan '{node.name}': state {k} enters as {body.tensors[body.inputs[k]].shape} "
                        f"and leaves as {inside}; both must be equal",
                    )
                result.append(inside)
            else:
                result.append((*inside[:axis], steps, *inside[axis:]))
        return result

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        from minun_pio.ops import REGISTRY

        body = node.body
        assert body is not None
        states = sum(
            1
            for a, name in zip(inputs, body.inputs, strict=True)
            if a is None or a.ndim - 1 == len(body.tensors[name].shape)
        )

        def run_body(values: list[Array], _: int) -> list[Array]:
            env: dict[str, Array] = {n: np.asarray(v)[None] for n, v in body.constants.items()}
            env.update(zip(body.inputs, values, strict=True))
            for inner in body.nodes:
                found = REGISTRY[inner.op].reference(inner, [env[n] if n else None for n in inner.inputs])
                env.update(zip(inner.outputs, found, strict=True))
            return [env[n] for n in body.outputs]

        return iterate(node, inputs, states, run_body)

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        self._many_calls()

    def traits(self, binding: Binding) -> NoReturn:
        self._many_calls()

    def emit(self, binding: Binding) -> NoReturn:
        self._many_calls()

    def _many_calls(self) -> NoReturn:
        raise TypeError("a scan is a loop of calls: see simulate.run, schedule and emit")


OPERATOR = Scan()
