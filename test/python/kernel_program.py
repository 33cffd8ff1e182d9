# SPDX-License-Identifier: Apache-2.0
"""Kernel calls of many operator cases as one C++ program, run on the host or an emulated board."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.board.bare import build_and_run
from minun_pio.ir import Node, Shape
from minun_pio.numerics.format import Codes, Format, element_bytes
from minun_pio.ops import REGISTRY
from minun_pio.ops.literals import float_literal
from minun_pio.ops.operator import Binding, Call, Table, Traits

ROOT = Path(__file__).resolve().parents[2]
SANITISERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@dataclass(frozen=True)
class Case:
    """One operator with everything bound. `inputs` are codes (samples, *shape) of the activations, by index;
    `constants` are values by index. `overlap` puts the output as far over input 0 as the traits allow,
    `reverse` in reverse raster order."""

    op: str
    inputs: dict[int, Codes]
    constants: dict[int, NDArray[np.float64]]
    formats: dict[int, Format]
    out_format: Format
    attrs: dict[str, Any] = field(default_factory=dict)
    overlap: bool = False
    reverse: bool = False
    small_scratch: bool = False

    def node(self) -> Node:
        count = max(self.formats) + 1
        names = tuple(f"t{i}" if i in self.formats else "" for i in range(count))
        return Node("case", self.op, names, ("y",), self.attrs)

    def binding(self, core: str) -> Binding:
        count = max(self.formats) + 1
        shapes: list[Shape | None] = [None] * count
        for index, codes in self.inputs.items():
            shapes[index] = tuple(codes.shape[1:])
        for index, values in self.constants.items():
            shapes[index] = tuple(values.shape)
        constants = tuple(self.constants.get(i) for i in range(count))
        out = REGISTRY[self.op].infer_shapes(self.node(), shapes, constants)
        formats = tuple(self.formats.get(i) for i in range(count))
        return Binding(
            self.node(),
            tuple(shapes),
            formats,
            constants,
            tuple(out),
            (self.out_format,),
            core=core,
            small_scratch=self.small_scratch,
        )

    def expected(self) -> Codes:
        count = max(self.formats) + 1
        arrays: list[Codes | None] = [None] * count
        for index, codes in self.inputs.items():
            arrays[index] = codes
        for index, values in self.constants.items():
            arrays[index] = self.formats[index].encode(np.asarray(values, np.float64))[None]
        formats = [self.formats.get(i) for i in range(count)]
        return REGISTRY[self.op].simulate(self.node(), arrays, formats, [self.out_format])[0]


def run(core: str, cases: Sequence[Case], **options: Any) -> tuple[list[Codes], list[Call], Any]:
    """Outputs of every case, (samples, *out shape), the calls made, and the board's Run."""
    operators = [REGISTRY[case.op] for case in cases]
    chosen_for = options.pop("chosen_for", core)
    count_slow = options.pop("count_slow", False)
    bindings = [case.binding(chosen_for) for case in cases]
    calls = [op.emit(binding) for op, binding in zip(operators, bindings, strict=True)]
    traits = [op.traits(binding) for op, binding in zip(operators, bindings, strict=True)]
    folder = Path(options.pop("folder"))
    source = folder / f"cases_{core}.cpp"
    bodies = [
        _case_text(i, case, binding, call, trait)
        for i, (case, binding, call, trait) in enumerate(zip(cases, bindings, calls, traits, strict=True))
    ]
    headers = sorted({call.header for call in calls})
    text = '#include "bare.h"\n' + "".join(f'#include "{header}"\n' for header in headers)
    text += "".join(bodies)
    calls_text = "".join(f"  case{i}();\n" for i in range(len(cases)))
    if count_slow:
        options["defines"] = ["MINUN_COUNT_SLOW_PATH"]
        text += f'extern "C" {{\nuint32_t minun_slow_path_count;\n}}\nstatic uint32_t counts[{len(cases)}];\n'
        calls_text = "".join(
            f"  case{i}();\n  counts[{i}] = minun_slow_path_count;\n" for i in range(len(cases))
        )
        calls_text += "  bare::write(counts, sizeof counts);\n"
    text += f"int main() {{\n{calls_text}  return 0;\n}}\n"
    source.write_text(text)
    options.setdefault("cflags", ("-O2",))
    result = build_and_run(core, [source], include_dirs=[ROOT / "include"], **options)
    outputs: list[Codes] = []
    at = 0
    for case, binding in zip(cases, bindings, strict=True):
        samples = next(iter(case.inputs.values())).shape[0]
        shape = (samples, *binding.out_shapes[0])
        size = math.prod(shape) * element_bytes(case.out_format)
        outputs.append(np.frombuffer(result.output[at : at + size], case.out_format.storage).reshape(shape))
        at += size
    assert at == len(result.output) - (4 * len(cases) if count_slow else 0)
    return outputs, calls, result


