"""A folder of the local disk as a place for files: walked folder by folder, so that no link is ever followed.

Takes checked names and bytes; knows nothing of versions or quotas. A file is written under `.contextkit/unfinished`,
synced, moved to its place in one step, and synced again: a reader, and a process killed at any moment, sees the old
file or the new one. One writer at a time, over threads and processes, by a lock of the operating system on
`.contextkit/lock`, which is gone with the process that holds it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contextkit.errors import ContextKitError, FileMissing, PathOccupied, PathRefused, QuotaExceeded, StorageError
from contextkit.memory.files.names import HIDDEN, ROOT_STATUS, UNFINISHED, FileStatus, Names, quoted_path
from contextkit.private_files import is_link, open_unfollowed

_FOLDER_MODE = 0o700
"""For the owner alone, whatever the umask says: what an agent remembers is nobody else's business."""
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
HAS_HANDLES = {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir} <= os.supports_dir_fd and bool(
    getattr(os, "O_NOFOLLOW", 0) and _DIRECTORY
)
"""Whether this system lets us hold a folder."""
_LOCK = "lock"
_LOCK_BYTES = 1024
"""More than the lock file ever has: what is larger is somebody else's, and is not written to."""
_SLATE_BYTES = 128

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

if sys.platform == "win32":
    import msvcrt

    _BEYOND = 1 << 30
    """Windows locks byte ranges and hides them from readers, so the byte that is locked lies behind the slate."""

    def _lock(descriptor: int) -> None:
        """Wait until nobody else has the file locked; Windows gives up after ten seconds, so it is asked again."""
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        is_locked = False
        while not is_locked:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                is_locked = True
            except OSError as busy:
                if busy.errno != 36:  # EDEADLOCK, the answer of a lock that stayed busy
                    raise

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class _Directory:
    """One open folder: what is done in it is done in this very folder, whatever its path leads to by now.

    Held by a descriptor, so that nothing can come between a check and a use. Without one (Windows) it is known by its
    path: every folder from the root to this one must be a real folder and the same one as when it was entered, before
    and after each use, so a race is detected, though not made impossible. Its methods take single names and raise
    `OSError`; with `ELOOP` for a link.
    """

    def __init__(
        self, descriptor: int | None, path: str = "", above: tuple[tuple[str, tuple[int, int]], ...] = ()
    ) -> None:
        self._descriptor, self._path = descriptor, path
        self._chain = (*above, (path, _identity(path))) if descriptor is None else ()

    @classmethod
    def at(cls, root: Path, has_handles: bool) -> _Directory:
        """Open the folder at a path that the caller trusts."""
        if has_handles:
            return cls(os.open(root, os.O_RDONLY | _DIRECTORY))
        return cls(None, os.path.realpath(root, strict=True))

    def enter(self, name: str) -> _Directory:
        """Open a folder in it."""
        _, folder = self._place(name)
        if folder is None:
            return _Directory(None, self._real(name), self._chain)
        try:
            return _Directory(open_unfollowed(name, os.O_RDONLY | _DIRECTORY, folder))
        except NotADirectoryError:
            if stat.S_ISLNK(self.look(name).st_mode):  # Linux says "not a folder" of a link
                raise OSError(errno.ELOOP, "is a link") from None
            raise

    def make(self, name: str) -> None:
        """Make a folder in it, for the owner alone."""
        path, folder = self._place(name)
        os.mkdir(path, _FOLDER_MODE, dir_fd=folder)
        self._check()

    def open(self, name: str, flags: int) -> int:
        """Return a descriptor of a file in it: what was opened is what stands there, and that is no link."""
        path, folder = self._place(name)
        if folder is not None:
            return open_unfollowed(path, flags, folder)
        if os.path.lexists(path) and stat.S_ISDIR(os.lstat(self._real(name)).st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder")  # Windows says "no permission" of a folder
        descriptor = open_unfollowed(path, flags)
        try:
            self._check()
            if not os.path.samestat(os.fstat(descriptor), os.lstat(self._real(name))):
                raise OSError(errno.ELOOP, "was exchanged while it was opened")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def look(self, name: str) -> os.stat_result:
        """Return the status of what stands in it under a name; of a link, the link's."""
        path, folder = self._place(name)
        return os.stat(path, dir_fd=folder, follow_symlinks=False)

    def status(self, name: str) -> FileStatus | None:
        """Return what stands in it under a name, None for nothing."""
        try:
            status = self.look(name)
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(status.st_mode) and not is_link(status):
            return FileStatus(name, "folder", 0)
        is_file = stat.S_ISREG(status.st_mode) and not is_link(status) and status.st_nlink <= 1
        return FileStatus(name, "file", status.st_size) if is_file else FileStatus(name, "other", 0)

    def names(self) -> list[str]:
        """Return all names in it."""
        self._check()
        names = os.listdir(self._path if self._descriptor is None else self._descriptor)  # noqa: PTH208 - descriptors
        self._check()
        return names

    def move(self, name: str, to: _Directory, new: str) -> None:
        """Move what is in it to another folder, in place of a file that may stand there."""
        (path, folder), (target, target_folder) = self._place(name), to._place(new)
        os.replace(path, target, src_dir_fd=folder, dst_dir_fd=target_folder)
        self._check()
        to._check()

    def remove(self, name: str) -> None:
        """Take away a file, a link itself, or a folder with all in it."""
        status = self.status(name)
        path, folder = self._place(name)
        if status is None or status.kind != "folder":
            os.unlink(path, dir_fd=folder)
            return
        inner = self.enter(name)
        try:
            for one in inner.names():
                inner.remove(one)
        finally:
            inner.close()
        self._check()
        os.rmdir(path, dir_fd=folder)

    def sync(self) -> None:
        """Wait until the disk has its names; Windows does that by itself and opens no folders."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Let it go."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _place(self, name: str) -> tuple[str, int | None]:
        """Return a path of what is in it, and the descriptor that it is relative to."""
        self._check()
        return (name, self._descriptor) if self._descriptor is not None else (os.path.join(self._path, name), None)  # noqa: PTH118

    def _check(self) -> None:
        for path, identity in self._chain:
            if _identity(path) != identity:
                raise OSError(errno.ELOOP, "was exchanged while it was used")

    def _real(self, name: str) -> str:
        """Return the path of what stands under a name, when it is what the name says and no way to somewhere else."""
        path = os.path.join(self._path, name)  # noqa: PTH118
        if is_link(os.lstat(path)) or os.path.normcase(os.path.realpath(path)) != os.path.normcase(path):
            raise OSError(errno.ELOOP, "is a link")
        return path


def _identity(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    if is_link(status):
        raise OSError(errno.ELOOP, "is a link")
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "is no folder")
    return status.st_dev, status.st_ino


class LocalFolder:
    """One folder of the local disk, made where it is not there yet. Everything it raises is a `ContextKitError`."""

    def __init__(self, root: Path, has_handles: bool = HAS_HANDLES) -> None:
        """`has_handles=False`: as on a system without folder handles."""
        self._place = root
        with _faults("", root):
            root.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            self._root = _Directory.at(root, has_handles)
        self._close = weakref.finalize(self, self._root.close)
        self._lock_file = -1
        with self._at(UNFINISHED, make=True), self._at((HIDDEN,)) as hidden:
            self.folds = self._root.status(HIDDEN.upper()) is not None and os.path.samestat(
                self._root.look(HIDDEN), self._root.look(HIDDEN.upper())
            )
            """Whether it takes two spellings of a name for one (macOS, Windows)."""
            hidden.sync()

    def read(self, names: Names, limit: int) -> bytes:
        """Return the bytes of a file of at most `limit` bytes.

        One that has a second name, or is none at all, is refused after it was opened, so that nothing can be exchanged.
        """
        with self._at(names[:-1], names) as folder:
            descriptor = folder.open(names[-1], os.O_RDONLY)
            try:
                n_bytes = _checked_size(descriptor, names, limit)
                chunks = []
                while chunk := os.read(descriptor, n_bytes + 1):
                    chunks.append(chunk)
                return b"".join(chunks)
            finally:
                os.close(descriptor)

    def put(self, names: Names, data: bytes) -> None:
        """Put a file, in place of another, folders made as needed: wholly or not at all, and safe when it returns."""
        own = f"{os.getpid()}-{secrets.token_hex(8)}"
        with self._at(names[:-1], names, make=True) as folder, self._at(UNFINISHED, names) as unfinished:
            try:
                _write(unfinished.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL), data)
                unfinished.move(own, folder, names[-1])
            except BaseException:
                with suppress(OSError):  # the next writer clears what is left; the failure itself must be raised
                    unfinished.remove(own)
                raise
            folder.sync()

    def sync(self, names: Names) -> None:
        """Make sure that what was put in this folder before is safe."""
        with self._at(names) as folder:
            folder.sync()

    def status_of(self, names: Names) -> FileStatus | None:
        """Return what stands there, None for nothing. Raises `PathRefused` where a folder on the way is a link."""
        if not names:
            return ROOT_STATUS
        try:
            with self._at(names[:-1], names) as folder:
                return folder.status(names[-1])
        except (FileMissing, PathOccupied):  # below a file there is nothing either
            return None

    def scan(self, names: Names) -> list[FileStatus]:
        """Return what stands in a folder, in no order; the store's own folder is left out."""
        with self._at(names) as folder:
            return [one for name in folder.names() if (names or name != HIDDEN) and (one := folder.status(name))]

    def names(self, names: Names) -> list[str]:
        """Return the names alone, which costs far less in a large folder."""
        with self._at(names) as folder:
            return [name for name in folder.names() if names or name != HIDDEN]

    def move(self, old: Names, new: Names) -> None:
        """Move a file or folder to where nothing stands, folders made as needed; safe when it returns."""
        with self._at(old[:-1], old) as source, self._at(new[:-1], new, make=True) as target:
            if target.status(new[-1]) is not None:
                raise OSError(errno.EEXIST, "is taken")
            source.move(old[-1], target, new[-1])
            target.sync()
            source.sync()

    def discard(self, names: Names) -> None:
        """Move it out of sight in one step, sync, then take it apart: a deletion is never half done either."""
        own = f"{os.getpid()}-{secrets.token_hex(8)}"
        with self._at(names[:-1], names) as folder, self._at(UNFINISHED, names) as unfinished:
            folder.move(names[-1], unfinished, own)
            folder.sync()
            unfinished.remove(own)

    def clear(self) -> None:
        """Take away what writers that died left unfinished; only while alone."""
        with self._at(UNFINISHED) as unfinished:
            for name in unfinished.names():
                unfinished.remove(name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Make every other writer wait until the block ends.

        The lock file is opened anew each time: a descriptor shared with a forked child would be one lock for both.
        """
        with self._at((HIDDEN,), (HIDDEN, _LOCK)) as hidden:
            descriptor = hidden.open(_LOCK, os.O_RDWR | os.O_CREAT)
        try:
            _checked_size(descriptor, (HIDDEN, _LOCK), _LOCK_BYTES)
            _lock(descriptor)
            self._lock_file = descriptor
            try:
                yield
            finally:
                _unlock(descriptor)
        finally:
            os.close(descriptor)

    def read_slate(self) -> bytes:
        """Return what the last writer left on the lock file for the next; only while alone."""
        os.lseek(self._lock_file, 0, os.SEEK_SET)
        return os.read(self._lock_file, _SLATE_BYTES).rstrip()

    def write_slate(self, text: bytes) -> None:
        """Replace it, at one length always, so that one write does; need not survive a power cut."""
        os.lseek(self._lock_file, 0, os.SEEK_SET)
        os.write(self._lock_file, text.ljust(_SLATE_BYTES - 1) + b"\n")

    @contextmanager
    def _at(self, names: Names, whole: Names | None = None, make: bool = False) -> Iterator[_Directory]:
        """Open the folder at `names` for as long as the block runs; faults are reported of `whole`."""
        with _faults("/".join(names if whole is None else whole), self._place):
            folder = self._root
            try:
                for name in names:
                    folder, left = _entered(folder, name, make), folder
                    if left is not self._root:
                        left.close()
                yield folder
            finally:
                if folder is not self._root:
                    folder.close()


def _entered(folder: _Directory, name: str, make: bool) -> _Directory:
    try:
        return folder.enter(name)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another process made it first, which is as good
        folder.make(name)
    folder.sync()
    return folder.enter(name)


@contextmanager
def _faults(path: str, root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        kind, text = _ANSWERS.get(fault.errno or 0, (StorageError, ""))
        if not text or not path:
            where = f"{quoted_path(path)} in the store at {root}" if path else f"the store at {root}"
            reason = fault.strerror or type(fault).__name__
            raise StorageError(f"{where}: {reason}; make room there, or choose a folder you may write to") from fault
        raise kind(text.format(quoted_path(path))) from fault


def _checked_size(descriptor: int, names: Names, limit: int) -> int:
    """Return the size of an open file that is the only name of a regular file, and no larger than `limit`."""
    status, path = os.fstat(descriptor), quoted_path(names)
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
    return status.st_size


def _write(descriptor: int, data: bytes) -> None:
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
