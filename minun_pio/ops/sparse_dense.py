# SPDX-License-Identifier: Apache-2.0
"""sparse_dense: a dense layer whose constant weights (out, in) are mostly zero, kept compactly in flash.

Attribute `storage` (`csc` in SeeDot's files) is how the source kept them; on the board they are kept row
after row: non-zero codes, their columns, and a count a row. Fused clip: attr `clip`. The affine family has no
sparse kernel: use dense.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.format import Format, element_bytes
from minun_pio.ops.dense import Dense
from minun_pio.ops.dense_kernels import extents
from minun_pio.ops.linear import (
    clip_argument,
    encoded,
    float_clip_arguments,
    optional,
    present,
    unpacked_bytes,
)
from minun_pio.ops.operator import Binding, Call, Overlap, Table, Traits
from minun_pio.planner import raster


class SparseDense(Dense):
    name = "sparse_dense"
    families = frozenset({"posit", "fixed", "float"})

    def traits(self, binding: Binding) -> Traits:
        rows, inputs, outputs = extents(binding)
        fmt = present(binding.formats, 0, binding.node)
        none = fmt.family == "float" or binding.small_scratch
        scratch = 0 if none else inputs * unpacked_bytes(fmt)
        distances = raster.dense_distances(
            *(rows, inputs, outputs),
            element_bytes(fmt),
            element_bytes(binding.out_formats[0]),
            gathered=scratch > 0,
        )
        return Traits(
            scratch_bytes=scratch,
            scratch_align=4 if scratch else 1,
            in_place=((0, 0),) if scratch and rows == 1 else (),
            overlaps=(Overlap(0, 0, forward_bytes=distances.forward),),
        )

    def emit(self, binding: Binding) -> Call:
        node = binding.node
        x, w = present(binding.formats, 0, node), present(binding.formats, 1, node)
        out = binding.out_formats[0]
        codes = encoded(np.asarray(binding.constants[1]), w)
        kept = codes != 0
        counts = kept.sum(axis=1)
        columns = np.nonzero(kept)[1]
        column_table, column_type = _narrowest(columns, "columns")
        count_table, count_type = _narrowest(counts, "counts")
        has_bias = optional(binding.constants, 2) is not None
        bias_format = present(binding.formats, 2, node) if has_bias else out
        bias = "{in2}" if has_bias else "nullptr"
        types = f"{out.cpp}, {x.cpp}, {w.cpp}, {bias_format.cpp}, {column_type}, {count_type}"
        operands = ("{in0}", "{in1}", "{table0}", "{table1}", bias, "{out0}")
        numbers = tuple(str(extent) for extent in extents(binding))
        chosen = codes[kept]
        dtype = chosen.dtype
        ctype = "float" if dtype == np.float32 else f"{dtype.name}_t"
        weights = Table(ctype, tuple(chosen.tolist()), "weights", align=int(dtype.itemsize))
        if x.family == "float":
            function = f"minun::sparse_dense_float<{types}>"
            args = (*operands, *numbers, *float_clip_arguments(node))
        else:
            values = f"minun::From{'Codes' if binding.small_scratch else 'Scratch'}<{x.cpp}>"
            function = f"minun::sparse_dense<{types}, {values}>"
            memory = "nullptr" if binding.small_scratch else _scratch(x)
            args = (*operands, f"{values}{{{memory}}}", *numbers, clip_argument(node, out))
        return Call(
            header="minun/sparse_dense.h",
            function=function,
            args=args,
            tables=(column_table, count_table),
            constant_codes={1: weights},
            variant=f"{int(kept.sum())} of {codes.size} weights",
        )


def _scratch(fmt: Format) -> str:
    return f"static_cast<minun::Unpacked<{fmt.cpp}>*>(static_cast<void*>({{scratch}}))"


def _narrowest(values: NDArray[np.int64], hint: str) -> tuple[Table, str]:
    """A table of the narrowest unsigned type, and that type."""
    wide = int(values.max(initial=0)) > 255
    ctype = "uint16_t" if wide else "uint8_t"
    return Table(ctype, tuple(int(v) for v in values), hint, align=2 if wide else 1), ctype


OPERATOR = SparseDense()
