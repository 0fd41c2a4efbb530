"""A session that is still being written, on a terminal: its report drawn anew as it grows, until Ctrl-C.

Takes how to read it and what tells that it has grown; knows nothing of formats. rich is imported when something is drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from contextkit.report.contents import Contents
from contextkit.terminal import echo, rich_console

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

EVERY = 1.0
"""Seconds between two looks."""
SHARE = 0.2
"""Of the time, what reading may take: a longer session is looked at less often."""


def follow(read: Callable[[], Contents], look: Callable[[], Hashable], wait: Callable[[float], None] = time.sleep) -> None:
    """Draw the report whenever what `look` gives has changed, until Ctrl-C.

    On a terminal one picture is redrawn in place; elsewhere each change is a line.
    """
    from rich.live import Live

    console, shown = rich_console(), ""
    try:
        with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
            seen, contents = look(), read()
            while True:
                if console.is_terminal:
                    live.update(_picture(contents, console), refresh=True)
                elif str(contents.summary) != shown:
                    shown = str(contents.summary)
                    echo(shown)
                seen, contents = _next(read, look, seen, contents, wait)
    except KeyboardInterrupt:
        return


def _next(
    read: Callable[[], Contents], look: Callable[[], Hashable], seen: Hashable, before: Contents, wait: Callable[[float], None]
) -> tuple[Hashable, Contents]:
    """Waits, then reads again if there is news; what is read too long to be read each second is waited for longer."""
    wait(EVERY)
    now = look()
    if now == seen:
        return seen, before
    start = time.perf_counter()
    contents = read()
    wait(max(0.0, (time.perf_counter() - start) / SHARE - EVERY))
    return now, contents


def _picture(contents: Contents, console: Console) -> RenderableType:
    from rich.text import Text

    from contextkit.report.terminal import text

    clock = time.strftime("%H:%M:%S")
    return Text(f"following, looked at {clock}; Ctrl-C ends with the whole report\n{text(contents, console.width)}")
