# SPDX-License-Identifier: Apache-2.0
"""Functions of one number: sigmoid, tanh, exp, log, sqrt, erf, gelu, silu, softplus, elu, leaky_relu, ….

Formats of up to 8 bits use a correctly rounded table over all codes; sigmoid and tanh of up to 16 bits a
curve in code space; the others the integer arithmetic of `minun/functions.h`; int16 with a scale gives
TensorFlow Lite's bits. Attributes: gelu has
approximate ('none' | 'tanh'); leaky_relu and elu alpha; hard_sigmoid alpha and beta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import functions
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.curves import Curve
from minun_pio.numerics.format import Codes, Format, element_bytes
from minun_pio.ops.affine_calls import int16_call
from minun_pio.ops.calling import activation, code_type, elementwise_traits, input_format, input_shape
from minun_pio.ops.operator import Binding, Call, Floats, Table, Traits
from minun_pio.ops.shapes import elements, refuse, required


@dataclass(frozen=True)
class Unary:
    """One function; `defaults` are its parameters and their values where the node has none."""

    name: str
    defaults: Mapping[str, float] = field(default_factory=dict)
    policy: str = "free"
    families: frozenset[str] = frozenset({"posit", "fixed", "affine", "float"})

    def _function(self, node: Node) -> tuple[str, dict[str, float]]:
        if self.name == "gelu":
            kind = node.attrs.get("approximate", "none")
            if kind not in ("none", "tanh"):
                raise refuse(node, f"approximate '{kind}'; use 'none' or 'tanh'", "op.attribute")
            return ("gelu" if kind == "none" else "gelu_tanh"), {}
        return self.name, {key: float(node.attrs.get(key, value)) for key, value in self.defaults.items()}

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        self._function(node)
        return [required(node, shapes, 0)]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        assert inputs[0] is not None
        function, attrs = self._function(node)
        return [functions.reference(function, inputs[0], **attrs)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        x, fmt = inputs[0], formats[0]
        assert x is not None
        assert fmt is not None
        function, attrs = self._function(node)
        return [functions.apply(function, x, fmt, out_formats[0], **attrs)]

    def traits(self, binding: Binding) -> Traits:
        return elementwise_traits(binding, reverse=True)

    def emit(self, binding: Binding) -> Call:
        activation(binding, 0)
        fmt, out = input_format(binding, 0), binding.out_formats[0]
        count = str(elements(input_shape(binding, 0)))
        function, attrs = self._function(binding.node)
        if functions.uses_table(fmt):
            return Call(
                header="minun/functions.h",
                function=f"minun::unary_table<{out.cpp}, {fmt.cpp}, {{reverse}}>",
                args=("{in0}", "{out0}", count, "{table0}"),
                tables=(function_table(function, fmt, out, **attrs),),
                variant="table",
            )
        if isinstance(out, Affine):
            return int16_call(function, binding, **attrs)
        line = functions.curve(function, fmt, out)
        if line is not None:
            return Call(
                header="minun/functions.h",
                function=f"minun::curve<{out.cpp}, {fmt.cpp}, {{reverse}}>",
                args=("{in0}", "{out0}", count, "{table0}", "{table1}"),
                tables=curve_tables(function, line),
                variant="curve",
            )
        kernel = functions.device_function(function, **attrs)
        return Call(
            header="minun/functions.h",
            function=f"minun::unary<{kernel}, {out.cpp}, {fmt.cpp}, {{reverse}}>",
            args=("{in0}", "{out0}", count, functions.device_value(function, **attrs)),
            variant="computed",
        )


def curve_tables(function: str, line: Curve) -> tuple[Table, Table]:
    """The cells and nodes of a curve, in flash."""
    return (
        Table("uint16_t", line.cells, f"{function}_cells", align=2),
        Table("int16_t", line.nodes, f"{function}_nodes", align=2),
    )


def function_table(function: str, fmt: Format, out: Format, **attrs: float) -> Table:
    """The function at every code of `fmt` as codes of `out`, in flash."""
    table = functions.unary_table(function, fmt, out, **attrs)
    numbers = table.tolist() if np.dtype(out.storage).kind == "f" else [int(code) for code in table]
    return Table(code_type(out), tuple(numbers), function, align=element_bytes(out))


OPERATORS = (
    Unary("sigmoid"),
    Unary("tanh"),
    Unary("exp"),
    Unary("log"),
    Unary("erf"),
    Unary("sqrt"),
    Unary("reciprocal"),
    Unary("reciprocal_sqrt"),
    Unary("gelu"),
    Unary("silu"),
    Unary("softplus"),
    Unary("hard_swish"),
    Unary("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    Unary("leaky_relu", {"alpha": 0.01}),
    Unary("elu", {"alpha": 1.0}),
)
