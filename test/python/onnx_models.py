# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models for the importer's tests, and what onnxruntime says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from minun_pio.importers.onnx import convert, parse_onnx
from minun_pio.ir import Graph
from minun_pio.passes import optimise
from minun_pio.simulate.reference import reference

Array = NDArray[Any]


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "", **attrs: Any) -> Any:
    return helper.make_node(op, list(inputs), list(outputs), name or outputs[0], **attrs)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of float32 inputs; outputs have no declared shape."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(value), n) for n, value in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def imported(proto: onnx.ModelProto, **options: Any) -> Graph:
    """The graph after all passes."""
    return optimise(convert(parse_onnx(proto.SerializeToString(), "test.onnx", None), **options))


def runtime(proto: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """onnxruntime's outputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(value) for value in session.run(None, dict(inputs))]


def ours(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """Our float reference's outputs for one sample, without the sample axis."""
    found = reference(graph, {name: value[None] for name, value in inputs.items()})
    return [np.asarray(found[name])[0] for name in graph.outputs]


def agrees(proto: onnx.ModelProto, inputs: Mapping[str, Array], tolerance: float = 1e-5) -> Graph:
    """Asserts that the import computes what onnxruntime computes; the graph."""
    graph = imported(proto)
    for result, wanted in zip(ours(graph, inputs), runtime(proto, inputs), strict=True):
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)
    return graph


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]
