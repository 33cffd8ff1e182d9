# SPDX-License-Identifier: Apache-2.0
"""The board's side of the protocol (minun/link.h), compiled for the host with sanitizers and fed anything."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from minun_pio.board import protocol
from minun_pio.board.bare import build_and_run, missing_tools
from minun_pio.board.protocol import Decoder, Frame
from minun_pio.board.toolchain import run_tool

ROOT = Path(__file__).resolve().parents[2]

_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "minun/link.h"
struct Pipe {
  enum { kPatience = 3 };
  static int read() {
    const int byte = getchar();
    if (byte == EOF) {
      fflush(stdout);
      exit(0);
    }
    return byte;
  }
  static void write(uint8_t byte) { putchar(byte); }
};
struct Clock {
  enum { kKind = 3, kScaleNumerator = 5, kScaleDenominator = 128 };
  static void start() {}
  static uint32_t stop() { return 2560; }
};
static uint32_t runs;
// Twice the input, how often it ran, and `first` bytes of the arena used.
static uint8_t twice(const void* input, void* output, uint8_t* arena, size_t arena_bytes) {
  const uint8_t* in = static_cast<const uint8_t*>(input);
  uint8_t* out = static_cast<uint8_t*>(output);
  for (int i = 0; i < 8; ++i) out[i] = static_cast<uint8_t>(in[i] * 2);
  ++runs;
  memcpy(out + 8, &runs, 4);
  for (size_t i = 0; i < in[0] && i < arena_bytes; ++i) arena[i] = in[1];
  return in[7] == 0xFF ? 3 : 0;
}
static uint8_t huge(const void*, void*, uint8_t*, size_t) { abort(); }
int main() {
  static const minun::Model models[] MINUN_FLASH = {
      {"twice", 0xCAFEBABE, 32, 8, 12, twice},
      {"huge", 1, 32, 100000, 12, huge},
      {"greedy", 1, 33, 8, 12, huge}};
  uint8_t* const arena = static_cast<uint8_t*>(malloc(32));  // so that the sanitizer sees its ends
  typedef minun::Link<Pipe, Clock, 8, 12> Link;
  Link* const link = new Link(models, 3, arena, 32);
  link->begin();
  for (;;) link->poll();
}
"""


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("g++ not installed")
    folder = tmp_path_factory.mktemp("device")
    (folder / "device.cpp").write_text(_PROGRAM)
    flags = "-std=c++11 -Wall -Wextra -Werror -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    target = folder / "device"
    command = ["g++", *flags.split(), f"-I{ROOT / 'include'}", str(folder / "device.cpp"), "-o", str(target)]
    run_tool(command, "device.cpp")
    return target


