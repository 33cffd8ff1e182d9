# SPDX-License-Identifier: Apache-2.0
"""From what people have (ONNX, TFLite, a layer list with NPZ weights) to one `Graph`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minun_pio.errors import MinunError

if TYPE_CHECKING:
    from minun_pio.config.model import ModelConfig
    from minun_pio.ir import Graph


def import_graph(config: ModelConfig) -> Graph:
    """The network that a model.yaml names, with all passes run and its outputs chosen.

    Raises MinunError with the file and node, or `model.yaml:LINE` for a layer list.
    """
    from minun_pio.passes import optimise

    check_integers()
    try:
        return optimise(_imported(config))
    except MinunError as error:
        if error.code.partition(".")[2] != "output":
            raise
        raise MinunError(error.code, error.message, config.where("outputs")) from None


def check_integers() -> None:
    """Refuses a numpy whose integers have 32 bits unless told otherwise: exact sums would wrap in silence."""
    import numpy as np

    if np.dtype(int).itemsize < 8:
        raise MinunError(
            "extra.narrow-integers",
            f"numpy {np.__version__} computes with 32-bit integers here; a search needs numpy 2 or newer "
            "and a 64-bit Python",
        )


def _imported(config: ModelConfig) -> Graph:
    source = config.source
    if source.kind == "onnx":
        from minun_pio.importers.onnx import load_onnx

        assert source.path is not None
        return load_onnx(
            source.path, input_shape=source.input_shape, outputs=config.outputs, name=config.name
        )
    if source.kind == "tflite":
        from minun_pio.importers.tflite import load_tflite

        assert source.path is not None
        return load_tflite(source.path, outputs=config.outputs, name=config.name)
    from minun_pio.importers.layers import load_layers

    return load_layers(
        source.layers,
        source.weights,
        source.input_shape,
        name=config.name,
        file=config.path.name,
        outputs=config.outputs,
        where=config.where("source.layers"),
    )
