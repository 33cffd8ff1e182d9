# SPDX-License-Identifier: Apache-2.0
"""Which fast dense kernel a layer's constants allow; None where only the exact sum is right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Codes, Format, element_bytes
from minun_pio.numerics.posit import Posit
from minun_pio.ops.guards import Guard
from minun_pio.ops.linear import clip_argument, encoded, optional
from minun_pio.ops.operator import Binding, Call, InputGuard, Table
from minun_pio.ops.proofs import (
    Exact,
    finest_unit,
    integers_at,
    largest_row,
    long_plan,
    lookup_table,
    piecewise_weights,
)

_DSP_CORES = ("m4", "m7")
_TILE_ROWS, _AVR_TILE_ROWS, _TILE_INPUTS = 16, 8, 32  # minun::kTileRows, kAvrTileRows, kTileInputs
NO_EXCEPTIONS = "minun::Exceptions{nullptr, nullptr, 0}"
_FOUR = 4  # rows whose weights are interleaved (minun::Interleaved<4>)


@dataclass(frozen=True)
class Chosen:
    """A fast kernel. `arguments` stand after inputs, weights, bias and output in the call."""

    function: str
    arguments: tuple[str, ...]
    weights: Table
    variant: str
    bias: Table | None = None
    tables: tuple[Table, ...] = ()
    scratch_bytes: int = 0
    header: str = "minun/dense_fast.h"
    guard: InputGuard | None = None  # None: no input takes the exact sums
    gathered: bool = True  # the kernel reads a row of inputs whole before it writes that row's outputs

    def call(self) -> Call:
        bias = "nullptr" if self.bias is None else f"{{table{len(self.tables)}}}"
        scratch = ("{scratch}",) if self.scratch_bytes else ()
        return Call(
            header=self.header,
            function=self.function,
            args=("{in0}", "{in1}", bias, "{out0}", *scratch, *self.arguments),
            tables=self.tables if self.bias is None else (*self.tables, self.bias),
            constant_codes={1: self.weights},
            variant=self.variant,
            guard=self.guard,
        )


def choose(binding: Binding) -> Chosen | None:
    """The cheapest kernel whose sums are proven exact for these weights."""
    x, w, out = binding.formats[0], binding.formats[1], binding.out_formats[0]
    if isinstance(x, Fixed) and isinstance(w, Fixed) and isinstance(out, Fixed):
        return _fixed(binding, x, w, out)
    if isinstance(x, Posit) and isinstance(w, Posit) and isinstance(out, Posit) and max(x.n, w.n) <= 16:
        if binding.core == "avr":
            from minun_pio.ops.avr_kernels import choose_avr  # which takes its parts from here

            return choose_avr(binding, x, w, out)
        return _short(binding, x, w, out) or _long(binding, x, w, out)
    return None


def extents(binding: Binding) -> tuple[int, int, int]:
    """Rows, inputs, outputs."""
    out_shape, shape = binding.out_shapes[0], binding.shapes[0]
    assert shape is not None
    rows = 1
    for extent in out_shape[:-1]:
        rows *= extent
    return rows, shape[-1], out_shape[-1]


def interleaved(codes: Codes) -> Table:
    """Weights (outputs, inputs) in minun::Interleaved<4>'s order."""
    outputs, inputs = codes.shape
    whole = outputs - outputs % _FOUR
    grouped = codes[:whole].reshape(-1, _FOUR, inputs).transpose(0, 2, 1).ravel()
    flat = np.concatenate([grouped, codes[whole:].ravel()])
    dtype = flat.dtype
    return Table(f"{dtype.name}_t", tuple(flat.tolist()), "weights", align=max(4, dtype.itemsize))


def row_major(codes: Codes) -> Table:
    """Weights in their own order."""
    return Table(
        f"{codes.dtype.name}_t", tuple(codes.ravel().tolist()), "weights", align=codes.dtype.itemsize
    )


def bias_type(binding: Binding) -> str:
    """The bias's format in C++; the output's when there is no bias."""
    fmt: Format | None = optional(binding.formats, 2)
    return binding.out_formats[0].cpp if fmt is None else fmt.cpp


