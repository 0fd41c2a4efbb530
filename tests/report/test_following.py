"""Following a session that is being written: drawn anew when it has grown, until Ctrl-C."""

from __future__ import annotations

import time

import pytest

from contextkit.report.contents import Contents
from contextkit.report.follow import EVERY, SHARE, follow
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

    def read() -> Contents:
        reads.append(size)
        return gathered(one_session(size))[0]

    follow(read, look, lambda seconds: None)
    assert reads == [3, 5, 8]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all("read from cache" in line for line in lines)


def test_what_takes_long_to_read_is_looked_at_less_often() -> None:
    waited: list[float] = []
    looks = iter(range(3))

    def look() -> int:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    def read() -> Contents:
        time.sleep(0.25)
        return gathered(iter(()))[0]

    follow(read, look, waited.append)
    assert waited[::2] == [EVERY] * 3
    assert all(wait >= 0.25 / SHARE - EVERY - 0.01 for wait in waited[1::2])
