"""Where a log is kept: nowhere, or in a JSONL file that survives the process.

An entry is one line; its body is the last field, exactly as it was frozen:

    {"sequence":3,"kind":"user","at":1790000000.5,"prev":"…","digest":"…","body":{…}}

The digest covers the entry before, the kind, the time and the body. A line is valid only if writing what was read from
it gives the same bytes again, so no byte of it can change unnoticed: not the case of a hex digit, not the form of a
number.

An append is one write of one line, and is over when the line is on the disk. A crash can therefore leave at most one
unfinished line, the last: it is set aside in `<file>.torn` when the log is next opened. So is the line of an append
that raised, where the disk did not even let it be cut off: `<file>.lock` notes where the file ended before it. Anything
else that does not fit raises `LogCorrupt`.

One process writes at a time: a lock of the operating system on `<file>.lock` is gone with the process that holds it.
The text of that file is the pid of the writer and, below it, what the next writer finds: the head of the chain, which
is the last entry whose append returned, and where an append failed. The head is written behind each append and not
waited for: it may lag behind the log, and a log that ends before it has lost lines.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
import weakref
from binascii import hexlify, unhexlify
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol, get_args, runtime_checkable

from contextkit.canonical import canonical, parse
from contextkit.errors import LogCorrupt, LogLocked, NewerFormat, NotSerialisable, StorageError, UsageError
from contextkit.log.entry import Entry, Kind
from contextkit.private_files import open_private, own_path
from contextkit.terminal import sanitize

_NOTE_BYTES = 4096
_LOCK_TEXT = re.compile(rb"[0-9]{1,20}(?:\n(?:[a-z]+(?: [0-9a-f]+)* ?)?)*\0*|\0*")
"""Content of a lock file: a pid and lines of notes, or the beginning of that; zeros where a power cut kept them from the
disk."""
_CHUNK_BYTES = 1 << 16
"""Read at a time from the end of a file."""

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
    import resource

    _REFUSED: type[OSError] = BlockingIOError

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class FileLock:
    """The lock on one file, held by one process from `take` to `release`."""

    __slots__ = ("__weakref__", "_descriptor", "_n_bytes", "_path", "note", "pid")

    def __init__(self, path: Path) -> None:
        """Raises `LogLocked` naming the file and, where it can be read, the process that holds it."""
        self._path = path
        self.pid = os.getpid()
        """The process that took it."""
        self._descriptor: int | None = _locked_descriptor(path)
        self.note = b""
        """What the last writer left for the next one; see `leave`."""
        self._n_bytes = 0
        _HELD.add(self)
        try:
            text = _lock_text(self._descriptor, _lock_path(path))
            self._n_bytes, self.note = len(text), text.partition(b"\n")[2]
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
            fresh = _locked_descriptor(self._path)
            try:
                _lock_text(fresh, _lock_path(self._path))
            except BaseException:
                os.close(fresh)
                raise
            os.close(self._descriptor)
            self._descriptor, self._n_bytes = fresh, _NOTE_BYTES
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
        if len(text) < self._n_bytes:
            os.ftruncate(self._descriptor, len(text))
        self._n_bytes = len(text)
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
    """Return whether `path` still names the file that is open.

    Windows lets nobody replace a file that is open, so there it does.
    """
    if sys.platform == "win32":
        return True
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _identity(descriptor: int) -> tuple[int, int]:
    """Return device and inode of an open file, which tell it from one that replaces it."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _locked_descriptor(path: Path) -> int:
    """A descriptor that holds the lock.

    A file that was deleted between opening and locking guards nothing: then once more.
    """
    while True:
        descriptor = open_private(_lock_path(path), os.O_RDWR | os.O_CREAT)
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


def _lock_text(descriptor: int, path: Path) -> bytes:
    """The text of a lock file. Raises `StorageError` where it is not a text that a writer of ours left."""
    text = os.read(descriptor, _NOTE_BYTES)
    if len(text) < os.fstat(descriptor).st_size or not _LOCK_TEXT.fullmatch(text):
        raise StorageError(
            f"{path} holds something else than the number of a process: nothing was written; it is needed as the lock of the file "
            "of its name: move it away, or name another path"
        )
    return text


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

