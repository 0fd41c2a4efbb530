"""The process beside the proxy: calls on standard input, a line of JSON for each on standard output, rows in the ledger.

Ends when its input does, so that whatever kills the proxy, the calls that had ended are recorded.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from contextkit.canonical import canonical
from contextkit.cli.proxy.frames import Told, calls
from contextkit.cli.proxy.journal import Journal
from contextkit.cli.proxy.judging import Judging
from contextkit.server.proxy.passage import Departed, Ended


def main(path: str) -> None:
    """Judge what comes until no more comes; `path` names the ledger, empty for none."""
    judging = Judging(Journal(path) if path else None, _complain)
    _say(canonical({"ready": True}))
    acts: dict[type[Told], Callable[..., bytes | None]] = {Departed: judging.departed, Ended: judging.ended}
    for call in calls(sys.stdin.buffer):
        line = acts[type(call)](call)
        if line is not None:
            _say(line)
    for line in judging.close(time.time()):
        _say(line)


def _say(line: bytes) -> None:
    """A line for the proxy; once it is gone for nobody, and recording goes on."""
    try:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str) -> None:
    _say(canonical({"trouble": text}))


if __name__ == "__main__":
    main(sys.argv[1])
