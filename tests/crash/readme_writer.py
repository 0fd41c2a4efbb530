"""Runs a program of README.md until it is killed: by itself, before it executes a given line of it or of contextkit.

Arguments: the program's file, and how many lines to execute; 0 for all. The folder it works in is the present one.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import anthropic  # noqa: F401  # loaded before lines are counted

import contextkit

PACKAGE = str(Path(contextkit.__file__).parent)


def note(word: str, query: str) -> None:
    """A side effect that survives the process."""
    with open("effects", "ab", buffering=0) as file:  # noqa: PTH123 - one write
        file.write(f"{word} {query}\n".encode())


def find(query: str) -> str:
    """What the program's tool does."""
    note("began", query)
    found = f"prices of {query}"
    note("ended", query)
    return found


def main(program: str, n_lines: int) -> None:
    n = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal n
        n += event == "line"
        if n == n_lines:
            os.kill(os.getpid(), signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
        return line

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        return line if name.startswith(PACKAGE) or name == program or frame.f_code is find.__code__ else None

    code = compile(Path(program).read_text("utf-8"), program, "exec")
    names = {"__name__": "__main__", "SYSTEM": "You are a careful researcher. " * 200, "find": find}
    sys.settrace(call)
    exec(code, names)
    sys.settrace(None)
    print(f"lines {n}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
