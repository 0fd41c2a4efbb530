"""The file of a ledger: lines are appended to it, whole or not at all, by one process for each object and by as many as
open it.

Takes lines that are encoded already; knows nothing of what they say. Each append is made under a lock of the operating
system, so that the line of one process never stands inside that of another, and what a failed one left is taken away
before anything follows it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contextkit.errors import LogLocked, StorageError
from contextkit.log.jsonl.lock import MODE, is_same_file

if sys.platform != "win32":
    import fcntl

_BINARY = getattr(os, "O_BINARY", 0)
"""Windows would write two bytes for a newline without it."""


class LedgerFile:
    """A ledger's file, open for more; made where it is not there yet. Raises `OSError` where it cannot be."""

    __slots__ = ("_descriptor", "_header", "_pid", "path")

    def __init__(self, path: Path, header: bytes) -> None:
        """`header`: the first line."""
        self.path = path
        """Where it is."""
        self._header, self._pid = header, os.getpid()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, MODE)

    def __del__(self) -> None:
        self.close()

    def append(self, line: bytes) -> None:
        """Hand one line to the operating system; the disk is not waited for.

        Raises `OSError` when the disk is full or fails, and nothing of the line is left then. Raises `LogLocked` in
        another process than the one that opened it, `StorageError` where the file was replaced or deleted: nothing is
        written then.
        """
        if os.getpid() != self._pid:
            raise LogLocked(
                f"{self.path} was opened by process {self._pid}, and this is process {os.getpid()}, forked from it: record in the process "
                "that opened it, or open the ledger again here"
            )
        if not is_same_file(self._open(), self.path):
            raise StorageError(
                f"{self.path} was deleted, moved or replaced while it was open: nothing was recorded; put it back where it was, "
                "or open the ledger again"
            )
        with self.alone():
            self.drop_tail(self._end_of_lines())
            self.write(line)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Other processes that append to the file wait until the block ends.

        Windows has no such lock: there one process may write.
        """
        if sys.platform != "win32":
            descriptor = self._open()
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
        else:
            yield

    def write(self, line: bytes) -> None:
        """Append `line`, behind the header where the file is empty; inside `alone`."""
        descriptor = self._open()
        end = os.fstat(descriptor).st_size
        rest = memoryview(line if end else self._header + line)
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except BaseException as failure:
            try:
                os.ftruncate(descriptor, end)
            except OSError as error:
                failure.add_note(
                    f"{self.path} could not be cut back to its last whole line either ({error}); the next append tries again"
                )
            raise

    def drop_tail(self, good: int) -> bytes:
        """Move what stands behind the first `good` bytes to `<file>.torn`, there first, so that nothing is lost.

        Inside `alone`.
        """
        descriptor = self._open()
        size = os.fstat(descriptor).st_size
        if size <= good:
            return b""
        tail = self._bytes(good, size)
        aside = os.open(f"{self.path}.torn", os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY, MODE)
        try:
            rest = memoryview(tail)
            while rest:
                rest = rest[os.write(aside, rest) :]
        finally:
            os.close(aside)
        os.ftruncate(descriptor, good)
        return tail

    def close(self) -> None:
        """Give the file back; a second call does nothing."""
        descriptor, self._descriptor = getattr(self, "_descriptor", None), None
        if descriptor is not None:
            os.close(descriptor)

    def _end_of_lines(self) -> int:
        """Up to the end of the last whole line."""
        end = os.fstat(self._open()).st_size
        step = 1
        while end:
            start = max(0, end - step)
            at = self._bytes(start, end).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end, step = start, 1 << 16
        return 0

    def _bytes(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`; reading moves no append, which goes to the end whatever was read."""
        descriptor, found = self._open(), bytearray()
        os.lseek(descriptor, start, os.SEEK_SET)
        while len(found) < end - start and (piece := os.read(descriptor, end - start - len(found))):
            found += piece
        return bytes(found)

    def _open(self) -> int:
        if self._descriptor is None:
            raise StorageError(f"{self.path} is closed: open the ledger again to record")
        return self._descriptor
