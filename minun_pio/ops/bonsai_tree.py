# SPDX-License-Identifier: Apache-2.0
"""bonsai_tree: the scores of a Bonsai tree, only the nodes on the path being evaluated.

Inputs z (1, d), W and V constant (nodes * classes, d), node-major, T constant (internal nodes, d).
Attributes: depth, classes, sigma (default 1), gate 'tanh' (default) or 'clip' (to -1..1, as SeeDot's models
have it). Output (1, classes): sum over the path of (W z) * gate(sigma * V z). The path goes from node n to
2n + 1 where the exact T[n] . z > 0, else to 2n + 2. W z, V z, the product with sigma and the gate are each
rounded to the output format, the sum of their products once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import exact, functions
from minun_pio.numerics.elementwise import sum_of_values
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.format import Codes, Format
from minun_pio.numerics.posit import Posit
from minun_pio.ops.bonsai_kernels import choose
from minun_pio.ops.bounds import clamp, code_bounds
from minun_pio.ops.calling import activation, input_format, input_shape
from minun_pio.ops.elementwise_unary import curve_tables, function_table
from minun_pio.ops.literals import code_literal
from minun_pio.ops.operator import Binding, Call, Floats, Table, Traits
from minun_pio.ops.shapes import constant, refuse, required


class BonsaiTree:
    name = "bonsai_tree"
    policy = "free"
    families = frozenset({"posit", "fixed", "float"})

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        z, w, v, t = (required(node, shapes, index) for index in range(4))
        for index, what in ((1, "W"), (2, "V"), (3, "T")):
            constant(node, constants, index, what)
        depth, classes = int(node.attrs["depth"]), int(node.attrs["classes"])
        if not 0 <= depth <= 15 or classes < 1:
            raise refuse(node, f"depth {depth} and {classes} classes; depth is 0 to 15", "op.attribute")
        if node.attrs.get("gate", "tanh") not in ("tanh", "clip"):
            raise refuse(node, f"gate '{node.attrs['gate']}'; use 'tanh' or 'clip'", "op.attribute")
        nodes = 2 ** (depth + 1) - 1
        length = z[-1] if z else 0
        if z != (1, length) or w != (nodes * classes, length) or v != w or len(t) != 2 or t[1] != length:
            wanted = f"(1, d), ({nodes * classes}, d) twice and ({nodes // 2}, d)"
            raise refuse(node, f"z {z}, W {w}, V {v}, T {t}; expected {wanted}")
        if t[0] < nodes // 2:
            raise refuse(node, f"T has {t[0]} rows; a tree of depth {depth} has {nodes // 2} inner nodes")
        return [(1, classes)]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        z, w, v, t = (_present(array) for array in inputs)
        z = z[:, 0]
        path = _path(node, z @ t[0].T > 0)
        inner = float(node.attrs.get("sigma", 1.0)) * (z @ v[0].T)
        gated = np.tanh(inner) if node.attrs.get("gate", "tanh") == "tanh" else np.clip(inner, -1.0, 1.0)
        scores = ((z @ w[0].T) * gated).reshape(len(z), -1, int(node.attrs["classes"]))
        return [np.take_along_axis(scores, path[:, :, None], axis=1).sum(axis=1)[:, None]]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        z, w, v, t = (_present(array) for array in inputs)
        fz, fw, fv, ft = (_given(fmt) for fmt in formats)
        out = out_formats[0]
        z = z[:, 0]
        path = _path(node, _positive(z, fz, t[0], ft))
        first = exact.dot(z, fz, w[0], fw, None, None, out)
        inner = exact.dot(z, fz, v[0], fv, None, None, out)
        sigma = float(node.attrs.get("sigma", 1.0))
        if sigma != 1.0:
            inner = exact.mul(inner, out, out.encode(np.asarray([sigma])), out, out)
        if node.attrs.get("gate", "tanh") == "tanh":
            gated = functions.apply("tanh", inner, out, out)
        else:
            gated = clamp(inner, *code_bounds(out, (-1.0, 1.0)), out)
        classes = int(node.attrs["classes"])

        def on_path(codes: Codes) -> Codes:
            return np.take_along_axis(codes.reshape(len(z), -1, classes), path[:, :, None], axis=1)

        return [_sum_of_products(on_path(first), on_path(gated), out)[:, None]]

    def traits(self, binding: Binding) -> Traits:
        chosen = choose(binding)
        return Traits() if chosen is None else Traits(chosen.scratch_bytes, 4)

    def emit(self, binding: Binding) -> Call:
        activation(binding, 0)
        node, out = binding.node, binding.out_formats[0]
        tables: tuple[Table, ...] = ()
        if node.attrs.get("gate", "tanh") == "clip":
            low, high = code_bounds(out, (-1.0, 1.0))
            kind = f"minun::ClampGate<{out.cpp}>"
            gate = f"{kind}{{{code_literal(low, out)}, {code_literal(high, out)}}}"
        elif functions.uses_table(out):
            tables = (function_table("tanh", out, out),)
            kind = f"minun::TableGate<{out.cpp}>"
            gate = kind + "{{table0}}"
        elif (line := functions.curve("tanh", out, out)) is not None:
            tables = curve_tables("tanh", line)
            kind = f"minun::CurveGate<{out.cpp}>"
            gate = kind + "{{table0}, {table1}}"
        else:
            kind = f"minun::TanhGate<{out.cpp}>"
            gate = f"{kind}()"
        sigma = float(node.attrs.get("sigma", 1.0))
        length = input_shape(binding, 0)[1]
        chosen = choose(binding)
        if chosen is not None:
            whole = ", ".join(
                [out.cpp, input_format(binding, 0).cpp, str(chosen.unit), *chosen.weights, kind]
            )
            matrices = [f"{name}{{{{in{i}}}}}" for i, name in enumerate(chosen.weights, 1)]
            return Call(
                header="minun/bonsai_tree_fast.h",
                function=f"minun::bonsai_tree_fast<{whole}>",
                args=(
                    *("{in0}", *matrices, "{out0}", "{scratch}"),
                    *(str(node.attrs["depth"]), str(node.attrs["classes"]), str(length)),
                    "false" if sigma == 1.0 else "true",
                    code_literal(out.encode(np.asarray([sigma]))[0], out),
                    gate,
                    str(chosen.limit),
                ),
                tables=tables,
                constant_codes=dict(chosen.tables),
                variant=f"{node.attrs.get('gate', 'tanh')}, integer",
            )
        types = ", ".join([out.cpp, *(input_format(binding, index).cpp for index in range(4)), kind])
        return Call(
            header="minun/bonsai_tree.h",
            function=f"minun::bonsai_tree<{types}>",
            args=(
                *("{in0}", "{in1}", "{in2}", "{in3}", "{out0}"),
                *(str(node.attrs["depth"]), str(node.attrs["classes"]), str(length)),
                "false" if sigma == 1.0 else "true",
                code_literal(out.encode(np.asarray([sigma]))[0], out),
                gate,
            ),
            tables=tables,
            variant=node.attrs.get("gate", "tanh"),
        )


def _present(array: NDArray[Any] | None) -> NDArray[Any]:
    assert array is not None
    return array


def _given(fmt: Format | None) -> Format:
    assert fmt is not None
    return fmt


def _path(node: Node, positive: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Node numbers on the path, (samples, depth + 1)."""
    at = np.zeros(len(positive), np.intp)
    path = [at]
    for _ in range(int(node.attrs["depth"])):
        turn = np.take_along_axis(positive, at[:, None], axis=1)[:, 0]
        at = 2 * at + np.where(turn, 1, 2)
        path.append(at)
    return np.stack(path, axis=1)


