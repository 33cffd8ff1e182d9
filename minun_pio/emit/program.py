# SPDX-License-Identifier: Apache-2.0
"""A network ready to be written as C++: plain data, kept as JSON in the lock file. No numpy here.

`lower` makes a Program out of a graph, an assignment and a plan; `write` turns it into text. Whoever has the
Program needs neither the network, nor its data, nor numpy.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal

from minun_pio.errors import MinunError

PROGRAM_VERSION = 1
RUNTIME_VERSION = 1  # MINUN_RUNTIME_VERSION of include/minun/platform.h
PACKING = {
    "int8_t": "b",
    "uint8_t": "B",
    "int16_t": "h",
    "uint16_t": "H",
    "int32_t": "i",
    "uint32_t": "I",
    "int64_t": "q",
    "uint64_t": "Q",
    "float": "f",
}
"""Letters of the `struct` module by C++ type of an array's element."""


@dataclass(frozen=True)
class Port:
    """An input or output in the caller's memory. `offset_bytes`: in the frame of all inputs (outputs).

    `scale` and `zero_point` belong to affine formats and are 0 otherwise.
    """

    name: str
    identifier: str
    shape: tuple[int, ...]
    format: str
    cpp: str
    ctype: str
    code_bytes: int
    offset_bytes: int
    scale: float = 0.0
    zero_point: int = 0

    @property
    def elements(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def bytes(self) -> int:
        return self.elements * self.code_bytes


@dataclass(frozen=True)
class Constant:
    """An array in flash (`in_flash` False: in RAM where the core tells them apart). `data`: base64 of the
    little-endian elements."""

    identifier: str
    ctype: str
    count: int
    data: str
    align: int
    in_flash: bool
    comment: str

    @property
    def bytes(self) -> int:
        return self.count * struct.calcsize(f"<{PACKING[self.ctype]}")


@dataclass(frozen=True)
class Statement:
    """One piece of `infer`.

    call: `function(args)`. copy: `bytes` from args[1] to args[0]; `in_flash`: the source is a constant,
    `optional`: left out at run time where both are one address. loop: `body`, `steps` times.
    """

    kind: Literal["call", "copy", "loop"]
    comment: str
    header: str = ""
    function: str = ""
    args: tuple[str, ...] = ()
    variant: str = ""
    bytes: int = 0
    in_flash: bool = False
    optional: bool = False
    variable: str = ""
    steps: int = 0
    reverse: bool = False
    body: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class ArenaRow:
    """A buffer's place: bytes `[offset, offset + size)` during steps `[start, end)`."""

    name: str
    offset: int
    size: int
    start: int
    end: int
    content: str  # the tensors that live there, with format and shape


@dataclass(frozen=True)
class Stage:
    """The peak when the planner may do this much: `optimal`, `+ in-place`, … with who is live at it."""

    name: str
    peak: int
    live: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arena:
    """The plan and its proof. `certificate_*`: at that step these buffers need `lower_bound` bytes."""

    bytes: int
    align: int
    lower_bound: int
    status: str
    planner: str
    certificate_step: int
    certificate_where: str
    certificate_live: tuple[str, ...]
    rows: tuple[ArenaRow, ...]
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class Vectors:
    """Samples with what the host computed for them: base64 of input frames and of output frames."""

    samples: int = 0
    inputs: str = ""
    outputs: str = ""


@dataclass(frozen=True)
class Flash:
    """Bytes of flash: constants exactly, code by estimate (the linker knows better)."""

    constants: int
    tables: int
    code_estimate: int

    @property
    def total(self) -> int:
        return self.constants + self.tables + self.code_estimate


@dataclass(frozen=True)
class Program:
    """Everything that `write` needs. `formats`: scoped tensor to format name; `notes`: for the report."""

    model: str
    core: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: tuple[Constant, ...]
    statements: tuple[Statement, ...]
    arena: Arena
    flash: Flash
    formats: Mapping[str, str] = field(default_factory=dict)
    vectors: Vectors = Vectors()
    package_version: str = ""
    runtime_version: int = RUNTIME_VERSION
    version: int = PROGRAM_VERSION

    @property
    def build_hash(self) -> int:
        """32 bits that name this program; the board tells it in its handshake."""
        return int.from_bytes(hashlib.sha256(canonical(self)).digest()[:4], "big")

    @property
    def input_bytes(self) -> int:
        return _frame(self.inputs)

    @property
    def output_bytes(self) -> int:
        return _frame(self.outputs)


def _frame(ports: tuple[Port, ...]) -> int:
    """Bytes of the struct that holds the ports, padded as C++ pads it."""
    end = max(p.offset_bytes + p.bytes for p in ports)
    widest = max(p.code_bytes for p in ports)
    return -(-end // widest) * widest


def canonical(program: Program) -> bytes:
    """The program's JSON, the same bytes for the same program on every machine."""
    return json.dumps(to_json(program), sort_keys=True, separators=(",", ":")).encode()


def to_json(program: Program) -> dict[str, Any]:
    return asdict(program)


def from_json(data: Mapping[str, Any]) -> Program:
    """The program a lock file holds. Raises MinunError when it is of another version or damaged."""
    if data.get("version") != PROGRAM_VERSION:
        raise MinunError(
            "lock.version",
            f"the locked program has version {data.get('version')}, this minun_pio writes {PROGRAM_VERSION}; "
            "run the search again",
        )
    try:
        return _build(Program, data)  # type: ignore[no-any-return]
    except (KeyError, TypeError, ValueError) as error:
        raise MinunError(
            "lock.damaged", f"the locked program cannot be read ({error}); run the search again"
        ) from None


_NESTED: Mapping[str, Mapping[str, type]] = {
    "Program": {
        "inputs": Port,
        "outputs": Port,
        "constants": Constant,
        "statements": Statement,
        "arena": Arena,
        "flash": Flash,
        "vectors": Vectors,
    },
    "Statement": {"body": Statement},
    "Arena": {"rows": ArenaRow, "stages": Stage},
}


def _build(kind: type, data: Mapping[str, Any]) -> Any:
    assert is_dataclass(kind)
    nested = _NESTED.get(kind.__name__, {})
    values: dict[str, Any] = {}
    known = {f.name for f in fields(kind)}
    if set(data) - known:
        raise ValueError(f"unknown entries {sorted(set(data) - known)}")
    for name, value in data.items():
        inner = nested.get(name)
        if inner is not None:
            many = isinstance(value, list | tuple)
            values[name] = tuple(_build(inner, v) for v in value) if many else _build(inner, value)
        elif isinstance(value, list):
            values[name] = tuple(value)
        else:
            values[name] = value
    return kind(**values)
