"""A ledger that is only written: as `Ledger` writes one, without keeping what was written in memory.

Takes records, gives lines of a file. What a crash left of a last line is set aside beside it. A proxy runs for weeks:
neither the rows it has written nor those it found are read.
"""

from __future__ import annotations

import os
import warnings

from contextkit.ledger.calls import Record, encode
from contextkit.ledger.ledger import LedgerFile, as_storage_error
from contextkit.log.storage import folder_at
from contextkit.terminal import sanitize


class Journal:
    """The ledger at a path, open for more."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises `UnreadableLog` where the file is no ledger, `StorageError` where it may not be written."""
        self.path = folder_at(path)
        with as_storage_error(self.path):
            self._file = LedgerFile(self.path)
            try:
                with self._file.alone():
                    torn = self._file.begin()
            except BaseException:
                self._file.close()
                raise
        if torn:
            text = f"{self.path} ended in an unfinished line: {len(torn)} bytes set aside in {self.path}.torn"
            warnings.warn(sanitize(text), stacklevel=3)

    def write(self, *records: Record) -> None:
        """Append records, in one write handed to the operating system: all of them, or none.

        Raises `OSError` when the disk is full or fails, `StorageError` where the file was replaced, deleted or cut.
        """
        self._file.append(*map(encode, records))

    def close(self) -> None:
        """Give the file back."""
        self._file.close()
