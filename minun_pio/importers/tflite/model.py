# SPDX-License-Identifier: Apache-2.0
"""A TensorFlow Lite file as plain data. The flatbuffer is read by the `tflite` package's schema classes,
which trust
offsets; whatever they stumble over in a damaged file is one MinunError here, and no length is believed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError, missing_extra
from minun_pio.importers.builder import DAMAGE, MAX_ELEMENTS, MAX_NODES, printable

MAX_FILE_BYTES = 256 << 20
_DTYPES: Mapping[str, str] = {
    "FLOAT32": "<f4",
    "FLOAT16": "<f2",
    "FLOAT64": "<f8",
    "INT8": "<i1",
    "UINT8": "<u1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "BOOL": "?",
}


@dataclass(frozen=True)
class TfTensor:
    """`data` is there for constants. `scales` is empty for tensors that are not quantised; `axis` is the
    channel's when there are several."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    data: NDArray[Any] | None
    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    axis: int

    @property
    def label(self) -> str:
        """The first of the names that the converter joins with ';' where it fuses operators."""
        return self.name.split(";", 1)[0]


@dataclass(frozen=True)
class TfOperator:
    """`options(key, default)` reads a builtin option, like `options("StrideH", 1)`."""

    index: int
    op: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Callable[[str, int], Any]

    @property
    def name(self) -> str:
        return f"{self.op}_{self.index}"


