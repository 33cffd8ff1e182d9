# SPDX-License-Identifier: Apache-2.0
"""pad: `pads[axis] = (before, after)` elements more, filled with a value, the edge, or a mirror image.

`reflect` does not repeat the edge (c b | a b c), `symmetric` does (b a | a b c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.calling import code_type, input_shape, same_format, shape_table, where
from minun_pio.ops.literals import code_literal
from minun_pio.ops.movement import Movement
from minun_pio.ops.operator import Binding, Call, Floats
from minun_pio.ops.shapes import refuse, required

_MODES = {"constant": 0, "edge": 1, "reflect": 2, "symmetric": 3}


class Pad(Movement):
    name = "pad"

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        shape = required(node, shapes, 0)
        pads, mode = node.attrs["pads"], node.attrs.get("mode", "constant")
        if mode not in _MODES:
            raise refuse(node, f"mode '{mode}' is not one of {', '.join(_MODES)}", "op.attribute")
        if len(pads) != len(shape):
            raise refuse(
                node, f"{len(pads)} pads for a tensor of rank {len(shape)}; give (before, after) per axis"
            )
        for axis, (before, after) in enumerate(pads):
            if before < 0 or after < 0:
                raise refuse(node, f"pads of axis {axis} are {(before, after)}; negative ones are a slice")
            if mode == "reflect" and max(before, after) >= shape[axis]:
                raise refuse(
                    node, f"reflect by {(before, after)} needs more than {shape[axis]} along axis {axis}"
                )
            if mode == "symmetric" and max(before, after) > shape[axis]:
                raise refuse(
                    node, f"symmetric by {(before, after)} needs more than {shape[axis]} along axis {axis}"
                )
        return [tuple(n + int(b) + int(a) for n, (b, a) in zip(shape, pads, strict=True))]

    def _pad(self, node: Node, x: NDArray[Any] | None, value: Any) -> list[NDArray[Any]]:
        assert x is not None
        widths = [(0, 0), *((int(before), int(after)) for before, after in node.attrs["pads"])]
        mode = node.attrs.get("mode", "constant")
        if mode == "constant":
            return [np.pad(x, widths, mode="constant", constant_values=value)]
        return [np.pad(x, widths, mode=mode)]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        return self._pad(node, inputs[0], float(node.attrs.get("value", 0.0)))

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        return self._pad(node, inputs[0], _fill_code(node, out_formats[0]))

    def emit(self, binding: Binding) -> Call:
        shape = input_shape(binding, 0)
        fmt = same_format(binding)
        befores = tuple(int(before) for before, _ in binding.node.attrs["pads"])
        if len(shape) > 8:
            raise refuse(binding.node, f"rank {len(shape)}; the kernel takes up to 8")
        mode = _MODES[binding.node.attrs.get("mode", "constant")]
        return Call(
            header="minun/pad.h",
            function=f"minun::pad<{code_type(fmt)}, {where(binding, 0)}>",
            args=(
                "{in0}",
                "{out0}",
                str(len(shape)),
                "{table0}",
                str(mode),
                code_literal(_fill_code(binding.node, fmt), fmt),
            ),
            tables=(shape_table(binding.out_shapes[0] + shape + befores, "pad"),),
        )


def _fill_code(node: Node, fmt: Format) -> Any:
    return fmt.encode(np.asarray([float(node.attrs.get("value", 0.0))]))[0]


OPERATOR = Pad()
