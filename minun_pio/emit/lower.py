# SPDX-License-Identifier: Apache-2.0
"""A placed schedule to a Program: constants encoded, pointers filled in, calls in order."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

import numpy as np

from minun_pio import __version__
from minun_pio.emit.code_size import estimate
from minun_pio.emit.names import Identifiers, check_model_name
from minun_pio.emit.pools import Pool, shape_text
from minun_pio.emit.program import (
    Arena,
    ArenaRow,
    Flash,
    Port,
    Program,
    Stage,
    Statement,
    Vectors,
)
from minun_pio.errors import MinunError
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Format, element_bytes
from minun_pio.ops.calling import code_type
from minun_pio.ops.operator import Call
from minun_pio.schedule.arena import Placement, shown_name
from minun_pio.schedule.model import CallStep, CopyStep, LoopStep, Place, Schedule, Step
from minun_pio.simulate.assign import operator_of
from minun_pio.simulate.run import Cache, run_codes

_RESERVED = frozenset(
    ("kArenaBytes", "kArenaAlign", "kBuildHash", "kInputBytes", "kOutputBytes", "kInputElements")
).union(("kOutputElements", "kInputShape", "kOutputShape"))


def lower(
    placement: Placement,
    model: str,
    *,
    input_codes: Mapping[str, Codes] | None = None,
    cache: Cache | None = None,
) -> Program:
    """The program of a placed schedule. `input_codes`: up to 16 samples that become its self-test."""
    check_model_name(model)
    return _Lowering(placement, model, cache).program(input_codes)


class _Lowering:
    def __init__(self, placement: Placement, model: str, cache: Cache | None) -> None:
        self.placement = placement
        self.schedule: Schedule = placement.schedule
        self.model = model
        self.cache = cache
        legal = self.schedule.legal
        self.graph, self.formats = legal.graph, legal.formats
        self.pool = Pool(self.graph, self.formats, Identifiers(_RESERVED), cache)
        members = Identifiers(frozenset({"in", "out", "arena", "arena_bytes", "infer", model}))
        self.inputs = self._ports([(n, n) for n in self.graph.inputs], members)
        self.outputs = self._ports([(n, f"{n}#{k}") for k, n in enumerate(self.graph.outputs)], members)
        self.kernels: dict[str, str] = {}  # function -> family

    def program(self, input_codes: Mapping[str, Codes] | None) -> Program:
        statements = self._statements(self.schedule.steps)
        code = estimate(self.schedule.core, self.kernels, self.schedule.length)
        return Program(
            model=self.model,
            core=self.schedule.core,
            inputs=tuple(self.inputs.values()),
            outputs=tuple(self.outputs.values()),
            constants=self.pool.constants(),
            statements=statements,
            arena=self._arena(),
            flash=Flash(self.pool.constant_bytes, self.pool.table_bytes, code),
            formats={name: fmt.name for name, fmt in self.formats.items()},
            vectors=self._vectors(input_codes),
            package_version=__version__,
        )

    def _ports(self, named: list[tuple[str, str]], names: Identifiers) -> dict[str, Port]:
        ports: dict[str, Port] = {}
        end = 0
        for name, key in named:
            fmt = self.formats[name]
            width = element_bytes(fmt)
            end = -(-end // width) * width
            ports[key] = Port(
                name=name,
                identifier=names.member(name),
                shape=self.graph.tensors[name].shape,
                format=fmt.name,
                cpp=fmt.cpp,
                ctype=code_type(fmt),
                code_bytes=width,
                offset_bytes=end,
                scale=float(np.float32(fmt.scale)) if isinstance(fmt, Affine) else 0.0,
                zero_point=fmt.zero_point if isinstance(fmt, Affine) else 0,
            )
            end += ports[key].bytes
        return ports

    def _statements(self, steps: tuple[Step, ...]) -> tuple[Statement, ...]:
        in_view = self.placement.in_view
        kept = [s for s in steps if not isinstance(s, CallStep) or s.index not in in_view]
        return tuple(self._statement(step) for step in kept)

    def _statement(self, step: Step) -> Statement:
        if isinstance(step, LoopStep):
            return Statement(
                kind="loop",
                comment=f"{step.name}: {step.steps} steps{', backwards' if step.reverse else ''}",
                variable=step.variable,
                steps=step.steps,
                reverse=step.reverse,
                body=self._statements(step.body),
            )
        if isinstance(step, CopyStep):
            return Statement(
                kind="copy",
                comment=f"{step.index}: {step.tensor}",
                args=(self._pointer(step.target, None), self._pointer(step.source, None)),
                bytes=step.bytes,
                in_flash=step.source.kind == "constant",
                optional=step.optional,
            )
        return self._call(step)

    def _call(self, step: CallStep) -> Statement:
        node = step.binding.node
        call: Call = operator_of(node).emit(step.binding)
        families = [f.family for f in (*step.binding.out_formats, *step.binding.formats) if f is not None]
        reverse = step.index in self.placement.reverse

        def value(match: re.Match[str]) -> str:
            """What stands for a placeholder; arrays are emitted only where a call asks for them."""
            kind, k = match.group(1), int(match.group(2) or 0)
            if kind == "in":
                place = step.inputs[k]
                if place is None:
                    return "nullptr"
                if k in call.constant_codes:
                    constant = step.prefix + node.inputs[k]
                    return self.pool.table(call.constant_codes[k], step.name, constant)
                return self._pointer(place, step.binding.formats[k])
            if kind == "out":
                return self._pointer(step.outputs[k], step.binding.out_formats[k])
            if kind == "table":
                return self.pool.table(call.tables[k], step.name)
            if kind == "scratch" and step.scratch is not None:
                return f"arena + {self.placement.offsets[step.scratch]}"
            if kind == "reverse":
                return "true" if reverse else "false"
            raise KeyError(match.group(0))

        def filled(text: str) -> str:
            return re.sub(r"\{(?!nullptr\})([a-z]+)([0-9]*)\}", value, text)

        try:
            args = tuple(filled(arg) for arg in call.args)
            function = filled(call.function)
        except (KeyError, IndexError) as error:
            raise MinunError(
                "emit.placeholder",
                f"operator '{node.op}' asks for {error}, which this call has not; correct its emit()",
                f"node '{node.name}'",
            ) from None
        self.kernels[function] = next((f for f in families if f != "index"), "index")
        return Statement(
            kind="call",
            comment=self._about(step, call),
            header=call.header,
            function=function,
            args=args,
            variant=call.variant,
        )

    def _about(self, step: CallStep, call: Call) -> str:
        node, prefix = step.binding.node, step.prefix
        outs = ", ".join(
            f"{n} {self.formats[prefix + n].name} {shape_text(s)}"
            for n, s in zip([n for n in node.outputs if n], step.binding.out_shapes, strict=True)
        )
        ins = ", ".join(n for n in node.inputs if n)
        variant = "" if call.variant == "generic" else f", {call.variant}"
        return f"{step.index}: {node.op} '{step.name}'{variant}: {ins} -> {outs}"

    def _pointer(self, place: Place, fmt: Format | None) -> str:
        """A C++ expression for the place; `fmt` None: as bytes."""
        width = 1 if fmt is None else element_bytes(fmt)
        if place.kind == "constant":
            text = self.pool.tensor(place.buffer)
            if fmt is not None:
                return text + _sum("", place, width)
            return f"reinterpret_cast<const uint8_t*>({text}){_sum('', place, 1)}"
        if place.kind == "arena":
            offset = self.placement.offsets[place.buffer] + place.offset
            at = _sum(str(offset), place, 1, shift=False)
            return f"arena + {at}" if fmt is None else f"minun::at<{code_type(fmt)}>(arena, {at})"
        ports = self.inputs if place.kind == "input" else self.outputs
        port = ports[place.buffer]
        base = "in" if place.kind == "input" else "out"
        if len(ports) > 1:
            base = f"{base}->{port.identifier}"
        if fmt is None:
            const = "const " if place.kind == "input" else ""
            return f"reinterpret_cast<{const}uint8_t*>({base}){_sum('', place, 1)}"
        return base + _sum("", place, width)

    def _arena(self) -> Arena:
        found = self.placement.plan
        names = {c.index: c.name for c in self.schedule.calls()}
        rows = []
        for b in sorted(self.schedule.buffers, key=lambda b: (self.placement.offsets[b.id], b.start, b.id)):
            held = ", ".join(f"{t} {self.formats[t].name}" for t in b.tensors) or "scratch"
            rows.append(ArenaRow(b.id, self.placement.offsets[b.id], b.size, b.start, b.end, held))
        return Arena(
            bytes=found.height,
            align=self.placement.align,
            lower_bound=found.lower_bound,
            status=found.status,
            planner=found.planner,
            certificate_step=found.certificate.step,
            certificate_where=names.get(found.certificate.step, ""),
            certificate_live=tuple(shown_name(n) for n in found.certificate.live),
            rows=tuple(rows),
            stages=tuple(Stage(s.name, s.peak, tuple(s.live)) for s in self.placement.stages),
        )

    def _vectors(self, input_codes: Mapping[str, Codes] | None) -> Vectors:
        if not input_codes:
            return Vectors()
        some = {name: codes[:16] for name, codes in input_codes.items()}
        done = run_codes(self.schedule.legal, some, cache=self.cache)
        outputs = {f"{n}#{k}": done.codes[n] for k, n in enumerate(self.graph.outputs)}
        samples = next(iter(some.values())).shape[0]
        return Vectors(samples, frames(self.inputs, some), frames(self.outputs, outputs))


def frames(ports: Mapping[str, Port], codes: Mapping[str, Codes]) -> str:
    """Base64 of the samples' frames, one after the other, as the board sees them in memory."""
    end = max(p.offset_bytes + p.bytes for p in ports.values())
    widest = max(p.code_bytes for p in ports.values())
    samples = next(iter(codes.values())).shape[0]
    whole = np.zeros((samples, -(-end // widest) * widest), dtype=np.uint8)
    for key, port in ports.items():
        array = np.ascontiguousarray(codes[key]).reshape(samples, -1)
        raw = array.astype(array.dtype.newbyteorder("<")).view(np.uint8).reshape(samples, -1)
        whole[:, port.offset_bytes : port.offset_bytes + port.bytes] = raw
    return base64.b64encode(whole.tobytes()).decode("ascii")


def _sum(base: str, place: Place, width: int, shift: bool = True) -> str:
    """`base + offset + stride * t`, in units of `width` bytes; the offset is in `base` unless `shift`."""
    text = base
    if shift and place.offset:
        text += f" + {place.offset // width}"
    for variable, stride in place.strides:
        text += f" + {stride // width} * {variable}"
    return text
