"""A folder of the local disk as a place for files: walked handle by handle, so that no link is ever followed.

Takes checked names and bytes; knows nothing of versions or quotas. A file is written under `.contextkit/unfinished`,
waited for, moved to its place in one step, and waited for again: a reader, and a process killed at any moment, sees the
old file or the new one.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contextkit.errors import ContextKitError, FileMissing, PathOccupied, PathRefused, QuotaExceeded, StorageError
from contextkit.memory.files.alone import FileSlate, let_go, wait_for
from contextkit.memory.files.folder import FileStatus
from contextkit.memory.files.handles import HAS_HANDLES, Handle, Held, Watched
from contextkit.memory.files.names import HIDDEN, Names, quoted_path
from contextkit.private_files import is_link

_UNFINISHED: Names = (HIDDEN, "unfinished")
"""Where files are written before they are moved to their places."""
_LOCK = "lock"
_LOCK_BYTES = 1024
"""More than the lock file ever has: what is larger is somebody else's, and is not written to."""

_ANSWERS: dict[int, tuple[type[ContextKitError], str]] = {
    errno.ENOENT: (FileMissing, "nothing is stored at {}: list the store to see what there is"),
    errno.ENOTDIR: (PathOccupied, "{} has a file where it needs a folder: choose another path"),
    errno.EISDIR: (PathOccupied, "{} is a folder: list it, or name a file in it"),
    errno.ENOTEMPTY: (PathOccupied, "{} is taken: delete what stands there first, or choose another path"),
    errno.EEXIST: (PathOccupied, "{} is taken: delete what stands there first, or choose another path"),
    errno.EINVAL: (PathOccupied, "{} cannot be moved into itself: choose another path"),
    errno.ELOOP: (
        PathRefused,
        "{} is, or leads over, a link: the store keeps and follows none; put a copy in its place",
    ),
    errno.ENXIO: (PathRefused, "{} is no regular file: the store opens nothing else"),
    errno.ENAMETOOLONG: (PathRefused, "{} has a name longer than this disk takes: choose a shorter one"),
}
"""What the system says → what we say; all else is the disk's own trouble."""


