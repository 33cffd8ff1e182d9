# SPDX-License-Identifier: Apache-2.0
"""conv_transpose: x (1, H, W, Cin), w constant (Cout, kh, kw, Cin / groups), b constant (Cout).

Extent: (H - 1) * stride - pads + (kh - 1) * dilation + output_padding + 1. Attributes strides, pads
(top, left, bottom, right), dilations, groups, output_padding; fused clip: attr `clip`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics import exact
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Format
from minun_pio.ops.convolution import Geometry, checked, conv_traits, emit_conv, sums_of, window_attributes
from minun_pio.ops.linear import FAMILIES, clip_codes, clip_values, optional, present
from minun_pio.ops.operator import Binding, Call, Floats, Traits
from minun_pio.ops.shapes import required


class ConvTranspose:
    name = "conv_transpose"
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
        image, window = _spread(x[:, 0], geometry, 0.0)
        kernels = flipped(w[0])
        per_in, per_out = geometry.channels // geometry.groups, geometry.out_channels // geometry.groups
        pieces = []
        for group in range(geometry.groups):
            rows = exact.patches(image[..., group * per_in : (group + 1) * per_in], window)
            pieces.append(rows @ kernels[group * per_out : (group + 1) * per_out].reshape(per_out, -1).T)
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
        fmt = present(formats, 0, node)
        image, window = _spread(x[:, 0], geometry, fmt.zero_point if isinstance(fmt, Affine) else 0)
        codes = exact.conv(
            image,
            fmt,
            flipped(w[0]),
            present(formats, 1, node),
            None if bias is None else bias[0].ravel(),
            optional(formats, 2),
            out_formats[0],
            window,
            geometry.groups,
            sums_of(node),
        )
        return [clip_codes(node, codes[:, None], out_formats[0])]

    def traits(self, binding: Binding) -> Traits:
        weights = flipped(np.asarray(binding.constants[1]))
        return conv_traits(binding, _geometry(binding.node, binding.shapes), weights)

    def emit(self, binding: Binding) -> Call:
        weights = np.asarray(binding.constants[1])
        return emit_conv(binding, _geometry(binding.node, binding.shapes), flipped(weights))


def flipped(weights: NDArray[Any]) -> NDArray[Any]:
    """Kernel rows and columns in reverse: the order in which the equal convolution reads them."""
    return np.ascontiguousarray(weights[:, ::-1, ::-1])


def _geometry(node: Node, shapes: Sequence[Shape | None]) -> Geometry:
    shape, weights = required(node, shapes, 0), required(node, shapes, 1)
    attrs = node.attrs
    strides = [int(v) for v in attrs.get("strides") or (1, 1)]
    pads = [int(v) for v in attrs.get("pads") or (0, 0, 0, 0)]
    dilations = [int(v) for v in attrs.get("dilations") or (1, 1)]
    extra = [int(v) for v in attrs.get("output_padding") or (0, 0)]
    reach = [(weights[1 + axis] - 1) * dilations[axis] for axis in (0, 1)]
    extents = [
        (shape[1 + axis] - 1) * strides[axis] - pads[axis] - pads[axis + 2] + reach[axis] + extra[axis] + 1
        for axis in (0, 1)
    ]
    return checked(
        node,
        Geometry(
            *(shape[1], shape[2], shape[3], extents[0], extents[1], weights[0]),
            kernel=(weights[1], weights[2]),
            strides=(strides[0], strides[1]),
            pads=(
                *(reach[0] - pads[0], reach[1] - pads[1]),
                *(reach[0] - pads[2] + extra[0], reach[1] - pads[3] + extra[1]),
            ),
            dilations=(dilations[0], dilations[1]),
            groups=int(attrs.get("groups", 1)),
            transposed=True,
        ),
    )


def _spread(image: NDArray[Any], geometry: Geometry, zero: Any) -> tuple[NDArray[Any], exact.Window]:
    """The input with zeros between its elements, padded (or cropped), and the window to slide over it."""
    rows, columns = geometry.strides
    samples, height, width, channels = image.shape
    wide = np.full((samples, (height - 1) * rows + 1, (width - 1) * columns + 1, channels), zero, image.dtype)
    wide[:, ::rows, ::columns] = image
    top, left, bottom, right = geometry.pads
    amounts = ((0, 0), (max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0)), (0, 0))
    wide = np.pad(wide, amounts, constant_values=zero)
    rows_end, columns_end = wide.shape[1] - max(-bottom, 0), wide.shape[2] - max(-right, 0)
    wide = wide[:, max(-top, 0) : rows_end, max(-left, 0) : columns_end]
    return np.ascontiguousarray(wide), exact.Window(geometry.kernel, dilations=geometry.dilations)


OPERATOR = ConvTranspose()
