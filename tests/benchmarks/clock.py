"""Comparing two pieces of work: turn by turn, so that a slow moment of the machine falls on both."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

Work = Callable[[], object]


def medians(clock: Callable[[], float], rounds: int, *works: Work) -> list[float]:
    """Milliseconds of each piece of work by `clock`, the median of `rounds`; each is done once before that, unmeasured."""
    for work in works:
        work()
    return [
        median(column)
        for column in zip(*([_milliseconds(clock, work) for work in works] for _ in range(rounds)), strict=True)
    ]


def _milliseconds(clock: Callable[[], float], work: Work) -> float:
    start = clock()
    work()
    return (clock() - start) * 1000


def caller_cpu() -> float:
    """CPU seconds of this thread: what the SDK spends for a call, without what the other side does or the wait for it."""
    return time.thread_time()