class LocalFolder:
    """One folder of the local disk, made where it is not there yet.

    By handles, or looked at before and after (`by_handle=False`).
    """

    def __init__(self, root: Path, by_handle: bool = HAS_HANDLES) -> None:
        self._place = root
        with _faults("", root):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root: Handle = (Held if by_handle else Watched).at(root)
        self._let_go = weakref.finalize(self, self._root.close)
        with self._at((*_UNFINISHED,), make=True), self._at((HIDDEN,)) as hidden:
            self.folds = _has(self._root, HIDDEN.upper()) and os.path.samestat(
                self._root.look(HIDDEN), self._root.look(HIDDEN.upper())
            )
            hidden.sync()

    def read(self, names: Names, limit: int) -> bytes:
        """The file.

        One that has a second name, or is none at all, is refused after it was opened, so that nothing can be exchanged.
        """
        with self._at(names[:-1], names) as folder:
            descriptor = folder.open(names[-1] if names else ".", os.O_RDONLY)
            try:
                _check_file(os.fstat(descriptor), names, limit)
                return _all_of(descriptor)
            finally:
                os.close(descriptor)

    def put(self, names: Names, data: bytes) -> None:
        """Write beside, wait, move, wait."""
        own = f"{os.getpid()}-{secrets.token_hex(8)}"
        with self._at(names[:-1], names, make=True) as folder, self._at(_UNFINISHED, names) as unfinished:
            try:
                _write(unfinished.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL), data)
                unfinished.move(own, folder, names[-1])
            except BaseException:
                with suppress(
                    OSError
                ):  # what is left is cleared by the next writer; the failure itself is what must be told
                    unfinished.unlink(own)
                raise
            folder.sync()

    def sync(self, names: Names) -> None:
        """Wait until the disk has the names in a folder."""
        with self._at(names) as folder:
            folder.sync()

    def status_of(self, names: Names) -> FileStatus | None:
        """What stands there; None for nothing."""
        if not names:
            return FileStatus("", "folder", 0)
        try:
            with self._at(names[:-1], names) as folder:
                return _file_status(names[-1], folder.look(names[-1]))
        except (FileMissing, PathOccupied):  # below a file there is nothing either
            return None

    def scan(self, names: Names) -> list[FileStatus]:
        """What stands in a folder."""
        with self._at(names) as folder:
            found = (_look(folder, name) for name in folder.names() if names or name != HIDDEN)
            return [one for one in found if one]

    def names(self, names: Names) -> list[str]:
        """The names alone."""
        with self._at(names) as folder:
            return [name for name in folder.names() if names or name != HIDDEN]

    def move(self, old: Names, new: Names) -> None:
        """Move, and wait for both folders."""
        with self._at(old[:-1], old) as source, self._at(new[:-1], new, make=True) as target:
            if _has(target, new[-1]):
                raise OSError(errno.EEXIST, "is taken")
            source.move(old[-1], target, new[-1])
            target.sync()
            source.sync()

    def discard(self, names: Names) -> None:
        """Move it out of sight in one step, wait, then take it apart: a deletion is never half done either."""
        own = f"{os.getpid()}-{secrets.token_hex(8)}"
        with self._at(names[:-1], names) as folder, self._at(_UNFINISHED, names) as unfinished:
            folder.move(names[-1], unfinished, own)
            folder.sync()
            _take_apart(unfinished, own)

    def clear(self) -> None:
        """Take away what writers that died left unfinished."""
        with self._at(_UNFINISHED) as unfinished:
            for name in unfinished.names():
                _take_apart(unfinished, name)

    @contextmanager
    def alone(self) -> Iterator[FileSlate]:
        """The lock file is opened anew each time: a descriptor shared with a forked child would be one lock for both."""
        with self._at((HIDDEN,), (HIDDEN, _LOCK)) as hidden:
            descriptor = hidden.open(_LOCK, os.O_RDWR | os.O_CREAT)
        try:
            _check_file(os.fstat(descriptor), (HIDDEN, _LOCK), _LOCK_BYTES)
            wait_for(descriptor)
            try:
                yield FileSlate(descriptor)
            finally:
                let_go(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _at(self, names: Names, whole: Names | None = None, make: bool = False) -> Iterator[Handle]:
        """The folder at `names`, for as long as the block runs.

        What the system says against it is said in our words about `whole`.
        """
        with _faults("/".join(names if whole is None else whole), self._place):
            handle = self._root
            try:
                for name in names:
                    handle, left = _entered(handle, name, make), handle
                    if left is not self._root:
                        left.close()
                yield handle
            finally:
                if handle is not self._root:
                    handle.close()


def _entered(handle: Handle, name: str, make: bool) -> Handle:
    try:
        return handle.enter(name)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another process made it first, which is as good
        handle.make(name)
    handle.sync()
    return handle.enter(name)


@contextmanager
def _faults(path: str, root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        kind, text = _ANSWERS.get(fault.errno or 0, (StorageError, ""))
        if not text or not path:
            said = fault.strerror or type(fault).__name__
            where = f"{quoted_path(path)} in the store at {root}" if path else f"the store at {root}"
            raise StorageError(f"{where}: {said}; make room there, or choose a folder you may write to") from fault
        raise kind(text.format(quoted_path(path))) from fault


def _check_file(status: os.stat_result, names: Names, limit: int) -> None:
    path = quoted_path("/".join(names))
    if stat.S_ISDIR(status.st_mode):
        raise PathOccupied(f"{path} is a folder: list it, or name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise PathRefused(f"{path} is no regular file: the store opens nothing else")
    if status.st_nlink > 1:
        raise PathRefused(f"{path} has a second name (a hard link), perhaps outside the store: put a copy in its place")
    if status.st_size > limit:
        raise QuotaExceeded(
            f"{path} has {status.st_size:,} bytes, more than the whole store may hold ({limit:,}): raise quota_bytes"
        )


def _file_status(name: str, status: os.stat_result) -> FileStatus:
    if stat.S_ISDIR(status.st_mode) and not is_link(status):
        return FileStatus(name, "folder", 0)
    is_file = stat.S_ISREG(status.st_mode) and not is_link(status) and status.st_nlink <= 1
    return FileStatus(name, "file", status.st_size) if is_file else FileStatus(name, "other", 0)


def _look(folder: Handle, name: str) -> FileStatus | None:
    """What stands under a name just listed; None where it went meanwhile."""
    try:
        return _file_status(name, folder.look(name))
    except FileNotFoundError:
        return None


def _has(folder: Handle, name: str) -> bool:
    return _look(folder, name) is not None


def _all_of(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    chunks = []
    while chunk := os.read(descriptor, size + 1):
        chunks.append(chunk)
    return b"".join(chunks)


def _write(descriptor: int, data: bytes) -> None:
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_apart(folder: Handle, name: str) -> None:
    """Take away a file, a link itself, or a folder with all in it."""
    if _look(folder, name) != FileStatus(name, "folder", 0):
        folder.unlink(name)
        return
    inner = folder.enter(name)
    try:
        for one in inner.names():
            _take_apart(inner, one)
    finally:
        inner.close()
    folder.rmdir(name)
