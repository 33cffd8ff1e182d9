# SPDX-License-Identifier: Apache-2.0
"""Serial ports: a pseudo-terminal through the operating system, anything else through pyserial.

pyserial sets modem lines on opening, which a pty refuses; a real port (a Windows COM port too) needs it.
"""

from __future__ import annotations

import os
import select
import time
from typing import Protocol

from minun_pio.errors import MinunError


class Port(Protocol):
    """A two-way line of bytes. Every failure is a MinunError that names the port."""

    name: str

    def read(self, timeout_s: float) -> bytes:
        """What is there, waiting up to `timeout_s` for the first byte; empty when nothing came."""

    def write(self, data: bytes) -> None:
        """Sends all of `data`, or fails after a few seconds of nobody taking it."""

    def close(self) -> None:
        """Gives the port back."""


def open_port(name: str, baud: int = 115200) -> Port:
    """Opens the port `name` (a device, a COM port, or the `port` link of a virtual board)."""
    # On Windows realpath would open the port, which resets some boards.
    target = os.path.realpath(name) if os.name == "posix" else name
    if target.startswith("/dev/pts/"):
        return PtyPort(name, target)
    if os.path.islink(name) and not os.path.exists(name):
        raise MinunError("port.gone", "the virtual board behind this port is gone; upload again", name)
    return UartPort(name, baud)


_WRITE_TIMEOUT_S = 5.0
_SLICE_S = 0.05  # a UART's read waits in such parts


class PtyPort:
    """The host's end of a virtual board's pty, raw and for one user at a time."""

    def __init__(self, name: str, target: str) -> None:
        import fcntl
        import termios

        self.name = name
        try:
            self._fd = os.open(target, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            raise MinunError("port.open", f"cannot open the port: {error.strerror}", name) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mode = termios.tcgetattr(self._fd)
            mode[0] = mode[1] = mode[3] = 0
            termios.tcsetattr(self._fd, termios.TCSANOW, mode)
            termios.tcflush(self._fd, termios.TCIFLUSH)
        except BlockingIOError:
            os.close(self._fd)
            raise MinunError("port.busy", "another program uses the port", name) from None
        except (OSError, termios.error) as error:
            os.close(self._fd)
            raise MinunError("port.open", f"cannot set the port up: {error}", name) from None

    def read(self, timeout_s: float) -> bytes:
        ready, _, _ = select.select([self._fd], [], [], max(timeout_s, 0))
        if not ready:
            return b""
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            raise MinunError("port.gone", "the virtual board behind this port ended; upload again", self.name)
        return data

    def write(self, data: bytes) -> None:
        deadline = time.monotonic() + _WRITE_TIMEOUT_S
        while data:
            _, ready, _ = select.select([], [self._fd], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise MinunError("port.stuck", "the board takes no bytes", self.name)
            try:
                sent = os.write(self._fd, data)
            except BlockingIOError:
                continue
            except OSError as error:
                raise MinunError("port.gone", f"the port is gone: {error.strerror}", self.name) from None
            data = data[sent:]

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class UartPort:
    """A real serial port. Its time-out stays as it is: to change it sets the whole port up again, on Windows
    with requests to the board, and that at every read."""

    def __init__(self, name: str, baud: int) -> None:
        import serial

        self.name = name
        self._error = serial.SerialException
        try:
            self._serial = serial.Serial(
                name,
                baud,
                timeout=_SLICE_S,
                write_timeout=_WRITE_TIMEOUT_S,
                exclusive=True if os.name == "posix" else None,
            )
        except (serial.SerialException, ValueError, OSError) as error:
            number = getattr(error, "errno", None)
            reason = os.strerror(number) if number and os.name == "posix" else " ".join(str(error).split())
            raise MinunError(
                "port.open",
                f"cannot open the port: {reason}; `pio device list` shows the ports there are, and a virtual "
                "board has one once its firmware is uploaded",
                name,
            ) from None

    def read(self, timeout_s: float) -> bytes:
        try:
            deadline = time.monotonic() + timeout_s
            while not self._serial.in_waiting:
                if time.monotonic() >= deadline:
                    return b""
                first = self._serial.read(1)
                if first:
                    return bytes(first + self._serial.read(self._serial.in_waiting))
            return bytes(self._serial.read(self._serial.in_waiting))
        except (self._error, OSError) as error:
            raise MinunError("port.gone", f"the port is gone: {error}", self.name) from None

    def write(self, data: bytes) -> None:
        try:
            self._serial.write(data)
        except (self._error, OSError) as error:
            raise MinunError("port.gone", f"cannot write to the port: {error}", self.name) from None

    def close(self) -> None:
        self._serial.close()