def mismatches(core: str, cases: Sequence[Case], **options: Any) -> list[str]:
    """One line a case whose board output is not the simulation's."""
    outputs, calls, _ = run(core, cases, **options)
    lines = []
    for case, output, call in zip(cases, outputs, calls, strict=True):
        expected = case.expected()
        same = output.view(np.uint8) == np.ascontiguousarray(expected).view(np.uint8)
        if output.shape != expected.shape or not same.all():
            formats = ", ".join(fmt.name for fmt in case.formats.values())
            where = np.argwhere(output != expected)[:3].tolist()
            lines.append(
                f"{case.op} {call.variant} [{formats}] -> {case.out_format.name}: "
                f"{np.sum(output != expected)} of {output.size} differ, first at {where}: "
                f"{output[output != expected][:3]} for {expected[output != expected][:3]}"
            )
    return lines


def _c_type(dtype: np.dtype[Any]) -> str:
    return "float" if dtype == np.float32 else f"{dtype.name}_t"


def _literal(value: Any, ctype: str) -> str:
    if ctype == "float":
        return float_literal(float(value))
    number = int(value)
    if ctype == "int64_t":
        return "INT64_MIN" if number == -(1 << 63) else f"INT64_C({number})"
    if ctype == "int32_t":
        return "INT32_MIN" if number == -(1 << 31) else f"INT32_C({number})"
    return str(number)


def _array(name: str, ctype: str, values: Sequence[Any], align: int = 1) -> str:
    body = ", ".join(_literal(value, ctype) for value in values) or "0"
    aligned = f"__attribute__((aligned({align}))) " if align > 1 else ""
    return f"static const {ctype} {name}[] {aligned}MINUN_FLASH = {{{body}}};\n"


def _case_text(number: int, case: Case, binding: Binding, call: Call, traits: Traits) -> str:
    prefix = f"k{number}_"
    text = ""
    values: dict[str, str] = {"scratch": "scratch", "reverse": "true" if case.reverse else "false"}
    for i, table in enumerate(call.tables):
        text += _array(f"{prefix}table{i}", table.ctype, table.values, table.align)
        values[f"table{i}"] = f"{prefix}table{i}"
    for index, constant in case.constants.items():
        table = call.constant_codes.get(index)
        if table is None:
            codes = case.formats[index].encode(np.asarray(constant, np.float64))
            table = Table(_c_type(codes.dtype), tuple(codes.ravel().tolist()), "c", codes.dtype.itemsize)
        text += _array(f"{prefix}in{index}", table.ctype, table.values, table.align)
        values[f"in{index}"] = f"{prefix}in{index}"
    samples = next(iter(case.inputs.values())).shape[0]
    out_ctype = _c_type(np.dtype(case.out_format.storage))
    out_bytes = math.prod(binding.out_shapes[0]) * element_bytes(case.out_format)
    distance, in_offset, room = 0, 0, 0
    if case.overlap:
        in_bytes = case.inputs[0].nbytes // samples
        offered = traits.overlaps[0]
        least = offered.reverse_bytes if case.reverse else offered.forward_bytes
        assert least is not None
        distance = -(-least // 8) * (-8 if case.reverse else 8)
        in_offset = max(distance, 0)
        room = max(in_offset + in_bytes, in_offset - distance + out_bytes)
    body = ""
    for index, codes in case.inputs.items():
        ctype = _c_type(codes.dtype)
        text += _array(f"{prefix}x{index}", ctype, codes.ravel().tolist())
        size = codes[0].size
        if case.overlap and index == 0:
            body += f"    static uint8_t arena[{room}] __attribute__((aligned(8)));\n"
            body += f"    {ctype}* const in0 = reinterpret_cast<{ctype}*>(arena + {in_offset});\n"
        else:
            body += f"    static {ctype} in{index}[{size}];\n"
        body += (
            f"    minun::flash_copy(in{index}, {prefix}x{index} + {size} * s, {size} * sizeof({ctype}));\n"
        )
        values[f"in{index}"] = f"in{index}"
    if case.overlap:
        body += (
            f"    {out_ctype}* const y = reinterpret_cast<{out_ctype}*>(arena + {in_offset - distance});\n"
        )
    else:
        body += f"    static {out_ctype} y[{math.prod(binding.out_shapes[0])}];\n"
    values["out0"] = "y"
    body += f"    static uint8_t scratch[{max(traits.scratch_bytes, 1)}]"
    body += f" __attribute__((aligned({max(traits.scratch_align, 1)})));\n    (void)scratch;\n"
    arguments = ", ".join(_fill(argument, values) for argument in call.args)
    kernel = _fill(call.function, values)
    mark = number % 250
    body += f"    bare::begin({mark});\n    {kernel}({arguments});\n    bare::end({mark});\n"
    body += f"    bare::write(y, {out_bytes});\n"
    loop = f"  for (int s = 0; s < {samples}; ++s) {{\n{body}  }}\n"
    return text + f"static MINUN_NOINLINE void case{number}() {{\n{loop}}}\n"


def _fill(argument: str, values: dict[str, str]) -> str:
    for key, value in values.items():
        argument = argument.replace("{" + key + "}", value)
    return argument
