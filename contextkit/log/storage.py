"""Where a log is kept: nowhere, or in a JSONL file that survives the process.

Takes entries that are already frozen, gives them back byte for byte; knows nothing of what they mean, but for the
parent a fork names.

An append is one write of one line, and is over when the line is on the disk. A crash can therefore leave at most one
unfinished line, the last: it is set aside in `<file>.torn` when the log is next opened. So is the line of an append
that raised, where the disk did not even let it be cut off: `<file>.lock` notes where the file ended before it. Anything
else that does not fit raises `LogCorrupt`.
"""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Protocol, runtime_checkable

from contextkit.canonical import parse
from contextkit.errors import LogCorrupt, StorageError, UsageError
from contextkit.log.entry import Entry
from contextkit.log.jsonl import GENESIS, MODE, FileLock, is_same_file, is_torn, read_line, write_line
from contextkit.terminal import sanitize

_BINARY = getattr(os, "O_BINARY", 0)
"""Windows would write two bytes for a newline without it."""


@runtime_checkable
class Storage(Protocol):
    """What keeps the entries of one log."""

    @property
    def path(self) -> Path | None:
        """Where a fork finds them again, None where they are not in a file."""

    def load(self) -> Iterator[Entry]:
        """Every entry kept so far, in order."""

    def append(self, entry: Entry, prev: bytes) -> None:
        """Keep one more; when it returns the entry is safe, when it raises the entry is not there."""

    def inherit(self, parent: Storage, shared: Sequence[Entry]) -> str | None:
        """Begin as a fork: how what is kept here finds in `parent` what both share.

        None where it does not, and keeps that itself.
        """

    def close(self) -> None:
        """Let others write."""


class MemoryStorage:
    """Keeps nothing: the log lives as long as the process."""

    path: Path | None = None
    """Never in a file."""

    def load(self) -> Iterator[Entry]:
        """Nothing."""
        return iter(())

    def append(self, entry: Entry, prev: bytes) -> None:
        """The log holds it already."""

    def inherit(self, parent: Storage, shared: Sequence[Entry]) -> str | None:
        """The log holds them already."""

    def close(self) -> None:
        """Nothing to let go of."""


class JSONLStorage:
    """One line an entry; one writer, any number of readers.

    Raises `LogLocked` when somebody writes the file already, `LogCorrupt` when a line before the last does not fit,
    `StorageError` where the system lets nobody read or write there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open or create the file, and set an unfinished last line aside."""
        self.path: Path | None = _real(path)
        """The file, links resolved: two names of one file are one lock."""
        self.torn: bytes | None = None
        """What was set aside on opening, None when the last line was whole."""
        self._file = self.path
        held = ExitStack()
        self._close = weakref.finalize(
            self, held.close
        )  # a log that is dropped unclosed must not lock its file until the process ends
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self._file)
            held.callback(self._lock.release)
            self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, MODE)
            held.callback(os.close, self._descriptor)
            _sync_folder(self._file.parent)
            found = list(_read(self._file))
            self._entries = tuple(entry for entry, _ in found)
            self._end = found[-1][1] if found else 0
            self._is_dirty = False
            self._set_aside()
        except OSError as fault:
            self.close()
            raise StorageError(
                f"{self._file} cannot be opened ({fault.strerror or fault}): choose a folder you may write to"
            ) from fault
        except BaseException:
            self.close()
            raise

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Iterator[Entry]:
        """The entries of a file, also while somebody writes it: no lock, no repair, an unfinished last line is passed
        over.
        """
        return (entry for entry, _ in _read(_real(path)))

    def load(self) -> Iterator[Entry]:
        """What the file held when it was opened; a fork begins with what it shares with its parent."""
        return iter(self._entries)

    def append(self, entry: Entry, prev: bytes) -> None:
        """Write one line and wait until the disk has it.

        Raises `OSError` when the disk is full or fails; the file is then cut back to its last whole line. Raises
        `LogLocked` in another process than the one that opened the file, `StorageError` where the file was replaced,
        deleted or changed by somebody else.
        """
        if not self._close.alive:
            raise StorageError(f"{self._file} is closed: open the log again to append to it")
        self._check_file()
        if self._is_dirty:
            self._rewind()
        line = write_line(entry, prev)
        end = self._end + len(line)
        try:
            self._is_dirty = True
            _write(self._descriptor, line)
            self._end, self._is_dirty = end, False
        except BaseException as failure:
            self._rewind_after(failure, prev)
            raise

    def inherit(self, parent: Storage, shared: Sequence[Entry]) -> str | None:
        """The way to the parent's file, relative, so that a folder of logs can be moved as one.

        What no file holds is written here.
        """
        there, here = parent.path, self._file.parent
        if there is not None:
            try:
                return os.path.relpath(there, here).replace(os.sep, "/")
            except ValueError:  # another drive on Windows: no relative way leads there
                return there.as_posix()
        prev = GENESIS
        for entry in shared:
            self.append(entry, prev)
            prev = entry.digest
        return None

    def close(self) -> None:
        """Let others write; a second call does nothing."""
        self._close()

    def _check_file(self) -> None:
        """Raises before anything is written to a file that is not, or no longer, this storage's to write."""
        self._lock.check_process()
        if not is_same_file(self._descriptor, self._file):
            raise StorageError(
                f"{self._file} was deleted, moved or replaced while it was open: nothing was appended; put it back where it was, "
                "or open the log again"
            )
        self._lock.check_file()
        size = os.fstat(self._descriptor).st_size
        if size != self._end and not self._is_dirty:
            raise StorageError(
                f"{self._file} has {size:,} bytes and this process left {self._end:,}: somebody else changed it; nothing was appended, "
                "open the log again"
            )

    def _rewind(self) -> None:
        os.ftruncate(self._descriptor, self._end)
        os.fsync(self._descriptor)
        if self._lock.note:
            self._lock.leave(b"", is_durable=True)
        self._is_dirty = False

    def _rewind_after(self, failure: BaseException, prev: bytes) -> None:
        """Cut off what a failed append left.

        When that fails too, the next append tries first, and a note makes the next open set it aside: the caller was
        told that the entry is not there.
        """
        try:
            self._rewind()
        except OSError as error:
            text = f"{self._file} could not be cut back to its last whole line either ({error}); the next append tries again"
            try:
                self._lock.leave(_FAILED % (self._end, prev.hex().encode()), is_durable=True)
            except OSError as fault:
                text += f", but if this process ends before it, the entry may be there when the log is opened again ({fault})"
            failure.add_note(text)

    def _set_aside(self) -> None:
        """Move what follows the last whole line to `<file>.torn`, there first, so that a crash here loses nothing."""
        with self._file.open("rb") as file:
            file.seek(self._end)
            tail = file.read()
        if tail:
            aside = f"{self._file}.torn"
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY, MODE)
            try:
                _write(descriptor, tail)
            finally:
                os.close(descriptor)
            _sync_folder(self._file.parent)
            what = (
                "an entry whose append had failed" if self._lock.note and tail.endswith(b"\n") else "an unfinished line"
            )
            self.torn = tail
            text = (
                f"{self._file} ended in {what}: {len(tail)} bytes set aside in {aside}, every line before it is whole"
            )
            warnings.warn(sanitize(text), stacklevel=3)
        if tail or self._lock.note:
            self._rewind()


