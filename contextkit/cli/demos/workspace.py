"""The folder the demonstration works in, and the tools an agent gets for it.

Takes a root folder, gives typed tools confined to it. Hidden files, links, files that are not text or may not be read,
and names that cannot be written down (a line break, bytes that are no UTF-8) are left alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from contextkit.errors import InvalidCall
from contextkit.tools.tool import Tool, tool

MAX_BYTES = 24_000
"""Longest piece of a file that is read at once."""
MAX_FILES = 400
"""Files the demonstration looks at; a home folder must not keep it busy."""
_SKIPPED = frozenset({"__pycache__", "node_modules", "venv", "build", "dist", "target"})


class Workspace:
    """Text files below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.files = sorted(islice(self._text_files(), MAX_FILES))
        """Paths relative to the root, sorted."""
        self._known = frozenset(self.files)

    def tools(self) -> list[Tool]:
        """List, read and search."""

        @tool
        def list_files(folder: str = ".") -> str:
            """List the text files below a folder of the project, one path a line, with sizes in bytes."""
            base = self._inside(folder)
            found = [path for path in self.files if (self.root / path).is_relative_to(base)]
            return "\n".join(f"{path}  {(self.root / path).stat().st_size}" for path in found) or "(no text files)"

        @tool
        def read_file(path: str, start: int = 0) -> str:
            """Read a file of the project from byte `start`, at most 24,000 bytes at a time."""
            return self.read(path, start)

        @tool
        def search_files(text: str, limit: int = 40) -> str:
            """Find lines that contain `text` in all files of the project: path, line number, line."""
            return "\n".join(islice(self._matches(text), limit)) or "(no match)"

        return [list_files, read_file, search_files]

    def read(self, path: str, start: int = 0, n_bytes: int = MAX_BYTES) -> str:
        """Text of a file below the root."""
        found = self._inside(path)
        if found.relative_to(self.root).as_posix() not in self._known:
            raise InvalidCall(f"{path!r} is no text file of the project: list_files shows what there is")
        with found.open("rb") as file:
            file.seek(start)
            return file.read(n_bytes).decode("utf-8", "replace") or "(empty)"

    def _inside(self, path: str) -> Path:
        found = (self.root / path).resolve()
        if not found.is_relative_to(self.root):
            raise InvalidCall(f"{path!r} is outside the project folder")
        return found

    def _text_files(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
            for name in sorted(names):
                path = Path(folder, name)
                known_as = path.relative_to(self.root).as_posix()
                if (
                    not name.startswith(".")
                    and known_as.isprintable()
                    and path.is_file()
                    and not path.is_symlink()
                    and _is_text(path)
                ):
                    yield known_as

    def _matches(self, text: str) -> Iterator[str]:
        for path in self.files:
            for number, line in enumerate(self.read(path, n_bytes=1_000_000).splitlines(), 1):
                if text in line:
                    yield f"{path}:{number}: {line.strip()[:160]}"


def _is_text(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(2048)
    except OSError:  # a file the user may not read is not part of the demonstration
        return False
    return bool(head) and b"\0" not in head
