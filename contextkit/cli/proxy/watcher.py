"""The proxy's side of the process that judges: an observer that hands calls over, and a reader of what comes back.

Takes calls, gives reports. Nothing waits: what the other process has not read yet lies in memory.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from contextkit.canonical import Json, parse
from contextkit.cli.proxy.frames import Told, framed
from contextkit.errors import StorageError
from contextkit.server.proxy.passage import Departed, Ended, Passed

_LINE_BYTES = 1 << 24
_OWN_GROUP = {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)} if os.name == "nt" else {"start_new_session": True}
"""Ctrl-C is for the proxy: the judge ends when it has judged everything."""


_SET_PIPE_SIZE, _PIPE_BYTES = 1031, 1 << 20
"""Linux' F_SETPIPE_SZ (fcntl(2)), and the most anybody may ask for: requests are larger than the 64 KB a pipe holds unasked."""


def _widen(process: asyncio.subprocess.Process) -> None:
    """Let the pipe hold more, where the system can: what is in it outlives the proxy."""
    pipe = process.stdin.get_extra_info("pipe") if process.stdin else None
    if sys.platform == "linux" and pipe is not None:
        import fcntl

        with suppress(OSError):  # a limit of the machine's; the usual size does
            fcntl.fcntl(pipe.fileno(), _SET_PIPE_SIZE, _PIPE_BYTES)


class Watcher:
    """Hands over, and reads."""

    def __init__(self, process: asyncio.subprocess.Process, take: Callable[[Json], object]) -> None:
        self._process = process
        self._reading = asyncio.create_task(self._read(take))

    @classmethod
    async def start(cls, record: str, upstream: str, take: Callable[[Json], object]) -> Self:
        """With a process of its own; `upstream` is who is called, `take` is given each report, and at last the summary.

        It reads from now on: what is handed over is its own, and stays whatever becomes of the proxy. Raises `StorageError` where it does
        not start; why stands on standard error.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "contextkit.cli.proxy.judge", record, upstream, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, limit=_LINE_BYTES, **_OWN_GROUP,
        )  # fmt: skip
        if process.stdout is None or not await process.stdout.readline():
            raise StorageError("the process that records and judges did not start: see what it said above")
        _widen(process)
        return cls(process, take)

    def departed(self, call: Departed) -> None:
        """Hand over."""
        self._write(call)

    def ended(self, call: Ended) -> None:
        """Hand over."""
        self._write(call)

    def passed(self, request: Passed) -> None:
        """Hand over."""
        self._write(request)

    async def close(self) -> None:
        """Wait until everything is judged and recorded."""
        pipe = self._process.stdin
        if pipe is not None and not pipe.is_closing():
            pipe.close()
        await self._reading

    async def gone(self) -> int:
        """Wait until the process ends, which it does not while it is needed; gives its exit code."""
        return await self._process.wait()

    def _write(self, call: Told) -> None:
        pipe = self._process.stdin
        if pipe is not None and not pipe.is_closing():
            pipe.write(framed(call))

    async def _read(self, take: Callable[[Json], object]) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        while line := await self._process.stdout.readline():
            take(parse(line))
