"""How full a store is, and whether something more fits.

Takes sizes; knows nothing of files. The count stands on the slate all writers share, so that no write has to count
everything again; it is marked as open while something changes, and whoever finds it open, or is new, counts anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from contextkit.errors import QuotaExceeded

OPEN = b"open"
"""On the slate while a change is under way, or after one that failed."""
_CLOSED = re.compile(rb"closed (\d+) bytes (\d+) files")


@dataclass(frozen=True, slots=True)
class Tally:
    """What a store holds."""

    n_bytes: int
    """Of all files at paths and all versions underneath."""
    n_files: int
    """Files and folders at paths."""

    def plus(self, n_bytes: int, n_files: int) -> Tally:
        """The tally after a change."""
        return Tally(self.n_bytes + n_bytes, self.n_files + n_files)

    def text(self) -> bytes:
        """As it stands on the slate."""
        return b"closed %d bytes %d files" % (self.n_bytes, self.n_files)


def read_tally(text: bytes) -> Tally | None:
    """What stands on the slate; None where it has to be counted.

    >>> read_tally(Tally(10, 2).text()), read_tally(b"open")
    (Tally(n_bytes=10, n_files=2), None)
    """
    match = _CLOSED.fullmatch(text)
    return Tally(int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class Quota:
    """What a store may hold."""

    max_bytes: int
    """Of all files at paths and all versions underneath."""
    max_files: int
    """Files and folders at paths; versions are bounded by the bytes."""
    max_file_bytes: int
    """Of one file."""

    def check_file(self, n_bytes: int) -> None:
        """Raises `QuotaExceeded` for a file larger than one may be."""
        if n_bytes > self.max_file_bytes:
            raise QuotaExceeded(
                f"{n_bytes:,} bytes are more than one file may have ({self.max_file_bytes:,}): split it, or raise max_file_bytes"
            )

    def check(self, after: Tally, before: Tally) -> None:
        """Raises `QuotaExceeded` where a change would lead over a limit; one that makes the store smaller never does."""
        if after.n_bytes > self.max_bytes and after.n_bytes > before.n_bytes:
            raise QuotaExceeded(
                f"the store holds {before.n_bytes:,} bytes (old versions included) and may hold {self.max_bytes:,}; this needs "
                f"{after.n_bytes - before.n_bytes:,} more: sweep old versions, or raise max_bytes"
            )
        if after.n_files > self.max_files and after.n_files > before.n_files:
            raise QuotaExceeded(
                f"the store holds {before.n_files:,} files and folders and may hold {self.max_files:,}: delete some, or raise max_files"
            )
