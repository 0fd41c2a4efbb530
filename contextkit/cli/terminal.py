"""Writes to standard output and standard error as commands need them: encodings, closed streams, a progress line.

Output for programs (JSON, CSV, Markdown) is UTF-8 unless it goes to a terminal; elsewhere a character that the output's
encoding lacks is written as an escape. A progress line is written only where standard error is a terminal. Text is
printed through `contextkit.terminal`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper

import click

from contextkit.terminal import echo_error, echo_status

_SECONDS = 0.05
"""Between two texts: a faster one cannot be read."""


@contextmanager
def counter() -> Iterator[Callable[[str], None]]:
    """Inside, what it is called with stands on the line: `counter("12 calls replayed")`."""
    if sys.stderr is None or not sys.stderr.isatty():  # closed, as by `2>&-`
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


def check_output() -> None:
    """Raises `UsageError` where standard output was closed before we came.

    From here on it never fails for a character it lacks.
    """
    if sys.stdout is None:
        raise click.UsageError("standard output is closed; give it a file or a pipe")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def for_programs() -> None:
    """What is printed from here on is read by a program: UTF-8, unless a terminal shows it."""
    if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def check_file(option: str, name: str | None) -> None:
    """Raise `UsageError` if an option that names a file to write was given `-` or nothing."""
    if name == "":
        raise click.UsageError(f"{option} names no file: give it the name of the file to write")
    if name == "-":
        raise click.UsageError(
            f"{option} writes a file, not standard output: give it a name other than - (./- for a file called so)"
        )


class UsageErrorWithDetails(click.UsageError):
    """A usage error of one line, and lines that are printed below it."""

    def __init__(self, message: str, details: Sequence[str]) -> None:
        super().__init__(message)
        self.details = details


@contextmanager
def interruptible(what: str) -> Iterator[None]:
    """Ctrl-C inside ends the command with a line that says so; `what` is what there is to show for the time it took."""
    try:
        yield
    except KeyboardInterrupt:
        echo_error(f"interrupted: {what}")
        raise click.exceptions.Exit(130) from None


def give_up_output() -> None:
    """Say nothing more on standard output, not even at exit: nobody reads it, or it takes nothing."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
