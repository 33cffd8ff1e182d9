# SPDX-License-Identifier: Apache-2.0
"""What conv and conv_transpose share: the geometry of a window over NHWC, and the kernel calls.

A transposed convolution is the convolution of its input, `stride - 1` zeros put between the elements, with
the kernel flipped; `Geometry` describes that convolution, and `transposed` says that the zeros are implied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Codes, Format, element_bytes
from minun_pio.numerics.operand import Window
from minun_pio.numerics.tflite import Product
from minun_pio.ops.avr_conv_kernels import choose_avr_conv, gathered_elements, is_depthwise
from minun_pio.ops.conv_kernels import choose_conv, patches_at_once
from minun_pio.ops.dense_kernels import Chosen
from minun_pio.ops.linear import (
    affine_formats,
    clip_argument,
    encoded,
    float_clip_arguments,
    folded_bias,
    optional,
    present,
    requantise_argument,
    requantise_tables,
    unpacked_bytes,
)
from minun_pio.ops.operator import Binding, Call, Overlap, Table, Traits
from minun_pio.ops.shapes import constant, elements, refuse, required
from minun_pio.ops.window_order import WindowOrder
from minun_pio.planner import raster

_INT16 = 32767


@dataclass(frozen=True)
class Geometry:
    """A convolution over (1, height, width, channels). `pads` are top, left, bottom, right."""

    height: int
    width: int
    channels: int
    out_height: int
    out_width: int
    out_channels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    groups: int
    transposed: bool = False

    @property
    def patch_elements(self) -> int:
        return self.kernel[0] * self.kernel[1] * self.channels // self.groups

    @property
    def out_shape(self) -> Shape:
        return (1, self.out_height, self.out_width, self.out_channels)

    @property
    def weights(self) -> tuple[int, ...]:
        """Shape of the weights."""
        return (self.out_channels, *self.kernel, self.channels // self.groups)

    @property
    def window(self) -> Window:
        return Window(self.kernel, self.strides, self.pads, self.dilations)

    @property
    def cpp(self) -> str:
        """The ConvShape expression."""
        numbers = (
            *(self.height, self.width, self.channels),
            *(self.out_height, self.out_width, self.out_channels),
            *self.kernel,
            *self.strides,
            *self.pads[:2],
            *self.dilations,
            self.groups,
        )
        return f"minun::ConvShape{{{', '.join(str(number) for number in numbers)}}}"

    @property
    def taps(self) -> str:
        return "minun::Transposed" if self.transposed else "minun::InOrder<minun::Forward, {reverse}>"

    def raster(self, in_bytes: int, out_bytes: int) -> raster.Window:
        """The kernel's order as the planner's raster model has it; not for transposed ones."""
        return raster.Window(
            *(self.height, self.width, self.channels),
            *(self.out_height, self.out_width, self.out_channels),
            kernel=self.kernel,
            stride=self.strides,
            padding=(self.pads[0], self.pads[1]),
            dilation=self.dilations,
            groups=self.groups,
            in_bytes=in_bytes,
            out_bytes=out_bytes,
        )

    def order(self) -> WindowOrder:
        return WindowOrder(
            self.out_height,
            self.out_width,
            *self.kernel,
            self.width,
            self.channels,
            self.out_channels,
            self.groups,
            self._source(0, self.height),
            self._source(1, self.width),
        )

    def _source(self, axis: int, extent: int) -> Callable[[int, int], int]:
        stride, pad, dilation = self.strides[axis], self.pads[axis], self.dilations[axis]

        def forward(out: int, k: int) -> int:
            at = out * stride - pad + k * dilation
            return at if at < extent else -1

        def backward(out: int, k: int) -> int:
            at = out - pad + k * dilation
            return at // stride if at >= 0 and at % stride == 0 and at // stride < extent else -1

        return backward if self.transposed else forward


@dataclass(frozen=True)
class WindowAttributes:
    """The attributes as the node has them, checked."""

    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    groups: int


def window_attributes(node: Node, shapes: list[Shape | None], constants: Any) -> WindowAttributes:
    """Checks ranks, channels and attributes that both convolutions have. Raises MinunError."""
    shape, weights = required(node, shapes, 0), required(node, shapes, 1)
    constant(node, constants, 1, "the weights")
    attributes = WindowAttributes(
        _pair(node.attrs.get("strides") or (1, 1)),
        _quadruple(node.attrs.get("pads") or (0, 0, 0, 0)),
        _pair(node.attrs.get("dilations") or (1, 1)),
        int(node.attrs.get("groups", 1)),
    )
    if len(shape) != 4 or shape[0] != 1 or len(weights) != 4:
        raise refuse(
            node, f"input {shape}, weights {weights}; expected (1, H, W, C), (out, kh, kw, in/groups)"
        )
    groups = attributes.groups
    if groups < 1 or shape[3] != weights[3] * groups or weights[0] % groups:
        raise refuse(node, f"input {shape}, weights {weights} and {groups} groups do not fit together")
    if min(*attributes.strides, *attributes.dilations) < 1 or min(attributes.pads) < 0:
        raise refuse(node, "strides and dilations must be at least 1, pads at least 0", "op.attribute")
    bias = optional(shapes, 2)
    if bias is not None:
        constant(node, constants, 2, "the bias")
        if elements(bias) != weights[0]:
            raise refuse(node, f"bias {bias} for {weights[0]} channels; expected ({weights[0]},)")
    return attributes


def checked(node: Node, geometry: Geometry) -> Geometry:
    """The geometry, if it has outputs and ConvShape holds it: 16 bits, but for heights and widths."""
    if min(geometry.out_height, geometry.out_width) < 1:
        raise refuse(node, f"no output: a kernel of {geometry.kernel} is larger than the padded input")
    x, weights = node.inputs[0], node.inputs[1]
    parts = "give parts of them to several layers"
    smaller = "stack smaller kernels, or reshape so that this axis is two"
    apart = "slice or pad the input in a layer of its own"
    numbers = [
        (geometry.channels, f"channels of '{x}'", parts),
        (geometry.out_channels, f"output channels of '{weights}'", parts),
    ]
    for k, axis in enumerate(("height", "width")):
        numbers += [
            (geometry.kernel[k], f"kernel {axis} of '{weights}'", smaller),
            (geometry.dilations[k], f"dilation of the {axis} of '{weights}'", smaller),
            (geometry.strides[k], f"stride along the {axis} of '{x}'", apart),
            (max(abs(geometry.pads[k]), abs(geometry.pads[k + 2])), f"padding of the {axis} of '{x}'", apart),
        ]
    for number, what, advice in numbers:
        if number > _INT16:
            raise refuse(node, f"{number:,} is too large for the {what}: at most {_INT16:,}; {advice}")
    return geometry


def chosen_kernel(binding: Binding, geometry: Geometry, weights: NDArray[Any] | None) -> Chosen | None:
    """The fast kernel for these constants, if there is one."""
    values = np.asarray(binding.constants[1] if weights is None else weights)
    if _for_avr(binding, geometry):
        chosen = choose_avr_conv(binding, geometry.cpp, geometry.window, geometry.groups, values)
        if chosen is not None:
            return chosen
    return choose_conv(binding, geometry.cpp, geometry.taps, geometry.patch_elements, geometry.groups, values)


def conv_traits(binding: Binding, geometry: Geometry, weights: NDArray[Any] | None = None) -> Traits:
    """Scratch for one group's patch (or four of them), and how far the output may follow the input."""
    fmt = present(binding.formats, 0, binding.node)
    per_element = 4 if fmt.family == "float" else element_bytes(fmt)
    if fmt.family in ("posit", "fixed"):
        per_element = unpacked_bytes(fmt)
    chosen = chosen_kernel(binding, geometry, weights)
    scratch = geometry.patch_elements * per_element if chosen is None else chosen.scratch_bytes
    if fast_quantised(binding) and _for_avr(binding, geometry):
        scratch = gathered_elements(geometry.groups, geometry.weights)
    elif fast_quantised(binding):
        scratch *= patches_at_once(geometry.groups, geometry.channels, geometry.out_channels)
    widths = (element_bytes(fmt), element_bytes(binding.out_formats[0]))
    if geometry.transposed:
        overlap = Overlap(0, 0, max(0, geometry.order().forward_bytes(*widths)))
    else:
        overlap = Overlap(0, 0, *raster.window_distances(geometry.raster(*widths)))
    return Traits(
        scratch_bytes=scratch,
        scratch_align=4,
        overlaps=(overlap,),
    )


