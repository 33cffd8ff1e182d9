# SPDX-License-Identifier: Apache-2.0
"""Gives a schedule's buffers their places, by the planner: order, sharing and placement together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from minun_pio.config.model import Memory
from minun_pio.numerics.format import element_bytes
from minun_pio.ops.operator import Traits
from minun_pio.planner import Plan
from minun_pio.planner.arena import Arena, Sharings, arrange
from minun_pio.planner.layout import Sharing, lay_out
from minun_pio.planner.memory_graph import GraphStep, MemoryGraph, TensorBuffer
from minun_pio.planner.reduce import reduce
from minun_pio.schedule.model import CallStep, CopyStep, LoopStep, Place, Schedule, Step
from minun_pio.schedule.order import reordered
from minun_pio.schedule.small_scratch import with_small_scratch
from minun_pio.schedule.traits import TraitsOf

DEFAULT_MEMORY = Memory()
PLAIN = Memory(in_place=False, concat=False, overlap=False, reorder=False)


@dataclass(frozen=True)
class StagePeak:
    """The arena's height when the planner may do this much, and the buffers live at the peak."""

    name: str
    peak: int
    live: tuple[str, ...]


@dataclass(frozen=True)
class Placement:
    """Offsets of a schedule's buffers, scratch included; the schedule is in the planner's order.

    `align`: what the arena's address must be a multiple of. `reverse`: calls (by index) that write in
    reverse raster order. `in_view`: calls that need not run, their results being where they belong.
    """

    schedule: Schedule
    plan: Plan
    align: int
    offsets: Mapping[str, int]
    stages: tuple[StagePeak, ...] = ()
    reverse: frozenset[int] = frozenset()
    in_view: frozenset[int] = frozenset()

    @property
    def bytes(self) -> int:
        return self.plan.height


def place(
    schedule: Schedule, memory: Memory = DEFAULT_MEMORY, traits_of: TraitsOf | None = None
) -> Placement:
    """Places the buffers, each at a multiple of its element's size. The planner checks its answer twice.

    Where scratch is live at the peak, its calls' variants with little scratch are tried, and kept if the
    arena is smaller for them. AVR reads any width at any address, so there the arena itself needs no
    alignment.
    """
    known = traits_of or TraitsOf()
    best, peak = _place(schedule, memory)
    smaller = with_small_scratch(schedule, peak, known)
    while smaller is not None:
        found, peak = _place(smaller, memory)
        if found.bytes < best.bytes:
            best = found
        smaller = with_small_scratch(smaller, peak, known)
    return best


def _place(schedule: Schedule, memory: Memory) -> tuple[Placement, frozenset[int]]:
    """The placement, and the indices of the calls whose scratch is live at its peak."""
    use = Sharings(memory.in_place, memory.concat, memory.overlap, memory.reorder)
    found = arrange(memory_graph(schedule), use, timeout=memory.timeout_s, planner=memory.planner)
    ordered = reordered(schedule, [int(name.partition(":")[0]) for name in found.order])
    offsets = {b.id: found.offsets[b.id] for b in schedule.buffers if b.id in found.offsets}
    for step in schedule.calls():
        if step.scratch is not None:
            offsets[step.scratch] = found.scratch[step_name(step)]
    old_calls, new_calls = schedule.calls(), ordered.calls()
    now = {step_name(step): _same(step, new_calls).index for step in old_calls}
    scratch = {f"{step_name(step)}#scratch": step.index for step in old_calls}
    placement = Placement(
        schedule=ordered,
        plan=found.plan,
        align=1 if schedule.core == "avr" else max((b.align for b in schedule.buffers), default=1),
        offsets=offsets,
        stages=_stages(found),
        reverse=frozenset(now[name] for name in found.reverse if name in now),
        in_view=frozenset(c.index for c in new_calls if _is_in_view(c, offsets)),
    )
    live = found.stages[-1].live if found.stages else ()
    return placement, frozenset(scratch[name] for name in live if name in scratch)


def _same(step: CallStep, calls: tuple[CallStep, ...]) -> CallStep:
    return next(c for c in calls if c.binding is step.binding)


