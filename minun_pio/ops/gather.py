# SPDX-License-Identifier: Apache-2.0
"""gather: slices of x along `axis` picked by integer indices (embedding look-up, reordering).

Negative indices count from the end. An index that is a constant is checked when shapes are inferred; one that
is computed on the board is clamped into range, so that no value can make the kernel read outside x.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.ops.calling import code_type, input_shape, same_format, where
from minun_pio.ops.movement import Movement, contiguous
from minun_pio.ops.operator import Binding, Call
from minun_pio.ops.shapes import axis_of, elements, refuse, required, row_blocks


class Gather(Movement):
    name = "gather"

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape, picked = required(node, shapes, 0), required(node, shapes, 1)
        axis = axis_of(node, int(node.attrs.get("axis", 0)), len(shape))
        indices = constants[1] if len(constants) > 1 else None
        if indices is not None and indices.size:
            low, high = int(np.min(indices)), int(np.max(indices))
            if low < -shape[axis] or high >= shape[axis]:
                raise refuse(node, f"indices {low}..{high} leave axis {axis} of extent {shape[axis]}")
        return [shape[:axis] + picked + shape[axis + 1 :]]

    def move(self, node: Node, inputs: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        x, indices = inputs
        assert x is not None
        assert indices is not None
        axis = int(node.attrs.get("axis", 0)) % (x.ndim - 1)
        extent = x.shape[axis + 1]
        picked = indices.astype(np.int64)
        picked = np.clip(np.where(picked < 0, picked + extent, picked), 0, extent - 1)
        if picked.shape[0] == 1:
            return [contiguous(np.take(x, picked[0], axis=axis + 1))]
        samples = picked.shape[0]
        rows = np.broadcast_to(x, (samples, *x.shape[1:]))
        return [contiguous(np.stack([np.take(rows[s], picked[s], axis=axis) for s in range(samples)]))]

    def emit(self, binding: Binding) -> Call:
        shape = input_shape(binding, 0)
        axis = int(binding.node.attrs.get("axis", 0)) % len(shape)
        outer, extent, inner = row_blocks(shape, axis)
        ctype = code_type(same_format(binding))
        count = elements(input_shape(binding, 1))
        return Call(
            header="minun/gather.h",
            function=f"minun::gather<{ctype}, {where(binding, 0)}, {where(binding, 1)}>",
            args=("{in0}", "{in1}", "{out0}", str(outer), str(extent), str(inner), str(count)),
        )


OPERATOR = Gather()
