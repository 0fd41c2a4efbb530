"""A ledger that is only written: as `Ledger` writes one, without keeping what was written in memory.

Takes records, gives lines of a file. What a crash left of a last line is set aside beside it. A proxy runs for weeks:
neither the rows it has written nor those it found are read.
"""

from __future__ import annotations

import os
import warnings
from io import FileIO
from pathlib import Path

from contextkit.errors import StorageError
from contextkit.ledger.calls import Record, encode
from contextkit.ledger.ledger import HEADER, check_header
from contextkit.log.storage import folder_at
from contextkit.private_files import open_private
from contextkit.terminal import sanitize

_WINDOW = 1 << 16


class Journal:
    """The ledger at a path, open for more."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises `UnreadableLog` where the file is no ledger, `StorageError` where it may not be written."""
        self.path = folder_at(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = FileIO(open_private(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+b")
        except OSError as fault:
            raise StorageError(
                f"{path} cannot be opened ({fault.strerror or fault}): name a ledger you may read and write"
            ) from fault
        try:
            self._continue()
        except BaseException:
            self._file.close()
            raise

    def write(self, *records: Record) -> None:
        """Append records, in one write handed to the operating system: all of them, or none.

        Raises `OSError` when the disk is full or fails.
        """
        self._put(b"".join(encode(record) + b"\n" for record in records))

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def _put(self, lines: bytes) -> None:
        end = self._file.seek(0, os.SEEK_END)
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except BaseException:
            self._file.truncate(end)
            raise

    def _continue(self) -> None:
        good = self._whole_bytes()
        self._file.seek(0)
        first = self._file.read(_WINDOW).partition(b"\n")[0]
        if good or not HEADER.startswith(first):
            check_header(first, str(self.path))
        self._set_aside(good)
        if not good:
            self._put(HEADER)

    def _whole_bytes(self) -> int:
        """Up to the end of the last whole line."""
        end = self._file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _WINDOW)
            self._file.seek(start)
            at = self._file.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
        return 0

    def _set_aside(self, good: int) -> None:
        self._file.seek(good)
        tail = self._file.readall()
        if not tail:
            return
        aside = Path(f"{self.path}.torn")
        with os.fdopen(open_private(aside, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as beside:
            beside.write(tail)
        self._file.truncate(good)
        warnings.warn(
            sanitize(f"{self.path} ended in an unfinished line: {len(tail)} bytes set aside in {aside}"), stacklevel=4
        )
