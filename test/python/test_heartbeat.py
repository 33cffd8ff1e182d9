# SPDX-License-Identifier: Apache-2.0
"""A sign of life from long work."""

from __future__ import annotations

import time

from minun_pio.heartbeat import heartbeat


def test_long_work_says_what_it_does_and_for_how_long_ever_more_rarely() -> None:
    said: list[str] = []
    with heartbeat(said.append, "net.yaml", first_s=0.02) as tell:
        tell("searching formats, 3 simulated")
        time.sleep(0.3)
    assert 2 <= len(said) <= 6  # after 0.02, 0.04, 0.08, 0.16 s
    assert set(said) == {"net.yaml: searching formats, 3 simulated, 0 s"}
    count = len(said)
    time.sleep(0.1)
    assert len(said) == count


def test_quick_work_says_nothing_and_a_failure_passes_through() -> None:
    said: list[str] = []
    try:
        with heartbeat(said.append, "net.yaml"):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert said == []
