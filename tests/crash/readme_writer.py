"""Runs programs of README.md until they are killed: before a given line of them or of contextkit is executed.

Each line of the input is `[program, n]`: a file, and the number of that line, 0 for none. Each is run in a process of
its own, forked from this one, in which the SDK is loaded already, and in the file's folder; its output is in `out`.
What is printed for it is how the process ended, as `os.waitpid` says.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import anthropic

import contextkit
from contextkit import AnthropicMessages, Context, tool  # noqa: F401  # loaded before lines are counted

anthropic.Anthropic(api_key="any").messages  # noqa: B018  # and this is loaded late
PACKAGE = str(Path(contextkit.__file__).parent)


def note(word: str, query: str) -> None:
    """A side effect that survives the process."""
    with open("effects", "ab", buffering=0) as file:  # noqa: PTH123 - one write
        file.write(f"{word} {query}\n".encode())


def find(query: str) -> str:
    """What the program's tool does."""
    note("began", query)
    found = "".join(f"{query}: ${price}\n" for price in range(3))
    for _ in range(300):  # lines to be killed at
        found = found.strip()
    note("ended", query)
    return found


def main(program: str, n_lines: int) -> None:
    n = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal n
        n += event == "line"
        if n == n_lines:
            os.kill(os.getpid(), signal.SIGKILL)
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
    for row in sys.stdin:
        program, n_lines = json.loads(row)
        child = os.fork()
        if child:
            print(os.waitpid(child, 0)[1], flush=True)
            continue
        code = 1
        try:
            os.chdir(Path(program).parent)
            with Path("out").open("w", encoding="utf-8") as out, redirect_stdout(out):
                main(program, n_lines)
            code = 0
        except Exception:  # noqa: BLE001 - the test reads that it failed, a person why
            traceback.print_exc()
        finally:
            os._exit(code)
