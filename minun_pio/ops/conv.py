# SPDX-License-Identifier: Apache-2.0
"""conv: x (1, H, W, Cin), w constant (Cout, kh, kw, Cin / groups), b constant (Cout) -> (1, OH, OW, Cout).

Attributes strides, pads (top, left, bottom, right), dilations, groups; fused clip: attr `clip`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import exact
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.convolution import Geometry, checked, conv_traits, emit_conv, sums_of, window_attributes
from minun_pio.ops.linear import FAMILIES, clip_codes, clip_values, optional, present
from minun_pio.ops.operator import Binding, Call, Floats, Traits
from minun_pio.ops.shapes import required


class Conv:
    name = "conv"
    policy = "free"
    families = FAMILIES

    def infer_shapes(
        self, node: Node, shapes: Sequence[Shape | None], constants: Sequence[NDArray[Any] | None]
    ) -> list[Shape]:
        window_attributes(node, list(shapes), constants)
        return [_geometry(node, shapes).out_shape]

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        x, w, bias = inputs[0], inputs[1], optional(inputs, 2)
        assert x is not None
        assert w is not None
        geometry = _geometry(node, [x.shape[1:], w.shape[1:]])
        window = _window(geometry)
        image, kernels, groups = x[:, 0], w[0], geometry.groups
        per_in, per_out = geometry.channels // groups, geometry.out_channels // groups
        pieces = []
        for group in range(groups):
            rows = exact.patches(image[..., group * per_in : (group + 1) * per_in], window)
            chosen = kernels[group * per_out : (group + 1) * per_out].reshape(per_out, -1)
            pieces.append(rows @ chosen.T)
        values = np.concatenate(pieces, axis=-1)[:, None]
        if bias is not None:
            values = values + bias[0].ravel()
        return [clip_values(node, values)]

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        x, w, bias = inputs[0], inputs[1], optional(inputs, 2)
        assert x is not None
        assert w is not None
        geometry = _geometry(node, [x.shape[1:], w.shape[1:]])
        codes = exact.conv(
            x[:, 0],
            present(formats, 0, node),
            w[0],
            present(formats, 1, node),
            None if bias is None else bias[0].ravel(),
            optional(formats, 2),
            out_formats[0],
            _window(geometry),
            geometry.groups,
            sums_of(node),
        )
        return [clip_codes(node, codes[:, None], out_formats[0])]

    def traits(self, binding: Binding) -> Traits:
        return conv_traits(binding, _geometry(binding.node, binding.shapes))

    def emit(self, binding: Binding) -> Call:
        return emit_conv(binding, _geometry(binding.node, binding.shapes))


def _geometry(node: Node, shapes: Sequence[Shape | None]) -> Geometry:
    shape, weights = required(node, shapes, 0), required(node, shapes, 1)
    attrs = node.attrs
    strides = tuple(int(v) for v in attrs.get("strides") or (1, 1))
    pads = tuple(int(v) for v in attrs.get("pads") or (0, 0, 0, 0))
    dilations = tuple(int(v) for v in attrs.get("dilations") or (1, 1))
    extents = [
        (shape[1 + axis] + pads[axis] + pads[axis + 2] - (weights[1 + axis] - 1) * dilations[axis] - 1)
        // strides[axis]
        + 1
        for axis in (0, 1)
    ]
    return checked(
        node,
        Geometry(
            *(shape[1], shape[2], shape[3], extents[0], extents[1], weights[0]),
            kernel=(weights[1], weights[2]),
            strides=(strides[0], strides[1]),
            pads=(pads[0], pads[1], pads[2], pads[3]),
            dilations=(dilations[0], dilations[1]),
            groups=int(attrs.get("groups", 1)),
        ),
    )


def _window(geometry: Geometry) -> exact.Window:
    return exact.Window(geometry.kernel, geometry.strides, geometry.pads, geometry.dilations)


OPERATOR = Conv()
