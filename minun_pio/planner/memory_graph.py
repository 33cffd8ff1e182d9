# SPDX-License-Identifier: Apache-2.0
"""A network as the planner sees it: steps that read and write tensors, and what each step allows.

Nothing here knows an operator; operators say what they allow in these words (`Overlap`, `View`). `raster.py`
computes the overlap distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from minun_pio.planner.problem import bad

Kind = Literal["local", "input", "output", "persistent"]


@dataclass(frozen=True)
class Overlap:
    """Input and output may share bytes if they keep a distance.

    Writing in forward raster order is safe when `input_offset - output_offset >= forward_bytes`; in
    reverse raster order when `output_offset - input_offset >= reverse_bytes`. None: that order is not
    offered by the kernel.
    """

    input_index: int
    output_index: int
    forward_bytes: int | None
    reverse_bytes: int | None = None


@dataclass(frozen=True)
class View:
    """Input `input_index` may live inside output `output_index` at `offset_bytes` (concat, reshape), or
    with `output_inside` the output may live inside the input (slice, split). `interleaved`: the input's bytes
    are runs spread over all of the output (a concat of channels)."""

    input_index: int
    output_index: int
    offset_bytes: int
    output_inside: bool = False
    interleaved: bool = False


@dataclass(frozen=True)
class TensorBuffer:
    """A tensor of `size` bytes. `input` is live from the first step, `output` to the last, `persistent`
    always, with its value kept between runs. `carried`: keeps its value from one iteration of the loops it
    is used in to the next, and is live through all of them."""

    name: str
    size: int
    align: int = 1
    kind: Kind = "local"
    carried: bool = False
    offset: int | None = None
    region: str | None = None


@dataclass(frozen=True)
class GraphStep:
    """A kernel call. `inputs` may hold None (an absent or constant operand), so that indices stay the call's.

    `in_place`: (input index, output index) that may be the same bytes. `loop`: the names of the loops around
    the step, outermost first; a loop's steps stand together and keep their order. `writes_strided`,
    `reads_strided`: the kernel can write (read) a tensor that is interleaved with others.
    """

    name: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    scratch: int = 0
    scratch_align: int = 1
    in_place: tuple[tuple[int, int], ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    views: tuple[View, ...] = ()
    loop: tuple[str, ...] = ()
    writes_strided: bool = False
    reads_strided: bool = False


@dataclass(frozen=True)
class MemoryGraph:
    """Tensors, and steps in an order in which they can run."""

    tensors: tuple[TensorBuffer, ...]
    steps: tuple[GraphStep, ...]


def check_graph(graph: MemoryGraph) -> None:
    """Refuse a graph that reads what nobody wrote, or names a tensor that is not there."""
    written = {t.name for t in graph.tensors if t.kind in ("input", "persistent") or t.carried}
    names = {t.name for t in graph.tensors}
    if len(names) != len(graph.tensors) or len({s.name for s in graph.steps}) != len(graph.steps):
        raise bad("duplicate-name", "two tensors or two steps have the same name; give each its own")
    closed: set[str] = set()
    open_loop = ""
    for step in graph.steps:
        for name in (*step.inputs, *step.outputs):
            if name is not None and name not in names:
                raise bad(
                    "unknown-tensor", f"step '{step.name}' uses '{name}', which is no tensor of this graph"
                )
        for name in step.inputs:
            if name is not None and name not in written:
                raise bad("unwritten", f"step '{step.name}' reads '{name}', which no earlier step writes")
        written.update(step.outputs)
        loop = step.loop[0] if step.loop else ""
        if loop != open_loop:
            closed.add(open_loop)
            open_loop = loop
        if loop and loop in closed:
            raise bad("torn-loop", f"the steps of loop '{loop}' do not stand together")
