"""A line on a terminal's standard error that says how far a command is, and is gone at the end.

Takes texts, gives nothing; where standard error is no terminal nothing is written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

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
            click.echo(f"\r{text:{width}}", nl=False, err=True)

    try:
        yield tell
    finally:
        if width:
            click.echo(f"\r{' ' * width}\r", nl=False, err=True)