def paired(codes: Codes, value_bytes: int) -> Table:
    """int8 weights (outputs, inputs) in minun::Paired's order."""
    outputs, inputs = codes.shape
    whole, blocks = outputs - outputs % _FOUR, inputs // 4
    order = [0, 1, 2, 3] if value_bytes == 1 else [0, 2, 1, 3]
    pieces = []
    for row in range(0, whole, _FOUR):
        group = codes[row : row + _FOUR]
        blocked = group[:, : 4 * blocks].reshape(_FOUR, blocks, 4)[:, :, order]
        pieces += [blocked.transpose(1, 0, 2).ravel(), group[:, 4 * blocks :].T.ravel()]
    flat = np.concatenate([*pieces, codes[whole:].ravel()])
    return Table("int8_t", tuple(flat.tolist()), "weights", align=4)


def plain_weights(core: str, codes: Codes, value: np.dtype[Any], total: int) -> tuple[str, Table]:
    """The Method for weights whose codes are integers, and the weights as it wants them."""
    if core in _DSP_CORES and codes.dtype == np.int8 and value.itemsize <= 2 and total == 32:
        return f"minun::Paired<{value.name}_t>", paired(codes, value.itemsize)
    return f"minun::Plain<{value.name}_t, {codes.dtype.name}_t, int{total}_t>", interleaved(codes)


def bias_codes(binding: Binding) -> tuple[Codes | None, Exact | None]:
    """The bias's codes and format, (None, None) when there is none or all are zero."""
    values, fmt = optional(binding.constants, 2), optional(binding.formats, 2)
    if values is None or not isinstance(fmt, Posit | Fixed):
        return None, None
    codes = encoded(np.asarray(values).ravel(), fmt)
    return (codes, fmt) if np.any(codes) else (None, None)


