"""What a store needs of the place its files are kept.

Takes and gives bytes under names that were checked already; knows nothing of versions or quotas. One implementation for
local folders (`local`), one for everything `fsspec` reaches (`remote`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from contextkit.errors import PathOccupied
from contextkit.memory.files.names import Names, key_of, quoted_path, why_not

Kind = Literal["file", "folder", "other"]
"""`other`: a link, a file with a second name, a device: never followed, opened or listed."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What stands under one name."""

    name: str
    """The last name of its path."""
    kind: Kind
    """What it is."""
    n_bytes: int
    """Size of a file, 0 for all else."""


class Slate(Protocol):
    """A few bytes that all writers share, whoever is alone with the store."""

    def read(self) -> bytes:
        """What was written last; empty at first."""

    def write(self, text: bytes) -> None:
        """Replace it. Need not survive a power cut."""


class Folder(Protocol):
    """A place for files. Everything it raises is a `ContextKitError`."""

    folds: bool
    """Whether it takes two spellings of a name for one (macOS, Windows)."""

    def read(self, names: Names, limit: int) -> bytes:
        """The file.

        Raises `FileMissing`, `PathOccupied` for a folder, `PathRefused` for what is `other`, `QuotaExceeded` over `limit`.
        """

    def put(self, names: Names, data: bytes) -> None:
        """Put a file, in place of another, folders made as needed: wholly or not at all, and safe when it returns."""

    def sync(self, names: Names) -> None:
        """Make sure that what was put in this folder before is safe."""

    def status_of(self, names: Names) -> FileStatus | None:
        """What stands there; None for nothing. Raises `PathRefused` where a folder on the way is a link."""

    def scan(self, names: Names) -> list[FileStatus]:
        """What stands in a folder, in no order.

        The store's own folder is left out. Raises `FileMissing`, `PathOccupied` for a file.
        """

    def names(self, names: Names) -> list[str]:
        """The names alone, as `scan` gives them, which costs far less in a large folder."""

    def move(self, old: Names, new: Names) -> None:
        """Move a file or folder to where nothing stands, folders made as needed; safe when it returns."""

    def discard(self, names: Names) -> None:
        """Take a file away, or a folder with all in it; safe when it returns."""

    def clear(self) -> None:
        """Take away what writers that died left unfinished; only while alone."""

    def alone(self) -> AbstractContextManager[Slate]:
        """Every other writer waits, as far as the place can make them."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What stands at a path, and what a file put there would need."""

    found: FileStatus | None
    """None for nothing."""
    n_missing: int
    """Folders on the way that are yet to be made."""


def look(folder: Folder, names: Names) -> Sight:
    """Walk to `names`.

    Raises `PathOccupied` where a file stands on the way, or a name that differs from one of these by spelling only.
    """
    found: FileStatus | None = FileStatus("", "folder", 0)
    for depth, name in enumerate(names):
        found = folder.status_of(names[: depth + 1])
        if found is None or folder.folds:
            _check_case(folder, names[:depth], name)
        if found is None:
            return Sight(None, len(names) - depth - 1)
        if found.kind == "file" and depth + 1 < len(names):
            raise PathOccupied(
                f"{quoted_path('/'.join(names[: depth + 1]))} is a file, so nothing can stand below it: choose another path"
            )
    return Sight(found, 0)


def alike(folder: Folder, names: Names, name: str) -> str | None:
    """A name in the folder that is spelled otherwise but is the same to some system."""
    key = key_of(name)
    return next((one for one in folder.names(names) if key_of(one) == key and one != name), None)


def spelled(folder: Folder, names: Names) -> FileStatus | None:
    """What stands at `names`, spelled just so, also where the system would take another spelling; None for nothing."""
    found = folder.status_of(names)
    if not found or not folder.folds:
        return found
    is_exact = all(name in folder.names(names[:depth]) for depth, name in enumerate(names))
    return found if is_exact else None


def walk(folder: Folder, names: Names) -> Iterator[tuple[Names, FileStatus]]:
    """All files and folders below, a folder before what is in it, names in order; nothing that no path can name."""
    for one in sorted(folder.scan(names), key=lambda one: one.name):
        if one.kind == "other" or why_not(one.name):
            continue
        yield (*names, one.name), one
        if one.kind == "folder":
            yield from walk(folder, (*names, one.name))


def _check_case(folder: Folder, names: Names, name: str) -> None:
    other = alike(folder, names, name)
    if other is not None:
        path = quoted_path("/".join((*names, other)))
        raise PathOccupied(
            f"{path} stands there, and {quoted_path(name)} differs from it by case or Unicode form only: use that name or another"
        )
