"""The line of the project's source that builds a text: the string literal that stands just before a change."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_LEAST = 5
"""A shorter end of a literal stands everywhere."""
_MOST = 32
_SKIPPED = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__", "build", "dist"})
_MOST_FILES = 5_000
_MOST_BYTES = 1 << 20


class SourceLine(NamedTuple):
    """A line of a project."""

    path: Path
    """Its file."""
    line: int
    """Its number, from 1."""
    text: str
    """The line."""


def line_that_builds(before: str, root: Path, sender: str) -> SourceLine | None:
    """Find the literal that ends nearest to the end of `before`, the text in front of a change; None where none does.

    Among equals the longest counts, then one in `sender`, the file that sent the request, then one of an f-string.
    """
    best: tuple[int, int, bool, bool] = (0, 0, False, False)
    found: SourceLine | None = None
    for path in _files(root):
        try:
            source = path.read_text("utf-8")
            if not any(part in source for part in _ends(before)):
                continue
            literals = list(_literals(ast.parse(source)))
        except (OSError, ValueError, SyntaxError, RecursionError):
            continue
        lines = source.splitlines()
        for literal, line, is_formatted in literals:
            end = literal.strip()[-_MOST:]
            at = before.rfind(end) if len(end) >= _LEAST else -1
            rank = (at + len(end), len(end), str(path) == sender, is_formatted)
            if at >= 0 and rank > best and line <= len(lines):
                best, found = rank, SourceLine(path, line, lines[line - 1].strip())
    return found


def _ends(before: str) -> list[str]:
    """Return parts of the text, one of which stands in each file that could have built it."""
    return [before[start : start + _LEAST] for start in range(max(len(before) - _LEAST + 1, 1))]


def _literals(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Yield each string of a module: its text, the line of its end, and whether a value follows it in an f-string."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for part in node.values:
                if isinstance(part, ast.Constant):
                    inside.add(id(part))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node.end_lineno or node.lineno, id(node) in inside


def _files(root: Path) -> Iterator[Path]:
    n_files = 0
    for folder, names, files in os.walk(root):
        names[:] = sorted(
            name
            for name in names
            if name not in _SKIPPED and not name.startswith(".") and not (Path(folder, name) / "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            path = Path(folder, name)
            if name.endswith(".py") and path.stat().st_size <= _MOST_BYTES:
                n_files += 1
                if n_files > _MOST_FILES:
                    return
                yield path
