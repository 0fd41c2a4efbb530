"""One writer at a time, over threads and processes: a lock of the operating system, gone with the process that holds
it.

Takes the descriptor of an open file; waits. The first bytes of that file are the slate all writers share. Knows nothing
of stores.
"""

from __future__ import annotations

import os
import sys

_SLATE = 128
"""Bytes of the slate."""

if sys.platform == "win32":
    import msvcrt

    _BEYOND = 1 << 30
    """Windows locks byte ranges and hides them from readers, so the byte that is locked lies behind the slate."""

    def wait_for(descriptor: int) -> None:
        """Lock the file as soon as nobody else does.

        Windows asks ten times in ten seconds and gives up, so it is asked again.
        """
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        while not _is_locked(descriptor):
            pass

    def _is_locked(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        except OSError as busy:
            if busy.errno != 36:  # EDEADLOCK, the answer of a lock that stayed busy
                raise
            return False
        return True

    def let_go(descriptor: int) -> None:
        """Unlock it."""
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def wait_for(descriptor: int) -> None:
        """Lock the file as soon as nobody else does."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def let_go(descriptor: int) -> None:
        """Unlock it."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class FileSlate:
    """The first bytes of the locked file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self) -> bytes:
        """What was written last; empty at first."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return os.read(self._descriptor, _SLATE).rstrip()

    def write(self, text: bytes) -> None:
        """Replace it, at one length always, so that one write does."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, text.ljust(_SLATE - 1)[: _SLATE - 1] + b"\n")