def short_bias(
    codes: Codes | None, fmt: Exact | None, unit: int, row: int, bound: int, bits: int
) -> tuple[bool, Table | None]:
    """Whether a sum of `bits` holds row * bound + |bias|, and the bias as integers at `unit`."""
    most = 0
    table = None
    if codes is not None and fmt is not None:
        if finest_unit(codes, fmt) < unit:
            return False, None
        integers = integers_at(codes, fmt, unit).tolist()
        most = max(abs(v) for v in integers)
        table = Table(f"int{bits}_t", tuple(integers), f"bias{bits}", align=bits // 8)
    return row * bound + most < 1 << (bits - 1), table


def _fixed(binding: Binding, x: Fixed, w: Fixed, out: Fixed) -> Chosen | None:
    if max(x.width, w.width) > 16:
        return None
    weights = encoded(np.asarray(binding.constants[1]), w)
    unit = x.scale_exp + w.scale_exp
    row, bound = largest_row(weights.astype(np.int64)), 1 << (x.width - 1)
    for bits in (32, 64):
        safe, bias = short_bias(*bias_codes(binding), unit, row, bound, bits)
        name = _avr_fixed(binding, x, w, row * bound, bits) if safe else None
        if name is not None:
            return Chosen(
                function=f"minun::{name[0]}<{out.cpp}, {name[1]}{unit}>",
                arguments=(*map(str, extents(binding)), clip_argument(binding.node, out)),
                weights=row_major(weights),
                bias=bias,
                header="minun/dense_avr.h",
                variant=f"integer, {name[2]}-bit sum",
            )
        if safe:
            method, table = plain_weights(binding.core, weights, x.storage, bits)
            return Chosen(
                function=f"minun::dense_fixed<{out.cpp}, {method}, {unit}>",
                arguments=(*map(str, extents(binding)), clip_argument(binding.node, out)),
                weights=table,
                bias=bias,
                variant=f"integer, {bits}-bit sum",
            )
    return None


def _avr_fixed(binding: Binding, x: Fixed, w: Fixed, most: int, bits: int) -> tuple[str, str, int] | None:
    """The AVR kernel of these widths, its argument before the unit, and the bits of its inner sums."""
    if binding.core != "avr":
        return None
    widths = (element_bytes(x), element_bytes(w))
    if widths == (1, 1) and bits == 32:
        return "dense_avr_fixed8", "", 24
    if widths == (2, 2) and most < 1 << 39:
        return "dense_avr_fixed16", f"int{bits}_t, ", 40
    return None


def _short(binding: Binding, x: Posit, w: Posit, out: Posit) -> Chosen | None:
    """posit<8,0>: 32-bit sums."""
    if x.es != 0 or w.es != 0 or max(x.n, w.n) > 8:
        return None
    weights = encoded(np.asarray(binding.constants[1]), w)
    weight_unit = w.unit_exponent
    unit = x.unit_exponent + weight_unit
    integers = integers_at(weights, w, weight_unit)
    bound = 1 << (2 * x.max_scale)
    safe, bias = short_bias(*bias_codes(binding), unit, largest_row(integers), bound, 32)
    if not safe:
        return None
    plain = bool(np.all(integers == weights.astype(np.int64)))
    table, _ = lookup_table(w, weight_unit, "int16_t")
    method, ordered = "minun::Lookup<int16_t, int16_t, int32_t>", interleaved(weights)
    if plain:
        method, ordered = plain_weights(binding.core, weights, np.dtype(np.int16), 32)
    decoder = f"minun::NarrowValues<{x.cpp}>"
    chosen = Chosen(
        function=f"minun::dense_short<{out.cpp}, {x.cpp}, {method}, {decoder}, {unit}>",
        arguments=(
            "nullptr" if plain else "{table0}",
            *map(str, extents(binding)),
            clip_argument(binding.node, out),
        ),
        weights=ordered,
        bias=bias,
        tables=() if plain else (table,),
        scratch_bytes=2 * extents(binding)[1],
        variant="codes are values" if plain else "table",
    )
    if not binding.small_scratch:
        return chosen
    types = f"{out.cpp}, {x.cpp}, {w.cpp}, {bias_type(binding)}, {method}, {decoder}"
    tail = (short_plan(weight_unit, unit), NO_EXCEPTIONS, f"{decoder}()")
    return tiled(chosen, binding, types, tail, sum_bytes=4)


def short_plan(weight_unit: int, unit: int) -> str:
    """A `minun::SumPlan` that every input passes."""
    return f"minun::SumPlan{{{weight_unit}, 0, {unit}, 31, 64, -1024}}"


def tiled(
    chosen: Chosen,
    binding: Binding,
    types: str,
    tail: tuple[str, ...],
    sum_bytes: int,
    value_bytes: int | None = None,
) -> Chosen:
    """The same kernel with its inputs decoded a tile at a time, if that takes less scratch.

    `tail`: the plan, the exceptions and the decoder. A value has `value_bytes`, otherwise
    `chosen.scratch_bytes / inputs`.
    """
    _, inputs, outputs = extents(binding)
    avr = binding.core == "avr"
    rows = _AVR_TILE_ROWS if avr else _TILE_ROWS
    scratch = rows * sum_bytes + _TILE_INPUTS * (value_bytes or chosen.scratch_bytes // inputs)
    if scratch >= chosen.scratch_bytes:
        return chosen
    name = "dense_avr_tiled" if avr else "dense_tiled"
    return replace(
        chosen,
        function=f"minun::{name}<{types}>",
        arguments=(*chosen.arguments[:5], *tail),
        scratch_bytes=scratch,
        header=f"minun/{name}.h",
        gathered=outputs <= rows,
        variant=f"{chosen.variant}, in tiles",
    )


@dataclass(frozen=True)
class LongKernel:
    """What dense and conv with 64-bit sums share."""

    method: str
    weight_type: str
    weight_codes: Codes
    plan: str
    decoder: str
    decoder_braces: str
    exceptions: tuple[tuple[int, int, int], ...]
    bias: Table | None
    table: Table
    variant: str
    guard: Guard


def long_kernel(weights: Codes, binding: Binding, x: Posit, w: Posit, elements: int) -> LongKernel | None:
    """`weights` (outputs, inputs) as codes of `w`; the kernel looks at `elements` inputs together."""
    bias, bias_format = bias_codes(binding)
    if w.n <= 8:
        unit = w.unit_exponent
        table, fits = lookup_table(w, unit, "int32_t")
        if not fits[weights.view(np.uint8)].all():
            return None
        row = largest_row(integers_at(weights, w, unit))
        plan = long_plan(row, unit, 0, bias, bias_format)
        if plan is None:
            return None
        decoder, braces = f"minun::SpanValues<{x.cpp}>", "()"
        limit = None
        if x == w and plan.holds(unit, 1 << 31, row):
            limit = _first_code_too_large(w, fits)
            decoder = f"minun::TableValues<{x.cpp}, {unit}, {limit}>"
            braces = "{{table0}}"
            plan = plan.at_unit(unit)
        method = "minun::Lookup<int32_t, int32_t, int64_t>"
        return LongKernel(
            *(method, w.cpp, weights, plan.cpp, decoder, braces, ()),
            *(plan.bias_table(), table, "table", Guard(x, plan, elements, limit=limit)),
        )
    aligned = (weights.astype(np.int32) << (16 - w.n)).astype(np.int16)
    pieces = piecewise_weights(aligned, w.es)
    if pieces is None:
        return None
    plan = long_plan(pieces.row, pieces.weight_unit, pieces.fine_bits, bias, bias_format)
    if plan is None:
        return None
    plan = plan.at_unit(pieces.table_unit)
    return LongKernel(
        "minun::Piecewise",
        Posit(16, w.es).cpp,
        aligned,
        plan.cpp,
        *_piece_values(x, w, pieces.table_unit),
        pieces.exceptions,
        plan.bias_table(),
        pieces.table,
        f"piecewise, {len(pieces.exceptions)} exceptions",
        Guard(x, plan, elements, unit_limit=pieces.table_unit if x.es == w.es and x.n > 8 else 64),
    )


def _piece_values(x: Posit, w: Posit, unit: int) -> tuple[str, str]:
    """How activations are decoded beside piecewise weights: with their table where that knows the format."""
    if x.es == w.es and x.n > 8:
        return f"minun::PieceValues<{x.cpp}>", "{{table0}, " + str(unit) + "}"
    return f"minun::SpanValues<{x.cpp}>", "()"


def _first_code_too_large(fmt: Posit, fits: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    """The first positive code that the table does not hold."""
    for code in range(1, fmt.max_code + 1):
        if not fits[code]:
            return code
    return fmt.max_code + 1


def exception_tables(
    exceptions: tuple[tuple[int, int, int], ...], first: int
) -> tuple[tuple[Table, ...], str]:
    """Tables of the exceptions and the argument that names them, the first of them being table `first`."""
    if not exceptions:
        return (), NO_EXCEPTIONS
    places = tuple(number for row, column, _ in exceptions for number in (row, column))
    tables = (
        Table("uint16_t", places, "places", align=2),
        Table("int32_t", tuple(value for *_, value in exceptions), "exceptions", align=4),
    )
    return tables, f"minun::Exceptions{{{{table{first}}}, {{table{first + 1}}}, {len(exceptions)}}}"


def _long(binding: Binding, x: Posit, w: Posit, out: Posit) -> Chosen | None:
    weights = encoded(np.asarray(binding.constants[1]), w)
    kernel = long_kernel(weights, binding, x, w, weights.shape[1])
    if kernel is None:
        return None
    odd_tables, odd = exception_tables(kernel.exceptions, 1)
    types = (
        f"{out.cpp}, {x.cpp}, {kernel.weight_type}, {bias_type(binding)}, {kernel.method}, {kernel.decoder}"
    )
    tail = (kernel.plan, odd, kernel.decoder + kernel.decoder_braces)
    chosen = Chosen(
        function=f"minun::dense_long<{types}>",
        arguments=("{table0}", *map(str, extents(binding)), clip_argument(binding.node, out), *tail),
        weights=interleaved(kernel.weight_codes),
        bias=kernel.bias,
        tables=(kernel.table, *odd_tables),
        scratch_bytes=4 * extents(binding)[1],
        variant=kernel.variant,
        guard=kernel.guard,
    )
    return tiled(chosen, binding, types, tail, sum_bytes=8) if binding.small_scratch else chosen
