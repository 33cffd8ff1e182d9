# SPDX-License-Identifier: Apache-2.0
"""Cases of TensorFlow Lite's operators that move values, and of resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tflite_draw import Case, Draw, Drawn, Shape


def move(
    operator: str,
    form: str,
    shape: Shape,
    out: Shape | Sequence[Shape],
    constants: Sequence[Any] = (),
    options: str = "",
    *,
    count: int = 1,
    first: bool = False,
    version: int = 1,
    **fields: Any,
) -> Case:
    """`count` inputs of one format and constants after them (before them where `first`), and the outputs."""
    outs = [out] if not out or isinstance(out[0], int) else list(out)

    def make(draw: Draw) -> Drawn:
        step = draw.random_step()
        inputs = [draw.input(shape, step) for _ in range(count)]
        given = [draw.integers(value) for value in constants]
        for extents in outs:
            draw.output(tuple(extents), step)
        return draw.operator(
            operator, [*given, *inputs] if first else [*inputs, *given], options, version, **fields
        )

    return Case(operator, form, make)


def _pad_with_value(draw: Draw) -> Drawn:
    step = draw.random_step()
    x, value = draw.input((1, 3, 4, 2), step), draw.constant((), step)
    draw.output((1, 6, 5, 2), step)
    return draw.operator("PADV2", [x, draw.integers(_PADS), value], "PadV2Options")


def _select(operator: str, form: str, options: str, mask: Shape, a: Shape, b: Shape) -> Case:
    """By a constant condition, mixed or of one value."""

    def make(draw: Draw) -> Drawn:
        step = draw.random_step()
        x, y = draw.input(a, step), draw.input(b, step)
        condition = draw.tensor(mask, "bool", draw.rng.random(mask) < draw.rng.choice([0.0, 0.5, 0.5, 1.0]))
        draw.output(np.broadcast_shapes(mask if operator == "SELECT_V2" else a, a, b), step)
        return draw.operator(operator, [condition, x, y], options)

    return Case(operator, form, make)


def _with_constant(draw: Draw) -> Drawn:
    step = draw.random_step()
    parts = [draw.input((1, 3, 4), step), draw.constant((1, 2, 4), step)]
    draw.output((1, 5, 4), step)
    return draw.operator("CONCATENATION", parts, "ConcatenationOptions", Axis=-2)


def _strided(form: str, shape: Shape, out: Shape, constants: Sequence[Any], **fields: int) -> Case:
    return move("STRIDED_SLICE", form, shape, out, constants, "StridedSliceOptions", **fields)


def _resizes() -> list[Case]:
    found = []
    for op in ("RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"):
        options = (
            "ResizeNearestNeighborOptions"
            if op.endswith("R") and "NEAREST" in op
            else "ResizeBilinearOptions"
        )
        for form, fields in (
            ("", {}),
            ("half pixels", {"HalfPixelCenters": True}),
            ("corners", {"AlignCorners": True}),
        ):
            for height, width in ((6, 5), (2, 9), (8, 12)):
                name = f"{form} {height} x {width}".strip()
                out = (1, height, width, 3)
                found.append(move(op, name, (1, 4, 6, 3), out, [[height, width]], options, **fields))
    return found


_TO_BATCH, _FROM_BATCH = "SpaceToBatchNDOptions", "BatchToSpaceNDOptions"
_OPEN = {"BeginMask": 3, "EndMask": 3}
_PADS = [[0, 0], [1, 2], [0, 1], [0, 0]]
_IMAGE, _PADDED = (1, 3, 4, 2), (1, 6, 5, 2)

MOVEMENT: tuple[Case, ...] = (
    move("RESHAPE", "", (1, 3, 4), (1, 12), [[1, 12]], "ReshapeOptions"),
    move("RESHAPE", "unknown axis", (1, 3, 4), (2, 6), [[2, -1]], "ReshapeOptions"),
    move("SQUEEZE", "", (1, 3, 1), (3,), (), "SqueezeOptions"),
    move("EXPAND_DIMS", "", (1, 3), (1, 1, 3), [[1]], "ExpandDimsOptions"),
    move("TRANSPOSE", "", (1, 3, 4, 2), (1, 2, 3, 4), [[0, 3, 1, 2]], "TransposeOptions"),
    move("TRANSPOSE", "batch", (2, 3, 4), (4, 2, 3), [[2, 0, 1]], "TransposeOptions"),
    move("CONCATENATION", "", (1, 3, 4), (1, 9, 4), (), "ConcatenationOptions", count=3, Axis=1),
    Case("CONCATENATION", "constant", _with_constant),
    move("PACK", "", (3, 4), (3, 2, 4), (), "PackOptions", count=2, Axis=1, ValuesCount=2),
    move("PACK", "last", (3, 4), (3, 4, 3), (), "PackOptions", count=3, Axis=-1, ValuesCount=3),
    move("UNPACK", "", (3, 2, 4), [(3, 4)] * 2, (), "UnpackOptions", Axis=1, Num=2),
    move("SPLIT", "", (1, 6), [(1, 3)] * 2, [1], "SplitOptions", first=True, NumSplits=2),
    move("SPLIT_V", "", (1, 6), [(1, 2), (1, 4)], [[2, 4], 1], "SplitVOptions", NumSplits=2),
    move("SPLIT_V", "rest", (2, 6), [(2, 1), (2, 3), (2, 2)], [[1, -1, 2], -1], "SplitVOptions", NumSplits=3),
    move("SLICE", "", (3, 6), (2, 4), [[1, 1], [2, 4]], "SliceOptions"),
    move("SLICE", "to the end", (3, 6), (1, 4), [[2, 2], [-1, -1]], "SliceOptions"),
    _strided("", (3, 6), (2, 3), [[1, 0], [3, 6], [1, 2]]),
    _strided("backwards", (3, 6), (3, 3), [[0, 5], [3, 0], [1, -2]]),
    _strided("masks", (3, 6), (2, 4), [[1, 9], [0, 4], [1, 1]], BeginMask=2, EndMask=1),
    _strided("backwards masks", (3, 6), (3, 6), [[0, 2], [0, 2], [-1, -1]], **_OPEN),
    _strided("axis gone", (3, 6), (6,), [[-2, 0], [3, 6], [1, 1]], ShrinkAxisMask=1),
    _strided("new axis", (3, 6), (1, 3, 6), [[0, 0, 0], [0, 3, 6], [1, 1, 1]], NewAxisMask=1),
    _strided("ellipsis", (2, 3, 6), (2, 3, 3), [[0, 0], [0, 3], [1, 1]], EllipsisMask=1),
    move("PAD", "", _IMAGE, _PADDED, [_PADS], "PadOptions"),
    move("PAD", "channels", (1, 2, 3), (1, 3, 6), [[[0, 0], [0, 1], [2, 1]]], "PadOptions"),
    Case("PADV2", "", _pad_with_value),
    move("MIRROR_PAD", "reflect", _IMAGE, _PADDED, [_PADS], "MirrorPadOptions", Mode=0),
    move("MIRROR_PAD", "symmetric", _IMAGE, _PADDED, [_PADS], "MirrorPadOptions", Mode=1),
    move("GATHER", "", (1, 5, 4), (1, 3, 4), [[4, 0, 0]], "GatherOptions", Axis=1),
    move("GATHER", "one", (5, 4), (4,), [3], "GatherOptions", Axis=0),
    move("GATHER", "batches", (2, 5), (2, 3), [[[4, 0, 0], [1, 2, 3]]], "GatherOptions", Axis=1, BatchDims=1),
    move("GATHER", "last", (3, 6), (3, 2, 2), [[[5, 0], [2, 2]]], "GatherOptions", Axis=-1),
    move("GATHER_ND", "", (5, 4), (2, 4), [[[3], [0]]], "GatherNdOptions"),
    move("GATHER_ND", "two axes", (3, 5, 4), (2, 4), [[[2, 3], [0, 4]]], "GatherNdOptions"),
    _select("SELECT", "", "SelectOptions", (2, 12), (2, 12), (2, 12)),
    _select("SELECT", "rows", "SelectOptions", (4,), (4, 5), (4, 5)),
    _select("SELECT_V2", "", "SelectV2Options", (2, 12), (2, 12), (2, 12)),
    _select("SELECT_V2", "broadcast", "SelectV2Options", (3, 1, 4), (1, 5, 4), (3, 5, 1)),
    move("REVERSE_V2", "", (1, 5, 4), (1, 5, 4), [[1]], "ReverseV2Options"),
    move("TILE", "", (1, 3, 4), (1, 6, 8), [[1, 2, 2]], "TileOptions"),
    move("BROADCAST_TO", "", (1, 3, 1), (1, 3, 4), [[1, 3, 4]], "BroadcastToOptions", version=2),
    move("DEPTH_TO_SPACE", "", (1, 3, 4, 8), (1, 6, 8, 2), (), "DepthToSpaceOptions", BlockSize=2),
    move("SPACE_TO_DEPTH", "", (1, 6, 8, 2), (1, 3, 4, 8), (), "SpaceToDepthOptions", BlockSize=2),
    move("SPACE_TO_BATCH_ND", "", (1, 5, 6, 2), (4, 4, 4, 2), [[2, 2], [[1, 2], [1, 1]]], _TO_BATCH),
    move("BATCH_TO_SPACE_ND", "", (4, 4, 4, 2), (1, 6, 7, 2), [[2, 2], [[1, 1], [0, 1]]], _FROM_BATCH),
    *_resizes(),
)  # fmt: skip
