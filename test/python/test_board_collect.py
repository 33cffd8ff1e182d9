# SPDX-License-Identifier: Apache-2.0
"""Collecting over a bad line from a board that resets: every sample once, in order, with its own answer."""

from __future__ import annotations

import struct
import zlib

import pytest
from fake_board import FakeBoard

from minun_pio.board.collect import Patience, collect, mismatches
from minun_pio.errors import MinunError

_HURRY = Patience(
    greet_s=20, greet_every_s=0.01, reply_s=0.02, shortest_s=0.01, attempts=200, resets_on_one_sample=50
)
_SAMPLES = [struct.pack("<q", index * index) for index in range(60)]
_ANSWERS = [struct.pack("<I", zlib.crc32(sample)) for sample in _SAMPLES]


def test_a_good_line_gives_every_answer_with_one_run_each() -> None:
    board = FakeBoard()
    done = collect(board, _SAMPLES, "toy", expected_hash=0x1234)
    assert [record.output for record in done.records] == _ANSWERS
    assert board.runs == _SAMPLES
    assert {record.latency for record in done.records} == {100}
    assert (done.repeats, done.resets, done.arena_used_bytes) == (0, 0, 60)


@pytest.mark.parametrize("seed", range(4))
def test_lost_and_changed_bytes_and_old_replies_change_no_record(seed: int) -> None:
    board = FakeBoard(seed, loss=0.004, damage=0.004, echo=0.3)
    done = collect(board, _SAMPLES, "toy", patience=_HURRY)
    assert [record.index for record in done.records] == list(range(60))
    assert mismatches(done.records, _ANSWERS) == []
    assert done.repeats > 0
    # The board answers a repeated request from memory: it ran each sample once, and in order.
    assert board.runs == _SAMPLES


@pytest.mark.parametrize("seed", range(4))
def test_a_board_that_resets_in_the_middle_loses_and_doubles_no_sample(seed: int) -> None:
    board = FakeBoard(seed, reset=0.1, echo=0.2, loss=0.001)
    done = collect(board, _SAMPLES, "toy", patience=_HURRY)
    assert [record.output for record in done.records] == _ANSWERS
    assert done.resets > 0
    assert board.resets >= done.resets


def test_another_firmware_after_a_reset_ends_the_run() -> None:
    board = FakeBoard()

    def swap(samples_done: int) -> None:
        if samples_done == 5:
            board.press_reset()
            board._hash = 0x9999

    with pytest.raises(MinunError, match="another firmware came up"):
        collect(board, _SAMPLES, "toy", patience=_HURRY, progress=swap)


def test_an_old_firmware_is_named_as_such() -> None:
    with pytest.raises(MinunError, match=r"another build of 'toy' \(00001234, expected 0000abcd\)"):
        collect(FakeBoard(), _SAMPLES, "toy", expected_hash=0xABCD)


def test_a_model_the_firmware_lacks_is_answered_with_those_it_has() -> None:
    with pytest.raises(MinunError, match="no model 'cnn'; it has toy"):
        collect(FakeBoard(), _SAMPLES, "cnn")


def test_a_board_that_says_nothing_is_given_up() -> None:
    patience = Patience(greet_s=0.05, greet_every_s=0.01)
    with pytest.raises(MinunError, match=r"no answer in 0\.05 s; is a firmware"):
        collect(FakeBoard(loss=1.0), _SAMPLES, patience=patience)


class _Sketch(FakeBoard):
    def read(self, timeout_s: float) -> bytes:
        return super().read(timeout_s) * 0 + b"Hello, world\r\n"


def test_a_board_that_says_something_else_is_told_from_one_that_says_nothing() -> None:
    with pytest.raises(
        MinunError, match=r"s, though \d+ bytes came: another firmware, or another baud rate; is"
    ):
        collect(_Sketch(), _SAMPLES, patience=Patience(greet_s=0.05, greet_every_s=0.01))


def test_a_board_that_resets_on_the_same_sample_each_time_is_given_up() -> None:
    board = FakeBoard()

    def crash(samples_done: int) -> None:
        if samples_done == 3:
            board._reset = 1.0

    patience = Patience(greet_s=1, greet_every_s=0.01, reply_s=0.02, shortest_s=0.01, attempts=3)
    with pytest.raises(MinunError, match=r"reset|reply|no answer"):
        collect(board, _SAMPLES, "toy", patience=patience, progress=crash)


def test_a_sample_of_the_wrong_size_is_refused_before_it_is_sent() -> None:
    with pytest.raises(MinunError, match="a sample of 3 bytes, but model 'toy' takes 8"):
        collect(FakeBoard(), [b"abc"], "toy")


def test_a_model_that_fails_says_so() -> None:
    board = FakeBoard()
    board.status = 2
    with pytest.raises(MinunError, match="failed with status 2"):
        collect(board, _SAMPLES, "toy")
