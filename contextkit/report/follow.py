"""Sessions that are still being written, on a terminal: their state drawn anew each second, until Ctrl-C.

Takes how to read it and what tells that it has grown; knows nothing of formats. rich is imported when something is
drawn.
"""

from __future__ import annotations

import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from contextkit.terminal import echo, rich_console

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Seen = TypeVar("Seen")
"""What was read."""

EVERY = 1.0
"""Seconds between two looks."""
SHARE = 0.2
"""Of the time, what looking and reading may take: longer sessions, and many files, are looked at less often."""


class _Ended(BaseException):
    """A signal asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def follow(
    read: Callable[[], Seen],
    look: Callable[[], Hashable],
    lines: Callable[[Seen, float], Mapping[Hashable, str]],
    draw: Callable[[Seen, Console, float], RenderableType] | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> int:
    """Draw what `read` gives each second, reading again whenever what `look` gives has changed, until Ctrl-C.

    Gives 0, or the number of the signal that ended it.

    On a terminal what `draw` makes of it at a second is redrawn in place; elsewhere, and without `draw`, each of its
    `lines` (state → text) whose state is new is printed. SIGTERM and SIGHUP end it at once, with the terminal as it was. Raises
    `BrokenPipeError` within a second where standard output is a pipe that nobody reads any more: a session that no
    longer grows would write nothing, and so never learn of it.
    """
    from rich.live import Live

    console, printed = rich_console(), set[Hashable]()
    try:
        with _signals(), Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
            for seen in _looks(read, look, wait):
                if draw is not None and console.is_terminal:
                    live.update(draw(seen, console, time.time()), refresh=True)
                    continue
                texts = lines(seen, time.time())
                for state, text in texts.items():
                    if state not in printed:
                        echo(text)
                printed = set(texts)
    except KeyboardInterrupt:
        return 0
    except _Ended as ended:
        return ended.number
    return 0


def _looks(read: Callable[[], Seen], look: Callable[[], Hashable], wait: Callable[[float], None]) -> Iterator[Seen]:
    """What is there each second; what is read too long to be read each second is looked at less often."""
    state, seen, n_rests = look(), read(), 0
    while True:
        yield seen
        wait(EVERY)
        _check_reader()
        if n_rests:
            n_rests -= 1
            continue
        start = time.perf_counter()
        now = look()
        if now != state:
            state, seen = now, read()
        n_rests = int((time.perf_counter() - start) / SHARE / EVERY)


@contextmanager
def _signals() -> Iterator[None]:
    """Signals that ask for an end unwind what was begun; only the main thread may set them."""
    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]  # Windows has no SIGHUP
    numbers = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]  # as nohup has it
    before = {number: signal.signal(number, _end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    raise _Ended(number)


def _check_reader() -> None:
    """Raises `BrokenPipeError` where nobody reads what is printed any more.

    Where the system cannot say, the next line tells.
    """
    if sys.stdout is None or not hasattr(select, "poll"):
        return
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # no file of the system
        return
    poller = select.poll()
    poller.register(descriptor, 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0)):
        raise BrokenPipeError
