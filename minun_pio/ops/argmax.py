# SPDX-License-Identifier: Apache-2.0
"""argmax: the index (int32) of the largest element along `axis`; ties go to the first, or to the last one.

Attributes keepdims (true), select_last_index, and `smallest`: the index of the smallest element instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.bounds import ordered
from minun_pio.ops.calling import input_format, input_shape
from minun_pio.ops.operator import Binding, Call, Floats, Traits
from minun_pio.ops.shapes import axis_of, required, row_blocks


class ArgMax:
    name = "argmax"
    policy = "index"
    families = frozenset({"posit", "fixed", "affine", "float"})

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        axis = axis_of(node, int(node.attrs.get("axis", 0)), len(shape))
        kept = (1,) if node.attrs.get("keepdims", True) else ()
        return [shape[:axis] + kept + shape[axis + 1 :]]

    def _index(self, node: Node, values: NDArray[Any]) -> NDArray[np.int32]:
        axis = int(node.attrs.get("axis", 0)) % (values.ndim - 1) + 1
        last, smallest = bool(node.attrs.get("select_last_index")), bool(node.attrs.get("smallest"))
        best = np.take(values, [0], axis=axis)
        index = np.zeros(best.shape, np.int32)
        for k in range(1, values.shape[axis]):
            candidate = np.take(values, [k], axis=axis)
            low, high = (candidate, best) if smallest else (best, candidate)
            wins = ~(high < low) if last else low < high
            best = np.where(wins, candidate, best)
            index = np.where(wins, np.int32(k), index)
        if not node.attrs.get("keepdims", True):
            index = np.squeeze(index, axis)
        return index

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        assert inputs[0] is not None
        return [self._index(node, inputs[0]).astype(np.float64)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        assert inputs[0] is not None
        return [self._index(node, ordered(inputs[0], formats[0]))]

    def traits(self, binding: Binding) -> Traits:
        return Traits()

    def emit(self, binding: Binding) -> Call:
        shape = input_shape(binding, 0)
        attrs = binding.node.attrs
        outer, extent, inner = row_blocks(shape, int(attrs.get("axis", 0)) % len(shape))
        chosen = ", ".join(str(bool(attrs.get(name))).lower() for name in ("select_last_index", "smallest"))
        return Call(
            header="minun/argmax.h",
            function=f"minun::argmax<{input_format(binding, 0).cpp}, {chosen}>",
            args=("{in0}", "{out0}", str(outer), str(extent), str(inner)),
        )


OPERATOR = ArgMax()
