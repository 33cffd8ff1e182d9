# SPDX-License-Identifier: Apache-2.0
"""The side files of an ONNX model: weights that it keeps outside, on which a build depends as well."""

from __future__ import annotations

import ntpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minun_pio.errors import missing_extra


def beside(location: str) -> bool:
    """Whether a location is in the model's folder by its text, on every system: asked before anything looks
    there, because to look at a network share on Windows is to log on to it."""
    drive, rest = ntpath.splitdrive(location)
    return not drive and rest[:1] not in ("/", "\\") and ntpath.normpath(rest).split("\\")[0] != ".."


def external_files(path: Path) -> dict[str, Path]:
    """The files that a model's tensors lie in, by the locations that it gives, in order of these.

    None outside its folder. Empty where all is inside, and where the file is no ONNX model: reading it says
    what is wrong with it.
    """
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "reading an ONNX model") from None
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]

    try:
        graph = onnx.ModelProto.FromString(path.read_bytes()).graph
    except (OSError, DecodeError, ValueError, RecursionError):
        return {}
    locations = {
        entry.value
        for tensor in _tensors(graph)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return {location: path.parent / location for location in sorted(locations) if beside(location)}


def _tensors(graph: Any) -> Iterator[Any]:
    """Every tensor of a graph and of the graphs inside it."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            yield from _tensors(attribute.g)
            for inner in attribute.graphs:
                yield from _tensors(inner)
