"""One confined folder of files, by path and by content: what an agent stores outside its window.

No path leads out of the root, and no write is half done. Every content is stored twice: at its path, where people and
other programs read it, and under its digest, where a reference finds it after the path was overwritten. Versions under
digests grow until `sweep` or `forget` removes them.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from urllib.parse import unquote

from contextkit.errors import (
    FileCorrupt,
    FileErased,
    FileMissing,
    NotText,
    PathOccupied,
    PathRefused,
    QuotaExceeded,
    UsageError,
)
from contextkit.memory.files.local import LocalFolder
from contextkit.memory.files.names import (
    HIDDEN,
    ROOT_STATUS,
    FileStatus,
    Names,
    key_of,
    names_of,
    quoted_path,
    why_not,
)
from contextkit.memory.files.remote import RemoteFolder

ENTRY_BYTES = 256
"""What a file or folder at a path counts beside its content, so that a quota bounds how many there are."""
_OBJECTS: Names = (HIDDEN, "objects")
_ERASED: Names = (HIDDEN, "erased")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_OPEN = b"open"
"""On the slate while a change is under way, or after one that failed."""
_COUNTED = re.compile(rb"closed (\d+) bytes")
"""On the slate: the bytes that the store holds."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A content that is safe."""

    path: str | None
    """Where it stands, None for content alone."""
    digest: str
    """SHA-256 of the content, 64 hexadecimal digits: `version(digest)` gives it back, also after the path was
    overwritten."""
    n_bytes: int
    """Its size."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One file, or one folder where folders were asked for."""

    path: str
    """From the root, `/` between names."""
    n_bytes: int
    """Size of the file; of a folder, the sum of the files in it."""
    is_folder: bool
    """Whether it is a folder."""