def _stages(found: Arena) -> tuple[StagePeak, ...]:
    return tuple(StagePeak(s.name, s.peak, tuple(shown_name(n) for n in s.live)) for s in found.stages)


def shown_name(name: str) -> str:
    """A planner's buffer as people know it: scratch without its step's index."""
    index, _, rest = name.partition(":")
    return rest if index.isdigit() else name


def step_name(step: CallStep | CopyStep) -> str:
    """A step's name for the planner: its index, and the node's name or the copied tensor's."""
    return f"{step.index}:{step.name if isinstance(step, CallStep) else step.tensor}"


def memory_graph(schedule: Schedule) -> MemoryGraph:
    """The schedule as the planner sees it.

    Tensors in the caller's memory are there as buffers of no bytes where they are written, so that what
    depends on them keeps its order.
    """
    sizes = {b.id: b.size for b in schedule.buffers}
    rewritten = {name for name, count in write_counts(schedule.steps).items() if count > 1}
    inputs = {s.target.buffer for s in schedule.steps if isinstance(s, CopyStep) and s.optional}
    scratch = {c.scratch for c in schedule.calls()}
    buffers = [
        TensorBuffer(b.id, b.size, b.align, "input" if b.id in inputs else "local")
        for b in schedule.buffers
        if b.id not in scratch
    ]
    steps: list[GraphStep] = []
    outside: dict[str, TensorBuffer] = {}

    def name_of(place: Place | None) -> str | None:
        if place is None or place.kind in ("input", "constant"):
            return None
        if place.kind == "arena":
            return place.buffer
        name = f"out:{place.buffer}"
        outside.setdefault(name, TensorBuffer(name, 0))
        return name

    def add(items: tuple[Step, ...], loops: tuple[str, ...]) -> None:
        for step in items:
            if isinstance(step, LoopStep):
                add(step.body, (*loops, f"{step.variable}:{step.name}"))
            elif isinstance(step, CopyStep):
                target = name_of(step.target)
                assert target is not None
                steps.append(GraphStep(step_name(step), (name_of(step.source),), (target,), loop=loops))
            else:
                steps.append(_graph_step(step, name_of, whole_traits(step, sizes, rewritten), loops))

    add(schedule.steps, ())
    return MemoryGraph((*buffers, *outside.values()), tuple(steps))


def _graph_step(
    step: CallStep, name_of: Callable[[Place | None], str | None], traits: Traits, loops: tuple[str, ...]
) -> GraphStep:
    outputs = [name_of(place) for place in step.outputs]
    return GraphStep(
        name=step_name(step),
        inputs=tuple(name_of(place) for place in step.inputs),
        outputs=tuple(name for name in outputs if name is not None),
        scratch=traits.scratch_bytes,
        scratch_align=traits.scratch_align,
        in_place=traits.in_place,
        overlaps=traits.overlaps,
        views=traits.views,
        loop=loops,
    )


def whole_traits(step: CallStep, sizes: Mapping[str, int], rewritten: Set[str]) -> Traits:
    """The traits about operands that are whole arena buffers: distances count from their beginnings.

    A buffer that is written more than once (a loop's state) is in no view: the other's bytes would change.
    """
    binding = step.binding
    inputs = [
        p is not None
        and shape is not None
        and fmt is not None
        and _is_whole(p, shape, element_bytes(fmt), sizes)
        for p, shape, fmt in zip(step.inputs, binding.shapes, binding.formats, strict=True)
    ]
    outputs = [
        _is_whole(p, shape, element_bytes(fmt), sizes)
        for p, shape, fmt in zip(step.outputs, binding.out_shapes, binding.out_formats, strict=True)
    ]
    traits = step.traits
    return Traits(
        scratch_bytes=traits.scratch_bytes,
        scratch_align=traits.scratch_align,
        in_place=tuple((i, o) for i, o in traits.in_place if inputs[i] and outputs[o]),
        overlaps=tuple(
            replace(
                v,
                forward_bytes=_not_below_zero(v.forward_bytes),
                reverse_bytes=_not_below_zero(v.reverse_bytes),
            )
            for v in traits.overlaps
            if inputs[v.input_index] and outputs[v.output_index]
        ),
        views=tuple(
            v
            for v in traits.views
            if inputs[v.input_index]
            and outputs[v.output_index]
            and rewritten.isdisjoint(_names(step.inputs[v.input_index], step.outputs[v.output_index]))
        ),
    )


