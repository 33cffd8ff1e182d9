# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as plain data: nodes with Python attributes, numpy constants, sizes checked before use.

Only the `onnx` package's protobuf classes touch the file. Its checker and shape inference are native code
and are not given untrusted files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError, missing_extra
from minun_pio.importers.builder import DAMAGE, MAX_ELEMENTS, MAX_NODES, printable
from minun_pio.importers.onnx.external import beside

MAX_FILE_BYTES = 512 << 20
OLDEST_OPSET, NEWEST_OPSET = 7, 28
_AI_ONNX = ("", "ai.onnx")
_MAX_NESTING = 8


@dataclass(frozen=True)
class OnnxNode:
    """One node. `attrs` holds ints, floats, strings, lists, arrays and, for bodies, `OnnxGraph`."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]


@dataclass(frozen=True)
class OnnxInput:
    """A graph input: extents are ints, names of dynamic dimensions, or None; dtype of its elements."""

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: np.dtype[Any] | None


@dataclass(frozen=True)
class OnnxGraph:
    name: str
    nodes: tuple[OnnxNode, ...]
    constants: Mapping[str, NDArray[Any]]
    inputs: tuple[OnnxInput, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class OnnxModel:
    """`file` is the name in errors; `opset` the version of the standard operators."""

    file: str
    opset: int
    graph: OnnxGraph
    skipped: Mapping[str, str] = field(default_factory=dict)


def read_onnx(path: Path) -> OnnxModel:
    """Read and check an ONNX file. Raises MinunError for anything that is not a sound model."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise MinunError(
                "onnx.too-large", f"{size:,} bytes; at most {MAX_FILE_BYTES:,} are read", path.name
            )
        content = path.read_bytes()
    except OSError as error:
        raise MinunError("onnx.unreadable", f"cannot be read: {error.strerror}", path.name) from None
    return parse_onnx(content, path.name, path.parent)


def parse_onnx(content: bytes, file: str, folder: Path | None) -> OnnxModel:
    """As `read_onnx`, from bytes; external data is looked for in `folder`, and refused when it is None."""
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", f"reading {file}") from None
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]

    if not content:
        raise MinunError("onnx.malformed", "the file is empty; expected an ONNX model", file)
    try:
        proto = onnx.ModelProto.FromString(content)
    except (DecodeError, ValueError, RecursionError):
        raise MinunError(
            "onnx.malformed", "not an ONNX file, or cut short; export the model again", file
        ) from None
    if not proto.HasField("graph"):
        raise MinunError("onnx.malformed", "the file has no graph; export the model again", file)
    opset = _opset(proto, file)
    if proto.functions:
        proto = _inlined(proto, file)
    reader = _Reader(file, folder, onnx)
    try:
        return OnnxModel(file, opset, reader.graph(proto.graph, 0))
    except DAMAGE as error:
        kind = type(error).__name__
        raise MinunError("onnx.malformed", f"damaged or cut short ({kind}); export again", file) from None


def _opset(proto: Any, file: str) -> int:
    versions = [entry.version for entry in proto.opset_import if entry.domain in _AI_ONNX]
    if not versions:
        raise MinunError("onnx.malformed", "the file imports no operator set of domain 'ai.onnx'", file)
    opset = int(max(versions))
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise MinunError(
            "onnx.opset",
            f"operator set {opset}, supported are {OLDEST_OPSET} to {NEWEST_OPSET}; "
            f"convert with onnx.version_converter.convert_version(model, 17)",
            file,
        )
    return opset


def _inlined(proto: Any, file: str) -> Any:
    from onnx import inliner

    try:
        return inliner.inline_local_functions(proto)
    except Exception as error:  # the inliner raises what its native half reports
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MinunError("onnx.malformed", f"its local functions cannot be inlined: {reason}", file) from None