def emit_conv(binding: Binding, geometry: Geometry, weights: NDArray[Any] | None = None) -> Call:
    """The call for `geometry`; `weights` replaces the constant where the kernel wants another order."""
    node = binding.node
    x, w, out = present(binding.formats, 0, node), present(binding.formats, 1, node), binding.out_formats[0]
    if x.family == "affine":
        return _emit_quantised(binding, geometry, weights)
    has_bias = optional(binding.constants, 2) is not None
    bias_format: Format = present(binding.formats, 2, node) if has_bias else out
    types = f"{out.cpp}, {x.cpp}, {w.cpp}, {bias_format.cpp}, {geometry.taps}"
    operands = ("{in0}", "{in1}", "{in2}" if has_bias else "nullptr", "{out0}", "{scratch}", geometry.cpp)
    replaced = {} if weights is None else {1: code_table(weights, w)}
    chosen = chosen_kernel(binding, geometry, weights)
    if chosen is not None:
        return chosen.call()
    if x.family == "float":
        return Call(
            header="minun/conv.h",
            function=f"minun::conv_float<{types}>",
            args=(*operands, *float_clip_arguments(node)),
            constant_codes=replaced,
            variant="float32",
        )
    return Call(
        header="minun/conv.h",
        function=f"minun::conv<{types}>",
        args=(*operands, clip_argument(node, out)),
        constant_codes=replaced,
        variant="exact",
    )


