"""Open files for writing: the only module that does.

A file written here is a regular file of the user who runs the program, readable by its owner alone when it is new. The
last name of a path is never followed when it is a link; the folders above it may be links.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from contextkit.errors import StorageError

if TYPE_CHECKING:
    import sqlite3

PRIVATE_MODE = 0o600
"""Mode of a new file: it may hold prompts."""
_FLAGS = ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT")
"""Follow no link, do not wait for the other end of a named pipe, adopt no terminal; pass the descriptor to no child
process, and change no newline on Windows."""
_FLAG_BITS = sum(getattr(os, name, 0) for name in _FLAGS)
_SURROGATE = 0x20000000
"""Bit of a Windows reparse tag that says: this stands for another place (junction, mount point), not for a file kept in
a cloud."""
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_SQLITE_FILES = ("-wal", "-shm", "-journal")
_making_database = Lock()


def is_link(status: os.stat_result) -> bool:
    """Return whether it leads elsewhere: a link, or on Windows a reparse point that stands for another place."""
    return stat.S_ISLNK(status.st_mode) or bool(getattr(status, "st_reparse_tag", 0) & _SURROGATE)


def open_unfollowed(path: str | os.PathLike[str], flags: int, folder: int | None = None) -> int:
    """A descriptor of what stands at `path`, relative to the descriptor `folder` where one is given; no link is followed.

    The caller checks what it opened. Raises `OSError`.
    """
    return os.open(path, flags | _FLAG_BITS, PRIVATE_MODE, dir_fd=folder)


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """A descriptor of the file at `path`, opened as `os.open` does; a new file has mode 0600 whatever the umask.

    Raises `StorageError` where something else than a regular file of this user stands there: nothing is changed then.
    Raises `OSError` as `os.open` does.
    """
    check_private(path)
    descriptor = open_unfollowed(path, flags & ~os.O_TRUNC)
    try:
        opened = os.fstat(descriptor)
        _check(path, opened)
        if not hasattr(os, "O_NOFOLLOW") and not os.path.samestat(opened, os.lstat(path)):
            raise _replaced_meanwhile(path)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A new file to write that takes the place of `path` when the block ends; if it raises, nothing has changed.

    A file that stood there gives it its mode. Raises as `open_private` does, and `PermissionError` for a file that may
    not be written.
    """
    target = own_path(path)
    former = _replaceable(target)
    part, descriptor = _part_of(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if former is not None and sys.platform != "win32":
                os.fchmod(descriptor, former.st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(descriptor)
        _replaceable(target)
        os.replace(part, target)  # noqa: PTH105 - the path is checked here
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part)  # noqa: PTH108
        raise


def check_replaceable(path: str | os.PathLike[str]) -> None:
    """Raise now what `replacing` would raise later, before the work whose outcome it is to write; nothing is changed."""
    target = own_path(path)
    _replaceable(target)
    part, descriptor = _part_of(target)
    os.close(descriptor)
    os.unlink(part)  # noqa: PTH108


def connect_private(path: str | os.PathLike[str], **options: Any) -> sqlite3.Connection:
    """A connection to the SQLite file at `path`, made if it is not there, with mode 0600; `options` as `sqlite3.connect` has them.

    Raises as `open_private` does, also for the files that SQLite keeps beside it, and `sqlite3.Error`.
    """
    import sqlite3

    place = f"file:{quote(Path(path).as_posix())}?mode=rw"
    for suffix in _SQLITE_FILES:
        check_private(f"{os.fspath(path)}{suffix}")
    with _making_database:
        # Only a new file is opened by us: closing any descriptor of a file drops all locks that this process has on it,
        # those of SQLite's other connections too.
        if check_private(path) is None:
            with suppress(FileExistsError):
                os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        before = check_private(path)
        connection: sqlite3.Connection = sqlite3.connect(place, uri=True, **options)
    try:
        after = check_private(path)
        if before is None or after is None or not os.path.samestat(before, after):
            raise _replaced_meanwhile(path)
    except BaseException:
        connection.close()
        raise
    return connection


def check_private(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Raise `StorageError` where something else than a regular file of this user stands at `path`.

    Returns the file's status, None where nothing stands there.
    """
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    _check(path, status)
    return status


def own_path(path: str | os.PathLike[str]) -> Path:
    """The path with the links of its folders resolved and its last name as it is: one file has one path."""
    place = Path(path)
    return Path(os.path.realpath(place.parent), place.name) if place.name not in ("", "..") else place


def _replaceable(target: Path) -> os.stat_result | None:
    status = check_private(target)
    if status is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    return status


def _part_of(target: Path) -> tuple[Path, int]:
    import secrets  # which takes longer to import than a report without a page to write

    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        return part, open_unfollowed(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except OSError as error:
        error.filename = os.fspath(target)  # the name the caller knows
        raise


def _check(path: str | os.PathLike[str], status: os.stat_result) -> None:
    remedy = "move it away, or name another path"
    if is_link(status):
        what, remedy = "a link", "put the file itself in its place, or name another path"
    elif not stat.S_ISREG(status.st_mode):
        what = next((what for is_kind, what in _KINDS if is_kind(status.st_mode)), "no regular file")
    elif sys.platform != "win32" and status.st_uid != os.geteuid():
        what = f"a file of user {status.st_uid}, and this process runs as user {os.geteuid()}"
        remedy = "run as its owner, move it away, or name another path"
    else:
        return
    raise StorageError(
        f"{os.fspath(path)} is {what}: contextkit writes only to regular files of its own user; nothing was written; {remedy}"
    )


def _replaced_meanwhile(path: str | os.PathLike[str]) -> StorageError:
    return StorageError(
        f"{os.fspath(path)} was exchanged while it was opened: nothing was written; let nobody else write to its folder"
    )
