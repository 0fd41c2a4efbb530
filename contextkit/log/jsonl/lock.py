"""One writer at a time: a lock of the operating system, gone with the process that holds it.

Takes the path of what is guarded, gives a descriptor to release; knows nothing of what is written.

The lock is on `<file>.lock`, which stays where it is: deleting it would let two writers hold two locks of one name.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from contextkit.errors import LogLocked

if sys.platform == "win32":
    import msvcrt

    _BEYOND = 1 << 30
    """Windows locks byte ranges and hides them from readers, so the byte that is locked lies behind the pid."""
    _REFUSED: type[OSError] = PermissionError

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    _REFUSED: type[OSError] = BlockingIOError

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def take(path: Path) -> int:
    """Lock `path` against every other writer, in this process too; give the result to `release`.

    Raises `LogLocked` naming the file and, where it can be read, the process that holds it.
    """
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _lock(descriptor)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
    except _REFUSED:
        holder = _holder(descriptor)
        os.close(descriptor)
        raise LogLocked(f"{path} is being written by {holder}: close it there, or read it with JSONLStorage.read") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def release(descriptor: int) -> None:
    """Let the next writer in."""
    _unlock(descriptor)
    os.close(descriptor)


def _holder(descriptor: int) -> str:
    """Who holds it; the pid is not there yet in the instant between locking and writing it."""
    pid = os.read(descriptor, 32).decode("ascii", "replace").strip()
    names = {"": "another process", str(os.getpid()): f"this process ({pid})"}
    return names.get(pid, f"process {pid}")
