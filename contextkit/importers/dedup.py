"""Which calls were counted, exactly and in bounded memory: the latest in this process, the others in a file of the
system's own.

Takes digests, says whether one is new. Knows no format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

MOST_AT_HAND = 1 << 19
"""Digests kept in memory, about 50 MB; when there are as many they go to the file."""
_PAGES_KB = 16_384
"""What the file may take of memory."""


class DigestSet:
    """Digests that were met.

    >>> seen = DigestSet()
    >>> seen.is_new(b"a"), seen.is_new(b"a"), seen.is_new(b"b"), len(seen)
    (True, False, True, 2)
    """

    __slots__ = ("_file", "_filed", "_latest")

    def __init__(self) -> None:
        self._latest: set[bytes] = set()
        self._file: sqlite3.Connection | None = None
        self._filed = 0

    def is_new(self, digest: bytes) -> bool:
        """Return whether it was never asked for before; from now on it was."""
        if self.has(digest):
            return False
        self._latest.add(digest)
        if len(self._latest) >= MOST_AT_HAND:
            self._put_away()
        return True

    def has(self, digest: bytes) -> bool:
        """Return whether it was asked for before."""
        return digest in self._latest or (self._file is not None and self._is_filed(self._file, digest))

    def __len__(self) -> int:
        return len(self._latest) + self._filed

    @staticmethod
    def _is_filed(file: sqlite3.Connection, digest: bytes) -> bool:
        return file.execute("select 1 from seen where digest = ?", (digest,)).fetchone() is not None

    def _put_away(self) -> None:
        """Sorted, so that a page of the file is written once."""
        if self._file is None:
            import sqlite3

            self._file = sqlite3.connect(
                "", isolation_level=None, check_same_thread=False
            )  # no name: gone when it is closed
            self._file.execute(f"pragma cache_size = -{_PAGES_KB}")
            self._file.execute("pragma synchronous = off")
            self._file.execute("create table seen (digest blob primary key) without rowid")
        self._file.execute("begin")
        self._file.executemany("insert into seen values (?)", ((digest,) for digest in sorted(self._latest)))
        self._file.execute("commit")
        self._filed += len(self._latest)
        self._latest = set()
