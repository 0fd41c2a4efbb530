"""Watching a session that is being written: read anew when it has grown, until Ctrl-C."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from contextkit.report.follow import EVERY, SHARE, Seen, follow
from contextkit.report.live import LiveCalls
from tests.report.made_up import gathered, one_session


def test_each_growth_is_a_line_and_ctrl_c_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = iter([3, 3, 5, 5, 5, 8])
    size, reads = 0, []

    def look() -> int:
        nonlocal size
        try:
            size = next(sizes)
        except StopIteration:
            raise KeyboardInterrupt from None
        return size

    def read() -> Seen:
        reads.append(size)
        return gathered(one_session(size))[0], LiveCalls()

    follow(read, look, lambda seconds: None)
    assert reads == [3, 5, 8]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all("read from cache" in line for line in lines)


def test_what_takes_long_to_read_is_looked_at_less_often() -> None:
    waited: list[float] = []
    at_look: list[int] = []

    def look() -> int:
        at_look.append(len(waited))
        if len(at_look) == 4:
            raise KeyboardInterrupt
        return len(at_look)

    def read() -> Seen:
        time.sleep(0.5)
        return gathered(iter(()))[0], LiveCalls()

    follow(read, look, waited.append)
    assert set(waited) == {EVERY} and at_look[:2] == [0, 1]
    assert all(behind - before >= 0.5 / SHARE for before, behind in pairwise(at_look[1:]))
