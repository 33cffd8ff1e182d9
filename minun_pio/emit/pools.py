# SPDX-License-Identifier: Apache-2.0
"""The constant arrays of a program: network constants in their formats, and kernels' tables, each once."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping

import numpy as np

from minun_pio.emit.names import Identifiers
from minun_pio.emit.program import PACKING, Constant
from minun_pio.ir import Graph
from minun_pio.numerics.format import Format, element_bytes
from minun_pio.ops.calling import code_type
from minun_pio.ops.operator import Table
from minun_pio.simulate.assign import inner
from minun_pio.simulate.run import Cache, encode_constant


def graphs_by_prefix(graph: Graph, prefix: str = "") -> dict[str, Graph]:
    """The graph and its loops' bodies, by the prefix of their scoped names."""
    found = {prefix: graph}
    for node in graph.nodes:
        if node.body is not None:
            found.update(graphs_by_prefix(node.body, inner(prefix, node)))
    return found


class Pool:
    """Hands out identifiers of constant arrays; equal contents share one array."""

    def __init__(
        self, graph: Graph, formats: Mapping[str, Format], names: Identifiers, cache: Cache | None = None
    ) -> None:
        self._graphs = graphs_by_prefix(graph)
        self._homes = {prefix + n: (prefix, n) for prefix, g in self._graphs.items() for n in g.constants}
        self._formats = formats
        self._names = names
        self._cache: Cache = {} if cache is None else cache
        self._by_content: dict[tuple[str, int, bool, bytes], Constant] = {}
        self.constant_bytes = 0
        self.table_bytes = 0

    def constants(self) -> tuple[Constant, ...]:
        return tuple(self._by_content.values())

    def tensor(self, scoped: str) -> str:
        """The array of a network constant."""
        prefix, name = self._homes[scoped]
        fmt = self._formats[scoped]
        key = (scoped, fmt)
        if key not in self._cache:
            self._cache[key] = encode_constant(self._graphs[prefix].constants[name], fmt)[None]
        codes = np.ascontiguousarray(self._cache[key][0]).astype(fmt.storage.newbyteorder("<"))
        shape = self._graphs[prefix].tensors[name].shape
        comment = f"{scoped}: {fmt.name}, {shape_text(shape)}"
        kept = self._keep(code_type(fmt), codes.tobytes(), element_bytes(fmt), True, scoped, comment)
        if kept[1]:
            self.constant_bytes += codes.nbytes
        return kept[0]

    def table(self, table: Table, where: str, constant: str = "") -> str:
        """The array of a kernel's table. `constant`: the network constant that it stands for, if any."""
        letter = PACKING[table.ctype]
        data = struct.pack(f"<{len(table.values)}{letter}", *table.values)
        comment = f"{constant} as {where} reads it" if constant else f"{table.hint} table of {where}"
        kept = self._keep(table.ctype, data, table.align, table.in_flash, constant or table.hint, comment)
        if kept[1] and constant:
            self.constant_bytes += len(data)
        elif kept[1]:
            self.table_bytes += len(data)
        return kept[0]

    def _keep(
        self, ctype: str, data: bytes, align: int, in_flash: bool, hint: str, comment: str
    ) -> tuple[str, bool]:
        """The identifier, and whether the array is new."""
        key = (ctype, align, in_flash, data)
        found = self._by_content.get(key)
        if found is not None:
            return found.identifier, False
        size = struct.calcsize(PACKING[ctype])
        self._by_content[key] = Constant(
            identifier=self._names.constant(hint),
            ctype=ctype,
            count=len(data) // size,
            data=base64.b64encode(data).decode("ascii"),
            align=align if align > size else 0,
            in_flash=in_flash,
            comment=comment,
        )
        return self._by_content[key].identifier, True


def shape_text(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(str(extent) for extent in shape) + ")"