class FileMemory:
    """Files in one folder that no path leads out of.

    `root` is a local folder, created if it is missing, or an `fsspec` URL (`s3://bucket/agent`; extra `files`).
    `quota_bytes` counts all files at paths and all versions, and 256 bytes for each file or folder at a path. Threads
    share one object; processes may each open the same local folder.

    >>> import tempfile
    >>> memory = FileMemory(tempfile.mkdtemp())
    >>> first = memory.write("notes/gpus.md", "H200: 2.10 $/h")
    >>> _ = memory.write("notes/gpus.md", "H200: 1.95 $/h")
    >>> memory.read("notes/gpus.md"), memory.version(first.digest)
    ('H200: 1.95 $/h', b'H200: 2.10 $/h')
    """

    def __init__(self, root: str | os.PathLike[str], *, quota_bytes: int = 1 << 30) -> None:
        """Open or create the store. Raises `UsageError`, `MissingExtra`, `StorageError` if it cannot be written."""
        if type(quota_bytes) is not int or quota_bytes < 0:
            raise UsageError(f"quota_bytes={quota_bytes!r}: a quota is a whole number of bytes, 0 or more")
        self.quota_bytes = quota_bytes
        self._folder = _folder_at(root)
        self.root = os.fspath(root)
        """Where it is, as it was named."""
        self._lock = RLock()
        self._is_alone = False
        self._has_counted = False

    def __repr__(self) -> str:
        return f"FileMemory({self.root!r})"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Other writers, in threads and processes, wait until the block ends: for reading, deciding and writing as one
        step.
        """
        with self._lock:
            if self._is_alone:
                yield
                return
            with self._folder.alone():
                self._is_alone = True
                try:
                    yield
                finally:
                    self._is_alone = False

    def read(self, path: str) -> str:
        """The text at `path`, byte for byte as UTF-8.

        Raises `FileMissing`, `NotText`, `PathRefused`, `PathOccupied` for a folder.
        """
        try:
            return self.read_bytes(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotText(
                f"{quoted_path(path)} is not UTF-8 text at byte {error.start}: read_bytes gives it as it is"
            ) from None

    def read_bytes(self, path: str) -> bytes:
        """The bytes at `path`.

        Raises `FileMissing`, `PathRefused`, `PathOccupied` for a folder or another spelling of a name.
        """
        names = _file_names(path)
        if self._folder.folds:
            self._look(names)
        try:
            return self._folder.read(names, self.quota_bytes)
        except FileMissing:
            self._look(names)  # says which name is spelled otherwise, where one is
            raise

    def write(self, path: str, data: str | bytes) -> Stored:
        """Put `data` at `path`, in place of what stood there, whose version is kept; safe when it returns.

        Raises `PathRefused`, `PathOccupied`, `QuotaExceeded`, `NotText` for text UTF-8 has no bytes for.
        """
        names, content = _file_names(path), _content(data)
        with self.alone():
            return self._put(path, names, content)

    def append(self, path: str, data: str | bytes) -> Stored:
        """Put `data` behind what stands at `path`, or begin the file with it: one step, whoever else appends.

        Raises as `write` does.

        The whole file is a new version each time, so a file that grows by many small pieces is better kept as many
        small files.
        """
        names, more = _file_names(path), _content(data)
        with self.alone():
            before = self.read_bytes(path) if self._look(names)[0] else b""
            return self._put(path, names, before + more)

    def list(self, path: str = "", *, folders: bool = False) -> list[Listed]:
        """Every file below `path` in the order of their names, folder by folder.

        `folders` adds the folders, each before what is in it.

        Links and other things that are no files are not listed. Raises `FileMissing`, `PathRefused`, `PathOccupied` for a
        file.
        """
        names = names_of(path)
        with self.alone():
            folder = self._exact_status(names)
            if folder is None:
                raise _missing(path)
            if folder.kind != "folder":
                raise PathOccupied(f"{quoted_path(path)} is no folder: read it, or list the folder it is in")
            rows = list(self._walk(names))
        sizes: Counter[Names] = Counter()
        for at, one in rows:
            sizes.update({at[:depth]: one.n_bytes for depth in range(len(names) + 1, len(at) + 1)})
        return [
            Listed("/".join(at), sizes[at], one.kind == "folder") for at, one in rows if folders or one.kind == "file"
        ]

    def exists(self, path: str) -> bool:
        """Whether a file or a folder stands at `path`, spelled just so. Raises `PathRefused`."""
        status = self._exact_status(names_of(path))
        return status is not None and status.kind != "other"

    def is_folder(self, path: str) -> bool:
        """Whether a folder stands at `path`; `""` is the root. Raises `PathRefused`."""
        status = self._exact_status(names_of(path))
        return status is not None and status.kind == "folder"

    def rename(self, old: str, new: str) -> None:
        """Move a file or a folder to a path where nothing stands.

        Raises `FileMissing`, `PathOccupied`, `PathRefused`, `QuotaExceeded`.
        """
        source, target = _file_names(old), _file_names(new)
        with self.alone():
            status, _ = self._look(source)
            if status is None:
                raise _missing(old)
            if target[: len(source)] == source:
                raise PathOccupied(f"{quoted_path(new)} is {quoted_path(old)} or stands below it: choose another path")
            occupant, n_missing = self._look(target)
            if occupant is not None:
                raise PathOccupied(
                    f"something stands at {quoted_path(new)} already: delete it first, or choose another path"
                )
            for at, _ in self._walk(source) if status.kind == "folder" else ():
                # what is in a folder must be within reach where the folder goes
                names_of("/".join((*target, *at[len(source) :])))
            with self._changing(ENTRY_BYTES * n_missing):
                self._folder.move(source, target)

    def delete(self, path: str) -> None:
        """Take away the file, or the folder with all in it, in one step.

        Its versions stay. Raises `FileMissing`, `PathRefused`.
        """
        names = _file_names(path)
        with self.alone():
            status, _ = self._look(names)
            if status is None:
                raise _missing(path)
            inside = [one for _, one in self._walk(names)] if status.kind == "folder" else []
            n_entries = len(inside) + (status.kind != "other")
            with self._changing(-sum(one.n_bytes for one in [status, *inside]) - ENTRY_BYTES * n_entries):
                self._folder.discard(names)

    def keep(self, data: bytes) -> Stored:
        """Store a content without a path.

        Safe when it returns, and once however often it is kept. Raises `QuotaExceeded`.
        """
        content = _content(data)
        with self.alone():
            digest, is_new = self._digest_of(content)
            with self._changing(len(content) * is_new):
                self._put_content(digest, content, is_new)
        return Stored(None, digest, len(content))

    def version(self, digest: str) -> bytes:
        """The content with that digest, also where its path was overwritten or deleted.

        Raises `FileErased` after `forget`, `FileMissing`, `FileCorrupt` where the disk no longer has what was written.
        """
        at = _content_names(_OBJECTS, digest)
        if self.is_erased(digest):
            raise FileErased(f"content {digest[:12]}… was erased for good: ask for it again where it came from")
        try:
            data = self._folder.read(at, self.quota_bytes)
        except FileMissing:
            raise FileMissing(f"no content {digest[:12]}… is kept here: open the store it was written to") from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise FileCorrupt(
                f"content {digest[:12]}… is not what its digest says: restore {'/'.join(at)} from a copy, or keep it again"
            )
        return data

    def holds(self, digest: str) -> bool:
        """Whether `version` has the content with that digest, without reading it."""
        return self._folder.status_of(_content_names(_OBJECTS, digest)) is not None and not self.is_erased(digest)

    def is_erased(self, digest: str) -> bool:
        """Whether `forget` erased the content with that digest, and nobody kept it again."""
        return self._folder.status_of(_content_names(_ERASED, digest)) is not None

    def forget(self, digest: str) -> None:
        """Erase a content for good: `version` says so from now on, until somebody keeps the very same content again.

        Raises `PathOccupied` while a file at a path still holds it, `FileMissing` for a content that was never here.
        """
        at = _content_names(_OBJECTS, digest)
        with self.alone():
            if self.is_erased(digest):
                return
            status = self._folder.status_of(at)
            if status is None:
                raise FileMissing(
                    f"no content {digest[:12]}… is kept here, so none can be erased: open the store it was written to"
                )
            holder = next((path for path, held in self._digests(status.n_bytes) if held == digest), None)
            if holder is not None:
                raise PathOccupied(
                    f"{quoted_path(holder)} still holds content {digest[:12]}…: delete or overwrite it first, then forget it"
                )
            with self._changing(-status.n_bytes):
                self._folder.clear()  # a writer that died may have left a copy
                # first, so that a crash leaves no reference that merely finds nothing
                self._folder.put(_content_names(_ERASED, digest), b"")
                self._folder.discard(at)

    def sweep(self, kept: Iterable[str]) -> int:
        """Take away every version that no path holds and that is not among the digests `kept`; the bytes set free.

        Give the digests of all references that are still to be restored: for the others `version` raises `FileMissing`
        afterwards.
        """
        needed = set(kept)
        with self.alone():
            needed.update(digest for _, digest in self._digests())
            unneeded = {digest: n_bytes for digest, n_bytes in self._contents(_OBJECTS).items() if digest not in needed}
            for digest, n_bytes in unneeded.items():
                with self._changing(-n_bytes):
                    self._folder.discard(_content_names(_OBJECTS, digest))
        return sum(unneeded.values())

    def _put(self, path: str, names: Names, content: bytes) -> Stored:
        """Put content first, path second: a process that dies between leaves a version nobody names, never a path
        without one.
        """
        status, n_missing = self._look(names)
        if status is not None and status.kind == "folder":
            raise PathOccupied(f"{quoted_path(path)} is a folder: name a file in it, or choose another path")
        if status is not None and status.kind == "other":
            raise PathRefused(
                f"{quoted_path(path)} is a link, has a second name, or is no regular file: delete it first, or choose another path"
            )
        digest, is_new = self._digest_of(content)
        n_before = status.n_bytes if status else 0
        n_entries = n_missing + (status is None)
        with self._changing(len(content) * (1 + is_new) - n_before + ENTRY_BYTES * n_entries):
            self._put_content(digest, content, is_new)
            self._folder.put(names, content)
        return Stored(path, digest, len(content))

    def _digest_of(self, content: bytes) -> tuple[str, bool]:
        """Return the digest of a content, and whether that very content, whole, is yet to be stored."""
        digest = hashlib.sha256(content).hexdigest()
        at = _content_names(_OBJECTS, digest)
        status = None if self.is_erased(digest) else self._folder.status_of(at)
        is_alike = status is not None and status.kind == "file" and status.n_bytes == len(content)
        return digest, not (is_alike and self._folder.read(at, self.quota_bytes) == content)

    def _put_content(self, digest: str, content: bytes, is_new: bool) -> None:
        at = _content_names(_OBJECTS, digest)
        if not is_new:
            self._folder.sync(at[:-1])  # the writer that put it may have died before it knew that it is safe
            return
        if self.is_erased(digest):  # first: a crash here must not leave content that counts as erased
            self._folder.discard(_content_names(_ERASED, digest))
        self._folder.put(at, content)

    def _contents(self, under: Names) -> Mapping[str, int]:
        """Digest → size of all contents, or of the marks of the erased ones."""
        rows = self._walk(under) if self._folder.status_of(under) else ()
        sizes = {"".join(names[-2:]): one.n_bytes for names, one in rows if one.kind == "file"}
        return {digest: n_bytes for digest, n_bytes in sizes.items() if _DIGEST.fullmatch(digest)}

    def _digests(self, n_bytes: int | None = None) -> Iterator[tuple[str, str]]:
        """Path and digest of every file at a path; with `n_bytes`, of those of that size."""
        for names, one in self._walk(()):
            if one.kind == "file" and n_bytes in (None, one.n_bytes):
                yield "/".join(names), hashlib.sha256(self._folder.read(names, sys.maxsize)).hexdigest()

    @contextmanager
    def _changing(self, n_bytes: int) -> Iterator[None]:
        """Check a change against the quota, and count it when it is done.

        A change that fails leaves the slate open: the next writer counts anew. One that makes the store smaller is
        never refused.
        """
        before = self._n_bytes()
        if n_bytes > 0 and before + n_bytes > self.quota_bytes:
            raise QuotaExceeded(
                f"the store holds {before:,} bytes (old versions included) and may hold {self.quota_bytes:,}; this needs "
                f"{n_bytes:,} more: sweep old versions, or raise quota_bytes"
            )
        self._folder.write_slate(_OPEN)
        yield
        self._folder.write_slate(b"closed %d bytes" % (before + n_bytes))

    def _n_bytes(self) -> int:
        """Return what the store holds, as the slate says; counted anew by a process that is new or finds it open."""
        counted = _COUNTED.fullmatch(self._folder.read_slate()) if self._has_counted else None
        if counted is not None:
            return int(counted[1])
        self._folder.clear()
        for digest in self._contents(_ERASED):  # an erasure may have been cut short
            if self._folder.status_of(_content_names(_OBJECTS, digest)):
                self._folder.discard(_content_names(_OBJECTS, digest))
        n_bytes = sum(one.n_bytes + ENTRY_BYTES for _, one in self._walk(()))
        n_bytes += sum(self._contents(_OBJECTS).values())
        self._folder.write_slate(b"closed %d bytes" % n_bytes)
        self._has_counted = True
        return n_bytes

    def _look(self, names: Names) -> tuple[FileStatus | None, int]:
        """Walk to `names`: what stands there, and how many folders on the way are yet to be made.

        Raises `PathOccupied` where a file stands on the way, or a name that differs from one of these by spelling only.
        """
        status: FileStatus | None = ROOT_STATUS
        for depth, name in enumerate(names):
            status = self._folder.status_of(names[: depth + 1])
            if status is None or self._folder.folds:
                self._check_name_conflict(names[:depth], name)
            if status is None:
                return None, len(names) - depth - 1
            if status.kind == "file" and depth + 1 < len(names):
                raise PathOccupied(
                    f"{quoted_path(names[: depth + 1])} is a file, so nothing can stand below it: choose another path"
                )
        return status, 0

    def _check_name_conflict(self, names: Names, name: str) -> None:
        key = key_of(name)
        other = next((one for one in self._folder.names(names) if key_of(one) == key and one != name), None)
        if other is not None:
            raise PathOccupied(
                f"{quoted_path((*names, other))} stands there, and {quoted_path(name)} differs from it by case or Unicode "
                "form only: use that name or another"
            )

    def _exact_status(self, names: Names) -> FileStatus | None:
        """Return what stands at `names`, spelled just so, also where the system would take another spelling."""
        status = self._folder.status_of(names)
        if not status or not self._folder.folds:
            return status
        is_exact = all(name in self._folder.names(names[:depth]) for depth, name in enumerate(names))
        return status if is_exact else None

    def _walk(self, names: Names) -> Iterator[tuple[Names, FileStatus]]:
        """All files and folders below, a folder before what is in it, names in order; nothing that no path can name."""
        for one in sorted(self._folder.scan(names), key=lambda one: one.name):
            if one.kind == "other" or why_not(one.name):
                continue
            yield (*names, one.name), one
            if one.kind == "folder":
                yield from self._walk((*names, one.name))


def _folder_at(root: str | os.PathLike[str]) -> LocalFolder | RemoteFolder:
    place = os.fspath(root) if isinstance(root, str | os.PathLike) else None
    if not isinstance(place, str) or not place or "\0" in place:
        raise UsageError(f"a file store's root is a folder or a URL, not {root!r}")
    local = next(
        (unquote(place.removeprefix(start)) for start in ("file://", "local://") if place.startswith(start)), None
    )
    if local is None and "://" in place:
        return RemoteFolder(place)
    return LocalFolder(Path(os.path.realpath(place if local is None else local)))


def _missing(path: str) -> FileMissing:
    return FileMissing(f"nothing is stored at {quoted_path(path)}: list the store to see what there is")


def _file_names(path: str) -> Names:
    """The names of what is not the root."""
    names = names_of(path)
    if not names:
        raise PathRefused("path '' is the root of the store: name a file or folder in it")
    return names


def _content(data: str | bytes) -> bytes:
    if isinstance(data, str):
        try:
            return data.encode("utf-8")
        except UnicodeEncodeError as error:
            raise NotText(
                f"the text has a lone surrogate at character {error.start}, which has no bytes: replace it"
            ) from None
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(f"a file's content is text or bytes, not {type(data).__name__}")
    return bytes(data)


def _content_names(under: Names, digest: str) -> Names:
    """Where a content, or the mark that it was erased, has its place. Raises `FileMissing` for what is no digest."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise FileMissing(
            f"{quoted_path(str(digest))} is no digest: it is the 64 hexadecimal digits that write and keep gave"
        )
    return (*under, digest[:2], digest[2:])
