"""A line on a terminal's standard error that says how far a command is, and is gone at the end.

Takes texts, gives nothing; where standard error is no terminal nothing is written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from contextkit.terminal import echo_status

_SECONDS = 0.05
"""Between two texts: a faster one cannot be read."""


@contextmanager
def counter(*, is_shown: bool = True) -> Iterator[Callable[[str], None]]:
    """Inside, what it is called with stands on the line: `counter("12 calls replayed")`."""
    if not is_shown or not sys.stderr.isatty():
        yield lambda text: None
        return
    width, told_at = 0, 0.0

    def tell(text: str) -> None:
        nonlocal width, told_at
        now = time.monotonic()
        if now - told_at >= _SECONDS:
            width, told_at = max(width, len(text)), now  # before it is written: Ctrl-C may come right behind
            echo_status(f"{text:{width}}")

    try:
        yield tell
    finally:
        if width:
            echo_status(" " * width)
            echo_status("")