@dataclass(frozen=True)
class TfModel:
    file: str
    tensors: tuple[TfTensor, ...]
    operators: tuple[TfOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_tflite(path: Path) -> TfModel:
    """Read and check a .tflite file. Raises MinunError for anything that is not a sound model."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise MinunError("tflite.too-large", f"more than {MAX_FILE_BYTES:,} bytes", path.name)
        content = path.read_bytes()
    except OSError as error:
        raise MinunError("tflite.unreadable", f"cannot be read: {error.strerror}", path.name) from None
    return parse_tflite(content, path.name)


def parse_tflite(content: bytes, file: str) -> TfModel:
    """As `read_tflite`, from bytes."""
    try:
        import tflite
    except ImportError:
        raise missing_extra("tflite", f"reading {file}") from None
    if len(content) < 16 or content[4:8] != b"TFL3":
        raise MinunError("tflite.malformed", "not a TensorFlow Lite file (no TFL3 mark); convert again", file)
    try:
        return _model(tflite, content, file)
    except DAMAGE as error:
        kind = type(error).__name__
        raise MinunError("tflite.malformed", f"damaged or cut short ({kind}); convert again", file) from None


def _model(tflite: ModuleType, content: bytes, file: str) -> TfModel:
    model = tflite.Model.GetRootAs(content, 0)
    if model.SubgraphsLength() != 1:
        raise MinunError(
            "tflite.unsupported-form",
            f"{model.SubgraphsLength()} subgraphs; one without control flow is expected",
            file,
        )
    graph = model.Subgraphs(0)
    names = {value: key for key, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)}
    kinds = {value: key for key, value in vars(tflite.TensorType).items() if isinstance(value, int)}
    count = _length(graph.TensorsLength(), content, file)
    tensors = tuple(_tensor(model, graph.Tensors(i), kinds, content, file) for i in range(count))
    operators = []
    for i in range(_length(graph.OperatorsLength(), content, file)):
        raw = graph.Operators(i)
        code = model.OperatorCodes(raw.OpcodeIndex())
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        op = names.get(number, str(number))
        if op == "CUSTOM":
            op = printable(f"CUSTOM {(code.CustomCode() or b'').decode('utf-8', 'replace')}")
        inputs, outputs = _indices(raw, "Inputs"), _indices(raw, "Outputs")
        if any(not -1 <= j < count for j in inputs) or any(not 0 <= j < count for j in outputs):
            raise MinunError(
                "tflite.malformed", f"operator {i} ({op}) names a tensor that is not there", file
            )
        operators.append(TfOperator(i, op, code.Version(), inputs, outputs, _options(tflite, raw, file)))
    inputs, outputs = _indices(graph, "Inputs"), _indices(graph, "Outputs")
    if not inputs or not outputs or any(not 0 <= j < count for j in (*inputs, *outputs)):
        raise MinunError("tflite.malformed", "inputs or outputs are missing", file)
    return TfModel(file, tensors, tuple(operators), inputs, outputs)


def _length(count: int, content: bytes, file: str) -> int:
    if not 0 <= count <= min(MAX_NODES, len(content)):
        raise MinunError("tflite.malformed", f"{count} entries in a file of {len(content)} bytes", file)
    return count


def _indices(table: Any, field: str) -> tuple[int, ...]:
    values = getattr(table, f"{field}AsNumpy")()
    return () if isinstance(values, int) else tuple(int(value) for value in values)


def _vector(table: Any, field: str) -> list[Any]:
    values = getattr(table, f"{field}AsNumpy")()
    return [] if isinstance(values, int) else list(values)


def _tensor(model: Any, raw: Any, kinds: Mapping[int, str], content: bytes, file: str) -> TfTensor:
    name = printable((raw.Name() or b"").decode("utf-8", "replace"))
    shape = tuple(int(extent) for extent in _vector(raw, "Shape"))
    kind = kinds.get(raw.Type(), str(raw.Type()))
    if kind not in _DTYPES:
        raise MinunError("tflite.unsupported-type", f"tensor '{name}' is of type {kind}", file)
    if raw.Sparsity() is not None:
        raise MinunError(
            "tflite.unsupported-type", f"tensor '{name}' is stored sparse; convert it dense", file
        )
    dtype = np.dtype(_DTYPES[kind])
    if any(extent < 0 for extent in shape) or math.prod(shape) > MAX_ELEMENTS or len(shape) > 8:
        raise MinunError("tflite.too-large", f"tensor '{name}' has shape {shape}", file)
    data: NDArray[Any] | None = None
    buffer = model.Buffers(raw.Buffer())
    stored = 0 if buffer is None else buffer.DataLength()
    if stored:
        if stored != math.prod(shape) * dtype.itemsize or stored > len(content):
            raise MinunError(
                "tflite.malformed", f"tensor '{name}' of shape {shape} has a buffer of {stored} bytes", file
            )
        data = np.frombuffer(buffer.DataAsNumpy().tobytes(), dtype=dtype).reshape(shape)
    scales: tuple[float, ...] = ()
    zeros: tuple[int, ...] = ()
    axis = 0
    quantisation = raw.Quantization()
    if quantisation is not None and dtype.kind in "iu":
        scales = tuple(float(value) for value in _vector(quantisation, "Scale"))
        zeros = tuple(int(value) for value in _vector(quantisation, "ZeroPoint"))
        axis = int(quantisation.QuantizedDimension())
        if len(scales) > 1 and (not 0 <= axis < len(shape) or shape[axis] != len(scales)):
            raise MinunError(
                "tflite.malformed", f"tensor '{name}': {len(scales)} scales on axis {axis}", file
            )
        if any(not math.isfinite(scale) or scale <= 0 for scale in scales):
            raise MinunError("tflite.malformed", f"tensor '{name}' has a scale that is not positive", file)
    return TfTensor(name, shape, dtype, data, scales, zeros, axis)


def _options(tflite: ModuleType, raw: Any, file: str) -> Callable[[str, int], Any]:
    """A reader of an operator's builtin options by the schema's accessor names."""
    kinds = {value: key for key, value in vars(tflite.BuiltinOptions).items() if isinstance(value, int)}
    kind = kinds.get(raw.BuiltinOptionsType(), "NONE")
    table = raw.BuiltinOptions()
    if kind == "NONE" or table is None:
        return lambda key, default: default
    options = getattr(tflite, kind)()
    options.Init(table.Bytes, table.Pos)

    def read(key: str, default: int) -> Any:
        accessor = getattr(options, key, None)
        if accessor is None:
            return default
        try:
            return accessor()
        except DAMAGE:
            raise MinunError(
                "tflite.malformed", f"option {key} cannot be read; convert again", file
            ) from None

    return read
