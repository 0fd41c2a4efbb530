"""What a watched call costs on top of an unwatched one: real clients, the other side in a process of its own, bodies of
150 kB and of 1.3 MB that grow.

pytest tests/benchmarks/test_watch.py -n 0 -s
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import pytest

from contextkit import watch
from contextkit.ledger import transport
from contextkit.providers.provider import Provider
from contextkit.watcher.guard import WatchedCall
from tests.benchmarks.conversations import Talk
from tests.benchmarks.loopback import provider
from tests.benchmarks.test_send import CASES

N_CALLS = 40
N_LETTERS = 1900
N_TURNS = {150_000: 16, 1_300_000: 265}
"""Bytes of the last body, about → turns before the first call."""
MOST_MS = {150_000: 2.0, 1_300_000: 12.0}
"""What an appended turn may add: reading it, and judging it by its bill."""


@dataclass(frozen=True)
class Times:
    """Medians, in milliseconds."""

    plain: float
    watched: float
    compare: float
    size: int


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with provider() as address:
        yield address


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """Milliseconds of each step that a watched client adds: beside half a second of an SDK's work they are lost in the
    noise."""
    took: dict[str, list[float]] = {"_start": [], "_came": [], "feed": [], "ended": []}

    def timed(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            start = time.thread_time()
            try:
                return step(*arguments, **named)
            finally:
                took[name].append(1000 * (time.thread_time() - start))

        return run

    for owner, name in (
        (transport._Around, "_start"),
        (transport, "_came"),
        (WatchedCall, "feed"),
        (WatchedCall, "ended"),
    ):
        monkeypatch.setattr(owner, name, timed(name, getattr(owner, name)))
    return took


@pytest.mark.parametrize("size", N_TURNS)
@pytest.mark.parametrize("name", CASES)
def test_watching_an_appended_turn_takes_little(name: str, size: int, url: str, own: dict[str, list[float]]) -> None:
    case = CASES[name]
    told: list[object] = []
    with case.client(url) as plain:
        watched = watch(plain, on_break=told.append)
        times = _measured(case.provider, case.typed(plain), case.typed(watched), N_TURNS[size])
    ratio, more = times.watched / times.plain, times.watched - times.plain
    added = sum(median(steps) * len(steps) / N_CALLS for steps in own.values())
    print(
        f"\n{name}: {times.size:,} bytes; plain {times.plain:.2f} ms CPU, watched {times.watched:.2f} ({ratio:.3f}x, {more:+.2f} ms)"
        f"; what it adds, step by step {added:.3f} ms, one compare {times.compare:.3f}"
    )
    assert told == []
    assert times.size > size * 0.9
    assert all(len(steps) >= N_CALLS for steps in own.values())
    assert added < MOST_MS[size]


def _measured(provider: Provider, plain: Callable[..., Any], watched: Callable[..., Any], n_turns: int) -> Times:
    """Both clients send the same growing conversation, call by call."""
    talk, columns = Talk(provider, N_LETTERS, seed=9), ([], [], [])  # type: tuple[list[float], list[float], list[float]]
    size = 0
    for turn in range(n_turns, n_turns + N_CALLS):
        request = talk.until(turn).request()
        fields, body, size = dict(request), request.body, len(request.body)
        for column, work in zip(columns, (lambda: plain(**fields), lambda: watched(**fields)), strict=False):  # noqa: B023 - run at once
            column.append(_milliseconds(work))
        other = bytes(bytearray(body))
        columns[2].append(_milliseconds(lambda: body == other))  # noqa: B023 - run at once
    return Times(*(median(column[1:]) for column in columns), size)


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1000
