# SPDX-License-Identifier: Apache-2.0
"""The frame codec: what goes in comes out, and nothing else does."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minun_pio.board import protocol, vectors
from minun_pio.board.protocol import Decoder, Frame
from minun_pio.errors import MinunError

frames = st.builds(
    Frame,
    type=st.integers(0, 255),
    sequence=st.integers(0, 65535),
    payload=st.one_of(st.binary(max_size=200), st.lists(st.sampled_from([0x7E, 0x7D, 0x5E, 0])).map(bytes)),
)


@given(st.lists(frames, max_size=4), st.integers(1, 40))
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(sent: list[Frame], cut: int) -> None:
    wire = b"".join(map(protocol.encode, sent))
    decoder = Decoder()
    got = [frame for at in range(0, len(wire), cut) for frame in decoder.feed(wire[at : at + cut])]
    assert got == sent
    assert decoder.dropped_frames == 0


@given(frames, st.binary(max_size=60), st.binary(max_size=60))
def test_a_frame_is_found_between_any_garbage(sent: Frame, before: bytes, after: bytes) -> None:
    assert sent in list(Decoder().feed(before + protocol.encode(sent) + after))


@given(frames, st.data())
def test_a_frame_with_a_flipped_bit_is_never_taken_for_another(sent: Frame, data: st.DataObject) -> None:
    wire = bytearray(protocol.encode(sent))
    at = data.draw(st.integers(0, len(wire) * 8 - 1))
    wire[at // 8] ^= 1 << at % 8
    got = list(Decoder().feed(b"\x7e" + bytes(wire) + b"\x7e"))
    assert all(frame == sent for frame in got)


@settings(max_examples=20)
@given(st.binary(max_size=5000))
def test_random_bytes_make_no_frame_and_no_error(noise: bytes) -> None:
    assert list(Decoder().feed(noise)) == []


def test_a_line_that_babbles_takes_no_memory() -> None:
    decoder = Decoder(max_content_bytes=100)
    for _ in range(50):
        assert list(decoder.feed(b"x" * 1000)) == []
    assert len(decoder._content) <= 1100
    frame = Frame(protocol.RUN, 1, b"fine")
    assert list(decoder.feed(protocol.encode(frame))) == [frame]
    assert decoder.dropped_frames == 1


def test_replies_of_the_wrong_size_make_no_sense() -> None:
    for size in range(60):
        noise = bytes([protocol.VERSION]) + bytes(random.Random(size).randbytes(size))
        if size + 1 != 23:
            assert protocol.parse_hello(noise) is None
        if size + 1 < 25:
            assert protocol.parse_describe(noise) is None
        if size + 1 < 14:
            assert protocol.parse_run(noise) is None


def test_a_board_that_speaks_another_version_is_told_by_its_number() -> None:
    assert protocol.parse_hello(bytes([9]) + bytes(40)) == 9


def test_latency_counts_become_the_boards_unit_rounded_to_the_nearest() -> None:
    greeting = protocol.Greeting(1, "instructions", "QEMU -icount", (5, 128), 0, 0, 1)
    assert [greeting.latency(count) for count in (0, 25, 26, 51, 2560)] == [0, 1, 1, 2, 100]


_SOME = vectors.vectors("digits", 0xDEADBEEF, 112, [b"ab", b"cd"], [b"xyz", b"uvw"])


def test_vectors_come_back_from_their_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "digits.vectors"
    path.write_bytes(vectors.to_bytes(_SOME))
    assert vectors.read(path) == _SOME


@given(st.integers(0, 500), st.integers(0, 255))
def test_damaged_vectors_are_refused_in_one_line(tmp_path_factory, at: int, value: int) -> None:  # type: ignore[no-untyped-def]
    data = bytearray(vectors.to_bytes(_SOME))
    at %= len(data)
    if data[at] == value:
        data = data[:at]
    else:
        data[at] = value
    path = tmp_path_factory.getbasetemp() / "damaged.vectors"
    path.write_bytes(data)
    with pytest.raises(MinunError, match="build again"):
        vectors.read(path)