def _not_below_zero(distance: int | None) -> int | None:
    """A slice may run ahead of what it reads (a negative distance); the planner's distances begin at 0."""
    return None if distance is None else max(0, distance)


def _names(*places: Place | None) -> list[str]:
    return [place.buffer for place in places if place is not None]


def write_counts(steps: Sequence[Step]) -> dict[str, int]:
    """How many calls and copies write each arena buffer."""
    counts: dict[str, int] = {}
    for step in steps:
        if isinstance(step, LoopStep):
            for name, count in write_counts(step.body).items():
                counts[name] = counts.get(name, 0) + count
            continue
        targets = [step.target] if isinstance(step, CopyStep) else step.outputs
        for place in targets:
            if place.kind == "arena":
                counts[place.buffer] = counts.get(place.buffer, 0) + 1
    return counts


def _is_whole(place: Place, shape: tuple[int, ...], width: int, sizes: Mapping[str, int]) -> bool:
    count = width
    for extent in shape:
        count *= extent
    return place.kind == "arena" and not place.offset and not place.strides and sizes[place.buffer] == count


def _is_in_view(step: CallStep, offsets: Mapping[str, int]) -> bool:
    """Whether every output byte of the call is already in place (concat, slice, split as views)."""
    if not step.traits.views or not all(p is not None and p.kind == "arena" for p in step.inputs[:1]):
        return False

    def at(place: Place | None) -> tuple[int, tuple[tuple[str, int], ...]] | None:
        if place is None or place.kind != "arena":
            return None
        return offsets[place.buffer] + place.offset, place.strides

    inside = {v.output_index: v for v in step.traits.views if v.output_inside}
    if inside:
        pairs = [
            (at(step.outputs[o]), at(step.inputs[v.input_index]), v.offset_bytes) for o, v in inside.items()
        ]
        complete = len(inside) == len(step.outputs)
    else:
        views = {v.input_index: v for v in step.traits.views if v.output_index == 0}
        used = [k for k, p in enumerate(step.inputs) if p is not None]
        pairs = [(at(step.inputs[i]), at(step.outputs[0]), v.offset_bytes) for i, v in views.items()]
        complete = len(step.outputs) == 1 and set(views) == set(used)
    return complete and all(
        part is not None and whole is not None and part[1] == whole[1] and part[0] == whole[0] + offset
        for part, whole, offset in pairs
    )


def estimate_bytes(schedule: Schedule, memory: Memory = PLAIN) -> int:
    """What the fullest step needs at least, in the schedule's order: quick, for searches.

    With in-place, concat and overlap as `memory` allows; no placement of it is lower, another order may be.
    """
    if memory == PLAIN:
        return _fullest(schedule)
    graph = memory_graph(schedule)
    order = range(len(graph.steps))
    choices = {frozenset[int]()}
    if memory.concat:
        choices.add(frozenset(k for k, step in enumerate(graph.steps) if step.views))
    peaks = []
    for views in choices:
        layout = lay_out(Sharing(graph, views), order, memory.in_place, memory.overlap)
        reduced = reduce(layout.problem)
        load = reduced.numbers([b for b in reduced.roots if b.size]).load
        peaks.append(max(load, default=0))
    return min(peaks)


def _fullest(schedule: Schedule) -> int:
    """The most bytes live at one step, nothing shared."""
    change: dict[int, int] = {}
    for b in schedule.buffers:
        change[b.start] = change.get(b.start, 0) + b.size
        change[b.end] = change.get(b.end, 0) - b.size
    live = peak = 0
    for step in sorted(change):
        live += change[step]
        peak = max(peak, live)
    return peak