_KIND_NAMES: dict[bytes, Kind] = {kind.encode(): kind for kind in get_args(Kind)}
_USUAL_LINE = re.compile(
    rb'\{"sequence":(0|[1-9][0-9]*),"kind":"([a-z]+)","at":([0-9]+\.[0-9]+),"prev":"([0-9a-f]{32})","digest":"([0-9a-f]{32})","body":'
)
"""What stands before the body of nearly every line; any other is read field by field."""
_LINE = b'{"sequence":%d,"kind":"%b","at":%b,"prev":"%b","digest":"%b","body":%b}\n'
_FIELDS = {"sequence", "kind", "at", "prev", "digest"}
"""Of a line, before its body."""
_START = b'{"sequence":'
_BODY = b',"body":'


def digest_of(prev: bytes, kind: str, at: float, body: bytes) -> bytes:
    """The 16 bytes that tie an entry to the one before.

    >>> digest_of(GENESIS, "user", 0.0, b"{}").hex()
    'cc3f55a047b782436a95705417268cb8'
    """
    time = repr(at).encode() if 1e-4 <= at < 1e16 else canonical(at)  # as `canonical` writes it, without its checks
    return blake2b(b"%b%b\0%b\0%b" % (prev, kind.encode(), time, body), digest_size=16).digest()


def write_line(entry: Entry, prev: bytes) -> bytes:
    """The line of `entry`, newline included; the body is spliced in as it is."""
    at, before, digest = canonical(entry.at), prev.hex().encode(), entry.digest.hex().encode()
    return _LINE % (entry.sequence, entry.kind.encode(), at, before, digest, entry.body)


def read_line(line: bytes) -> tuple[Entry, bytes]:
    """The entry of a line and the digest it says it follows.

    Raises `LogCorrupt` or `NewerFormat` with the reason only (the caller knows the place).
    """
    head, _, rest = line.partition(_BODY)
    try:
        fields = parse(head + b"}")
        entry = Entry(
            fields["sequence"], fields["kind"], rest[:-2], float(fields["at"]), bytes.fromhex(fields["digest"])
        )
        prev = bytes.fromhex(fields["prev"])
        is_ours = write_line(entry, prev) == line
        is_newer = len(fields) > len(_FIELDS) and fields.keys() >= _FIELDS
    except (NotSerialisable, KeyError, TypeError, ValueError, AttributeError):
        raise LogCorrupt("not a line of a contextkit log") from None
    if is_newer:
        raise NewerFormat(
            "a newer contextkit wrote it (it has more fields), and this one cannot read it: upgrade contextkit"
        )
    if not is_ours:
        raise LogCorrupt("not as contextkit writes a line")
    check(entry, prev)
    return entry, prev


def read_next(line: bytes, sequence: int, prev: bytes) -> Entry | None:
    """The entry of a line that follows entry `sequence - 1` with the digest `prev`; None where `read_line` must look.

    The same checks, without writing the line anew: only one sequence of bytes writes each field, so the number, the
    digest before and the time are compared with theirs, and the digest is taken over the bytes as they stand.
    """
    usual = _USUAL_LINE.match(line)
    if usual is None or not line.endswith(b"}\n"):
        return None
    number, name, time, before, stated = usual.groups()
    at, kind = float(time), _KIND_NAMES.get(name)
    if kind is None or before != hexlify(prev) or int(number) != sequence:
        return None
    if not 1e-4 <= at < 1e16 or repr(at).encode() != time:
        return None
    body = line[usual.end() : -2]
    covered = blake2b(b"%b%b\0%b\0" % (prev, name, time), digest_size=16)
    covered.update(body)
    digest = covered.digest()
    return Entry(sequence, kind, body, at, digest) if hexlify(digest) == stated else None


def check(entry: Entry, prev: bytes) -> None:
    """Raises, with the reason only, `LogCorrupt` for an entry whose digest is another's, and `NewerFormat` for one whose
    kind this version does not know.
    """
    if digest_of(prev, entry.kind, entry.at, entry.body) != entry.digest:
        raise LogCorrupt("its digest is not that of its content")
    if entry.kind not in KINDS:
        raise NewerFormat(
            f"a newer contextkit wrote it (kind {entry.kind!r}), and this one cannot read it: upgrade contextkit"
        )


