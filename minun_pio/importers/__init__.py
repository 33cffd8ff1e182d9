# SPDX-License-Identifier: Apache-2.0
"""From what people have (ONNX, TFLite, a layer list with NPZ weights) to one `Graph`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minun_pio.config.model import ModelConfig
    from minun_pio.ir import Graph


def import_graph(config: ModelConfig) -> Graph:
    """The network that a model.yaml names, with all passes run and its outputs chosen.

    Raises MinunError with the file and node, or `model.yaml:LINE` for a layer list.
    """
    from minun_pio.passes import optimise

    source = config.source
    if source.kind == "onnx":
        from minun_pio.importers.onnx import load_onnx

        assert source.path is not None
        graph = load_onnx(
            source.path, input_shape=source.input_shape, outputs=config.outputs, name=config.name
        )
    elif source.kind == "tflite":
        from minun_pio.importers.tflite import load_tflite

        assert source.path is not None
        graph = load_tflite(source.path, outputs=config.outputs, name=config.name)
    else:
        from minun_pio.importers.layers import load_layers

        graph = load_layers(
            source.layers,
            source.weights,
            source.input_shape,
            name=config.name,
            file=config.path.name,
            outputs=config.outputs,
            where=config.where("source.layers"),
        )
    return optimise(graph)
