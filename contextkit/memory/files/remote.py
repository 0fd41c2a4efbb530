"""Any place `fsspec` reaches (S3, GCS, Azure, SFTP, memory, …) as a place for files.

Takes checked names and bytes; knows nothing of versions or quotas. Object stores put an object wholly or not at all, so
it is put in place; a server with real folders gets it beside and moves it. Writers in one process wait for each other;
between machines nothing can make them, so give each its own folder, or let one write: contents are named by their
digest, so no version is ever lost to a race, but of two that overwrite one path at the same moment the last stays.
"""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from typing import Any

from contextkit.errors import (
    ContextKitError,
    FileMissing,
    MissingExtra,
    PathOccupied,
    QuotaExceeded,
    StorageError,
    UsageError,
)
from contextkit.memory.files.folder import FileStatus, Kind
from contextkit.memory.files.names import HIDDEN, Names, quoted_path

_UNFINISHED: Names = (HIDDEN, "unfinished")
_WHOLE = frozenset(
    {"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "r2", "cosn", "tos"}
)
"""Protocols whose put is wholly there or not at all."""
_KINDS: dict[str, Kind] = {"file": "file", "directory": "folder"}


class MemorySlate:
    """The slate of a place that has none for all writers."""

    def __init__(self) -> None:
        self._text = b""

    def read(self) -> bytes:
        """What was written last in this process."""
        return self._text

    def write(self, text: bytes) -> None:
        """Replace it."""
        self._text = text


class RemoteFolder:
    """A folder behind an `fsspec` URL."""

    folds = False
    """Object stores take every spelling for a name of its own."""

    def __init__(self, url: str) -> None:
        self._files, self._root = _opened(url)
        self._is_whole = not _WHOLE.isdisjoint(_protocols(self._files))
        self._lock = RLock()
        self._slate = MemorySlate()
        with _faults(""):
            self._files.makedirs(self._path(()), exist_ok=True)

    def read(self, names: Names, limit: int) -> bytes:
        """The file."""
        found = self.status_of(names)
        if found is None:
            raise FileMissing(f"nothing is stored at {_quoted(names)}: list the store to see what there is")
        if found.kind != "file":
            raise PathOccupied(f"{_quoted(names)} is a folder: list it, or name a file in it")
        if found.n_bytes > limit:
            raise QuotaExceeded(
                f"{_quoted(names)} has {found.n_bytes:,} bytes, more than the whole store may hold ({limit:,}): raise quota_bytes"
            )
        with _faults(names):
            return bytes(self._files.cat_file(self._path(names)))

    def put(self, names: Names, data: bytes) -> None:
        """In place where that is one step, else beside and moved."""
        with _faults(names):
            self._files.makedirs(self._path(names[:-1]), exist_ok=True)
            if self._is_whole:
                self._files.pipe_file(self._path(names), data)
                return
            beside = self._path((*_UNFINISHED, secrets.token_hex(8)))
            self._files.makedirs(self._path(_UNFINISHED), exist_ok=True)
            self._files.pipe_file(beside, data)
            self._files.mv(beside, self._path(names))

    def sync(self, names: Names) -> None:
        """What was put is safe already."""

    def status_of(self, names: Names) -> FileStatus | None:
        """What stands there; None for nothing."""
        if not names:
            return FileStatus("", "folder", 0)
        with _faults(names):
            self._files.invalidate_cache(self._path(names[:-1]))
            try:
                return _file_status(self._files.info(self._path(names)))
            except (FileNotFoundError, NotADirectoryError):  # below a file there is nothing either
                return None

    def scan(self, names: Names) -> list[FileStatus]:
        """What stands in a folder."""
        with _faults(names):
            self._files.invalidate_cache(self._path(names))
            rows = self._files.ls(self._path(names), detail=True)
        found = (
            _file_status(row) for row in rows if row["name"].strip("/") != self._path(names).strip("/")
        )  # S3 lists a folder's own mark
        return [one for one in found if names or one.name != HIDDEN]

    def names(self, names: Names) -> list[str]:
        """The names alone."""
        return [one.name for one in self.scan(names)]

    def move(self, old: Names, new: Names) -> None:
        """Move; on an object store that is a copy and a deletion, so a crash between leaves both."""
        with _faults(old):
            self._files.makedirs(self._path(new[:-1]), exist_ok=True)
            self._files.mv(self._path(old), self._path(new), recursive=True)

    def discard(self, names: Names) -> None:
        """Take it away."""
        with _faults(names):
            self._files.rm(self._path(names), recursive=True)

    def clear(self) -> None:
        """Take away what writers that died left unfinished."""
        if not self._is_whole and self.status_of(_UNFINISHED):
            self.discard(_UNFINISHED)

    @contextmanager
    def alone(self) -> Iterator[MemorySlate]:
        """Other threads wait; other machines cannot be made to."""
        with self._lock:
            yield self._slate

    def _path(self, names: Names) -> str:
        return "/".join((self._root, *names)) if self._root else "/".join(names)


def _opened(url: str) -> tuple[Any, str]:
    if "::" in url:
        raise UsageError(
            f"{quoted_path(url)} is a chain of file systems: give the last of them, where a file is safe as soon as it is written"
        )
    try:
        fsspec = import_module("fsspec")
    except ImportError:
        raise MissingExtra(f"a file store at {url.partition('://')[0]}://", "files") from None
    try:
        files, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as unknown:
        raise UsageError(f"fsspec cannot open {quoted_path(url)}: {unknown}") from unknown
    return files, root.rstrip("/")


def _protocols(files: Any) -> set[str]:
    protocol = files.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)


def _file_status(row: dict[str, Any]) -> FileStatus:
    kind = _KINDS.get(row["type"], "other")
    return FileStatus(
        posixpath.basename(row["name"].rstrip("/")), kind, int(row.get("size") or 0) if kind == "file" else 0
    )


def _quoted(names: Names) -> str:
    return quoted_path("/".join(names))


@contextmanager
def _faults(names: Names | str) -> Iterator[None]:
    """What the remote side raises, in our words; its own text follows as the cause."""
    try:
        yield
    except FileNotFoundError:
        raise FileMissing(
            f"nothing is stored at {_quoted(tuple(names))}: list the store to see what there is"
        ) from None
    except (NotADirectoryError, IsADirectoryError, FileExistsError):
        raise PathOccupied(
            f"{_quoted(tuple(names))} has a file where it needs a folder, or a folder for a file: choose another path"
        ) from None
    except ContextKitError:
        raise
    except Exception as fault:  # each of fsspec's backends raises what its own client does
        raise StorageError(
            f"{_quoted(tuple(names))} in the remote store: {type(fault).__name__}; see its cause, then try again"
        ) from fault
