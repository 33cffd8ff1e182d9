# SPDX-License-Identifier: Apache-2.0
"""One writer at a time: an advisory lock between processes, and files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_WAIT_S = 0.05
_TRIES = 40  # of a move on Windows, where another program may have the file open for a moment


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds the lock that belongs to `path`. Its own file is in the system's folder for temporary files."""
    digest = hashlib.sha256(os.path.normcase(os.path.realpath(path)).encode()).hexdigest()[:24]
    user = os.getuid() if hasattr(os, "getuid") else 0
    name = os.path.join(tempfile.gettempdir(), f"minun-{user}-{digest}.lock")
    with open(name, "a+b") as stream:
        if sys.platform == "win32":
            import msvcrt

            while True:
                try:
                    stream.seek(0)
                    msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
                    break
                except OSError as error:
                    if error.errno not in (errno.EACCES, errno.EDEADLK):
                        raise  # this is no waiting for another build
                    time.sleep(_WAIT_S)
            try:
                yield
            finally:
                stream.seek(0)
                msvcrt.locking(stream.fileno(), msvcrt.LK_UNLCK, 1)
        else:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(stream, fcntl.LOCK_UN)


def write_whole(path: Path, content: bytes) -> bool:
    """Puts `content` at `path` in one step; leaves a file that has it already alone. True when written."""
    try:
        if path.read_bytes() == content:
            return False
    except OSError:
        pass
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, content)
    except FileExistsError as error:
        raise OSError(errno.ENOTDIR, "a file stands where its folder is to be", str(path)) from error
    except OSError as error:  # it would name the temporary file, or none
        raise OSError(error.errno, error.strerror, str(path)) from None
    return True


def _replace(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(temporary, 0o644)
        _move(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _move(temporary: str, path: Path) -> None:
    """os.replace, which Windows refuses while another program (a build, a virus scanner) reads `path`."""
    for _ in range(_TRIES if sys.platform == "win32" else 0):
        try:
            os.replace(temporary, path)
            return
        except PermissionError:
            time.sleep(_WAIT_S)
    os.replace(temporary, path)
