"""The place a root names: a local folder, or whatever an `fsspec` URL leads to.

Takes what the caller wrote, gives a `Folder`. Knows nothing of what is kept there.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from contextkit.errors import UsageError
from contextkit.memory.files.folder import Folder
from contextkit.memory.files.local import LocalFolder
from contextkit.memory.files.remote import RemoteFolder

_LOCAL = ("file://", "local://")


def folder_at(root: str | os.PathLike[str]) -> Folder:
    """Open or make the place.

    Raises `UsageError` for what names none, `MissingExtra`, `StorageError` where nobody may write.
    """
    place = os.fspath(root) if isinstance(root, str | os.PathLike) else None
    if not isinstance(place, str) or not place or "\0" in place:
        raise UsageError(f"a file store's root is a folder or a URL, not {root!r}")
    local = next((unquote(place.removeprefix(start)) for start in _LOCAL if place.startswith(start)), None)
    if local is None and "://" in place:
        return RemoteFolder(place)
    return LocalFolder(Path(os.path.realpath(place if local is None else local)))
