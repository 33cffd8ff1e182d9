# SPDX-License-Identifier: Apache-2.0
"""The side files of an ONNX model: weights that it keeps outside, on which a build depends as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minun_pio.errors import missing_extra


def external_files(path: Path) -> tuple[Path, ...]:
    """The files that a readable model's tensors lie in, in order of their names, none where all is inside."""
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "onnx", "reading an ONNX model") from None
    model = onnx.load(str(path), load_external_data=False)
    locations = {
        entry.value
        for tensor in _tensors(model.graph)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return tuple(path.parent / location for location in sorted(locations))


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
