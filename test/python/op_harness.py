# SPDX-License-Identifier: Apache-2.0
"""Runs operator cases on the host and compiled from the device headers, and compares every bit.

A case names an operator, its attributes, shapes and formats. Inputs are random and edge codes (zero, NaR, the
smallest and largest numbers, neighbours of one). Many cases are compiled together; every memory trait that a
case declares (in place, overlap, view) is run at its closest allowed distance as well.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.board.bare import build, build_and_run
from minun_pio.errors import MinunError
from minun_pio.ir import Node
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Format, element_bytes
from minun_pio.numerics.index import Index32
from minun_pio.numerics.posit import Posit
from minun_pio.ops import REGISTRY
from minun_pio.ops.literals import float_literal
from minun_pio.ops.operator import Binding, Call, Traits

ROOT = Path(__file__).resolve().parents[2]
_C_TYPES = {
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "float32": "float",
}
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror")
"""What a user's strict project may ask of our headers."""
BOARD_FLAGS = ("-Os", "-std=c++11", *STRICT, "-Wno-div-by-zero")
HOST_FLAGS = (
    *BOARD_FLAGS[1:],
    "-O1",
    "-ffp-contract=off",
    "-fsanitize=undefined",
    "-fno-sanitize-recover=all",
)


@dataclass(frozen=True)
class Case:
    """One operator with everything fixed. `constants` holds the indices of the constant inputs."""

    op: str
    shapes: tuple[tuple[int, ...], ...]
    formats: tuple[Format, ...]
    out_formats: tuple[Format, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    constants: frozenset[int] = frozenset()
    samples: int = 4
    seed: int = 0
    spread: float = 1.0  # typical magnitude of the values
    tame: bool = False  # only values of that magnitude, no edge codes
    codes: Mapping[int, NDArray[Any]] = field(default_factory=dict)  # given instead of random ones

    @property
    def label(self) -> str:
        ins = " ".join(
            f"{fmt.name}{list(shape)}" for fmt, shape in zip(self.formats, self.shapes, strict=True)
        )
        outs = " ".join(fmt.name for fmt in self.out_formats)
        return f"{self.op} {dict(self.attrs)} {ins} -> {outs}"


def edge_codes(fmt: Format) -> NDArray[Any]:
    """Codes at which kernels break: both ends, zero and its neighbours, one, NaR or the floats' specials."""
    storage = np.dtype(fmt.storage)
    if fmt.family == "float":
        values = np.array([0.0, -0.0, 1.0, -1.0, 1e-30, -3e4, 6e4, 0.5, 1.5, 1e-40], np.float64)
        return fmt.encode(values)
    low, high = -(1 << (fmt.bits - 1)), (1 << (fmt.bits - 1)) - 1
    one = int(fmt.encode(np.asarray([1.0]))[0])
    listed = [0, 1, -1, 2, -2, high, high - 1, low + 1, low + 2, low, one, one - 1, one + 1, -one]
    return np.clip(np.array(listed, np.int64), low, high).astype(storage)


def random_codes(
    rng: np.random.Generator, fmt: Format, shape: tuple[int, ...], spread: float, tame: bool = False
) -> NDArray[Any]:
    """Codes of normally distributed values, some uniform over all codes, some edge codes."""
    if isinstance(fmt, Affine) and (fmt.axis is not None or fmt.width == 32):  # weights and biases
        limit = 127 if fmt.width == 8 else 2000
        return rng.integers(-limit, limit + 1, shape).astype(fmt.storage)
    values = rng.normal(0.0, spread, shape)
    codes = np.asarray(fmt.encode(values))
    if tame:
        return np.ascontiguousarray(codes)
    if fmt.family != "float":
        uniform = rng.integers(-(1 << (fmt.bits - 1)) + 1, 1 << (fmt.bits - 1), shape).astype(fmt.storage)
        codes = np.where(rng.random(shape) < 0.25, uniform, codes)
    codes = np.where(rng.random(shape) < 0.08, rng.choice(edge_codes(fmt), shape), codes)
    return np.ascontiguousarray(codes)


@dataclass(frozen=True)
class Prepared:
    """A case with its codes, what the simulation says, and what the kernel is called with."""

    case: Case
    node: Node
    binding: Binding
    inputs: tuple[NDArray[Any], ...]
    expected: tuple[NDArray[Any], ...]
    call: Call
    traits: Traits


def prepare(case: Case, core: str = "host") -> Prepared:
    """Draws the codes, simulates, emits."""
    operator = REGISTRY[case.op]
    rng = np.random.default_rng(case.seed + 7)
    inputs = []
    for index, (shape, fmt) in enumerate(zip(case.shapes, case.formats, strict=True)):
        samples = 1 if index in case.constants else case.samples
        if index in case.codes:
            drawn = np.broadcast_to(case.codes[index], (samples, *shape)).astype(fmt.storage)
        elif isinstance(fmt, Index32):
            drawn = rng.integers(-2, 4, (samples, *shape)).astype(np.int32)
        else:
            drawn = random_codes(rng, fmt, (samples, *shape), case.spread, case.tame)
        if index in case.constants and isinstance(fmt, Posit):  # a network's constants are numbers
            drawn = np.where(drawn == fmt.nar, np.zeros((), drawn.dtype), drawn)
        inputs.append(np.ascontiguousarray(drawn))
    constants = tuple(
        fmt.decode(codes[0]) if index in case.constants else None
        for index, (codes, fmt) in enumerate(zip(inputs, case.formats, strict=True))
    )
    outputs = tuple(f"y{i}" for i in range(len(case.out_formats)))
    node = Node("case", case.op, tuple(f"x{i}" for i in range(len(inputs))), outputs, dict(case.attrs))
    out_shapes = tuple(operator.infer_shapes(node, case.shapes, constants))
    binding = Binding(node, case.shapes, case.formats, constants, out_shapes, case.out_formats, core)
    expected = operator.simulate(node, inputs, case.formats, case.out_formats)
    for found, shape, fmt in zip(expected, out_shapes, case.out_formats, strict=True):
        assert found.shape[1:] == shape, f"{case.label}: simulated {found.shape[1:]}, inferred {shape}"
        assert found.dtype == fmt.storage, f"{case.label}: {found.dtype} codes, {fmt.storage} expected"
    whole = tuple(np.broadcast_to(found, (case.samples, *found.shape[1:])) for found in expected)
    return Prepared(
        case, node, binding, tuple(inputs), whole, operator.emit(binding), operator.traits(binding)
    )


def _literal(value: Any, ctype: str) -> str:
    if ctype == "float":
        return float_literal(float(value))
    number = int(value)
    if ctype == "int64_t":
        return "INT64_MIN" if number == -(2**63) else f"{number}LL"
    return "INT32_MIN" if number == -(2**31) else str(number)


@dataclass(frozen=True)
class Placement:
    """One run of a case: byte offsets of inputs and outputs in one arena, or None for a constant."""

    label: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    size: int
    reverse: bool = False


def _round_up(value: int, align: int) -> int:
    return -(-value // align) * align


def placements(prepared: Prepared) -> list[Placement]:
    """Apart; then every in-place pair and view, every overlap at its closest in both raster directions."""
    case = prepared.case
    in_bytes = [
        0 if i in case.constants else int(np.prod(shape)) * element_bytes(fmt)
        for i, (shape, fmt) in enumerate(zip(case.shapes, case.formats, strict=True))
    ]
    out_bytes = [
        int(np.prod(shape)) * element_bytes(fmt)
        for shape, fmt in zip(prepared.binding.out_shapes, case.out_formats, strict=True)
    ]

    def apart() -> tuple[list[int | None], list[int], int]:
        offset = 64
        ins: list[int | None] = []
        outs: list[int] = []
        for index, size in enumerate(in_bytes):
            ins.append(None if index in case.constants else offset)
            offset = _round_up(offset + size, 8)
        for size in out_bytes:
            outs.append(offset)
            offset = _round_up(offset + size, 8)
        return ins, outs, offset + 64

    ins, outs, size = apart()
    found = [Placement("apart", tuple(ins), tuple(outs), size)]
    for i, o in prepared.traits.in_place:
        chosen = list(outs)
        chosen[o] = ins[i] or 0
        found.append(Placement(f"in place {i}", tuple(ins), tuple(chosen), size + out_bytes[o]))
    for view in prepared.traits.views:
        moved_ins, moved_outs = list(ins), list(outs)
        if view.output_inside:
            moved_outs[view.output_index] = (ins[view.input_index] or 0) + view.offset_bytes
        else:
            moved_ins[view.input_index] = outs[view.output_index] + view.offset_bytes
        found.append(Placement(f"view {view.input_index}", tuple(moved_ins), tuple(moved_outs), size))
    for overlap in prepared.traits.overlaps:
        i, o = overlap.input_index, overlap.output_index
        align = max(element_bytes(case.out_formats[o]), element_bytes(case.formats[i]))
        base = _round_up(size + 64, 8)
        for reverse, least in ((False, overlap.forward_bytes), (True, overlap.reverse_bytes)):
            if least is None:
                continue
            lead = _round_up(least, align)  # the input's over the output's offset, in reverse the other way
            ahead = _round_up(base + max(0, -lead), 8)
            moved_ins, moved_outs = list(ins), list(outs)
            moved_ins[i], moved_outs[o] = (ahead, ahead + lead) if reverse else (ahead + lead, ahead)
            top = ahead + max(0, lead) + max(in_bytes[i], out_bytes[o])
            label = f"overlap {i}{', reverse' if reverse else ''}"
            found.append(Placement(label, tuple(moved_ins), tuple(moved_outs), top + 64, reverse))
    return found


def _ctype(fmt: Format) -> str:
    return _C_TYPES[np.dtype(fmt.storage).name]


def _filled(text: str, known: Mapping[str, str]) -> str:
    """`text` with its placeholders replaced by what they stand for."""
    return re.sub(r"\{(\w+)\}", lambda match: known.get(match[1], match[0]), text)


def _source(index: int, prepared: Prepared, places: Sequence[Placement]) -> str:
    case, call = prepared.case, prepared.call
    lines = [f"namespace case{index} {{", f"// {case.label}"]
    for i, fmt in enumerate(case.formats):
        if i not in case.constants:
            continue
        replaced = call.constant_codes.get(i)
        if replaced is None:
            ctype, values = _ctype(fmt), prepared.inputs[i].ravel().tolist()
        else:
            ctype, values = replaced.ctype, list(replaced.values)
        listed = ", ".join(_literal(v, ctype) for v in values)
        lines.append(f"static const {ctype} constant{i}[] MINUN_FLASH = {{{listed}}};")
    for i, table in enumerate(call.tables):
        listed = ", ".join(_literal(v, table.ctype) for v in table.values)
        place = " MINUN_FLASH" if table.in_flash else ""
        align = f"alignas({table.align}) " if table.align > 1 else ""
        lines.append(f"{align}static const {table.ctype} table{i}[]{place} = {{{listed}}};")
    scratch = prepared.traits.scratch_bytes
    lines.append(f"static void run() {{  // {len(places)} placements")
    names = {f"table{i}": f"table{i}" for i in range(len(call.tables))}
    names.update({f"in{i}": f"constant{i}" for i in case.constants})
    names["scratch"] = "scratch"
    for place in places:
        known = dict(names)
        for i, (fmt, offset) in enumerate(zip(case.formats, place.inputs, strict=True)):
            if offset is not None:
                known[f"in{i}"] = f"reinterpret_cast<const {_ctype(fmt)}*>(arena + {offset})"
        for i, (fmt, offset) in enumerate(zip(case.out_formats, place.outputs, strict=True)):
            known[f"out{i}"] = f"reinterpret_cast<{_ctype(fmt)}*>(arena + {offset})"
        known["reverse"] = "true" if place.reverse else "false"
        args = [_filled(arg, known) for arg in call.args]
        lines.append(f"  for (int sample = 0; sample < {case.samples}; ++sample) {{  // {place.label}")
        for i, offset in enumerate(place.inputs):
            if offset is not None:
                size = prepared.inputs[i][0].nbytes
                lines.append(f"    if (!bare::read(arena + {offset}, {size})) return;")
        lines.append(f"    {_filled(call.function, known)}({', '.join(args)});")
        for found, offset in zip(prepared.expected, place.outputs, strict=True):
            lines.append(f"    bare::write(arena + {offset}, {found[0].nbytes});")
        lines.append("  }")
    lines.append("}")
    if scratch:
        lines.insert(1, f"alignas(8) static uint8_t scratch[{scratch}];")
    lines.append(f"}}  // namespace case{index}")
    return "\n".join(lines)


def _program(prepared: Sequence[Prepared], placed: Sequence[list[Placement]]) -> str:
    """The source of a program that runs all cases."""
    size = max(place.size for places in placed for place in places)
    headers = sorted({one.call.header for one in prepared})
    source = ['#include "bare.h"', *(f'#include "{header}"' for header in headers)]
    source.append(f"alignas(8) static uint8_t arena[{size}];")
    source += [_source(i, one, places) for i, (one, places) in enumerate(zip(prepared, placed, strict=True))]
    source.append("int main() {")
    source += [f"  case{i}::run();" for i in range(len(prepared))]
    source += ["  return 0;", "}"]
    return "\n".join(source) + "\n"


def device_mismatches(
    cases: Sequence[Case],
    folder: Path,
    core: str = "host",
    flags: Sequence[str] = HOST_FLAGS,
    mcu: str | None = None,
) -> list[str]:
    """What the compiled kernels compute differently from the simulation; empty when every bit agrees."""
    prepared = [prepare(case, core) for case in cases]
    placed = [placements(one) for one in prepared]
    program = folder / f"cases_{core}.cpp"
    program.write_text(_program(prepared, placed), encoding="utf-8")
    stdin = bytearray()
    for one, places in zip(prepared, placed, strict=True):
        for _ in places:
            for sample in range(one.case.samples):
                for i, codes in enumerate(one.inputs):
                    if i not in one.case.constants:
                        stdin += codes[sample].tobytes()
    run = build_and_run(
        core,
        [program],
        cflags=tuple(flags),
        include_dirs=[ROOT / "include"],
        stdin_bytes=bytes(stdin),
        mcu=mcu,
    )
    return _compare(prepared, placed, run.output)


def failing(
    cases: Sequence[Case], folder: Path, core: str, flags: Sequence[str], mcu: str | None = None
) -> list[str]:
    """`device_mismatches`, a case that cannot even be built counting as one."""
    try:
        return device_mismatches(cases, folder, core, flags, mcu)
    except MinunError as error:
        return [str(error)]


def linked_symbols(cases: Sequence[Case], core: str = "m7") -> Mapping[str, int]:
    """Symbols, and their bytes, of an image that holds the kernels of these cases, not inlined."""
    prepared = [prepare(case, core) for case in cases]
    placed = [placements(one)[:1] for one in prepared]
    flags = ("-Os", "-std=c++11", "-fno-inline-functions-called-once")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "size.cpp"
        program.write_text(_program(prepared, placed), encoding="utf-8")
        elf = Path(folder) / "size.elf"
        return build(core, [program], elf, cflags=flags, include_dirs=[ROOT / "include"]).symbols


def kernel_bytes(cases: Sequence[Case], core: str = "m7") -> int:
    """Bytes of our kernels in an image of these cases: everything in namespace minun, without weights."""
    return sum(size for name, size in linked_symbols(cases, core).items() if "5minun" in name)


def _compare(prepared: Sequence[Prepared], placed: Sequence[list[Placement]], output: bytes) -> list[str]:
    problems: list[str] = []
    at = 0
    for one, places in zip(prepared, placed, strict=True):
        for place in places:
            for sample in range(one.case.samples):
                for index, expected in enumerate(one.expected):
                    want = expected[sample]
                    raw = output[at : at + want.nbytes]
                    at += want.nbytes
                    if len(raw) < want.nbytes:
                        return [*problems, f"{one.case.label}: output ended early"]
                    got = np.frombuffer(raw, want.dtype).reshape(want.shape)
                    equal = _equal(got, want, one.case.out_formats[index])
                    if not equal.all():
                        wrong = np.argwhere(~equal)[0]
                        spot = tuple(int(v) for v in wrong)
                        inputs = [codes[sample % codes.shape[0]].ravel()[:6].tolist() for codes in one.inputs]
                        problems.append(
                            f"{one.case.label} [{place.label}] sample {sample} output {index} at {spot}: "
                            f"device {got[spot]}, host {want[spot]}; inputs start {inputs}"
                        )
    if at != len(output):
        problems.append(f"{len(output) - at} bytes of output too many")
    return problems


def _equal(a: NDArray[Any], b: NDArray[Any], fmt: Format) -> NDArray[np.bool_]:
    """Where codes have the same bits; of floats, any NaN is as good as any other."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    same = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    if fmt.family == "float":
        same |= np.isnan(fmt.decode(a)) & np.isnan(fmt.decode(b))
    return same


def reference_gap(case: Case) -> float:
    """Largest |simulated - reference| where both are finite, relative to the largest reference magnitude."""
    prepared = prepare(case)
    operator = REGISTRY[case.op]
    real = [fmt.decode(codes) for codes, fmt in zip(prepared.inputs, case.formats, strict=True)]
    gap = 0.0
    wanted_all = operator.reference(prepared.node, real)
    for wanted, codes, fmt in zip(wanted_all, prepared.expected, case.out_formats, strict=True):
        got = fmt.decode(codes)
        fine = np.isfinite(wanted) & np.isfinite(got)
        if fine.any():
            top = float(np.abs(wanted[fine]).max()) or 1.0
            gap = max(gap, float(np.abs(wanted - got)[fine].max()) / top)
    return gap
