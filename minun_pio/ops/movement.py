# SPDX-License-Identifier: Apache-2.0
"""What operators that only move codes have in common: no arithmetic, so one array function is everything.

`StridedMovement` covers those whose output element is found in the input by one linear form of its
position (transpose, slice, reverse, expand); one kernel, `minun/strided.h`, serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.ir import Node, Shape
from minun_pio.numerics.format import Codes, Format, element_bytes
from minun_pio.ops.calling import code_type, in_flash, input_shape, same_format, shape_table, where
from minun_pio.ops.operator import Binding, Call, Floats, Overlap, Traits, View
from minun_pio.ops.shapes import elements, refuse

EVERY_FAMILY = frozenset({"posit", "fixed", "affine", "float", "index"})


class Movement:
    """An operator whose output codes are input codes; subclasses give `move` and the call."""

    name = ""
    policy = "same"
    families = EVERY_FAMILY

    def move(self, node: Node, inputs: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        """The operator on arrays of any dtype, with the sample axis in front."""
        raise NotImplementedError

    def reference(self, node: Node, inputs: Sequence[Floats | None]) -> list[Floats]:
        return self.move(node, inputs)

    def simulate(
        self,
        node: Node,
        inputs: Sequence[Codes | None],
        formats: Sequence[Format | None],
        out_formats: Sequence[Format],
    ) -> list[Codes]:
        return self.move(node, inputs)

    def traits(self, binding: Binding) -> Traits:
        return Traits()


@dataclass(frozen=True)
class Walk:
    """Output element (i0, i1, …) is input element `offset + sum(i * strides)`; all in elements."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def merged(self) -> Walk:
        """The same walk over fewer axes: axes of 1 dropped, axes that continue each other joined."""
        extents: list[int] = []
        strides: list[int] = []
        for extent, stride in zip(self.extents, self.strides, strict=True):
            if extent == 1:
                continue
            if extents and strides[-1] == stride * extent:
                extents[-1] *= extent
                strides[-1] = stride
            else:
                extents.append(extent)
                strides.append(stride)
        if not extents:
            return Walk((1,), (1,), self.offset)
        return Walk(tuple(extents), tuple(strides), self.offset)

    def lead(self) -> int:
        """The most elements by which the write position ever gets ahead of what is still to be read."""
        merged = self.merged()
        reads = np.asarray(merged.offset)
        for extent, stride in zip(merged.extents, merged.strides, strict=True):
            reads = reads[..., None] + np.arange(extent) * stride
        flat = reads.reshape(-1)
        still = np.minimum.accumulate(flat[::-1])[::-1]  # lowest position read from here on
        return int((np.arange(1, len(flat)) - still[1:]).max()) if len(flat) > 1 else -len(flat)

    @property
    def contiguous(self) -> bool:
        """Whether the output is one unbroken run of the input."""
        merged = self.merged()
        return len(merged.extents) == 1 and merged.strides[0] == 1


class StridedMovement(Movement):
    """A movement that is one `Walk`."""

    def walk(self, node: Node, shape: Shape) -> Walk:
        """The walk over an input of `shape`."""
        raise NotImplementedError

    def traits(self, binding: Binding) -> Traits:
        shape = input_shape(binding, 0)
        walk = self.walk(binding.node, shape)
        if in_flash(binding, 0):
            return Traits()
        width = element_bytes(same_format(binding))
        overlap = Overlap(0, 0, forward_bytes=walk.lead() * width)
        if not walk.contiguous:
            return Traits(overlaps=(overlap,))
        whole = elements(shape) == elements(binding.out_shapes[0])
        return Traits(
            in_place=((0, 0),) if whole else (),
            overlaps=(overlap,),
            views=(View(0, 0, walk.offset * width, output_inside=True),),
        )

    def emit(self, binding: Binding) -> Call:
        walk = self.walk(binding.node, input_shape(binding, 0)).merged()
        if len(walk.extents) > 8:
            raise refuse(
                binding.node, f"rank {len(walk.extents)} after merging axes; the kernel takes up to 8"
            )
        ctype = code_type(same_format(binding))
        return Call(
            header="minun/strided.h",
            function=f"minun::strided_copy<{ctype}, {where(binding, 0)}>",
            args=(f"{{in0}} + {walk.offset}", "{out0}", str(len(walk.extents)), "{table0}"),
            tables=(shape_table(walk.extents + walk.strides, f"{self.name}_walk"),),
            variant="strided",
        )


def sample_axes(array: NDArray[Any], axes: Sequence[int]) -> tuple[int, ...]:
    """Tensor axes as axes of an array with a sample axis in front."""
    return tuple(axis + 1 for axis in axes)


def contiguous(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array)
