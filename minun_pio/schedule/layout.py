# SPDX-License-Identifier: Apache-2.0
"""Graph and assignment to steps and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from minun_pio.ir import Graph, Node
from minun_pio.numerics.format import Format, element_bytes
from minun_pio.ops.operator import Binding, Traits
from minun_pio.schedule.model import Buffer, CallStep, CopyStep, LoopStep, Place, Schedule, Step
from minun_pio.schedule.states import in_place_safe
from minun_pio.schedule.traits import TraitsOf
from minun_pio.simulate.assign import inner, states_of
from minun_pio.simulate.legalise import Legal

InputMemory = Literal["caller", "arena"]


def bind(graph: Graph, formats: Mapping[str, Format], prefix: str, node: Node, core: str) -> Binding:
    """All that is known about a node under an assignment."""
    return Binding(
        node=node,
        shapes=tuple(graph.tensors[n].shape if n else None for n in node.inputs),
        formats=tuple(formats[prefix + n] if n else None for n in node.inputs),
        constants=tuple(graph.constants.get(n) if n else None for n in node.inputs),
        out_shapes=tuple(graph.tensors[n].shape for n in node.outputs if n),
        out_formats=tuple(formats[prefix + n] for n in node.outputs if n),
        core=core,
    )


def is_whole_view(traits: Traits, binding: Binding) -> bool:
    """Whether the node's output is its first input's bytes under another shape."""
    return any(
        v.input_index == 0 and v.output_index == 0 and v.offset_bytes == 0 for v in traits.views
    ) and _bytes_in(binding) == _bytes_out(binding)


def _bytes_in(binding: Binding) -> int:
    shape, fmt = binding.shapes[0], binding.formats[0]
    return 0 if shape is None or fmt is None else _elements(shape) * element_bytes(fmt)


def _bytes_out(binding: Binding) -> int:
    return _elements(binding.out_shapes[0]) * element_bytes(binding.out_formats[0])


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def lay_out(
    legal: Legal,
    core: str = "host",
    input_memory: InputMemory = "caller",
    traits_of: TraitsOf | None = None,
    least_scratch: bool = False,
) -> Schedule:
    """The schedule of a legal graph, its nodes in the graph's order.

    Outputs are written straight into the caller's memory. `input_memory` says whether the inputs stay in
    the caller's memory or are arena buffers that the plan may reuse once they have been read. `traits_of`:
    give one to every call of a search on the same network. `least_scratch`: only for bounds, every call with
    the scratch of its smallest variant and all else that any variant allows.
    """
    return _Layout(legal, core, traits_of or TraitsOf(), least_scratch).schedule(input_memory)


@dataclass
class _Span:
    size: int
    align: int
    start: int
    end: int
    tensors: list[str]


@dataclass
class _Frame:
    """An open loop: the buffers born inside it, and those from outside that it touches."""

    born: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)


class _Layout:
    def __init__(self, legal: Legal, core: str, traits_of: TraitsOf, least_scratch: bool) -> None:
        self.legal = legal
        self.least_scratch = least_scratch
        self.traits_of = traits_of
        self.core = core
        self.formats = legal.formats
        self.clock = 0
        self.places: dict[str, Place] = {}
        self.spans: dict[str, _Span] = {}
        self.frames: list[_Frame] = []
        self.loops = 0
        self.skipped: list[str] = []

    def schedule(self, input_memory: InputMemory) -> Schedule:
        graph = self.legal.graph
        steps: list[Step] = []
        for name in graph.inputs:
            place = Place("input", name)
            if input_memory == "arena":
                target = self._new(name, name, graph)
                self.places[name] = target
                steps.append(self._copy(name, place, target, self._bytes(graph, "", name), optional=True))
            else:
                self.places[name] = place
        targets = [(name, Place("output", f"{name}#{k}")) for k, name in enumerate(graph.outputs)]
        copies = self._wanted(graph, "", targets)
        steps += self._graph(graph, "")
        for name, target in copies:
            steps.append(self._copy(name, self._place(graph, "", name), target, self._bytes(graph, "", name)))
        return Schedule(
            legal=self.legal,
            core=self.core,
            steps=tuple(steps),
            buffers=tuple(
                Buffer(i, s.size, s.align, s.start, s.end, tuple(s.tensors)) for i, s in self.spans.items()
            ),
            places=dict(self.places),
            length=self.clock,
            skipped=tuple(self.skipped),
        )

    def _bytes(self, graph: Graph, prefix: str, name: str) -> int:
        return graph.tensors[name].elements * element_bytes(self.formats[prefix + name])

    def _new(self, buffer: str, tensor: str, graph: Graph, prefix: str = "") -> Place:
        """A fresh buffer for a tensor, live from now."""
        align = element_bytes(self.formats[prefix + tensor])
        return self._allocate(buffer, self._bytes(graph, prefix, tensor), align, [prefix + tensor])

    def _allocate(self, buffer: str, size: int, align: int, tensors: list[str]) -> Place:
        self.spans[buffer] = _Span(size, align, self.clock, self.clock + 1, tensors)
        for frame in self.frames:
            frame.born.add(buffer)
        return Place("arena", buffer)

    def _touch(self, place: Place | None) -> None:
        if place is None or place.kind != "arena":
            return
        span = self.spans[place.buffer]
        span.end = max(span.end, self.clock + 1)
        for frame in self.frames:
            if place.buffer not in frame.born:
                frame.touched.add(place.buffer)

    def _copy(self, tensor: str, source: Place, target: Place, size: int, optional: bool = False) -> CopyStep:
        self._touch(source)
        self._touch(target)
        step = CopyStep(self.clock, tensor, source, target, size, optional)
        self.clock += 1
        return step

    def _place(self, graph: Graph, prefix: str, name: str) -> Place:
        if name in graph.constants:
            return Place("constant", prefix + name)
        return self.places[prefix + name]

    def _wanted(self, graph: Graph, prefix: str, targets: list[tuple[str, Place]]) -> list[tuple[str, Place]]:
        """Sends results straight to where they are wanted; returns those that must be copied there instead.

        A whole view of a result carries its target back to what it views.
        """
        copies: list[tuple[str, Place]] = []
        for name, target in targets:
            if graph.producer(name) is None or prefix + name in self.places:
                copies.append((name, target))
            else:
                self.places[prefix + name] = target
        for node in reversed(graph.nodes):
            if node.body is not None or not node.inputs[0] or prefix + node.outputs[0] not in self.places:
                continue
            source = node.inputs[0]
            binding = bind(graph, self.formats, prefix, node, self.core)
            if graph.producer(source) is None or prefix + source in self.places:
                continue
            if is_whole_view(self.traits_of(prefix, binding), binding):
                self.places[prefix + source] = self.places[prefix + node.outputs[0]]
        return copies

    def _graph(self, graph: Graph, prefix: str) -> list[Step]:
        steps: list[Step] = []
        for node in graph.nodes:
            if node.body is not None:
                steps += self._scan(graph, prefix, node)
            else:
                steps += self._node(graph, prefix, node)
        return steps

    def _node(self, graph: Graph, prefix: str, node: Node) -> list[Step]:
        binding = bind(graph, self.formats, prefix, node, self.core)
        traits = self.traits_of(prefix, binding)
        if self.least_scratch and traits.scratch_bytes:
            small = self.traits_of(prefix, replace(binding, small_scratch=True)).scratch_bytes
            traits = replace(traits, scratch_bytes=min(traits.scratch_bytes, small))
        inputs = tuple(self._place(graph, prefix, n) if n else None for n in node.inputs)
        first = inputs[0] if inputs else None
        if first is not None and first.kind != "constant" and is_whole_view(traits, binding):
            given = self.places.get(prefix + node.outputs[0])
            if given is None or given == first:
                self.places[prefix + node.outputs[0]] = first
                if first.kind == "arena" and given is None:
                    self.spans[first.buffer].tensors.append(prefix + node.outputs[0])
                self.skipped.append(prefix + node.name)
                return []
        for place in inputs:
            self._touch(place)
        scratch = None
        if traits.scratch_bytes:
            scratch = f"{prefix}{node.name}#scratch"
            self._allocate(scratch, traits.scratch_bytes, traits.scratch_align, [])
        outputs = []
        for name in node.outputs:
            if not name:
                continue
            if prefix + name not in self.places:
                self.places[prefix + name] = self._new(prefix + name, name, graph, prefix)
            self._touch(self.places[prefix + name])
            outputs.append(self.places[prefix + name])
        step = CallStep(self.clock, prefix, binding, traits, inputs, tuple(outputs), scratch)
        self.clock += 1
        return [step]

    def _scan(self, graph: Graph, prefix: str, node: Node) -> list[Step]:
        body = node.body
        assert body is not None
        inside = inner(prefix, node)
        states = states_of(graph, node)
        steps: list[Step] = []
        homes: list[Place] = []
        for k in range(states):
            steps += self._enter_state(graph, prefix, node, k, homes)
        for name in node.outputs[states:]:
            if name and prefix + name not in self.places:
                self.places[prefix + name] = self._new(prefix + name, name, graph, prefix)
        variable = f"t{self.loops}"
        self.loops += 1
        frame = _Frame()
        self.frames.append(frame)
        for place in homes:
            self._touch(place)
        inner_steps: list[Step] = []
        for k in range(states, len(node.inputs)):
            inner_steps += self._slice(graph, prefix, node, k, variable)
        direct, late = self._targets(graph, prefix, node, homes, variable)
        late += self._wanted(body, inside, direct)
        inner_steps += self._graph(body, inside)
        inner_steps += self._hand_over(body, inside, late, homes)
        self.frames.pop()
        for buffer in frame.touched:
            self.spans[buffer].end = max(self.spans[buffer].end, self.clock)
        if not inner_steps:  # the states go through unchanged
            return steps
        count, reverse = int(node.attrs["steps"]), bool(node.attrs.get("reverse"))
        return [*steps, LoopStep(prefix + node.name, variable, count, reverse, tuple(inner_steps))]

    def _enter_state(self, graph: Graph, prefix: str, node: Node, k: int, homes: list[Place]) -> list[Step]:
        """Gives state k its home and puts the initial value there."""
        body = node.body
        assert body is not None
        inside = inner(prefix, node)
        name, initial, final = body.inputs[k], node.inputs[k], node.outputs[k]
        source = self._place(graph, prefix, initial)
        home = self.places.get(prefix + final) if final else None
        steps: list[Step] = []
        if home is None and self._can_take_over(graph, prefix, node, initial, source):
            home = source
            self.spans[source.buffer].tensors.append(inside + name)
        else:
            if home is None:
                home = self._new(inside + name, name, body, inside)
            steps.append(self._copy(inside + name, source, home, self._bytes(body, inside, name)))
        self.places[inside + name] = home
        if final:
            self.places[prefix + final] = home
            if home.kind == "arena":
                self.spans[home.buffer].tensors.append(prefix + final)
        homes.append(home)
        return steps

    def _can_take_over(self, graph: Graph, prefix: str, node: Node, initial: str, source: Place) -> bool:
        """Whether a state may live in its initial value's buffer: nobody else needs that value any more."""
        if source.kind != "arena" or source.offset or source.strides or node.inputs.count(initial) != 1:
            return False
        if self.frames and source.buffer not in self.frames[-1].born:
            return False
        span = self.spans[source.buffer]
        if span.size != self._bytes(graph, prefix, initial):
            return False
        later = graph.nodes[graph.nodes.index(node) + 1 :]
        names = [t[len(prefix) :] for t in span.tensors]
        used = {n for other in later for n in other.inputs} | set(graph.outputs)
        here = [n for n in node.inputs if n in names]
        return here == [initial] and not used.intersection(names)

    def _slice(self, graph: Graph, prefix: str, node: Node, k: int, variable: str) -> list[Step]:
        """Places the slice of scanned input k. A constant's slice is copied out of flash first."""
        body = node.body
        assert body is not None
        inside = inner(prefix, node)
        name = body.inputs[k]
        size = self._bytes(body, inside, name)
        source = self._place(graph, prefix, node.inputs[k]).stepped(variable, size)
        self._touch(source)
        if source.kind != "constant":
            self.places[inside + name] = source
            return []
        self.places[inside + name] = self._new(inside + name, name, body, inside)
        return [self._copy(inside + name, source, self.places[inside + name], size)]

    def _targets(
        self, graph: Graph, prefix: str, node: Node, homes: list[Place], variable: str
    ) -> tuple[list[tuple[str, Place]], list[tuple[str, Place]]]:
        """Where the body's outputs go: directly, or by a copy at the end of an iteration."""
        body = node.body
        assert body is not None
        inside = inner(prefix, node)
        direct: list[tuple[str, Place]] = []
        late: list[tuple[str, Place]] = []

        def whole_view(inner_node: Node) -> bool:
            if inner_node.body is not None or not inner_node.inputs[0]:
                return False
            binding = bind(body, self.formats, inside, inner_node, self.core)
            return is_whole_view(self.traits_of(inside, binding), binding)

        def in_place(inner_node: Node) -> tuple[tuple[int, int], ...]:
            binding = bind(body, self.formats, inside, inner_node, self.core)
            return self.traits_of(inside, binding).in_place

        for k, name in enumerate(body.outputs):
            if k < len(homes):
                safe = in_place_safe(body, body.inputs[k], name, whole_view, in_place)
                (direct if safe else late).append((name, homes[k]))
            elif node.outputs[k]:
                target = self.places[prefix + node.outputs[k]]
                self._touch(target)
                size = self._bytes(body, inside, name)
                direct.append((name, target.stepped(variable, size)))
        return direct, late

    def _hand_over(
        self, body: Graph, inside: str, late: list[tuple[str, Place]], homes: list[Place]
    ) -> list[Step]:
        """The copies at the end of an iteration: outputs first, then next states over the old ones.

        A next state that is another state's old value goes through a buffer of its own, so that no order of
        the copies loses it.
        """
        steps: list[Step] = []
        states: list[tuple[str, Place, Place, int]] = []
        for name, target in late:
            source, size = self._place(body, inside, name), self._bytes(body, inside, name)
            if source == target:
                continue
            if target in homes:
                states.append((name, source, target, size))
            else:
                steps.append(self._copy(inside + name, source, target, size))
        ready: list[tuple[str, Place, Place, int]] = []
        for name, source, target, size in states:
            if source in homes:
                kept = self._allocate(
                    f"{inside}{name}#next{self.clock}", size, element_bytes(self.formats[inside + name]), []
                )
                steps.append(self._copy(inside + name, source, kept, size))
                source = kept
            ready.append((name, source, target, size))
        for name, source, target, size in ready:
            steps.append(self._copy(inside + name, source, target, size))
        return steps