def _positive(z: Codes, fz: Format, t: Codes, ft: Format) -> NDArray[np.bool_]:
    """Where the exact t . z is above zero. NaR is not.

    The product is rounded to a format that keeps its sign: a posit never rounds to zero, and in fixed-point
    the unit is that of the exact sum.
    """
    sign: Format = fz
    if isinstance(fz, Fixed) and isinstance(ft, Fixed):
        sign = Fixed(32, fz.scale_exp + ft.scale_exp)
    elif not isinstance(fz, Posit):
        sign = Float32()
    return np.asarray(exact.dot(z, fz, t, ft, None, None, sign) > 0)


def _sum_of_products(a: Codes, b: Codes, out: Format) -> Codes:
    """round(sum over axis 1 of a * b), a and b (samples, terms, classes) of `out`'s format."""
    if not isinstance(out, Posit | Fixed):
        total = np.zeros(a[:, 0].shape, np.float32)
        with np.errstate(all="ignore"):
            for k in range(a.shape[1]):
                left, right = (out.decode(codes[:, k]).astype(np.float32) for codes in (a, b))
                total = total + left * right
        return out.encode(total)
    if out.bits > 16:  # products of 32-bit numbers do not fit a float64
        left, right = a.transpose(0, 2, 1)[:, :, None, :], b.transpose(0, 2, 1)[:, :, :, None]
        codes: Codes = exact.dot_batched(left, out, right, out, out)[:, :, 0, 0]
        return codes
    values = (out.decode(a) * out.decode(b)).transpose(0, 2, 1)
    return sum_of_values(values, out)


OPERATOR = BonsaiTree()
