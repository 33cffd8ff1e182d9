# SPDX-License-Identifier: Apache-2.0
"""A graph under construction: unique names, inferred shapes, bounded sizes. All importers build with it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError
from minun_pio.ir import Graph, Node, Shape, Tensor, float_constant
from minun_pio.ops import REGISTRY

MAX_ELEMENTS = 1 << 25
"""Elements of the largest tensor that an importer accepts (no microcontroller holds a thousandth of it)."""

MAX_NODES = 100_000
MAX_RANK = 8


def bounded(shape: Sequence[int], what: str, where: str = "") -> Shape:
    """`shape` as plain ints, refused when an extent is not positive or the tensor is unreasonably large."""
    plain = tuple(int(extent) for extent in shape)
    if len(plain) > MAX_RANK:
        raise MinunError("import.too-large", f"{what} has rank {len(plain)}; at most {MAX_RANK}", where)
    count = 1
    for extent in plain:
        if extent < 1:
            raise MinunError(
                "import.shape", f"{what} has shape {plain}; every extent must be at least 1", where
            )
        count *= extent
    if count > MAX_ELEMENTS:
        raise MinunError(
            "import.too-large",
            f"{what} has shape {plain}, {count:,} elements; at most {MAX_ELEMENTS:,} are accepted",
            where,
        )
    return plain


DAMAGE = (
    *(ArithmeticError, AttributeError, IndexError, KeyError, MemoryError, RecursionError, TypeError),
    *(UnicodeError, ValueError, struct.error),
)
"""What Python raises when a file's values do not fit together in a way that nobody foresaw."""


def printable(name: str | bytes) -> str:
    """A name from a file as it may stand in an error and in generated comments: one line, not endless."""
    if isinstance(name, bytes):
        name = name.decode("utf-8", "replace")
    plain = "".join(c if c.isprintable() else "?" for c in name[:200])
    return plain if len(name) <= 200 else plain + "..."


class GraphBuilder:
    """Collects tensors, constants and nodes, and gives a frozen `Graph`.

    `where` is the file or place named in errors. Names given as hints are made unique by a suffix.
    """

    def __init__(self, name: str, where: str = "") -> None:
        self.name = name
        self.where = where
        self.tensors: dict[str, Tensor] = {}
        self.constants: dict[str, NDArray[Any]] = {}
        self.quantised: dict[str, Any] = {}
        self.inputs: list[str] = []
        self.nodes: list[Node] = []
        self._node_names: set[str] = set()
        self._known: dict[tuple[str, Shape, bytes, Any], str] = {}
        self._suffix: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """A tensor name that nobody has yet, `hint` itself when it is free."""
        return self._unique(hint or "t", self.tensors)

    def _unique(self, hint: str, taken: Any) -> str:
        if hint not in taken:
            return hint
        number = self._suffix.get(hint, 1)
        while f"{hint}_{number}" in taken:
            number += 1
        self._suffix[hint] = number + 1
        return f"{hint}_{number}"

    def _tensor(self, hint: str, shape: Sequence[int]) -> str:
        name = self.fresh(hint)
        self.tensors[name] = Tensor(name, bounded(shape, f"tensor '{name}'", self.where))
        return name

    def input(self, hint: str, shape: Sequence[int]) -> str:
        """A graph input."""
        name = self._tensor(hint, shape)
        self.inputs.append(name)
        return name

    def constant(self, values: Any, hint: str, fmt: Any = None) -> str:
        """A constant: floats are kept in float64, integers (indices) in int64; `fmt` is noted as the source's
        own format. Equal ones of one format are shared."""
        array = np.asarray(values)
        array = array.astype(np.int64) if array.dtype.kind in "iub" else float_constant(array)
        key = (array.dtype.str, array.shape, array.tobytes(), fmt)
        if key not in self._known:
            if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
                raise MinunError(
                    "import.not-finite", f"constant '{hint}' has NaN or infinity in it", self.where
                )
            name = self._tensor(hint, array.shape)
            self.constants[name] = array
            if fmt is not None:
                self.quantised[name] = fmt
            self._known[key] = name
        return self._known[key]

    def shape(self, name: str) -> Shape:
        return self.tensors[name].shape

    def add_many(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: Mapping[str, Any] | None = None,
        *,
        outputs: Sequence[str],
        name: str = "",
        body: Graph | None = None,
    ) -> tuple[str, ...]:
        """A node with one output for each hint in `outputs`; their names."""
        if len(self.nodes) >= MAX_NODES:
            raise MinunError("import.too-large", f"more than {MAX_NODES:,} nodes", self.where)
        if op not in REGISTRY:
            raise MinunError("import.unsupported-operator", f"the runtime has no operator '{op}'", self.where)
        node_name = self._unique(name or op, self._node_names)
        draft = Node(node_name, op, tuple(inputs), tuple(outputs), dict(attrs or {}), body)
        shapes = [self.shape(i) if i else None for i in inputs]
        values = [self.constants.get(i) for i in inputs]
        try:
            out_shapes = REGISTRY[op].infer_shapes(draft, shapes, values)
        except MinunError as error:
            place = (
                f"{self.where}: {error.where}" if self.where and error.where else error.where or self.where
            )
            raise MinunError(error.code, error.message, place) from None
        names = tuple(self._tensor(hint, shape) for hint, shape in zip(outputs, out_shapes, strict=True))
        self._node_names.add(node_name)
        self.nodes.append(Node(node_name, op, tuple(inputs), names, dict(attrs or {}), body))
        return names

    def add(
        self, op: str, inputs: Sequence[str], attrs: Mapping[str, Any] | None = None, *, name: str = ""
    ) -> str:
        """A node with one output, named after the node; the output's name."""
        return self.add_many(op, inputs, attrs, outputs=[name or op], name=name)[0]

    def rename(self, old: str, new: str) -> str:
        """Gives what a node computed the name `new`, if nobody has it; the name that it has then."""
        made = {name for node in self.nodes for name in node.outputs}
        if new in self.tensors or old not in made:
            return old

        def changed(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(new if name == old else name for name in names)

        self.tensors[new] = Tensor(new, self.tensors.pop(old).shape)
        self.nodes = [
            replace(node, inputs=changed(node.inputs), outputs=changed(node.outputs)) for node in self.nodes
        ]
        if old in self.quantised:
            self.quantised[new] = self.quantised.pop(old)
        return new

    def finish(self, outputs: Sequence[str]) -> Graph:
        """The graph. An output that is an input or a constant gets an identity in between."""
        names: list[str] = []
        for name in outputs:
            if name in self.inputs or name in self.constants or name in names:
                name = self.add("reshape", [name], {"shape": self.shape(name)}, name=f"{name}_out")
            names.append(name)
        return Graph(
            self.name,
            dict(self.tensors),
            tuple(self.nodes),
            tuple(self.inputs),
            tuple(names),
            dict(self.constants),
            dict(self.quantised),
        )
