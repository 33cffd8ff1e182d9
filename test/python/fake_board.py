# SPDX-License-Identifier: Apache-2.0
"""A board in memory on a bad line: bytes are lost or changed, replies repeat, and it resets."""

from __future__ import annotations

import random
import struct
import time
import zlib

from minun_pio.board import protocol
from minun_pio.board.protocol import Decoder, Frame


class FakeBoard:
    """A Port. The answer to a sample is its CRC-32, so a mix-up shows; `runs` lists what was computed."""

    name = "fake"

    def __init__(
        self,
        seed: int = 0,
        *,
        loss: float = 0.0,
        damage: float = 0.0,
        echo: float = 0.0,
        reset: float = 0.0,
        build_hash: int = 0x1234,
        input_bytes: int = 8,
    ) -> None:
        self._random = random.Random(seed)
        self._loss, self._damage, self._echo, self._reset = loss, damage, echo, reset
        self._hash, self._input_bytes = build_hash, input_bytes
        self._decoder = Decoder()
        self._out = bytearray()
        self._old = b""
        self._session = 0
        self._last: tuple[int, bytes] | None = None
        self.runs: list[bytes] = []
        self.resets = 0
        self.status = 0

    def write(self, data: bytes) -> None:
        for frame in list(self._decoder.feed(self._spoil(data))):
            if self._random.random() < self._reset:
                self.press_reset()
                if self._random.random() < 0.5:
                    continue  # the request is lost with it
            reply = protocol.encode(self._reply(frame))
            if self._random.random() < self._echo:
                reply = self._old + reply + reply
            self._old = reply
            self._out += self._spoil(reply)

    def read(self, timeout_s: float) -> bytes:
        if not self._out:
            time.sleep(max(min(timeout_s, 0.002), 0))
        count = self._random.randint(1, 64)
        piece = bytes(self._out[:count])
        del self._out[:count]
        return piece

    def close(self) -> None:
        self._out.clear()

    def press_reset(self) -> None:
        self.resets += 1
        self._session, self._last = 0, None
        self._decoder = Decoder()

    def _spoil(self, data: bytes) -> bytes:
        kept = bytearray()
        for byte in data:
            if self._random.random() < self._loss:
                continue
            if self._random.random() < self._damage:
                byte ^= 1 << self._random.randrange(8)
            kept.append(byte)
        return bytes(kept)

    def _reply(self, frame: Frame) -> Frame:
        (session,) = struct.unpack_from("<I", frame.payload)
        if frame.type == protocol.HELLO:
            self._session, self._last = session, None
            room = (3, 5, 128, 1000, 64, 1)
            return Frame(0x81, frame.sequence, struct.pack("<BIBIIIIB", protocol.VERSION, session, *room))
        if self._session == 0 or session != self._session:
            return Frame(protocol.ERROR, frame.sequence, bytes([protocol.WRONG_SESSION]))
        if frame.type == protocol.DESCRIBE:
            sizes = (self._hash, 64, self._input_bytes, 4, 99)
            return Frame(0x82, frame.sequence, struct.pack("<IBIIIII", session, 0, *sizes) + b"toy")
        sample = frame.payload[5:]
        if self._last is None or self._last[0] != frame.sequence:
            self.runs.append(sample)
            self._last = (frame.sequence, struct.pack("<I", zlib.crc32(sample)))
        head = struct.pack("<IBBII", session, 0, self.status, 2560, 60)
        return Frame(0x83, frame.sequence, head + self._last[1])
