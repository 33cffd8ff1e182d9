# SPDX-License-Identifier: Apache-2.0
"""What `pio test` asks a board that runs a build: is it this build, does it compute the host's bits, does its
memory keep to the plan, does it measure. No numpy; the expected answers come from `.vectors` files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from minun_pio.board.collect import Board, Patience
from minun_pio.board.port import open_port
from minun_pio.board.protocol import Description, Result
from minun_pio.board.vectors import Vectors
from minun_pio.errors import MinunError


@dataclass(frozen=True)
class Check:
    """One finding: `message` says what was seen, and when it failed also what was expected. `passed` is None
    where the board cannot tell."""

    name: str
    passed: bool | None
    message: str
    seconds: float


@dataclass(frozen=True)
class _Answers:
    results: tuple[Result, ...]
    description: Description


def run_checks(port: str, expected: Sequence[Vectors], patience: Patience | None = None) -> Iterator[Check]:
    """The checks of every model, as they are done. A board that does not answer fails each handshake."""
    try:
        board = Board(open_port(port), patience)
    except MinunError as error:
        for vectors in expected:
            yield Check(f"{vectors.model}: handshake", False, str(error), 0.0)
        return
    with board:
        for vectors in expected:
            yield from _model_checks(board, vectors)


def _model_checks(board: Board, vectors: Vectors) -> Iterator[Check]:
    described: list[Description] = []
    handshake = _timed(f"{vectors.model}: handshake", lambda: _handshake(board, vectors, described))
    yield handshake
    if not handshake.passed:
        return
    answers: list[_Answers] = []
    count = len(vectors.inputs)
    yield _timed(
        f"{vectors.model}: {count} samples bit for bit",
        lambda: _bits(board, described[0], vectors, answers),
    )
    if not answers:
        return
    yield _timed(f"{vectors.model}: arena high-water mark is the plan's", lambda: _arena(vectors, answers[0]))
    yield _timed(f"{vectors.model}: stack within its room", lambda: _stack(board, answers[0]))
    yield _timed(f"{vectors.model}: latency recorded", lambda: _latency(board, answers[0]))


def _timed(name: str, check: Callable[[], tuple[bool | None, str]]) -> Check:
    began = time.monotonic()
    passed: bool | None
    try:
        passed, message = check()
    except MinunError as error:
        passed, message = False, str(error)
    return Check(name, passed, message, time.monotonic() - began)


def _handshake(board: Board, vectors: Vectors, described: list[Description]) -> tuple[bool, str]:
    model = board.model(vectors.model)
    described.append(model)
    told = (model.build_hash, model.arena_bytes, model.input_bytes, model.output_bytes)
    wanted = (vectors.build_hash, vectors.arena_bytes, vectors.input_bytes, vectors.output_bytes)
    if model.build_hash != vectors.build_hash:
        return False, f"the board runs build {told[0]:08x}, this is {wanted[0]:08x}; upload again"
    if told != wanted:
        return False, f"arena, input and output bytes are {told[1:]}, expected {wanted[1:]}"
    return True, f"build {model.build_hash:08x}, arena {told[1]} B, input {told[2]} B, output {told[3]} B"


def _bits(board: Board, model: Description, vectors: Vectors, answers: list[_Answers]) -> tuple[bool, str]:
    # Twice: the arena is painted differently each time, and the answers must not depend on it.
    results = [board.run(model, sample) for _ in range(2) for sample in vectors.inputs]
    answers.append(_Answers(tuple(results), board.model(vectors.model)))
    outputs = vectors.outputs * 2
    wrong = [k for k, result in enumerate(results) if result.output != outputs[k]]
    if wrong:
        k = wrong[0]
        return False, (
            f"{len(set(w % len(vectors.inputs) for w in wrong))} of {len(vectors.inputs)} samples differ; "
            f"sample {k % len(vectors.inputs)} gave {results[k].output[:16].hex()}, "
            f"expected {outputs[k][:16].hex()}"
        )
    return True, f"{len(vectors.inputs)} samples, each twice"


def _arena(vectors: Vectors, answers: _Answers) -> tuple[bool, str]:
    used = max(result.arena_used_bytes for result in answers.results)
    said = f"{used} B of the arena were used, {vectors.arena_bytes} B are planned"
    return used == vectors.arena_bytes, said


def _stack(board: Board, answers: _Answers) -> tuple[bool | None, str]:
    room, used = board.greeting.stack_room_bytes, answers.description.stack_used_bytes
    if room == 0:
        return None, "this board cannot tell its stack"
    return used < room, f"the stack used {used} B of {room} B"


def _latency(board: Board, answers: _Answers) -> tuple[bool | None, str]:
    greeting = board.greeting
    if greeting.latency_unit == "none":
        return None, "this firmware does not measure (minun::NoClock)"
    counts = sorted(greeting.latency(result.latency_count) for result in answers.results)
    median = counts[len(counts) // 2]
    said = f"{median} {greeting.latency_unit} ({counts[0]} to {counts[-1]}; {greeting.latency_source})"
    return median > 0, said
