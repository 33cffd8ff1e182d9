# SPDX-License-Identifier: Apache-2.0
"""neg, abs: exact on the codes of one format (fixed-point and affine saturate; NaR stays).

Attribute `wrap` of neg: the lowest affine code stays as it is, as in TensorFlow Lite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.format import Codes, Format
from minun_pio.numerics.posit import Posit
from minun_pio.ops.calling import elementwise_traits, input_shape, same_format, where
from minun_pio.ops.operator import Binding, Call, Floats, Traits
from minun_pio.ops.shapes import elements, required


@dataclass(frozen=True)
class Sign:
    name: str
    kernel: str
    magnitude: bool
    policy: str = "same"
    families: frozenset[str] = frozenset({"posit", "fixed", "affine", "float"})

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        return [required(node, shapes, 0)]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        assert inputs[0] is not None
        return [np.abs(inputs[0]) if self.magnitude else -inputs[0]]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        assert inputs[0] is not None
        return [self._codes(inputs[0], out_formats[0], bool(node.attrs.get("wrap")))]

    def _codes(self, x: Codes, fmt: Format, wrap: bool) -> Codes:
        if np.dtype(fmt.storage) == np.dtype(np.uint16):
            bit = np.uint16(0x8000)
            flipped: Codes = x & ~bit if self.magnitude else x ^ bit
            return flipped
        if not isinstance(fmt, Posit | Fixed | Affine):
            turned_float: Codes = np.abs(x) if self.magnitude else -x
            return turned_float
        zero = fmt.zero_point if isinstance(fmt, Affine) else 0
        wide = x.astype(np.int64) - zero
        turned = (np.abs(wide) if self.magnitude else -wide) + zero
        codes = np.clip(turned, fmt.min_code, fmt.max_code)
        if wrap and isinstance(fmt, Affine):
            codes = np.where(x == fmt.min_code, x, codes)
        if isinstance(fmt, Posit):
            codes = np.where(x == fmt.nar, fmt.nar, codes)
        return codes.astype(fmt.storage)

    def traits(self, binding: Binding) -> Traits:
        return elementwise_traits(binding)

    def emit(self, binding: Binding) -> Call:
        fmt = same_format(binding)
        zero = fmt.zero_point if isinstance(fmt, Affine) else 0
        types = f"{fmt.cpp}, {where(binding, 0)}"
        if not self.magnitude:
            wrap = isinstance(fmt, Affine) and bool(binding.node.attrs.get("wrap"))
            types += f", {'true' if wrap else 'false'}"
        return Call(
            header="minun/sign.h",
            function=f"minun::{self.kernel}<{types}>",
            args=("{in0}", "{out0}", str(elements(input_shape(binding, 0))), str(zero)),
        )


OPERATORS = (Sign("neg", "negate", magnitude=False), Sign("abs", "absolute", magnitude=True))