class _Reader:
    """Turns protobuf messages into the dataclasses above."""

    def __init__(self, file: str, folder: Path | None, onnx: Any) -> None:
        self.file = file
        self.folder = folder
        self.onnx = onnx
        self.nodes = 0

    def error(self, message: str, code: str = "onnx.malformed") -> MinunError:
        return MinunError(code, message, self.file)

    def graph(self, proto: Any, depth: int) -> OnnxGraph:
        if depth > _MAX_NESTING:
            raise self.error(f"bodies nested deeper than {_MAX_NESTING}", "onnx.too-large")
        self.nodes += len(proto.node)
        if self.nodes > MAX_NODES:
            raise self.error(f"more than {MAX_NODES:,} nodes", "onnx.too-large")
        if proto.sparse_initializer:
            raise self.error("sparse initialisers are not supported; store them dense", "onnx.unsupported")
        constants = {printable(tensor.name): self.tensor(tensor) for tensor in proto.initializer}
        inputs = tuple(self.input(value) for value in proto.input if printable(value.name) not in constants)
        nodes = tuple(self.node(node, index, depth) for index, node in enumerate(proto.node))
        graph = OnnxGraph(
            printable(proto.name), nodes, constants, inputs, tuple(printable(o.name) for o in proto.output)
        )
        if depth == 0:
            self.check_order(graph)
        return graph

    def check_order(self, graph: OnnxGraph) -> None:
        """Every input of a node must be written before it (so the graph has no cycle), and only once."""
        known = {"", *graph.constants, *(i.name for i in graph.inputs)}
        produced = {output for node in graph.nodes for output in node.outputs}
        for node in graph.nodes:
            for name in node.inputs:
                if name not in known:
                    reason = (
                        "is written by a later node: the graph is cyclic or not sorted"
                        if name in produced
                        else "is written by no node and is no input"
                    )
                    raise MinunError(
                        "onnx.malformed", f"its input '{name}' {reason}", f"{self.file}: node '{node.name}'"
                    )
            for name in node.outputs:
                if name and name in known:
                    raise MinunError(
                        "onnx.malformed", f"'{name}' is written twice", f"{self.file}: node '{node.name}'"
                    )
                known.add(name)
        for name in graph.outputs:
            if name not in known or not name:
                raise self.error(f"the graph's output '{name}' is written by no node")
        if not graph.outputs:
            raise self.error("the graph has no output")

    def input(self, value: Any) -> OnnxInput:
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            found = (kind or "nothing").replace("_type", "")
            raise self.error(
                f"input '{printable(value.name)}' is of type {found}, expected a tensor",
                "onnx.unsupported-type",
            )
        tensor = value.type.tensor_type
        shape: tuple[int | str | None, ...] | None = None
        if tensor.HasField("shape"):
            extents: list[int | str | None] = []
            for dim in tensor.shape.dim:
                fixed = dim.WhichOneof("value") == "dim_value"
                extents.append(int(dim.dim_value) if fixed else printable(dim.dim_param) or None)
            shape = tuple(extents)
        return OnnxInput(printable(value.name), shape, self.dtype(tensor.elem_type))

    def dtype(self, number: int) -> np.dtype[Any] | None:
        try:
            found: np.dtype[Any] = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(number))
            return found
        except (KeyError, ValueError, TypeError):
            return None

    def node(self, proto: Any, index: int, depth: int) -> OnnxNode:
        name = printable(proto.name or f"{proto.op_type}_{index}")
        op = printable(proto.op_type if proto.domain in _AI_ONNX else f"{proto.domain}.{proto.op_type}")
        attrs: dict[str, Any] = {}
        for attribute in proto.attribute:
            attrs[printable(attribute.name)] = self.attribute(attribute, name, depth)
        inputs, outputs = (tuple(printable(n) for n in names) for names in (proto.input, proto.output))
        return OnnxNode(name, op, inputs, outputs, attrs)

    def attribute(self, proto: Any, node: str, depth: int) -> Any:
        kinds = self.onnx.AttributeProto
        kind = proto.type
        if kind == kinds.FLOAT:
            return float(proto.f)
        if kind == kinds.INT:
            return int(proto.i)
        if kind == kinds.STRING:
            return printable(proto.s)
        if kind == kinds.TENSOR:
            return self.tensor(proto.t)
        if kind == kinds.GRAPH:
            return self.graph(proto.g, depth + 1)
        if kind == kinds.FLOATS:
            return [float(value) for value in proto.floats]
        if kind == kinds.INTS:
            return [int(value) for value in proto.ints]
        if kind == kinds.STRINGS:
            return [printable(value) for value in proto.strings]
        raise MinunError(
            "onnx.unsupported-type",
            f"attribute '{printable(proto.name)}' is of an unsupported type ({kind})",
            f"{self.file}: node '{node}'",
        )

    def tensor(self, proto: Any) -> NDArray[Any]:
        """The array of a TensorProto. Its declared size must be what its bytes hold."""
        label = f"tensor '{printable(proto.name)}'" if proto.name else "a tensor"
        dims = [int(d) for d in proto.dims]
        if any(d < 0 for d in dims) or math.prod(dims) > MAX_ELEMENTS:
            raise self.error(
                f"{label} has shape {dims}; at most {MAX_ELEMENTS:,} elements are read", "onnx.too-large"
            )
        dtype = self.dtype(proto.data_type)
        if dtype is None or dtype.kind == "O":
            raise self.error(f"{label} is of element type {proto.data_type}", "onnx.unsupported-type")
        if proto.data_location == self.onnx.TensorProto.EXTERNAL:
            return self.external(proto, label, dims, dtype)
        try:
            return np.asarray(self.onnx.numpy_helper.to_array(proto))
        except (ValueError, TypeError, KeyError, IndexError, NotImplementedError):
            raise self.error(f"{label} of shape {dims} does not hold the bytes that it declares") from None

    def external(self, proto: Any, label: str, dims: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Weights in a file beside the model; never one outside its folder."""
        entries = {entry.key: entry.value for entry in proto.external_data}
        location = printable(entries.get("location", ""))
        if self.folder is None or not location:
            raise self.error(f"{label} is in an external file that is not named", "onnx.external-data")
        root = self.folder.resolve()
        path = (root / location).resolve() if beside(location) else None
        if path is None or not path.is_relative_to(root):
            raise self.error(
                f"{label} is in '{location}', outside the model's folder; put it beside the model",
                "onnx.external-data",
            )
        itemsize = dtype.itemsize
        try:
            offset = int(entries.get("offset") or 0)
            length = int(entries.get("length") or math.prod(dims) * itemsize)
        except ValueError:
            raise self.error(f"{label} has a bad offset or length", "onnx.external-data") from None
        if offset < 0 or length != math.prod(dims) * itemsize:
            raise self.error(
                f"{label} of shape {list(dims)} needs {math.prod(dims) * itemsize} bytes, "
                f"'{location}' gives {length} at {offset}",
                "onnx.external-data",
            )
        try:
            with path.open("rb") as stream:
                stream.seek(offset)
                content = stream.read(length)
        except OSError:
            raise self.error(
                f"{label}: no file '{location}' beside the model", "onnx.external-data"
            ) from None
        if len(content) != length:
            raise self.error(f"{label}: '{location}' is cut short", "onnx.external-data")
        return np.frombuffer(content, dtype=dtype).reshape(tuple(dims))
