# SPDX-License-Identifier: Apache-2.0
"""Reading a model's answers from a board: every sample once, whatever the line or the board does meanwhile.

A request is sent again until its reply comes (the board answers a repeated request without running it again).
A board that was reset refuses with "wrong session": it is greeted anew, must still be the same build, and the
sample in hand is asked again. So every sample has exactly one record, in order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from minun_pio.board import protocol
from minun_pio.board.port import Port, open_port
from minun_pio.board.protocol import Decoder, Description, Frame, Greeting, Result
from minun_pio.errors import MinunError


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds. A board behind a bootloader needs some to greet.

    A reply is waited for `reply_s` at first, then four times as long as the slowest so far (at least
    `shortest_s`); a request is sent up to `attempts` times.
    """

    greet_s: float = 12.0
    greet_every_s: float = 0.5
    reply_s: float = 15.0
    shortest_s: float = 1.0
    attempts: int = 6
    resets_on_one_sample: int = 3


@dataclass(frozen=True)
class Record:
    """One sample's answer: raw output codes, and the latency in the board's unit (None: not measured)."""

    index: int
    output: bytes
    latency: int | None
    arena_used_bytes: int


@dataclass(frozen=True)
class Collection:
    """All records of one model, and what the board told of itself and it."""

    greeting: Greeting
    description: Description
    records: tuple[Record, ...]
    repeats: int  # requests sent more than once
    resets: int  # times the board was found to have been reset
    seconds: float

    @property
    def arena_used_bytes(self) -> int:
        """The arena's high-water mark over all samples."""
        return max((record.arena_used_bytes for record in self.records), default=0)


class _WasReset(Exception):
    """The board does not know our session."""


