# SPDX-License-Identifier: Apache-2.0
"""The virtual boards' runner: an emulator in the background whose UART is a pty behind a link named `port`.

A board lives in a folder of its own, `<project>/.pio/minun/<environment>/`, outside `.pio/build` (which
PlatformIO may wipe): `port` (link to the pty), `board.json` (process id), `log` (what the emulator said).
Uploading again, or `stop`, ends it. Linux only; everything here is quiet, callers print.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from minun_pio.board.places import cache_dir, publish, simulator_tool
from minun_pio.errors import MinunError

QEMU_MACHINES = {"due_sim": "mps2-an385", "stm32h747_sim": "mps2-an500"}
BOARDS = ("uno_sim", *QEMU_MACHINES, "native")


@dataclass(frozen=True)
class VirtualBoard:
    """A running board. `port` is the link to open; `started` is the kernel's start time of `pid`."""

    board: str
    pid: int
    started: int
    port: str
    firmware: str
    monitor: str

    @property
    def folder(self) -> Path:
        return Path(self.port).parent


def board_dir(project_dir: str | os.PathLike[str], environment: str) -> Path:
    """The folder of an environment's virtual board, as the development platform's `upload` uses it."""
    workspace = os.environ.get("PLATFORMIO_WORKSPACE_DIR")
    root = Path(workspace) if workspace else Path(project_dir) / ".pio"
    return root.absolute() / "minun" / environment


def start(board: str, firmware: str | os.PathLike[str], folder: str | os.PathLike[str]) -> VirtualBoard:
    """Ends the board that runs in `folder`, if any, and starts `firmware` there. Raises MinunError."""
    if board not in BOARDS:
        raise MinunError("board.unknown", f"no virtual board '{board}'; there are {', '.join(BOARDS)}")
    if not sys.platform.startswith("linux"):
        raise MinunError("board.linux-only", "virtual boards run on Linux only")
    image = Path(firmware).absolute()
    if not image.is_file():
        raise MinunError("board.no-firmware", "no such firmware; build it first", str(firmware))
    _check_firmware(board, image)
    place = Path(folder).absolute()
    stop(place)
    place.mkdir(parents=True, exist_ok=True)
    monitor = _monitor_path(place) if board in QEMU_MACHINES else ""
    command = _command(board, image, monitor)

    import pty

    master, slave = pty.openpty()
    try:
        _make_raw(slave)
        with (place / "log").open("wb") as log:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=master,
                    stdout=master,
                    stderr=log,
                    pass_fds=(slave,),
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise MinunError(
                    "board.no-emulator", f"'{command[0]}' is not installed; run: make setup"
                ) from None
            except OSError as error:
                raise MinunError(
                    "board.emulator-died", f"{command[0]} does not start: {error.strerror}", str(firmware)
                ) from None
        tty = os.ttyname(slave)
    finally:
        os.close(master)
        os.close(slave)
    try:
        if board != "native":
            _wait_until_up(process, monitor, place / "log", command[0])
        started = VirtualBoard(
            board, process.pid, _start_time(process.pid), str(place / "port"), str(image), monitor
        )
        _link(tty, place / "port")
        told = json.dumps(started.__dict__, indent=1)
        _write(_registry_entry(place), told)
        _write(place / "board.json", told)
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.returncode = 0  # it is meant to outlive this program: no warning that it is still running
    return started


def running(folder: str | os.PathLike[str]) -> VirtualBoard | None:
    """The board alive in `folder`, or None. It is found, too, when the folder was deleted under it."""
    place = Path(folder).absolute()
    return _read(place / "board.json") or _read(_registry_entry(place))


def stop(folder: str | os.PathLike[str]) -> bool:
    """Ends the board in `folder` and removes its files; whether one was running. Never ends anything else."""
    place = Path(folder).absolute()
    found = running(place)
    if found is not None:
        _end(found)
    for name in ("port", "board.json"):
        (place / name).unlink(missing_ok=True)
    if found is not None and found.monitor:
        Path(found.monitor).unlink(missing_ok=True)
    _registry_entry(place).unlink(missing_ok=True)
    return found is not None


def all_running() -> list[VirtualBoard]:
    """Every board this user has running, in any project, in the order of their folders."""
    boards = []
    for entry in (cache_dir() / "boards").glob("*"):
        found = _read(entry)
        if found is None:
            entry.unlink(missing_ok=True)
        else:
            boards.append(found)
    return sorted(boards, key=lambda board: board.port)


