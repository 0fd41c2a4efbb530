"""The process beside the proxy: calls on standard input, a line of JSON for each on standard output, rows in the
ledger.

Ends when its input does, so that whatever kills the proxy, the calls that had ended are recorded.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb

from contextkit.canonical import canonical
from contextkit.proxy.call_analyzer import CallAnalyzer
from contextkit.proxy.frames import Hurry, Told, calls
from contextkit.proxy.journal import Journal
from contextkit.proxy.observer import Departed, Ended, ForecastRequest, Passed


def main(path: str) -> None:
    """Analyse calls until standard input ends; `path` names the ledger, empty for none."""
    logging.getLogger("contextkit").addHandler(_LogHandler())
    warnings.showwarning = lambda message, *_, **__: _complain(
        str(message)
    )  # not on the terminal, which is another program's
    analysis = CallAnalyzer(Journal(path) if path else None, _complain)
    _say(canonical({"ready": True}))
    acts: dict[type[Told], Callable[..., bytes | None]] = {
        ForecastRequest: analysis.forecast,
        Departed: analysis.departed,
        Ended: analysis.ended,
        Passed: analysis.passed,
    }
    for call in calls(sys.stdin.buffer):
        if isinstance(call, Hurry):
            analysis.hurry()
            continue
        try:
            line = acts[type(call)](call)
        except Exception as fault:  # noqa: BLE001 - one call that cannot be analysed must not end the recording of all others
            line = canonical({"trouble": f"call {call.number} is not recorded, its analysis failed at {_place(fault)}"})
        if line is not None:
            _say(line)
    for line in analysis.close(time.time()):
        _say(line)


class _LogHandler(logging.Handler):
    """Hands log lines to the proxy: the terminal may be another program's."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say the first line."""
        _complain(record.getMessage().partition("\n")[0])


def _say(line: bytes) -> None:
    """A line for the proxy; once it is gone for nobody, and recording goes on."""
    try:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _place(fault: BaseException) -> str:
    """Kind and line of a fault; its text may quote a prompt."""
    frame = extract_tb(fault.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} ({type(fault).__name__})"


def _complain(text: str) -> None:
    _say(canonical({"trouble": text}))


if __name__ == "__main__":
    main(sys.argv[1])
