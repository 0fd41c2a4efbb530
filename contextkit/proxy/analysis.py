"""The proxy's side of the process that judges: an observer that hands calls over, and a reader of what comes back.

Takes calls, gives reports. Nothing waits: what the other process has not read yet lies in a queue, whose bytes and
entries are limited. Where it is full a call passes unanalysed: it is recorded by its sizes, and counted.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Self

from contextkit.canonical import Json, parse
from contextkit.errors import StorageError
from contextkit.proxy.frames import Hurry, Told, framed
from contextkit.proxy.observer import UNREADABLE, Departed, Ended, ForecastRequest, Passed

QUEUE_BYTES, QUEUE_ENTRIES = 1 << 28, 1 << 15
"""What may wait to be analysed."""
STOP_SECONDS = 5.0
"""How long stopping may take: calls are analysed for half of it, what is left is recorded without analysis."""
FORECAST_SECONDS = 3.0
"""How long a call waits for its forecast before it is passed on without one."""
_LINE_BYTES = 1 << 24
_OWN_GROUP = (
    {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    if os.name == "nt"
    else {"start_new_session": True}
)
"""Ctrl-C is for the proxy: the judge ends when it has judged everything."""


_SET_PIPE_SIZE, _PIPE_BYTES = 1031, 1 << 20
"""Linux' F_SETPIPE_SZ (fcntl(2)), and the most anybody may ask for: requests are larger than the 64 KB a pipe holds
unasked."""


def _widen(process: asyncio.subprocess.Process) -> None:
    """Let the pipe hold more, where the system can: what is in it outlives the proxy."""
    pipe = process.stdin.get_extra_info("pipe") if process.stdin else None
    if sys.platform == "linux" and pipe is not None:
        import fcntl

        with suppress(OSError):  # a limit of the machine's; the usual size does
            fcntl.fcntl(pipe.fileno(), _SET_PIPE_SIZE, _PIPE_BYTES)


class Watcher:
    """Hands over, and reads."""

    def __init__(
        self, process: asyncio.subprocess.Process, take: Callable[[Json], object], queue_bytes: int = QUEUE_BYTES
    ) -> None:
        self._process, self._take, self._queue_bytes = process, take, queue_bytes
        self._queue: deque[bytes] = deque()
        self._n_bytes = self._n_skipped = self._n_skipped_bytes = self._n_open = 0
        self._skipping: dict[int, Passed] = {}
        self._forecasts: dict[int, asyncio.Future[Json]] = {}
        self._is_closing = False
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())
        self._writing = asyncio.create_task(self._write())

    @classmethod
    async def start(cls, record: str, take: Callable[[Json], object], queue_bytes: int = QUEUE_BYTES) -> Self:
        """With a process of its own; `take` is given each report, and at last the summary.

        It reads from now on: what is handed over is its own, and stays whatever becomes of the proxy. Raises
        `StorageError` where it does not start; why stands on standard error.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "contextkit.proxy.analyzer",
            record,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=_LINE_BYTES,
            **_OWN_GROUP,
        )
        try:
            is_ready = process.stdout is not None and await process.stdout.readline()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if not is_ready:
            raise StorageError("the process that records and judges did not start: see what it said above")
        _widen(process)
        return cls(process, take, queue_bytes)

    async def forecast(self, call: ForecastRequest) -> Json | None:
        """Return what the judge says of a call that waits: `{"tokens", "usd"}`; None where it does not say so in time."""
        answer = self._forecasts[call.number] = asyncio.get_running_loop().create_future()
        self._put(call)
        try:
            async with asyncio.timeout(FORECAST_SECONDS):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._forecasts[call.number]

    def departed(self, call: Departed) -> None:
        """Hand over, or skip where the queue is full."""
        if self._is_full(len(call.body) + len(call.before or b"")):
            self._skipping[call.number] = Passed(
                call.number, "POST", call.path, 0, len(call.body), 0, call.at, call.at, "skipped"
            )
            self._skip(len(call.body))
            return
        self._n_open += 1
        self._put(call)

    def ended(self, call: Ended) -> None:
        """Hand over; where the queue is full without the response, and of a call that was skipped only what it was."""
        begun = self._skipping.pop(call.number, None)
        if begun is not None:
            self.passed(replace(begun, status=call.status, n_received=len(call.body), ended_at=call.ended_at))
        elif self._is_full(len(call.body)):
            self._skip(len(call.body))
            self._put(replace(call, body=b"", encoding=UNREADABLE))
        else:
            self._put(call)

    def passed(self, request: Passed) -> None:
        """Hand over, unless too many wait."""
        if len(self._queue) < QUEUE_ENTRIES:
            self._put(request)

    async def close(self, seconds: float = STOP_SECONDS) -> int:
        """Wait until everything is judged and recorded, for `seconds` at most.

        Gives how many calls it has not confirmed by then.

        For the first half of the time calls are analysed; what is still waiting after that is recorded without
        analysis.
        """
        self._is_closing = True
        self._news.set()
        is_over = await self._is_over(seconds / 2)
        if not is_over:
            self._queue.appendleft(framed(Hurry()))
            self._news.set()
            is_over = await self._is_over(seconds / 2)
        if not is_over:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._writing.cancel()
            await asyncio.gather(self._reading, self._writing, return_exceptions=True)
        await self._process.wait()  # the event loop must not close before it has collected its child
        return 0 if is_over and self._process.returncode == 0 else self._n_open

    async def _is_over(self, seconds: float) -> bool:
        """Wait until the process has closed its output and exited."""
        over = asyncio.gather(self._reading, self._process.wait(), return_exceptions=True)
        await asyncio.wait({over}, timeout=seconds)
        return over.done()

    async def gone(self) -> int:
        """Wait until the process ends, which it does not while it is needed; gives its exit code."""
        return await self._process.wait()

    def _is_full(self, n_bytes: int) -> bool:
        """Return whether the queue has no room for this; an empty one takes whatever comes."""
        return bool(self._queue) and (self._n_bytes + n_bytes > self._queue_bytes or len(self._queue) >= QUEUE_ENTRIES)

    def _skip(self, n_bytes: int) -> None:
        self._n_skipped += 1
        self._n_skipped_bytes += n_bytes
        self._take({"skipped": {"calls": 1, "bytes": n_bytes}})

    def _put(self, call: Told) -> None:
        if self._process.stdin is None or self._process.stdin.is_closing():
            return
        frame = framed(call)
        self._queue.append(frame)
        self._n_bytes += len(frame)
        self._news.set()

    async def _write(self) -> None:
        """Write what waits, no faster than it is read.

        Close the pipe once everything is written and nothing more will come.
        """
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101 - it was asked for
        with suppress(ConnectionError):  # the process is gone: `gone` tells that
            while self._queue or not self._is_closing:
                while self._queue:
                    frame = self._queue.popleft()
                    self._n_bytes = max(0, self._n_bytes - len(frame))
                    pipe.write(frame)
                    await pipe.drain()
                self._news.clear()
                if not self._is_closing:
                    await self._news.wait()
        self._queue.clear()
        self._n_bytes = 0
        pipe.close()

    async def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        while line := await self._process.stdout.readline():
            report = parse(line)
            if "forecast" in report:
                answer = self._forecasts.get(report["forecast"]["number"])
                if answer is not None and not answer.done():
                    answer.set_result(report["forecast"])
                continue
            self._n_open -= "call" in report
            if "summary" in report and self._n_skipped:
                report["skipped"] = {"calls": self._n_skipped, "bytes": self._n_skipped_bytes}
            self._take(report)