def reset(folder: str | os.PathLike[str]) -> None:
    """Presses the reset button; the port stays. Raises MinunError when no board runs or it has no button."""
    found = running(folder)
    if found is None:
        raise MinunError("board.not-running", "no virtual board runs here; upload first", str(folder))
    if found.board == "native":
        raise MinunError("board.no-reset", "the host has no reset button; upload again instead")
    if found.monitor:
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(5)
            monitor.connect(found.monitor)
            _read_until(monitor, b"(qemu) ")
            monitor.sendall(b"system_reset\n")
            _read_until(monitor, b"(qemu) ")
    else:
        os.kill(found.pid, signal.SIGUSR1)


def _command(board: str, image: Path, monitor: str) -> list[str]:
    if board == "native":
        return [str(image)]
    if board == "uno_sim":
        return [str(simulator_tool("avr_board")), str(image)]
    return [
        *("qemu-system-arm", "-M", QEMU_MACHINES[board], "-kernel", str(image)),
        *("-display", "none", "-icount", "shift=10"),
        *("-chardev", "stdio,id=port,signal=off", "-serial", "chardev:port"),
        *(
            "-chardev",
            f"socket,id=monitor,path={monitor},server=on,wait=off",
            "-mon",
            "chardev=monitor,mode=readline",
        ),
    ]


def _make_raw(slave: int) -> None:
    """Raw both ways. QEMU turns output processing on again, so its line-end flags (ONLCR) must go too."""
    import termios as t

    mode = t.tcgetattr(slave)
    mode[0] = 0
    mode[1] = 0
    mode[2] = (mode[2] & ~(t.CSIZE | t.PARENB)) | t.CS8
    mode[3] = 0
    t.tcsetattr(slave, t.TCSANOW, mode)


def _monitor_path(place: Path) -> str:
    """A short path (a socket's must be under 108 bytes), private to this user and folder."""
    digest = hashlib.sha256(str(place).encode()).hexdigest()[:16]
    return os.path.join(tempfile.gettempdir(), f"minun-{os.getuid()}-{digest}.sock")


def _registry_entry(place: Path) -> Path:
    return cache_dir() / "boards" / hashlib.sha256(str(place).encode()).hexdigest()[:16]


def _read(path: Path) -> VirtualBoard | None:
    """The board a file tells of, if its very process is alive."""
    try:
        found = VirtualBoard(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if _start_time(found.pid) == found.started else None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    publish(temporary, path)


def _link(tty: str, port: Path) -> None:
    temporary = port.with_name(f"port.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(tty)
    os.replace(temporary, port)


def _start_time(pid: int) -> int:
    """The kernel's start time of a live process, in ticks; 0 when it is gone or a zombie."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
        )
    except (OSError, IndexError):
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def _check_firmware(board: str, image: Path) -> None:
    """Refuses what no emulator should be given: QEMU runs anything, and tells of it only by a lock-up."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    expected = "EM_ARM" if board in QEMU_MACHINES else "EM_AVR" if board == "uno_sim" else None
    try:
        with image.open("rb") as file:
            elf = ELFFile(file)
            machine = elf["e_machine"]
            loads = any(segment["p_type"] == "PT_LOAD" for segment in elf.iter_segments())
    except (ELFError, OSError, ValueError):
        raise MinunError(
            "board.no-firmware", "not a linked firmware (a whole ELF file)", str(image)
        ) from None
    if not loads or expected not in (None, machine):
        raise MinunError(
            "board.no-firmware",
            f"not a linked firmware for {board}: its machine is {machine}, expected {expected}",
            str(image),
        )


def _end(board: VirtualBoard) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(board.pid, number)
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(board.pid, os.WNOHANG)
            if _start_time(board.pid) != board.started:
                return
            time.sleep(0.01)
    raise MinunError(
        "board.stuck", f"the emulator of {board.board} (process {board.pid}) does not end", board.port
    )


def _wait_until_up(process: subprocess.Popen[bytes], monitor: str, log: Path, program: str) -> None:
    """Waits for QEMU's monitor to greet, or avr_board's first line; an error when the program ends."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            reason = said[-1] if said else "it said nothing"
            raise MinunError("board.emulator-died", f"{program} ended at once: {reason}", str(log))
        if not monitor and "avr_board: running" in log.read_text(encoding="utf-8", errors="replace"):
            return
        if monitor:
            with contextlib.suppress(OSError, MinunError), socket.socket(socket.AF_UNIX) as greeting:
                greeting.settimeout(5)
                greeting.connect(monitor)
                _read_until(greeting, b"(qemu) ")
                return
        time.sleep(0.01)
    raise MinunError("board.emulator-mute", f"{program} does not come up", str(log))


def _read_until(connection: socket.socket, text: bytes) -> None:
    got = b""
    while text not in got:
        ready, _, _ = select.select([connection], [], [], 5)
        piece = connection.recv(4096) if ready else b""
        if not piece:
            raise MinunError("board.emulator-mute", "the emulator's monitor does not answer")
        got += piece
