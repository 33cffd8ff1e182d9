# SPDX-License-Identifier: Apache-2.0
"""Both kinds of port over a pty pair: every byte value passes, time-outs hold, a port that goes is named."""

from __future__ import annotations

import os
import sys
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from minun_pio.board.port import Port, PtyPort, UartPort, open_port
from minun_pio.errors import MinunError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a pty pair stands in for the line")


@pytest.fixture
def line() -> Iterator[tuple[int, str]]:
    """The board's end as a file descriptor, and the name of the host's end."""
    master, slave = os.openpty()
    tty.setraw(slave)
    yield master, os.ttyname(slave)
    os.close(master)
    os.close(slave)


def _open(kind: str, name: str) -> Port:
    return PtyPort(name, name) if kind == "pty" else UartPort(name, 115200)


def _all(port: Port, count: int) -> bytes:
    got, deadline = b"", time.monotonic() + 5
    while len(got) < count and time.monotonic() < deadline:
        got += port.read(0.5)
    return got


@pytest.mark.parametrize("kind", ["pty", "uart"])
def test_every_byte_value_passes_both_ways(line: tuple[int, str], kind: str) -> None:
    board, name = line
    port = _open(kind, name)
    everything = bytes(range(256)) * 4
    port.write(everything)
    got = b""
    while len(got) < len(everything):
        got += os.read(board, 4096)
    assert got == everything
    os.write(board, everything)
    assert _all(port, len(everything)) == everything
    port.close()


@pytest.mark.parametrize("kind", ["pty", "uart"])
def test_a_read_returns_empty_when_its_time_is_over(line: tuple[int, str], kind: str) -> None:
    port = _open(kind, line[1])
    began = time.monotonic()
    assert port.read(0.1) == b""
    assert 0.08 < time.monotonic() - began < 2
    port.close()


def test_reading_does_not_set_a_serial_port_up_again(
    line: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = UartPort(line[1], 115200)
    monkeypatch.setattr(port._serial, "_reconfigure_port", lambda: pytest.fail("set up again"))
    assert port.read(0.01) == b""
    os.write(line[0], b"answer")
    assert _all(port, 6) == b"answer"
    assert port.read(0) == b""
    monkeypatch.undo()
    port.close()


@pytest.mark.parametrize("kind", ["pty", "uart"])
def test_a_second_program_is_told_that_the_port_is_in_use(line: tuple[int, str], kind: str) -> None:
    port = _open(kind, line[1])
    with pytest.raises(MinunError, match=r"another program uses|cannot open"):
        _open(kind, line[1])
    port.close()
    _open(kind, line[1]).close()


def test_a_virtual_board_that_ended_is_named(tmp_path: Path) -> None:
    board, slave = os.openpty()
    link = tmp_path / "port"
    link.symlink_to(os.ttyname(slave))
    port = open_port(str(link))
    os.close(slave)
    os.close(board)
    with pytest.raises(MinunError, match="ended; upload again") as caught:
        port.read(1)
    assert str(link) in str(caught.value)
    port.close()


def test_a_link_to_a_pty_that_is_gone_says_upload_again(tmp_path: Path) -> None:
    link = tmp_path / "port"
    link.symlink_to("/dev/pts/no-such-one")
    with pytest.raises(MinunError, match=r"cannot open the port|upload again"):
        open_port(str(link))
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(MinunError, match="upload again"):
        open_port(str(link))


def test_a_port_is_not_opened_twice_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    with monkeypatch.context() as windows:
        windows.setattr("os.name", "nt")
        windows.setattr("os.path.realpath", lambda name: opened.append(f"realpath {name}") or name)
        windows.setattr("minun_pio.board.port.UartPort", lambda name, baud: opened.append(name))
        open_port("COM5")
    assert opened == ["COM5"]


def test_a_port_that_does_not_exist_is_answered_with_how_to_list_them(tmp_path: Path) -> None:
    with pytest.raises(MinunError, match="pio device list"):
        open_port(str(tmp_path / "ttyACM9"))
