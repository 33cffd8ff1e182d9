# SPDX-License-Identifier: Apache-2.0
"""Frames of the serial protocol: bytes to messages and back, nothing else. The board's side is minun/link.h.

A frame is `7E content 7E`. In the content 7E and 7D are sent as 7D and the byte xor 20 (as HDLC does), so 7E
always starts afresh, whatever came before. Content, little-endian:

    type u8 | sequence u16 | length u32 | payload (length bytes) | CRC-32 (IEEE) of all before

A reply's type is the request's with bit 7 set, its sequence number the request's. FF is a refusal, with a
reason. Every request after HELLO carries the session the host chose; a board that was reset has forgotten it
and refuses.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

VERSION = 1
HELLO, DESCRIBE, RUN = 0x01, 0x02, 0x03
REPLY = 0x80
ERROR = 0xFF

UNKNOWN_REQUEST, WRONG_LENGTH, WRONG_SESSION, NO_SUCH_MODEL, DOES_NOT_FIT = 1, 2, 3, 4, 5
REASONS = {
    UNKNOWN_REQUEST: "it does not know the request",
    WRONG_LENGTH: "the request has the wrong length",
    WRONG_SESSION: "it was reset",
    NO_SUCH_MODEL: "it has no such model",
    DOES_NOT_FIT: "the firmware gave the link too small buffers for this model",
}

_DELIMITER, _ESCAPE, _FLIP = b"\x7e", b"\x7d", 0x20
_HEADER = struct.Struct("<BHI")
_CRC = struct.Struct("<I")


@dataclass(frozen=True)
class Frame:
    """One message. `sequence` is 0..65535."""

    type: int
    sequence: int
    payload: bytes


def encode(frame: Frame) -> bytes:
    """The bytes of a frame on the wire, delimiters included."""
    content = _HEADER.pack(frame.type, frame.sequence, len(frame.payload)) + frame.payload
    content += _CRC.pack(zlib.crc32(content))
    escaped = content.replace(_ESCAPE, b"\x7d\x5d").replace(_DELIMITER, b"\x7d\x5e")
    return _DELIMITER + escaped + _DELIMITER


class Decoder:
    """Takes bytes as they come and gives the frames among them; what is no sound frame is dropped, counted.

    `max_content_bytes` bounds the memory a babbling line can take.
    """

    def __init__(self, max_content_bytes: int = 1 << 24) -> None:
        self.dropped_frames = 0
        self._limit = max_content_bytes
        self._content = bytearray()
        self._escaped = False
        self._too_long = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes, in order."""
        pieces = data.split(_DELIMITER)
        for number, piece in enumerate(pieces):
            if number > 0:
                frame = self._finish()
                if frame is not None:
                    yield frame
            self._take(piece)

    def _take(self, piece: bytes) -> None:
        for number, part in enumerate(piece.split(_ESCAPE)):
            if number > 0:
                self._escaped = True
            if part and self._escaped:
                self._content.append(part[0] ^ _FLIP)
                part = part[1:]
                self._escaped = False
            self._content += part
        if len(self._content) > self._limit:
            self._too_long = True
            self._content.clear()

    def _finish(self) -> Frame | None:
        content, too_long = bytes(self._content), self._too_long
        self._content.clear()
        self._escaped = self._too_long = False
        if not content and not too_long:
            return None
        body, end = content[: -_CRC.size], content[-_CRC.size :]
        if too_long or len(content) < _HEADER.size + _CRC.size or end != _CRC.pack(zlib.crc32(body)):
            self.dropped_frames += 1
            return None
        kind, sequence, length = _HEADER.unpack_from(body)
        payload = body[_HEADER.size :]
        if length != len(payload):
            self.dropped_frames += 1
            return None
        return Frame(kind, sequence, payload)


# What minun/timer.h's clocks measure: (unit, source), by their number there.
CLOCKS = (
    ("none", "not measured"),
    ("cycles", "timer 1 of the chip"),
    ("cycles", "timer 1 as simulated by simavr"),
    ("instructions", "QEMU -icount"),
    ("cycles", "DWT cycle counter"),
    ("nanoseconds", "the host's clock"),
    ("microseconds", "micros()"),
)

_HELLO_REQUEST = struct.Struct("<IB")
_HELLO_REPLY = struct.Struct("<BIBIIIIB")
_MODEL_REQUEST = struct.Struct("<IB")
_DESCRIBE_REPLY = struct.Struct("<IBIIIII")
_RUN_REPLY = struct.Struct("<IBBII")


@dataclass(frozen=True)
class Greeting:
    """What a board tells of itself. A latency is `count * scale[0] / scale[1]` of `latency_unit`.

    `stack_room_bytes` is the RAM between the static data and the stack's end, 0 where the board cannot tell.
    """

    session: int
    latency_unit: str
    latency_source: str
    scale: tuple[int, int]
    stack_room_bytes: int
    arena_capacity_bytes: int
    models: int

    def latency(self, count: int) -> int:
        """A raw count in `latency_unit`, rounded to the nearest."""
        numerator, denominator = self.scale
        return (2 * count * numerator + denominator) // (2 * denominator)


@dataclass(frozen=True)
class Description:
    """What a board tells of one of its models; `stack_used_bytes` is the board's high-water mark so far."""

    session: int
    index: int
    name: str
    build_hash: int
    arena_bytes: int
    input_bytes: int
    output_bytes: int
    stack_used_bytes: int


@dataclass(frozen=True)
class Result:
    """One sample's answer. `status` 0: the model ran; `arena_used_bytes`: past the last byte it changed."""

    session: int
    index: int
    status: int
    latency_count: int
    arena_used_bytes: int
    output: bytes


def hello(session: int) -> bytes:
    """The payload of a HELLO; `session` is any number but 0 in 32 bits."""
    return _HELLO_REQUEST.pack(session, VERSION)


def describe(session: int, index: int) -> bytes:
    """The payload of a DESCRIBE."""
    return _MODEL_REQUEST.pack(session, index)


def run(session: int, index: int, sample: bytes) -> bytes:
    """The payload of a RUN; `sample` is the model's input as codes, exactly its input bytes."""
    return _MODEL_REQUEST.pack(session, index) + sample


def parse_hello(payload: bytes) -> Greeting | int | None:
    """The reply to a HELLO; only the version when the board speaks another; None when it makes no sense."""
    if payload and payload[0] != VERSION:
        return payload[0]
    if len(payload) != _HELLO_REPLY.size:
        return None
    _, session, clock, numerator, denominator, room, arena, models = _HELLO_REPLY.unpack(payload)
    if clock >= len(CLOCKS) or denominator == 0:
        return None
    return Greeting(session, *CLOCKS[clock], (numerator, denominator), room, arena, models)


def parse_describe(payload: bytes) -> Description | None:
    """The reply to a DESCRIBE; None when it makes no sense."""
    if len(payload) < _DESCRIBE_REPLY.size:
        return None
    session, index, build_hash, arena, inputs, outputs, stack = _DESCRIBE_REPLY.unpack_from(payload)
    name = payload[_DESCRIBE_REPLY.size :].decode("ascii", errors="replace")
    return Description(session, index, name, build_hash, arena, inputs, outputs, stack)


def parse_run(payload: bytes) -> Result | None:
    """The reply to a RUN; None when it makes no sense."""
    if len(payload) < _RUN_REPLY.size:
        return None
    session, index, status, count, used = _RUN_REPLY.unpack_from(payload)
    return Result(session, index, status, count, used, payload[_RUN_REPLY.size :])
