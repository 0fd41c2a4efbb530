"""How far a command is, in parts and shares, and how it ends early."""

from __future__ import annotations

from typing import Any

import pytest

from contextkit.report.progress import OFTEN, Watch


class Bar:
    """Where rich would draw: what it was told."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def add_task(self, description: str, total: float) -> int:
        assert total == 1.0
        return 0

    def update(self, task: int, completed: float, description: str) -> None:
        self.seen.append(completed)


def test_three_files_of_several_requests_go_from_nothing_to_all() -> None:
    bar = Bar()
    watch = Watch(bar)
    n = sum(1 for size in watch.parts([4 * OFTEN, 1, 2 * OFTEN]) for _ in watch.share(range(size), size))
    assert n == 6 * OFTEN + 1
    assert bar.seen == sorted(bar.seen) and bar.seen[-1] == 1.0
    assert bar.seen[0] == pytest.approx(1 / 12) and 2 / 3 in [pytest.approx(seen) for seen in bar.seen]


def test_an_interruption_ends_rows_and_parts_where_they_are() -> None:
    watch = Watch(Bar())
    seen: list[Any] = []
    for part in watch.parts("ab"):
        for row in watch.share(range(10), 10):
            seen.append((part, row))
            if row == 3:
                watch.press(2, None)
    assert seen == [("a", row) for row in range(4)] and watch.is_stopped
    with pytest.raises(KeyboardInterrupt):
        watch.press(2, None)


def test_an_interruption_cuts_waiting_short_but_not_work() -> None:
    watch = Watch(Bar())

    def rows() -> Any:
        yield 1
        watch.press(2, None)
        pytest.fail("waiting went on")

    assert list(watch.stoppable(rows())) == [1]
    nested = Watch(Bar())

    def files() -> Any:
        yield from nested.share([1, 2], 2)
        nested.press(2, None)
        pytest.fail("waiting behind a share went on")

    assert list(nested.stoppable(files())) == [1, 2]
    other = Watch(Bar())
    seen = []
    with other.starting():
        seen.append("begun")
        other.press(2, None)
        seen.append("went on")
    assert seen == ["begun"] and other.is_stopped
