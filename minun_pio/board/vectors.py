# SPDX-License-Identifier: Apache-2.0
"""Self-test vectors: samples and the answers the host computed, in a file `<model>.vectors` beside the code.

`pio test` reads it to check a board, without numpy. Little-endian:

    8 bytes  "MNVECT1\\n"
    u32      length of the name, then the name (ASCII)
    u32 x 5  build hash, arena bytes, samples, input bytes, output bytes (of one sample)
    ...      the samples' input codes, then the samples' output codes
    u32      CRC-32 of all before
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minun_pio.errors import MinunError

_MAGIC = b"MNVECT1\n"
_NUMBERS = struct.Struct("<IIIII")
_WORD = struct.Struct("<I")


@dataclass(frozen=True)
class Vectors:
    """Inputs and expected outputs of one model, as the codes' bytes, sample by sample."""

    model: str
    build_hash: int
    arena_bytes: int
    input_bytes: int
    output_bytes: int
    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]


def split(data: bytes, size: int) -> tuple[bytes, ...]:
    """Pieces of `size` bytes; `data` must be a whole number of them."""
    if size <= 0 or len(data) % size:
        raise ValueError(f"{len(data)} bytes are no whole number of samples of {size} bytes")
    return tuple(data[at : at + size] for at in range(0, len(data), size))


def vectors(
    model: str, build_hash: int, arena_bytes: int, inputs: Sequence[bytes], outputs: Sequence[bytes]
) -> Vectors:
    """Vectors of at least one sample; sizes are the samples'."""
    return Vectors(
        model, build_hash, arena_bytes, len(inputs[0]), len(outputs[0]), tuple(inputs), tuple(outputs)
    )


def to_bytes(made: Vectors) -> bytes:
    """The file's content; the same vectors give the same bytes."""
    name = made.model.encode("ascii")
    numbers = _NUMBERS.pack(
        made.build_hash, made.arena_bytes, len(made.inputs), made.input_bytes, made.output_bytes
    )
    body = _MAGIC + _WORD.pack(len(name)) + name + numbers + b"".join(made.inputs) + b"".join(made.outputs)
    return body + _WORD.pack(zlib.crc32(body))


def read(path: str | os.PathLike[str]) -> Vectors:
    """Reads a `.vectors` file. Raises MinunError when it is missing, damaged or of another version."""
    where = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise MinunError(
            "vectors.missing", f"cannot read it ({error.strerror}); build first", where
        ) from None
    if not data.startswith(_MAGIC):
        raise MinunError(
            "vectors.kind", "not a file of self-test vectors of this version; build again", where
        )
    damaged = MinunError("vectors.damaged", "the file is damaged; build again", where)
    if len(data) < len(_MAGIC) + 4 or data[-4:] != _WORD.pack(zlib.crc32(data[:-4])):
        raise damaged
    at = len(_MAGIC)
    (name_bytes,) = _WORD.unpack_from(data, at)
    at += 4 + name_bytes
    if at + _NUMBERS.size + 4 > len(data):
        raise damaged
    name = data[at - name_bytes : at].decode("ascii", errors="replace")
    build_hash, arena_bytes, samples, input_bytes, output_bytes = _NUMBERS.unpack_from(data, at)
    at += _NUMBERS.size
    middle, end = at + samples * input_bytes, at + samples * (input_bytes + output_bytes)
    if end + 4 != len(data) or samples == 0 or input_bytes == 0 or output_bytes == 0:
        raise damaged
    inputs, outputs = split(data[at:middle], input_bytes), split(data[middle:end], output_bytes)
    return Vectors(name, build_hash, arena_bytes, input_bytes, output_bytes, inputs, outputs)
