"""One writer at a time: a lock of the operating system, gone with the process that holds it.

Takes the path of what is guarded, gives a `FileLock`; knows nothing of what is written.

The lock is on `<file>.lock`, which stays where it is. Its text is the pid of the writer and, below it, a note that the
next writer finds.

One entry as one line of a JSONL log, and back.

Takes entries, gives bytes whose last field is the body exactly as it was frozen; knows nothing of files.

    {"sequence":3,"kind":"user","at":1790000000.5,"prev":"…","digest":"…","body":{…}}

The digest covers the entry before, the kind, the time and the body. A line is ours only if writing what was read from
it gives the same bytes again, so no byte of it can change unseen: not the case of a hex digit, not the spelling of a
number.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import get_args

from contextkit.canonical import canonical, parse
from contextkit.errors import LogCorrupt, LogLocked, NotSerialisable
from contextkit.log.entry import Entry, Kind
from contextkit.private_files import PRIVATE_MODE

MODE = PRIVATE_MODE
"""Of every file made here: a log holds prompts."""
_NOTE_BYTES = 4096
_BINARY = getattr(os, "O_BINARY", 0)
"""Windows would write two bytes for a newline without it."""

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


class FileLock:
    """The lock on one file, held by one process from `take` to `release`."""

    __slots__ = ("__weakref__", "_descriptor", "_path", "note", "pid")

    def __init__(self, path: Path) -> None:
        """Raises `LogLocked` naming the file and, where it can be read, the process that holds it."""
        self._path = path
        self.pid = os.getpid()
        """The process that took it."""
        self._descriptor: int | None = _taken(path)
        self.note = b""
        """What the last writer left for the next one; see `leave`."""
        _HELD.add(self)
        try:
            self.note = os.read(self._descriptor, _NOTE_BYTES).partition(b"\n")[2]
            self.leave(self.note, is_durable=False)
        except BaseException:
            self.release()
            raise

    def check_process(self) -> None:
        """Raise `LogLocked` in another process than the one that took the lock: a fork does not share it."""
        if os.getpid() != self.pid:
            raise LogLocked(
                f"{self._path} was opened by process {self.pid}, and this is process {os.getpid()}, forked from it: append in the process "
                "that opened it, or open another file here"
            )

    def check_file(self) -> None:
        """Make and lock the lock file anew where somebody deleted it; raise `LogLocked` where another writer was first."""
        if self._descriptor is not None and not is_same_file(self._descriptor, _lock_path(self._path)):
            fresh = _taken(self._path)
            os.close(self._descriptor)
            self._descriptor = fresh
            self.leave(self.note, is_durable=False)

    def leave(self, note: bytes, *, is_durable: bool) -> None:
        """Write `note` for the next writer, who finds it also after this process has died.

        `is_durable`: wait for the disk.
        """
        assert self._descriptor is not None, "the lock is held"  # noqa: S101 - for the type checker
        text = str(self.pid).encode() + (b"\n" + note if note else b"")
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        if os.write(self._descriptor, text) < len(text):
            raise OSError(f"{_lock_path(self._path)} took a part of its text only")
        os.ftruncate(self._descriptor, len(text))
        if is_durable:
            os.fsync(self._descriptor)
        self.note = note

    def release(self) -> None:
        """Let the next writer in; a second call does nothing.

        A process forked from the holder gives back its copy of the descriptor only: the lock belongs to both, and stays
        with the holder.
        """
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if os.getpid() == self.pid:
                _unlock(descriptor)
        finally:
            os.close(descriptor)


_HELD: weakref.WeakSet[FileLock] = weakref.WeakSet()
"""Locks that this process took, or had when it was forked."""


def is_same_file(descriptor: int, path: Path) -> bool:
    """Whether `path` still names the file that is open.

    Windows lets nobody replace a file that is open, so there it does.
    """
    if sys.platform == "win32":
        return True
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _taken(path: Path) -> int:
    """A descriptor that holds the lock.

    A file that was deleted between opening and locking guards nothing: then once more.
    """
    while True:
        descriptor = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT | _BINARY, MODE)
        try:
            _lock(descriptor)
            if is_same_file(descriptor, _lock_path(path)):
                return descriptor
        except _REFUSED:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise LogLocked(
                f"{path} is being written by {holder}",
                in_code="close it there, or read it with JSONLStorage.read",
                in_shell="close it there first",
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _holder(descriptor: int) -> str:
    """Who holds it; the pid is not there yet in the instant between locking and writing it."""
    pid = os.read(descriptor, 32).partition(b"\n")[0].decode("ascii", "replace").strip()
    names = {"": "another process", str(os.getpid()): f"this process ({pid})"}
    return names.get(pid, f"process {pid}")


def _close_in_child() -> None:
    """A child that lives on must not keep the lock of a parent that has died."""
    for lock in list(_HELD):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


GENESIS = bytes(16)
"""What stands for the entry before the first."""
KINDS: tuple[str, ...] = get_args(Kind)
"""Every kind this version can read."""

_LINE = b'{"sequence":%d,"kind":"%b","at":%b,"prev":"%b","digest":"%b","body":%b}\n'
_START = b'{"sequence":'
_BODY = b',"body":'


def digest_of(prev: bytes, kind: str, at: float, body: bytes) -> bytes:
    """The 16 bytes that tie an entry to the one before.

    >>> digest_of(GENESIS, "user", 0.0, b"{}").hex()
    'cc3f55a047b782436a95705417268cb8'
    """
    return blake2b(prev + kind.encode() + b"\0" + canonical(at) + b"\0" + body, digest_size=16).digest()


def write_line(entry: Entry, prev: bytes) -> bytes:
    """The line of `entry`, newline included; the body is spliced in as it is."""
    at, before, digest = canonical(entry.at), prev.hex().encode(), entry.digest.hex().encode()
    return _LINE % (entry.sequence, entry.kind.encode(), at, before, digest, entry.body)


def read_line(line: bytes) -> tuple[Entry, bytes]:
    """The entry of a line and the digest it says it follows.

    Raises `LogCorrupt` with the reason only (the caller knows the place).
    """
    head, _, rest = line.partition(_BODY)
    try:
        fields = parse(head + b"}")
        entry = Entry(
            fields["sequence"], fields["kind"], rest[:-2], float(fields["at"]), bytes.fromhex(fields["digest"])
        )
        prev = bytes.fromhex(fields["prev"])
        is_ours = write_line(entry, prev) == line
    except (NotSerialisable, KeyError, TypeError, ValueError, AttributeError):
        raise LogCorrupt("not a line of a contextkit log") from None
    if not is_ours:
        raise LogCorrupt("not as contextkit writes a line")
    check(entry, prev)
    return entry, prev


def check(entry: Entry, prev: bytes) -> None:
    """Raises `LogCorrupt`, with the reason only, for an entry whose digest is another's, or whose kind this version
    does not know.
    """
    if digest_of(prev, entry.kind, entry.at, entry.body) != entry.digest:
        raise LogCorrupt("its digest is not that of its content")
    if entry.kind not in KINDS:
        raise LogCorrupt(f"kind {entry.kind!r} is unknown to this version (a newer contextkit wrote it: upgrade)")


def is_torn(line: bytes) -> bool:
    """Whether a *last* line is what an interrupted append leaves.

    A line in which a whole entry stands is none: its newline was changed.
    """
    return is_unfinished(line, (_START,)) and not _holds_whole_entry(line)


def is_unfinished(line: bytes, starts: Sequence[bytes]) -> bool:
    """Whether a last line begins as `starts` say, and has no newline, or has blocks of zeros in it: they never reached
    the disk.

    A line that ends is not unfinished: one that is not valid was changed.
    """
    begins, zeros, _ = line.partition(b"\0\0")
    is_ours = any(begins.startswith(start) or start.startswith(begins) for start in starts)
    return is_ours and (bool(zeros) or not line.endswith(b"\n"))


def _holds_whole_entry(line: bytes) -> bool:
    """Whether `line` begins with an entry that is whole but for its newline."""
    place = line.find(_START, 1)
    while place > 0:
        if line[place - 2 : place - 1] == b"}" and _is_whole(line[: place - 1]):
            return True
        place = line.find(_START, place + 1)
    return _is_whole(line[:-1])


def _is_whole(entry: bytes) -> bool:
    try:
        read_line(entry + b"\n")
    except LogCorrupt:
        return False
    return True