def is_torn(line: bytes) -> bool:
    """Return whether a *last* line is what an interrupted append leaves.

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
    """Return whether `line` begins with an entry that is whole but for its newline."""
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
        self.path: Path | None = own_path(folder_at(path))
        """The file, links of its folders resolved: two names of one file are one lock."""
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
            if self._lock.note and not self._file.exists():
                self._lock.leave(b"", is_durable=True)  # who takes a log away begins anew
            descriptor = open_private(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            try:
                self._identity = _identity(descriptor)
                _sync_folder(self._file.parent)
                lines = list(_read(self._file))
                self._entries = tuple(entry for entry, _ in lines)
                self._end = lines[-1][1] if lines else 0
                self._is_dirty = False
                self._set_aside(descriptor)
            finally:
                os.close(descriptor)
        except OSError as fault:
            self.close()
            raise cannot_open(self._file, fault) from fault
        except BaseException:
            self.close()
            raise

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Iterator[Entry]:
        """The entries of a file, also while somebody writes it: no lock, no repair, an unfinished last line is passed
        over.
        """
        return (entry for entry, _ in _read(real_path(path)))

    @staticmethod
    def read_backwards(path: str | os.PathLike[str]) -> Iterator[Entry]:
        """The entries of a file from the last one on, also while somebody writes it; what a fork shares is not among
        them.

        Each line is checked by itself, not against the one before it. An unfinished last line is passed over.
        """
        return _read_backwards(real_path(path))

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
        self._lock.check_process()
        line = write_line(entry, prev)
        with self._opened() as descriptor:
            if self._is_dirty:
                self._rewind(descriptor)
            end, note = self._end + len(line), self._lock.note
            try:
                self._is_dirty = True
                _write(descriptor, line)
                with suppress(OSError):  # the entry is safe; a head that lags finds less
                    self._lock.leave(_head_note(entry.sequence, entry.digest), is_durable=False)
                self._end, self._is_dirty = end, False
            except BaseException as failure:  # an interruption too: the caller does not have the entry
                with suppress(OSError):
                    self._lock.leave(note, is_durable=False)
                self._rewind_after(failure, descriptor, prev)
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

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The file, open for one append: between appends a log holds no more than its lock.

        Raises before anything is written to a file that is not, or no longer, this storage's to write.
        """
        try:
            descriptor = open_private(self._file, os.O_RDWR | os.O_APPEND)
        except (FileNotFoundError, NotADirectoryError):
            descriptor = -1
        except OSError as fault:
            raise cannot_open(self._file, fault) from fault
        try:
            if descriptor < 0 or _identity(descriptor) != self._identity:
                raise StorageError(
                    f"{self._file} was deleted, moved or replaced while it was open: nothing was appended; put it back where it was, "
                    "or open the log again"
                )
            self._lock.check_file()
            size = os.fstat(descriptor).st_size
            if size != self._end and not self._is_dirty:
                raise StorageError(
                    f"{self._file} has {size:,} bytes and this process left {self._end:,}: somebody else changed it; nothing was appended, "
                    "open the log again"
                )
            yield descriptor
        finally:
            if descriptor >= 0:
                with suppress(OSError):  # the disk has what was written: closing says nothing of it
                    os.close(descriptor)

    def _rewind(self, descriptor: int) -> None:
        os.ftruncate(descriptor, self._end)
        os.fsync(descriptor)
        if _failed_in(self._lock.note):
            self._lock.leave(_without_failed(self._lock.note), is_durable=True)
        self._is_dirty = False

    def _rewind_after(self, failure: BaseException, descriptor: int, prev: bytes) -> None:
        """Cut off what a failed append left.

        When that fails too, the next append tries first, and a note makes the next open set it aside: the caller was
        told that the entry is not there.
        """
        try:
            self._rewind(descriptor)
        except OSError as error:
            text = f"{self._file} could not be cut back to its last whole line either ({error}); the next append tries again"
            try:
                note = (_without_failed(self._lock.note), _FAILED % (self._end, prev.hex().encode()))
                self._lock.leave(b"\n".join(filter(None, note)), is_durable=True)
            except OSError as fault:
                text += f", but if this process ends before it, the entry may be there when the log is opened again ({fault})"
            failure.add_note(text)

    def _set_aside(self, descriptor: int) -> None:
        """Move what follows the last whole line to `<file>.torn`, there first, so that a crash here loses nothing."""
        with self._file.open("rb") as file:
            file.seek(self._end)
            tail = file.read()
        has_failed = bool(_failed_in(self._lock.note))
        if tail:
            aside = f"{self._file}.torn"
            torn = open_private(aside, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                _write(torn, tail)
            finally:
                os.close(torn)
            _sync_folder(self._file.parent)
            what = "an entry whose append had failed" if has_failed and tail.endswith(b"\n") else "an unfinished line"
            self.torn = tail
            text = (
                f"{self._file} ended in {what}: {len(tail)} bytes set aside in {aside}, every line before it is whole"
            )
            warnings.warn(sanitize(text), stacklevel=3)
        if tail or has_failed:
            self._rewind(descriptor)


def cannot_open(path: Path, fault: OSError) -> StorageError:
    """The error for a file that the system does not open: which limit it met, or that the folder is not ours."""
    what = f"{path} cannot be opened ({fault.strerror or fault})"
    if fault.errno == errno.EMFILE and sys.platform != "win32":
        n_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return StorageError(
            f"{what}: this process has {n_files:,} files open, as many as it may; raise that limit (`ulimit -n`), or open fewer at a time"
        )
    if fault.errno in (errno.EMFILE, errno.ENFILE):
        return StorageError(f"{what}: as many files are open as the system allows; open fewer at a time")
    return StorageError(f"{what}: choose a folder you may write to")


def folder_at(place: str | os.PathLike[str]) -> Path:
    """The folder somebody named. Raises `UsageError` for what names none."""
    if not isinstance(place, str | os.PathLike) or not str(place) or "\0" in str(place):
        raise UsageError(
            f"a folder is a path, not {place!r}" if place == "" else f"a folder is a path, not {type(place).__name__}"
        )
    return Path(place)


def real_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file to read, all links resolved."""
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
_HEAD = re.compile(rb"head ([0-9]+) ([0-9a-f]{32}) ([0-9a-f]{8})")


class Head(NamedTuple):
    """The last entry whose append returned."""

    sequence: int
    digest: bytes


def _head_note(sequence: int, digest: bytes) -> bytes:
    """The line of a head; it ends with a check of itself, as it is written over another one in place."""
    head = b"head %d %b" % (sequence, hexlify(digest))
    return b"%b %b" % (head, hexlify(blake2b(head, digest_size=4).digest()))


def _head_in(note: bytes) -> Head | None:
    """The head that a note names; None where there is none, or only a part of one."""
    found = _HEAD.search(note)
    if found is None or _head_note(int(found[1]), unhexlify(found[2])) != found[0]:
        return None
    return Head(int(found[1]), unhexlify(found[2]))


def _failed_in(note: bytes) -> bytes:
    """The line that says that an append raised and could not be undone; empty where there is none."""
    place = note.find(b"failed ")
    return b"" if place < 0 else note[place:].partition(b"\n")[0].rstrip(b"\0")


def _without_failed(note: bytes) -> bytes:
    return note.partition(b"failed ")[0].rstrip(b"\n")


def _noted(path: Path) -> bytes:
    """The note for the next writer of `path`; empty where there is none."""
    with suppress(OSError):
        return _lock_path(path).read_bytes().partition(b"\n")[2]
    return b""


def _check_end(path: Path, head: Head | None, n: int, digest: bytes) -> None:
    """Raise `LogCorrupt` where `n` entries, the last with `digest`, end before the head that was noted."""
    if head is None or n > head.sequence + 1 or (n, digest) == (head.sequence + 1, head.digest):
        return
    lock, n_lost = _lock_path(path), head.sequence + 1 - n
    what = f"its last {n_lost} entries are missing" if n_lost > 1 else "its last entry is missing"
    if not n_lost:
        what = f"entry {head.sequence}, its last, is not the one that was written"
    raise LogCorrupt(
        f"{path}: {what} (it had {head.sequence + 1}, says {lock}): restore it from a copy, or delete {lock} to go on without them"
    )


_READ_BYTES = 1 << 18
"""Read at once: lines longer than a buffer are put together from its contents, which costs more than parsing them."""


def _read(path: Path, children: tuple[Path, ...] = ()) -> Iterator[tuple[Entry, int]]:
    """Each entry with the offset its line ends at (0 for a parent's), up to a last line that an interrupted or a failed
    append left.
    """
    note = _noted(path)
    head, failed = _head_in(note), _failed_in(note)
    end, sequence, digest = 0, 0, GENESIS
    with path.open("rb", buffering=_READ_BYTES) as file:
        size = os.fstat(file.fileno()).st_size
        for number, line in enumerate(file, 1):
            start, end = end, end + len(line)
            if end < size and (usual := read_next(line, sequence, digest)) is not None:
                yield usual, end
                sequence, digest = sequence + 1, usual.digest
                continue
            if end >= size and is_torn(line):
                break
            entry, prev = _line(path, number, line)
            if end >= size and failed == _FAILED % (start, prev.hex().encode()):
                break
            if number == 1 and entry.sequence > 0:
                inherited = _inherited(path, entry, (*children, path))
                yield from ((shared, 0) for shared in inherited)
                sequence, digest = len(inherited), inherited[-1].digest
            if (entry.sequence, prev) != (sequence, digest):
                raise _corrupt(path, number, f"entry {entry.sequence} does not follow entry {sequence - 1}")
            yield entry, end
            sequence, digest = sequence + 1, entry.digest
    _check_end(path, head, sequence, digest)


def _read_backwards(path: Path) -> Iterator[Entry]:
    note, is_last, is_first = _noted(path), True, True
    head, failed = _head_in(note), _failed_in(note)
    with path.open("rb") as file:
        start, rest, n_bytes = os.fstat(file.fileno()).st_size, b"", _CHUNK_BYTES
        while start > 0:
            end, start = start + len(rest), max(start - n_bytes, 0)
            file.seek(start)
            data = file.read(end - len(rest) - start) + rest
            first, *lines = data.split(b"\n")
            if start > 0 and not any(lines):
                rest, n_bytes = data, 2 * n_bytes
                continue
            rest, lines = (first + b"\n", lines) if start > 0 else (b"", [first, *lines])
            ends = [*(line + b"\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]
            for line in reversed(ends):
                end -= len(line)
                is_torn_line, is_failed = is_last and is_torn(line), False
                if not is_torn_line:
                    entry, prev = read_line(line)
                    is_failed = is_last and failed == _FAILED % (end, prev.hex().encode())
                is_last = False
                if not is_torn_line and not is_failed:
                    if is_first:
                        _check_end(path, head, entry.sequence + 1, entry.digest)
                    is_first = False
                    yield entry
    if is_first:
        _check_end(path, head, 0, GENESIS)


def _line(path: Path, number: int, line: bytes) -> tuple[Entry, bytes]:
    try:
        return read_line(line)
    except NewerFormat as newer:
        raise NewerFormat(f"{path}, line {number}: {newer}") from None
    except LogCorrupt as broken:
        raise _corrupt(path, number, str(broken)) from None


def _inherited(path: Path, first: Entry, children: tuple[Path, ...]) -> list[Entry]:
    """What a fork shares with its parent, read from the parent's file and held against the digest the fork names."""
    parent = parse(first.body).get("parent") if first.kind == "opened" else None
    if not parent or parent["path"] is None:
        raise _corrupt(path, 1, f"the file begins with entry {first.sequence} and names no parent")
    origin, sequence = real_path(path.parent / parent["path"]), parent["sequence"]
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
        else f"restore it from a copy, or cut it after line {number - 1} and delete {_lock_path(path)} to keep what is whole"
    )
    return LogCorrupt(f"{path}, line {number}: {what}; {keep}")