def folder_at(place: str | os.PathLike[str]) -> Path:
    """The folder somebody named. Raises `UsageError` for what names none."""
    if not isinstance(place, str | os.PathLike) or not str(place) or "\0" in str(place):
        raise UsageError(
            f"a folder is a path, not {place!r}" if place == "" else f"a folder is a path, not {type(place).__name__}"
        )
    return Path(place)


def _real(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.realpath(folder_at(path)))


def _write(descriptor: int, data: bytes) -> None:
    """One write, more only where the system took a part; then wait for the disk."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file durable; Windows does that by itself and opens no folders."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_FAILED = b"failed %d %b"
"""Note that the append behind this offset, which followed the entry with this digest, raised."""


def _failed(path: Path) -> bytes:
    """The note that an append to `path` raised and could not be undone; empty where there is none."""
    with suppress(OSError):
        return path.with_name(f"{path.name}.lock").read_bytes().partition(b"\n")[2]
    return b""


def _read(path: Path, children: tuple[Path, ...] = ()) -> Iterator[tuple[Entry, int]]:
    """Each entry with the offset its line ends at (0 for a parent's), up to a last line that an interrupted or a failed
    append left.
    """
    end, sequence, digest, failed = 0, 0, GENESIS, _failed(path)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for number, line in enumerate(file, 1):
            start, end = end, end + len(line)
            if end >= size and is_torn(line):
                return
            entry, prev = _line(path, number, line)
            if end >= size and failed == _FAILED % (start, prev.hex().encode()):
                return
            if number == 1 and entry.sequence > 0:
                inherited = _inherited(path, entry, (*children, path))
                yield from ((shared, 0) for shared in inherited)
                sequence, digest = len(inherited), inherited[-1].digest
            if (entry.sequence, prev) != (sequence, digest):
                raise _corrupt(path, number, f"entry {entry.sequence} does not follow entry {sequence - 1}")
            yield entry, end
            sequence, digest = sequence + 1, entry.digest


def _line(path: Path, number: int, line: bytes) -> tuple[Entry, bytes]:
    try:
        return read_line(line)
    except LogCorrupt as broken:
        raise _corrupt(path, number, str(broken)) from None


def _inherited(path: Path, first: Entry, children: tuple[Path, ...]) -> list[Entry]:
    """What a fork shares with its parent, read from the parent's file and held against the digest the fork names."""
    parent = parse(first.body).get("parent") if first.kind == "opened" else None
    if not parent or parent["path"] is None:
        raise _corrupt(path, 1, f"the file begins with entry {first.sequence} and names no parent")
    origin, sequence = _real(path.parent / parent["path"]), parent["sequence"]
    if not origin.is_file() or origin in children:
        raise LogCorrupt(
            f"{path}, line 1: its parent is not at {origin}: move the parent back there, this file holds only what came after"
        )
    shared = [entry for entry, _ in islice(_read(origin, children), sequence + 1)]
    if len(shared) <= sequence or shared[-1].digest.hex() != parent["digest"]:
        raise LogCorrupt(
            f"{path}, line 1: {origin} is not the parent it was forked from (entry {sequence} differs): restore the parent"
        )
    return shared


def _corrupt(path: Path, number: int, what: str) -> LogCorrupt:
    keep = (
        "restore it from a copy"
        if number == 1
        else f"restore it from a copy, or cut it after line {number - 1} to keep what is whole"
    )
    return LogCorrupt(f"{path}, line {number}: {what}; {keep}")