def _talk(device: Path, data: bytes) -> list[Frame]:
    done = subprocess.run([device], input=data, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    return list(Decoder().feed(done.stdout))


def _frame(kind: int, sequence: int, payload: bytes) -> bytes:
    return protocol.encode(Frame(kind, sequence, payload))


HELLO = _frame(protocol.HELLO, 1, protocol.hello(77))


def test_a_greeting_is_answered_with_what_the_board_is(device: Path) -> None:
    (reply,) = _talk(device, HELLO)
    greeting = protocol.parse_hello(reply.payload)
    assert isinstance(greeting, protocol.Greeting)
    assert (reply.type, reply.sequence, greeting.session, greeting.models) == (0x81, 1, 77, 3)
    assert (greeting.latency_unit, greeting.arena_capacity_bytes) == ("instructions", 32)


def test_a_model_is_described(device: Path) -> None:
    _, reply = _talk(device, HELLO + _frame(protocol.DESCRIBE, 2, protocol.describe(77, 0)))
    told = protocol.parse_describe(reply.payload)
    assert told == protocol.Description(77, 0, "twice", 0xCAFEBABE, 32, 8, 12, 0)


def test_a_sample_is_run_with_latency_and_the_arenas_high_water_mark(device: Path) -> None:
    samples = [bytes([used, 0xA5, 3, 4, 5, 0x7E, 0x7D, 8]) for used in (0, 1, 20, 32, 32)]
    requests = b"".join(_frame(protocol.RUN, 2 + k, protocol.run(77, 0, s)) for k, s in enumerate(samples))
    replies = _talk(device, HELLO + requests)[1:]
    results = [protocol.parse_run(reply.payload) for reply in replies]
    assert [result.output[:8] for result in results if result] == [
        bytes(b * 2 % 256 for b in s) for s in samples
    ]
    assert [result.latency_count for result in results if result] == [2560] * 5
    # A byte that equals the paint is hidden, but the next run paints differently: twice shows all.
    assert sorted(result.arena_used_bytes for result in results[-2:] if result) == [0, 32]
    assert [result.arena_used_bytes for result in results[:3] if result] == [0, 0, 20]


def test_a_request_sent_again_is_answered_again_and_not_run_again(device: Path) -> None:
    once = _frame(protocol.RUN, 9, protocol.run(77, 0, bytes(8)))
    other = _frame(protocol.RUN, 10, protocol.run(77, 0, bytes(8)))
    replies = _talk(device, HELLO + once + once + once + other)[1:]
    runs = [struct.unpack("<I", reply.payload[-4:])[0] for reply in replies]
    assert runs == [1, 1, 1, 2]
    assert [reply.sequence for reply in replies] == [9, 9, 9, 10]


@pytest.mark.parametrize(
    ("request_bytes", "reason"),
    [
        (_frame(0x55, 4, protocol.run(77, 0, bytes(8))), protocol.UNKNOWN_REQUEST),
        (_frame(protocol.HELLO, 4, b"abc"), protocol.WRONG_LENGTH),
        (_frame(protocol.RUN, 4, protocol.run(77, 0, bytes(7))), protocol.WRONG_LENGTH),
        (_frame(protocol.RUN, 4, protocol.run(77, 0, bytes(9))), protocol.WRONG_LENGTH),
        (_frame(protocol.RUN, 4, b"M"), protocol.WRONG_LENGTH),
        (_frame(protocol.DESCRIBE, 4, protocol.describe(77, 0) + b"x"), protocol.WRONG_LENGTH),
        (_frame(protocol.RUN, 4, protocol.run(78, 0, bytes(8))), protocol.WRONG_SESSION),
        (_frame(protocol.DESCRIBE, 4, protocol.describe(77, 3)), protocol.NO_SUCH_MODEL),
        (_frame(protocol.RUN, 4, protocol.run(77, 255, bytes(8))), protocol.NO_SUCH_MODEL),
        (_frame(protocol.RUN, 4, protocol.run(77, 1, bytes(100000))), protocol.DOES_NOT_FIT),
        (_frame(protocol.RUN, 4, protocol.run(77, 2, bytes(8))), protocol.DOES_NOT_FIT),
    ],
)
def test_a_wrong_request_is_refused_with_its_reason(device: Path, request_bytes: bytes, reason: int) -> None:
    reply = _talk(device, HELLO + request_bytes)[-1]
    assert (reply.type, reply.sequence, reply.payload) == (protocol.ERROR, 4, bytes([reason]))


def test_before_any_greeting_even_session_zero_is_refused(device: Path) -> None:
    (reply,) = _talk(device, _frame(protocol.RUN, 4, protocol.run(0, 0, bytes(8))))
    assert reply.payload == bytes([protocol.WRONG_SESSION])


def test_a_failing_models_status_is_told(device: Path) -> None:
    reply = _talk(device, HELLO + _frame(protocol.RUN, 4, protocol.run(77, 0, b"1234567\xff")))[-1]
    result = protocol.parse_run(reply.payload)
    assert result is not None
    assert result.status == 3


_SMALL_PROGRAM = r"""
#include "bare.h"
#include "minun/link.h"
static bool over;
struct Pipe {
  enum { kPatience = 0 };
  static int read() {
    uint8_t byte;
    over = !bare::read(&byte, 1);
    return over ? -1 : byte;
  }
  static void write(uint8_t byte) { bare::write(&byte, 1); }
};
struct Clock {
  enum { kKind = 0, kScaleNumerator = 1, kScaleDenominator = 1 };
  static void start() {}
  static uint32_t stop() { return 0; }
};
static_assert(sizeof(size_t) == 2, "a frame may be longer than a size_t counts");
int main() {
  static minun::Link<Pipe, Clock, 1, 1> link(nullptr, 0, nullptr, 0);
  while (!over) link.poll();
  return 0;
}
"""


def test_a_frame_longer_than_a_small_board_can_count_is_no_request(tmp_path: Path) -> None:
    if missing_tools("avr"):
        pytest.skip(f"{', '.join(missing_tools('avr'))} not installed")
    (tmp_path / "link.cpp").write_text(_SMALL_PROGRAM)
    # Its last bytes are a greeting: a counter that begins again at 65,536 would take it for one.
    content = bytes(65536) + HELLO[1:-5]
    long_frame = b"\x7e" + content + struct.pack("<I", zlib.crc32(content)) + b"\x7e"
    assert long_frame.count(b"\x7e") == 2
    assert b"\x7d" not in long_frame
    run = build_and_run(
        "avr",
        [tmp_path / "link.cpp"],
        include_dirs=[ROOT / "include"],
        cflags=["-Os", "-std=c++11", "-Wall", "-Wextra", "-Werror"],
        stdin_bytes=long_frame + _frame(protocol.HELLO, 2, protocol.hello(78)),
    )
    assert [reply.sequence for reply in Decoder().feed(run.output)] == [2]


@pytest.mark.parametrize("seed", range(6))
def test_no_byte_is_trusted_and_a_good_request_after_any_is_answered(device: Path, seed: int) -> None:
    rng = random.Random(seed)
    good = [
        HELLO,
        _frame(protocol.DESCRIBE, 2, protocol.describe(77, 0)),
        _frame(protocol.RUN, 3, protocol.run(77, 0, rng.randbytes(8))),
        _frame(protocol.RUN, 4, protocol.run(77, 1, rng.randbytes(50))),
    ]
    stream = bytearray()
    for _ in range(3000):
        choice = rng.random()
        piece = bytearray(rng.choice(good))
        if choice < 0.25:
            piece = bytearray(rng.randbytes(rng.randrange(60)))
        elif choice < 0.5:
            piece[rng.randrange(len(piece))] = rng.randrange(256)
        elif choice < 0.65:
            del piece[rng.randrange(len(piece)) :]
        elif choice < 0.8:  # a sound frame of random content: the length and CRC are right, the rest is not
            piece = bytearray(
                _frame(rng.randrange(5), rng.randrange(65536), rng.randbytes(rng.randrange(40)))
            )
        elif choice < 0.9:
            payload = protocol.run(77, rng.randrange(4), rng.randbytes(rng.choice([0, 7, 8, 9, 500])))
            piece = bytearray(_frame(protocol.RUN, rng.randrange(65536), payload))
        stream += piece
    sample = bytes(range(8))
    last = HELLO + _frame(protocol.RUN, 999, protocol.run(77, 0, sample))
    reply = _talk(device, bytes(stream) + b"\x7e" + last)[-1]
    assert (reply.type, reply.sequence) == (protocol.RUN | protocol.REPLY, 999)
    result = protocol.parse_run(reply.payload)
    assert result is not None
    assert result.output[:8] == bytes(2 * b for b in sample)
