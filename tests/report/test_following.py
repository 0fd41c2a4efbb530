"""Watching a session that is being written: read anew when it has grown, until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Hashable
from itertools import pairwise

import pytest

from contextkit.report.follow import EVERY, SHARE, follow


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

    def read() -> int:
        reads.append(size)
        return size

    def lines(seen: int, now: float) -> dict[Hashable, str]:
        return {seen // 4: f"{seen} calls at {now}", "other": "other"}

    assert follow(read, look, lines, wait=lambda seconds: None) == 0
    assert reads == [3, 5, 8]
    printed = [line.partition(" at ")[0] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["3 calls", "other", "5 calls", "8 calls"], (
        "a line a state that is new, whatever the seconds left"
    )


def test_what_takes_long_to_read_is_looked_at_less_often() -> None:
    waited: list[float] = []
    at_look: list[int] = []

    def look() -> int:
        at_look.append(len(waited))
        if len(at_look) == 4:
            raise KeyboardInterrupt
        return len(at_look)

    def read() -> None:
        time.sleep(0.5)

    follow(read, look, lambda seen, now: {}, wait=waited.append)
    assert set(waited) == {EVERY} and at_look[:2] == [0, 1]
    assert all(behind - before >= 0.5 / SHARE for before, behind in pairwise(at_look[1:]))
