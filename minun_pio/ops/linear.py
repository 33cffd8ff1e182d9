# SPDX-License-Identifier: Apache-2.0
"""What dense, matmul and the convolutions share: the fused clip, quantised tables, spelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.ir import Node
from minun_pio.numerics import exact, tflite
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.literals import code_literal, float_literal
from minun_pio.ops.operator import Binding, Floats, Table

FAMILIES = frozenset({"posit", "fixed", "affine", "float"})

Clip = tuple[float | None, float | None]


def fused_clip(node: Node) -> Clip:
    """The bounds of a fused relu, relu6 or clip; (None, None) when there is none."""
    clip = node.attrs.get("clip")
    if clip is None:
        return (None, None)
    low, high = clip
    return (None if low is None else float(low), None if high is None else float(high))


def clip_values(node: Node, values: Floats) -> Floats:
    """The fused clip on real numbers."""
    low, high = fused_clip(node)
    return np.clip(values, -np.inf if low is None else low, np.inf if high is None else high)


def clip_bounds(clip: Clip, out: Format) -> tuple[Any, Any]:
    """The codes of the bounds in an integer-coded format; an open side is the format's own extreme."""
    return exact.clamp_codes(out, *clip)


def clip_codes(node: Node, codes: Codes, out: Format) -> Codes:
    """The fused clip on codes, NaR and NaN untouched."""
    clip = fused_clip(node)
    if clip == (None, None):
        return codes
    if out.family == "float":
        values = out.decode(codes)
        for bound, outside in ((clip[0], np.less), (clip[1], np.greater)):
            if bound is not None:
                limit = out.decode(out.encode(np.asarray([bound], np.float32)))[0]
                values = np.where(outside(values, limit), limit, values)
        return out.encode(values.astype(np.float32))
    low, high = clip_bounds(clip, out)
    clipped = np.clip(codes, low, high).astype(out.storage)
    nar = getattr(out, "nar", None)
    return clipped if nar is None else np.where(codes == nar, codes, clipped).astype(out.storage)


def clip_argument(node: Node, out: Format) -> str:
    """The kernel's clip argument for posit and fixed-point outputs."""
    low, high = clip_bounds(fused_clip(node), out)
    return f"minun::Clip<{out.cpp}>{{{code_literal(low, out)}, {code_literal(high, out)}}}"


def float_clip_arguments(node: Node) -> tuple[str, str]:
    """The kernel's low and high arguments for float outputs."""
    low, high = fused_clip(node)
    return (
        float_literal(-np.inf if low is None else low),
        float_literal(np.inf if high is None else high),
    )


def present(formats: Sequence[Format | None], index: int, node: Node) -> Format:
    """The format of input `index`, which must be there."""
    fmt = formats[index] if index < len(formats) else None
    if fmt is None:
        raise MinunError(
            "op.input-missing", f"input {index} has no format", f"node '{node.name}' ({node.op})"
        )
    return fmt


def optional(values: Sequence[Any], index: int) -> Any:
    """Entry `index`, None when there are fewer."""
    return values[index] if index < len(values) else None


def encoded(constant: NDArray[Any], fmt: Format) -> Codes:
    """Codes of a constant."""
    return fmt.encode(np.asarray(constant, dtype=np.float64))


def affine_formats(binding: Binding) -> tuple[Affine, Affine, Affine]:
    """Formats of x, w and the output of a quantised product, checked."""
    x, w, out = binding.formats[0], binding.formats[1], binding.out_formats[0]
    where = f"node '{binding.node.name}' ({binding.node.op})"
    if not (isinstance(x, Affine) and isinstance(w, Affine) and isinstance(out, Affine)):
        raise MinunError("format.family", "affine and other formats in one product; convert first", where)
    if w.zero_point != 0:
        raise MinunError("format.affine", f"weights with zero point {w.zero_point} found, 0 expected", where)
    return x, w, out


def folded_bias(x: Affine, weights: Codes, bias: Codes | None, wide: bool) -> Table:
    """bias - zero_x * (sum of the row's weights), in int64 if `wide`: what is left when the kernel multiplies
    plain codes."""
    rows = weights.reshape(weights.shape[0], -1).astype(np.int64)
    folded = -x.zero_point * rows.sum(axis=1)
    if bias is not None:
        folded = folded + np.asarray(bias).ravel().astype(np.int64)
    if wide:
        return Table("int64_t", tuple(int(v) for v in folded), "bias64", align=8)
    return Table("int32_t", tuple(int(v) for v in folded.astype(np.int32)), "bias32", align=4)


def requantise_tables(x: Affine, w: Affine, out: Affine, product: tflite.Product) -> tuple[Table, ...]:
    """What a Requantise reads: its factors' parts, one of each per channel or one for all."""
    factors = tflite.output_factors(x, w, out, product)
    if len(set(factors)) == 1:
        factors = factors[:1]
    if product is tflite.Product.DENSE:
        parts = [tflite.double_factor(factor) for factor in factors]
        return (
            Table("uint32_t", tuple(part.high for part in parts), "factor_high", align=4),
            Table("uint32_t", tuple(part.low for part in parts), "factor_low", align=4),
            Table("int8_t", tuple(part.drop for part in parts), "factor_drop"),
        )
    multipliers = [tflite.quantise_multiplier(factor) for factor in factors]
    return (
        Table("int32_t", tuple(multiplier.fixed for multiplier in multipliers), "multiplier", align=4),
        Table("int8_t", tuple(multiplier.shift for multiplier in multipliers), "shift"),
    )


def requantise_argument(node: Node, out: Affine, tables: Sequence[Table], first_table: int) -> str:
    """The Requantise argument; its tables are `first_table` and the following ones."""
    low, high = clip_bounds(fused_clip(node), out)
    places = ", ".join(f"{{table{first_table + k}}}" for k in range(len(tables)))
    kind = f"Requantise<{out.cpp}>"
    if len(tables) == 3:
        small = out.width == 8 and all(3 <= drop <= 32 for drop in tables[2].values)
        kind = f"RequantiseDense<{out.cpp}, {str(small).lower()}>"
    per_channel = str(len(tables[0].values) > 1).lower()
    return f"minun::{kind}{{{places}, {per_channel}, {out.zero_point}, {low}, {high}}}"


def unpacked_bytes(fmt: Format) -> int:
    """Bytes of one decoded value in scratch (`minun::Unpacked`)."""
    return 4 if fmt.bits <= 16 else 8