class Board:
    """A conversation with one board. Use it as a context manager, or close() it."""

    def __init__(self, port: Port, patience: Patience | None = None) -> None:
        self._port = port
        self._patience = patience or Patience()
        self._decoder = Decoder()
        self._waiting: list[Frame] = []
        self._sequence = random.randrange(1 << 16)
        self._slowest_s = 0.0
        self._heard_bytes = 0
        self.repeats = 0
        self.resets = 0
        self.greeting = self._greet()

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._port.close()

    def describe(self) -> list[Description]:
        """All models of the firmware, with the stack's high-water mark so far."""
        return [self._describe(index) for index in range(self.greeting.models)]

    def model(self, name: str | None) -> Description:
        """The model called `name`, or the only one there is."""
        models = self.describe()
        found = [model for model in models if name is None or model.name == name]
        if len(found) == 1:
            return found[0]
        names = ", ".join(model.name for model in models) or "none"
        asked = f"has no model '{name}'" if name is not None else "has several models, name one"
        raise MinunError("collect.model", f"the firmware {asked}; it has {names}", self._port.name)

    def run(self, model: Description, sample: bytes) -> Result:
        """The answer to one sample, over resets too."""
        if len(sample) != model.input_bytes:
            raise MinunError(
                "collect.sample-size",
                f"a sample of {len(sample)} bytes, but model '{model.name}' takes {model.input_bytes}",
                self._port.name,
            )
        for _ in range(self._patience.resets_on_one_sample + 1):
            try:
                payload = protocol.run(self.greeting.session, model.index, sample)
                result = protocol.parse_run(self._request(protocol.RUN, payload))
            except _WasReset:
                self._resume(model)
                continue
            if result is None or len(result.output) != model.output_bytes:
                raise self._nonsense("RUN")
            if result.status != 0:
                raise MinunError(
                    "collect.status",
                    f"model '{model.name}' failed with status {result.status}",
                    self._port.name,
                )
            return result
        raise MinunError(
            "collect.resets",
            f"the board was reset {self._patience.resets_on_one_sample + 1} times on one sample of model "
            f"'{model.name}'; its stack may be too small (stack room {self.greeting.stack_room_bytes} B)",
            self._port.name,
        )

    def _describe(self, index: int) -> Description:
        while True:
            try:
                reply = self._request(protocol.DESCRIBE, protocol.describe(self.greeting.session, index))
            except _WasReset:
                self._restart()
                continue
            described = protocol.parse_describe(reply)
            if described is None:
                raise self._nonsense("DESCRIBE")
            return described

    def _restart(self) -> None:
        self.resets += 1
        if self.resets > 1000:
            raise MinunError("collect.resets", "the board is reset over and over", self._port.name)
        self.greeting = self._greet()

    def _resume(self, model: Description) -> None:
        self._restart()
        now = self._describe(model.index) if model.index < self.greeting.models else None
        if now is None or (now.name, now.build_hash) != (model.name, model.build_hash):
            raise MinunError(
                "collect.other-firmware", "another firmware came up in the middle", self._port.name
            )

    def _greet(self) -> Greeting:
        deadline = time.monotonic() + self._patience.greet_s
        while time.monotonic() < deadline:
            session = random.randrange(1, 1 << 32)
            payload = self._exchange(protocol.HELLO, protocol.hello(session), self._patience.greet_every_s)
            if payload is None:
                continue
            greeting = protocol.parse_hello(payload)
            if isinstance(greeting, int):
                raise MinunError(
                    "collect.protocol",
                    f"the firmware speaks protocol {greeting}, not {protocol.VERSION}; build, upload again",
                    self._port.name,
                )
            if greeting is not None and greeting.session == session:
                return greeting
        other = (
            f", though {self._heard_bytes} bytes came: another firmware, or another baud rate"
            if self._heard_bytes
            else ""
        )
        raise MinunError(
            "collect.silent",
            f"no answer in {self._patience.greet_s:g} s{other}; is a firmware with minun/serve.h on it?",
            self._port.name,
        )

    def _request(self, kind: int, payload: bytes) -> bytes:
        """Sends until the reply comes. The sequence number stays the same, so the board runs it once."""
        self._sequence = (self._sequence + 1) % (1 << 16)
        for attempt in range(self._patience.attempts):
            self.repeats += attempt > 0
            learned = max(self._patience.shortest_s, 4 * self._slowest_s)
            wait_s = min(learned, self._patience.reply_s) if self._slowest_s else self._patience.reply_s
            began = time.monotonic()
            reply = self._exchange(kind, payload, wait_s * (1 + attempt))
            if reply is not None:
                if attempt == 0:
                    self._slowest_s = max(self._slowest_s, time.monotonic() - began)
                return reply
        raise MinunError(
            "collect.no-reply", f"no reply to {self._patience.attempts} requests", self._port.name
        )

    def _exchange(self, kind: int, payload: bytes, wait_s: float) -> bytes | None:
        """One request; its reply's payload, or None after `wait_s`. Replies to anything else are dropped."""
        if kind == protocol.HELLO:
            self._sequence = (self._sequence + 1) % (1 << 16)
        self._port.write(protocol.encode(Frame(kind, self._sequence, payload)))
        deadline = time.monotonic() + wait_s
        while True:
            while self._waiting:
                frame = self._waiting.pop(0)
                if frame.sequence != self._sequence:
                    continue
                if frame.type == kind | protocol.REPLY:
                    return frame.payload
                if frame.type == protocol.ERROR:
                    self._refused(frame.payload)
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            heard = self._port.read(left_s)
            self._heard_bytes += len(heard)
            self._waiting.extend(self._decoder.feed(heard))

    def _refused(self, payload: bytes) -> None:
        reason = payload[0] if payload else 0
        if reason == protocol.WRONG_SESSION:
            raise _WasReset
        said = protocol.REASONS.get(reason, f"for reason {reason}")
        raise MinunError("collect.refused", f"the board refused: {said}", self._port.name)

    def _nonsense(self, what: str) -> MinunError:
        return MinunError("collect.nonsense", f"the reply to {what} makes no sense", self._port.name)


def collect(
    port: str | Port,
    samples: Iterable[bytes],
    model: str | None = None,
    *,
    expected_hash: int | None = None,
    patience: Patience | None = None,
    progress: Callable[[int], None] | None = None,
) -> Collection:
    """Runs every sample (input codes as bytes) on the board and gives the records in the samples' order.

    `model` names one of the firmware's models (may be None when there is only one). With `expected_hash` a
    board that runs another build is an error. `progress` is called with the number of samples done. Raises
    MinunError, never loses or doubles a sample.
    """
    began = time.monotonic()
    line = open_port(port) if isinstance(port, str) else port
    try:
        board = Board(line, patience)
        described = board.model(model)
        if expected_hash is not None and described.build_hash != expected_hash:
            raise MinunError(
                "collect.old-firmware",
                f"the board runs another build of '{described.name}' ({described.build_hash:08x}, "
                f"expected {expected_hash:08x}); build and upload again",
                line.name,
            )
        records = []
        for index, sample in enumerate(samples):
            result = board.run(described, sample)
            unit = board.greeting.latency_unit
            latency = None if unit == "none" else board.greeting.latency(result.latency_count)
            records.append(Record(index, result.output, latency, result.arena_used_bytes))
            if progress is not None:
                progress(index + 1)
        final = board.model(described.name)
    finally:
        line.close()
    seconds = time.monotonic() - began
    return Collection(board.greeting, final, tuple(records), board.repeats, board.resets, seconds)


def mismatches(records: Sequence[Record], expected: Sequence[bytes]) -> list[int]:
    """Indices of the records whose output codes differ from the host's."""
    return [record.index for record in records if record.output != expected[record.index]]
