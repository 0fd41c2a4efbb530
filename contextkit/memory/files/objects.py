"""Contents by their digest: what a reference names, and what a path held before it was overwritten.

Takes bytes, gives their SHA-256; stores each content once. Knows nothing of paths.
"""

from __future__ import annotations

import hashlib
import re

from contextkit.errors import FileCorrupt, FileErased, FileMissing
from contextkit.memory.files.folder import Folder, walk
from contextkit.memory.files.names import HIDDEN, Names, quoted_path

OBJECTS: Names = (HIDDEN, "objects")
_ERASED: Names = (HIDDEN, "erased")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def digest_of(data: bytes) -> str:
    """SHA-256, as `sha256sum` prints it."""
    return hashlib.sha256(data).hexdigest()


class Objects:
    """The contents of one store."""

    def __init__(self, folder: Folder, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    def has(self, digest: str, data: bytes) -> bool:
        """Whether this very content is here, whole, and not erased."""
        if self.is_erased(digest):
            return False
        found = self._folder.status_of(_at(OBJECTS, digest))
        is_alike = found is not None and found.kind == "file" and found.n_bytes == len(data)
        return is_alike and self._folder.read(_at(OBJECTS, digest), self._limit) == data

    def put(self, digest: str, data: bytes) -> None:
        """Keep a content; one that was erased is kept again, as if for the first time."""
        if self.is_erased(digest):
            self._folder.discard(
                _at(_ERASED, digest)
            )  # first: a crash here must not leave content that counts as erased
        self._folder.put(_at(OBJECTS, digest), data)

    def settle(self, digest: str) -> None:
        """Make sure that a content found here is safe: the writer that put it may have died before it knew."""
        self._folder.sync(_at(OBJECTS, digest)[:-1])

    def get(self, digest: str) -> bytes:
        """The content. Raises `FileErased`, `FileMissing`, `FileCorrupt`."""
        at = _at(OBJECTS, digest)
        if self.is_erased(digest):
            raise FileErased(f"content {_short(digest)} was erased for good: ask for it again where it came from")
        try:
            data = self._folder.read(at, self._limit)
        except FileMissing:
            raise FileMissing(f"no content {_short(digest)} is kept here: open the store it was written to") from None
        if digest_of(data) != digest:
            raise FileCorrupt(
                f"content {_short(digest)} is not what its digest says: restore {'/'.join(at)} from a copy, or keep it again"
            )
        return data

    def is_erased(self, digest: str) -> bool:
        """Whether the content was taken away for good."""
        return self._folder.status_of(_at(_ERASED, digest)) is not None

    def size(self, digest: str) -> int | None:
        """Bytes kept under the digest, whole or not; None for nothing."""
        found = self._folder.status_of(_at(OBJECTS, digest))
        return found.n_bytes if found else None

    def erase(self, digest: str) -> None:
        """Take a content away for good.

        That it was is said first, so that a crash leaves no reference that merely finds nothing.
        """
        self._folder.put(_at(_ERASED, digest), b"")
        self.drop(digest)

    def drop(self, digest: str) -> None:
        """Take a content away."""
        if self._folder.status_of(_at(OBJECTS, digest)):
            self._folder.discard(_at(OBJECTS, digest))

    def all(self) -> list[tuple[str, int]]:
        """Digest and size of everything kept."""
        if not self._folder.status_of(OBJECTS):
            return []
        rows = walk(self._folder, OBJECTS)
        return [
            ("".join(names[-2:]), one.n_bytes)
            for names, one in rows
            if one.kind == "file" and len(names) == len(OBJECTS) + 2
        ]

    def finish(self) -> None:
        """Complete erasures that a crash cut short."""
        if not self._folder.status_of(_ERASED):
            return
        for names, one in list(walk(self._folder, _ERASED)):
            if one.kind == "file" and _DIGEST.fullmatch("".join(names[-2:])):
                self.drop("".join(names[-2:]))


def check_digest(digest: str) -> None:
    """Raises `FileMissing` for what no content's digest can be."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise FileMissing(
            f"{quoted_path(str(digest))} is no digest: it is the 64 hexadecimal digits that write and keep gave"
        )


def _at(under: Names, digest: str) -> Names:
    check_digest(digest)
    return (*under, digest[:2], digest[2:])


def _short(digest: str) -> str:
    return f"{digest[:12]}…"
