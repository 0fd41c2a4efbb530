"""A session that is still being written, on a terminal: its report drawn anew as it grows, until Ctrl-C.

Takes how to read it and what tells that it has grown; knows nothing of formats. rich is imported when something is
drawn.
"""

from __future__ import annotations

import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from contextkit.report.contents import Contents
from contextkit.terminal import echo, rich_console

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

EVERY = 1.0
"""Seconds between two looks."""
SHARE = 0.2
"""Of the time, what reading may take: a longer session is looked at less often."""


class _Ended(BaseException):
    """A signal asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def follow(
    read: Callable[[], Contents], look: Callable[[], Hashable], wait: Callable[[float], None] = time.sleep
) -> int:
    """Draw the report whenever what `look` gives has changed, until Ctrl-C.

    Gives 0, or the number of the signal that ended it.

    On a terminal one picture is redrawn in place; elsewhere each change is a line. SIGTERM and SIGHUP end it at once,
    with the terminal as it was. Raises `BrokenPipeError` within a look where standard output is a pipe that nobody
    reads any more: a session that no longer grows would write nothing, and so never learn of it.
    """
    from rich.live import Live

    console, printed = rich_console(), ""
    try:
        with _signals(), Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
            state, contents = look(), read()
            while True:
                if console.is_terminal:
                    live.update(_picture(contents, console), refresh=True)
                elif str(contents.summary) != printed:
                    printed = str(contents.summary)
                    echo(printed)
                state, contents = _next(read, look, state, contents, wait)
    except KeyboardInterrupt:
        return 0
    except _Ended as ended:
        return ended.number


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


def _next(
    read: Callable[[], Contents],
    look: Callable[[], Hashable],
    state: Hashable,
    before: Contents,
    wait: Callable[[float], None],
) -> tuple[Hashable, Contents]:
    """Waits, then reads again if there is news; what is read too long to be read each second is waited for longer."""
    wait(EVERY)
    _check_reader()
    now = look()
    if now == state:
        return state, before
    start = time.perf_counter()
    contents = read()
    wait(max(0.0, (time.perf_counter() - start) / SHARE - EVERY))
    return now, contents


def _picture(contents: Contents, console: Console) -> RenderableType:
    from rich.text import Text

    from contextkit.report.terminal import text

    clock = time.strftime("%H:%M:%S")
    return Text(f"following, looked at {clock}; Ctrl-C ends with the whole report\n{text(contents, console.width)}")
