# SPDX-License-Identifier: Apache-2.0
"""A sign of life from work that takes long: what has been done and for how long, a line every so often."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST_S = 5.0
LONGEST_S = 30.0

Tell = Callable[[str], None]  # is given what is being done; quick


@contextmanager
def heartbeat(say: Tell, who: str, first_s: float = FIRST_S) -> Iterator[Tell]:
    """Says `who: what, 10 s` after `first_s` seconds, again when that time has doubled, and every `LONGEST_S`
    later on. The caller tells what it is doing; nothing is said of work that is quick."""
    doing = ["reading the network"]
    done = threading.Event()
    began = time.monotonic()

    def beat() -> None:
        wait = first_s
        while not done.wait(wait):
            passed = time.monotonic() - began
            say(f"{who}: {doing[0]}, {passed:.0f} s")
            wait = min(passed, LONGEST_S)

    def tell(what: str) -> None:
        doing[0] = what

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        done.set()
        thread.join()
