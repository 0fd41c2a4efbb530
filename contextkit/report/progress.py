"""A long command under way: how far it is, on a terminal's standard error, and Ctrl-C, which ends it early without
losing what is done.

Takes whatever is worked through, gives the same; knows nothing of what it is. rich is imported when something is drawn.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from contextkit.terminal import rich_console

T = TypeVar("T")
OFTEN = 64
"""Steps between two looks at the progress bar."""


class _Stop(BaseException):
    """Ctrl-C while we wait for the next thing to work on."""


class Watch:
    """Progress and interruption of one command.

    >>> with watching() as watch:
    ...     list(watch.share(range(3), total=3)), watch.is_stopped
    ([0, 1, 2], False)
    """

    def __init__(self, bar: Any) -> None:
        self.is_stopped = False
        """Whether Ctrl-C was pressed: what is done is to be shown, and nothing more to be worked on."""
        self._bar, self._task = bar, bar.add_task("reading", total=1.0)
        self._is_starting, self._n_waiting = False, 0
        self._done = 0.0
        self._parts, self._n_parts = 0, 1
        self._n_steps = 0

    def press(self, number: int, frame: object) -> None:
        """Ctrl-C: the first one ends the work, the second one the command."""
        if self.is_stopped:
            raise KeyboardInterrupt
        self.is_stopped = True
        if self._is_starting or self._n_waiting:
            raise _Stop

    def finish(self) -> None:
        """The work is done, or ended: the bar goes, and Ctrl-C still does not lose what is to be shown."""
        self._bar.stop()

    def parts(self, things: Sequence[T]) -> Iterator[T]:
        """The same things up to Ctrl-C, each an equal part of the work; each is done when the next one is asked for."""
        self._n_parts, self._parts = max(1, len(things)), 0
        for thing in things:
            if self.is_stopped:
                return
            yield thing
            self._parts += 1
            self._show(0.0)

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Ctrl-C cuts short what is done here before the first of the rows that `share` is given."""
        try:
            self._is_starting = True
            try:
                yield
            finally:
                self._is_starting = False
        except _Stop:
            return

    def share(self, rows: Iterable[T], total: int) -> Iterator[T]:
        """The same rows up to Ctrl-C, which together are the part of the work that is under way.

        `total` is how many there may be.
        """
        for number, row in enumerate(self._until_stopped(rows), 1):
            yield row
            self._n_steps += 1
            if number % OFTEN == 0 or number >= total:
                self._show(min(1.0, number / max(1, total)))

    def stoppable(self, rows: Iterable[T]) -> Iterator[T]:
        """The same rows up to Ctrl-C."""
        return self._until_stopped(rows)

    def _until_stopped(self, rows: Iterable[T]) -> Iterator[T]:
        """Waiting for the next row is cut short; working on one is not, unless it is itself waited for."""
        rest = iter(rows)
        while not self.is_stopped:
            try:
                self._n_waiting += 1
                try:
                    row = next(rest)
                finally:
                    self._n_waiting -= 1
                    self._is_starting = False
            except (StopIteration, _Stop):
                return
            yield row

    def _show(self, share: float) -> None:
        self._done = max(self._done, (self._parts + share) / self._n_parts)
        self._bar.update(
            self._task, completed=self._done, description=f"{self._n_steps:,} requests" if self._n_steps else "reading"
        )


class _Bar:
    """A bar on standard error, if that is a terminal, from the first step on: what is read at once imports no rich, and
    processes that share the reading are started before the bar's thread.
    """

    def __init__(self) -> None:
        self._progress: Any = None
        self._is_drawn = sys.stderr.isatty()

    def add_task(self, description: str, total: float) -> int:
        """The one task; it is the first of a new bar."""
        return 0

    def update(self, task: int, *, completed: float, description: str) -> None:
        """So much of 1 is done."""
        if not self._is_drawn:
            return
        if self._progress is None:
            self._progress = _started_progress()
        self._progress.update(task, completed=completed, description=description)

    def stop(self) -> None:
        """Nothing of it stays."""
        self._is_drawn = False
        if self._progress is not None:
            self._progress.stop()


def _started_progress() -> Any:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    progress = Progress(*columns, console=rich_console(stderr=True), transient=True)
    progress.add_task("reading", total=1.0)
    progress.start()
    return progress


@contextmanager
def watching() -> Iterator[Watch]:
    """A command that can be watched and interrupted; nothing of the bar stays."""
    watch = Watch(bar := _Bar())
    before = signal.signal(signal.SIGINT, watch.press)
    try:
        yield watch
    finally:
        signal.signal(signal.SIGINT, before)
        bar.stop()
