# SPDX-License-Identifier: Apache-2.0
"""Small TensorFlow Lite files, written with the schema's own builder, and the interpreter's word on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from numpy.typing import NDArray

Array = NDArray[Any]
TYPES = {"float32": 0, "int32": 2, "int64": 4, "bool": 6, "int16": 7, "int8": 9}


@dataclass
class File:
    """A model under construction: tensors and operators by index."""

    tensors: list[tuple[str, tuple[int, ...], str, Array | None, Sequence[float], int, int]] = field(
        default_factory=list
    )
    operators: list[tuple[int, list[int], list[int], str, dict[str, Any]]] = field(default_factory=list)

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str = "float32",
        data: Array | None = None,
        scales: Sequence[float] = (),
        zero: int = 0,
        axis: int = 0,
    ) -> int:
        self.tensors.append((name, shape, dtype, data, scales, zero, axis))
        return len(self.tensors) - 1

    def operator(
        self, code: int, inputs: list[int], outputs: list[int], options: str = "", **fields: Any
    ) -> None:
        self.operators.append((code, inputs, outputs, options, fields))

    def bytes(self, inputs: list[int], outputs: list[int], version: int = 1) -> bytes:
        b = flatbuffers.Builder(1024)
        buffers = [self._buffer(b, None), *(self._buffer(b, t[3]) for t in self.tensors)]
        tensors = [self._tensor(b, t, k + 1) for k, t in enumerate(self.tensors)]
        codes = sorted({op[0] for op in self.operators})
        operators = [self._operator(b, op, codes.index(op[0])) for op in self.operators]
        code_tables = []
        for code in codes:
            tflite.OperatorCodeStart(b)
            tflite.OperatorCodeAddBuiltinCode(b, code)
            tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(code, 127))
            tflite.OperatorCodeAddVersion(b, version)
            code_tables.append(tflite.OperatorCodeEnd(b))
        tensor_vector = _tables(b, tflite.SubGraphStartTensorsVector, tensors)
        operator_vector = _tables(b, tflite.SubGraphStartOperatorsVector, operators)
        given, made = _ints(b, inputs), _ints(b, outputs)
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, tensor_vector)
        tflite.SubGraphAddInputs(b, given)
        tflite.SubGraphAddOutputs(b, made)
        tflite.SubGraphAddOperators(b, operator_vector)
        graph = tflite.SubGraphEnd(b)
        graphs = _tables(b, tflite.ModelStartSubgraphsVector, [graph])
        buffer_vector = _tables(b, tflite.ModelStartBuffersVector, buffers)
        code_vector = _tables(b, tflite.ModelStartOperatorCodesVector, code_tables)
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, 3)
        tflite.ModelAddOperatorCodes(b, code_vector)
        tflite.ModelAddSubgraphs(b, graphs)
        tflite.ModelAddBuffers(b, buffer_vector)
        b.Finish(tflite.ModelEnd(b), b"TFL3")
        return bytes(b.Output())

    @staticmethod
    def _buffer(b: Any, data: Array | None) -> int:
        content = None if data is None else b.CreateByteVector(data.tobytes())
        tflite.BufferStart(b)
        if content is not None:
            tflite.BufferAddData(b, content)
        return int(tflite.BufferEnd(b))

    @staticmethod
    def _tensor(b: Any, t: tuple[Any, ...], buffer: int) -> int:
        name, shape, dtype, _, scales, zero, axis = t
        label, extents, quantisation = b.CreateString(name), _ints(b, shape), None
        if len(scales):
            scale = b.CreateNumpyVector(np.asarray(scales, dtype=np.float32))
            zeros = b.CreateNumpyVector(np.full(len(scales), zero, dtype=np.int64))
            tflite.QuantizationParametersStart(b)
            tflite.QuantizationParametersAddScale(b, scale)
            tflite.QuantizationParametersAddZeroPoint(b, zeros)
            tflite.QuantizationParametersAddQuantizedDimension(b, axis)
            quantisation = tflite.QuantizationParametersEnd(b)
        tflite.TensorStart(b)
        tflite.TensorAddShape(b, extents)
        tflite.TensorAddType(b, TYPES[dtype])
        tflite.TensorAddBuffer(b, buffer)
        tflite.TensorAddName(b, label)
        if quantisation is not None:
            tflite.TensorAddQuantization(b, quantisation)
        return int(tflite.TensorEnd(b))

    @staticmethod
    def _operator(b: Any, op: tuple[Any, ...], code: int) -> int:
        _, inputs, outputs, kind, fields = op
        given, made, options = _ints(b, inputs), _ints(b, outputs), None
        if kind:
            fields = {key: _ints(b, v) if isinstance(v, list) else v for key, v in fields.items()}
            getattr(tflite, f"{kind}Start")(b)
            for key, value in fields.items():
                getattr(tflite, f"{kind}Add{key}")(b, value)
            options = getattr(tflite, f"{kind}End")(b)
        tflite.OperatorStart(b)
        tflite.OperatorAddOpcodeIndex(b, code)
        tflite.OperatorAddInputs(b, given)
        tflite.OperatorAddOutputs(b, made)
        if options is not None:
            tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, kind))
            tflite.OperatorAddBuiltinOptions(b, options)
        return int(tflite.OperatorEnd(b))


def _ints(b: Any, values: Sequence[int]) -> int:
    return int(b.CreateNumpyVector(np.asarray(values, dtype=np.int32)))


def _tables(b: Any, start: Any, tables: Sequence[int]) -> int:
    start(b, len(tables))
    for table in reversed(tables):
        b.PrependUOffsetTRelative(table)
    return int(b.EndVector())


def interpreted(content: bytes, inputs: Sequence[Array]) -> list[Array]:
    """The reference kernels' outputs for one sample."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    engine = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    engine.allocate_tensors()
    for detail, value in zip(engine.get_input_details(), inputs, strict=True):
        engine.set_tensor(detail["index"], value)
    engine.invoke()
    return [np.array(engine.get_tensor(detail["index"])) for detail in engine.get_output_details()]
