# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite models of one operator, built in memory, and what the interpreter makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import tflite
from numpy.typing import NDArray

from minun_pio.numerics.affine import Affine

_TYPES = {np.dtype(np.int8): tflite.TensorType.INT8, np.dtype(np.int16): tflite.TensorType.INT16}
_TYPES[np.dtype(np.int32)] = tflite.TensorType.INT32
_TYPES[np.dtype(np.float32)] = tflite.TensorType.FLOAT32


_INT8 = np.dtype(np.int8)


@dataclass(frozen=True)
class Operand:
    """A tensor of the model; `data` makes it constant."""

    shape: tuple[int, ...]
    fmt: Affine | None = None
    data: NDArray[Any] | None = None
    dtype: np.dtype[Any] = _INT8


Options = Callable[[flatbuffers.Builder], int]


def _vector(builder: flatbuffers.Builder, start: Callable[..., Any], items: Sequence[int]) -> int:
    start(builder, len(items))
    for item in reversed(items):
        builder.PrependUOffsetTRelative(item)
    return int(builder.EndVector())


def _integers(builder: flatbuffers.Builder, values: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.asarray(values, np.int32)))


def _quantisation(builder: flatbuffers.Builder, fmt: Affine) -> int:
    scales = builder.CreateNumpyVector(np.asarray(fmt.scales, np.float32))
    zeros = builder.CreateNumpyVector(np.full(len(fmt.scales), fmt.zero_point, np.int64))
    tflite.QuantizationParametersStart(builder)
    tflite.QuantizationParametersAddScale(builder, scales)
    tflite.QuantizationParametersAddZeroPoint(builder, zeros)
    if fmt.axis is not None:
        tflite.QuantizationParametersAddQuantizedDimension(builder, fmt.axis)
    return int(tflite.QuantizationParametersEnd(builder))


def single_op_model(
    op: int, inputs: Sequence[Operand], outputs: Sequence[Operand], options: Options | None, options_type: int
) -> bytes:
    """The bytes of a model whose one operator is `op` (a tflite.BuiltinOperator)."""
    builder = flatbuffers.Builder(4096)
    buffers, tensors = [], []
    tflite.BufferStart(builder)
    buffers.append(tflite.BufferEnd(builder))
    for index, operand in enumerate((*inputs, *outputs)):
        buffer = 0
        if operand.data is not None:
            data = builder.CreateNumpyVector(np.frombuffer(operand.data.tobytes(), np.uint8))
            tflite.BufferStart(builder)
            tflite.BufferAddData(builder, data)
            buffers.append(tflite.BufferEnd(builder))
            buffer = len(buffers) - 1
        name, shape = builder.CreateString(f"t{index}"), _integers(builder, operand.shape)
        quantisation = None if operand.fmt is None else _quantisation(builder, operand.fmt)
        tflite.TensorStart(builder)
        tflite.TensorAddShape(builder, shape)
        tflite.TensorAddType(builder, _TYPES[operand.dtype])
        tflite.TensorAddBuffer(builder, buffer)
        tflite.TensorAddName(builder, name)
        if quantisation is not None:
            tflite.TensorAddQuantization(builder, quantisation)
        tensors.append(tflite.TensorEnd(builder))
    operator_inputs = _integers(builder, range(len(inputs)))
    operator_outputs = _integers(builder, range(len(inputs), len(inputs) + len(outputs)))
    made = None if options is None else options(builder)
    tflite.OperatorStart(builder)
    tflite.OperatorAddOpcodeIndex(builder, 0)
    tflite.OperatorAddInputs(builder, operator_inputs)
    tflite.OperatorAddOutputs(builder, operator_outputs)
    if made is not None:
        tflite.OperatorAddBuiltinOptionsType(builder, options_type)
        tflite.OperatorAddBuiltinOptions(builder, made)
    operators = _vector(builder, tflite.SubGraphStartOperatorsVector, [tflite.OperatorEnd(builder)])
    tensor_vector = _vector(builder, tflite.SubGraphStartTensorsVector, tensors)
    free = [index for index, operand in enumerate(inputs) if operand.data is None]
    graph_inputs = _integers(builder, free)
    graph_outputs = _integers(builder, range(len(inputs), len(inputs) + len(outputs)))
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, tensor_vector)
    tflite.SubGraphAddInputs(builder, graph_inputs)
    tflite.SubGraphAddOutputs(builder, graph_outputs)
    tflite.SubGraphAddOperators(builder, operators)
    graphs = _vector(builder, tflite.ModelStartSubgraphsVector, [tflite.SubGraphEnd(builder)])
    tflite.OperatorCodeStart(builder)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(op, 127))
    tflite.OperatorCodeAddBuiltinCode(builder, op)
    tflite.OperatorCodeAddVersion(builder, 2)
    codes = _vector(builder, tflite.ModelStartOperatorCodesVector, [tflite.OperatorCodeEnd(builder)])
    buffer_vector = _vector(builder, tflite.ModelStartBuffersVector, buffers)
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddOperatorCodes(builder, codes)
    tflite.ModelAddSubgraphs(builder, graphs)
    tflite.ModelAddBuffers(builder, buffer_vector)
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def interpret(model: bytes, feeds: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The outputs of TensorFlow Lite's reference kernels (BUILTIN_REF) for one set of inputs."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for detail, feed in zip(interpreter.get_input_details(), feeds, strict=True):
        interpreter.set_tensor(detail["index"], feed)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
