# SPDX-License-Identifier: Apache-2.0
"""How operators spell their calls: C++ element types, constants in flash, shape tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minun_pio.errors import MinunError
from minun_pio.numerics.format import Format, element_bytes
from minun_pio.ops.operator import Binding, Overlap, Table, Traits
from minun_pio.ops.shapes import elements
from minun_pio.planner import raster

_FLAT_CORES = frozenset({"m3", "m4", "m7"})

_C_TYPES = {
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint16": "uint16_t",
    "float32": "float",
}


def code_type(fmt: Format) -> str:
    """The C++ type of one code of `fmt`."""
    return _C_TYPES[np.dtype(fmt.storage).name]


def input_format(binding: Binding, index: int) -> Format:
    """The format of input `index`, which must be present."""
    fmt = binding.formats[index]
    if fmt is None:
        raise MinunError("op.input-missing", f"input {index} has no format", f"node '{binding.node.name}'")
    return fmt


def input_shape(binding: Binding, index: int) -> tuple[int, ...]:
    """The shape of input `index`, which must be present."""
    shape = binding.shapes[index]
    if shape is None:
        raise MinunError("op.input-missing", f"input {index} has no shape", f"node '{binding.node.name}'")
    return shape


def in_flash(binding: Binding, index: int) -> bool:
    """Whether input `index` is a constant, which lies in flash."""
    return index < len(binding.constants) and binding.constants[index] is not None


def activation(binding: Binding, index: int) -> None:
    """Refuses a constant where the kernel reads RAM only; folding constants removes such nodes."""
    if in_flash(binding, index):
        raise MinunError(
            "op.constant",
            f"input {index} is constant; fold constants before emitting",
            f"node '{binding.node.name}' ({binding.node.op})",
        )


def where(binding: Binding, index: int) -> str:
    """How the kernel reads input `index`: a constant from flash, an activation from RAM.

    On a Cortex-M flash reads like RAM, and one kernel serves both.
    """
    flash = in_flash(binding, index) and binding.core not in _FLAT_CORES
    return "minun::InFlash" if flash else "minun::InRam"


def shape_table(values: Sequence[int], hint: str = "shape") -> Table:
    """Extents and strides that a kernel reads at run time."""
    return Table("int32_t", tuple(int(value) for value in values), hint, align=4)


def elementwise_traits(binding: Binding, reverse: bool = False) -> Traits:
    """Traits of a kernel that reads element i of each full-size input, then writes element i.

    An input of the output's size may be the same bytes, where its codes are as wide; any full-size input
    may be overrun from behind, and if the kernel has a `{reverse}`, from the front by wider codes. Inputs
    that are broadcast or constant are read more than once or elsewhere.
    """
    out_elements = elements(binding.out_shapes[0])
    out_width = element_bytes(binding.out_formats[0])
    in_place: list[tuple[int, int]] = []
    overlaps: list[Overlap] = []
    for index, (shape, fmt) in enumerate(zip(binding.shapes, binding.formats, strict=True)):
        if shape is None or fmt is None or in_flash(binding, index) or elements(shape) != out_elements:
            continue
        width = element_bytes(fmt)
        if width == out_width:
            in_place.append((index, 0))
        distances = raster.elementwise_distances(out_elements, width, out_width)
        backward = distances.reverse if reverse and out_width > width else None
        overlaps.append(Overlap(index, 0, distances.forward, backward))
    return Traits(in_place=tuple(in_place), overlaps=tuple(overlaps))


def lane_traits(binding: Binding) -> Traits:
    """Traits of a kernel that reads a lane before it writes it, element i last where element i is written."""
    same_width = element_bytes(input_format(binding, 0)) == element_bytes(binding.out_formats[0])
    return Traits(in_place=((0, 0),)) if same_width and not in_flash(binding, 0) else Traits()


def same_format(binding: Binding) -> Format:
    """The one format of an operator whose output codes are its input's codes."""
    first = input_format(binding, 0)
    for fmt in (*binding.formats, *binding.out_formats):
        if fmt is not None and fmt != first and fmt.family in ("posit", "fixed", "affine", "float"):
            raise MinunError(
                "op.format",
                f"{first.name} and {fmt.name} found where one format is needed; put a convert node between",
                f"node '{binding.node.name}' ({binding.node.op})",
            )
    return first