def fast_quantised(binding: Binding) -> bool:
    """Whether the fast kernel serves: int8 activations and weights."""
    x, w = binding.formats[0], binding.formats[1]
    if not (isinstance(x, Affine) and isinstance(w, Affine)):
        return False
    return x.width == 8 and w.width == 8


def _for_avr(binding: Binding, geometry: Geometry) -> bool:
    """Whether a kernel of minun/conv_avr.h serves, if there is one for the formats."""
    return binding.core == "avr" and not geometry.transposed


def code_table(values: NDArray[Any], fmt: Format) -> Table:
    """A constant's codes as a table of the format's code type."""
    codes = encoded(values, fmt)
    return codes_table(codes)


def codes_table(codes: Codes, hint: str = "weights") -> Table:
    """Codes, in the order given, as a table."""
    dtype = codes.dtype
    ctype = "float" if dtype == np.float32 else f"{dtype.name}_t"
    return Table(ctype, tuple(codes.ravel().tolist()), hint, align=int(dtype.itemsize))


def sums_of(node: Node) -> Product:
    """How int16 accumulators are kept: attribute `narrow_sums`, int32."""
    return Product.CONV32 if node.attrs.get("narrow_sums") else Product.CONV


def _emit_quantised(binding: Binding, geometry: Geometry, weights: NDArray[Any] | None) -> Call:
    x, w, out = affine_formats(binding)
    values = np.asarray(binding.constants[1] if weights is None else weights)
    codes = encoded(values, w)
    bias = optional(binding.constants, 2)
    bias_codes = None
    if bias is not None:
        bias_format = present(binding.formats, 2, binding.node)
        assert isinstance(bias_format, Affine)
        bias_codes = encoded(np.asarray(bias).ravel(), bias_format)
    product = sums_of(binding.node)
    factors = requantise_tables(x, w, out, product)
    wide = x.width == 16 and product is not Product.CONV32
    total = "int64_t" if wide else "int32_t"
    fast = fast_quantised(binding)
    header, function = "minun/quantised.h", f"conv_quantised<{out.cpp}, {x.cpp}, {w.cpp}, {total}"
    grouped = ""
    if fast:
        header, function = "minun/conv_fast.h", f"conv_quantised8<{out.cpp}"
        grouped = ", false" if geometry.groups == 1 else ", true"
    operands = ("{in0}", "{in1}", "{table0}", "{out0}", "{scratch}", geometry.cpp, str(x.zero_point))
    requantise = requantise_argument(binding.node, out, factors, 1)
    call = Call(
        header=header,
        function=f"minun::{function}, {geometry.taps}{grouped}>",
        args=(*operands, requantise),
        tables=(folded_bias(x, codes, bias_codes, wide), *factors),
        constant_codes={} if weights is None else {1: codes_table(codes)},
        variant="quantised",
    )
    if not (fast and _for_avr(binding, geometry)):
        return call
    depthwise = is_depthwise(geometry.groups, geometry.weights)
    return replace(
        call,
        header="minun/conv_avr.h",
        function=f"minun::conv_avr_quantised8<{out.cpp}, {str(depthwise).lower()}>",
        args=(*operands, requantise, "{reverse}"),
    )


def _pair(values: Any) -> tuple[int, int]:
    first, second = values
    return int(first), int(second)


def _quadruple(values: Any) -> tuple[int, int, int, int]:
    top, left, bottom, right = values
    return int(top), int(left), int(bottom), int(right)
