"""Turns the bytes of a file into a syntax tree, by the parser of the Python that runs contextkit.

Takes bytes, gives a tree, or a note on why there is none; never raises for what a file holds. A file that needs a newer
Python than the running one is a note as well: the note says so, and the command exits with 1.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from contextkit.lint.source import notebook

MAX_BYTES = 8_000_000
"""A longer file is data, and is not parsed."""
_BOM = b"\xef\xbb\xbf"
_ENCODING = re.compile(rb"(?:[^\n]*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file says."""

    tree: ast.Module
    """Empty where nothing can be read."""
    text: bytes
    """UTF-8 text that the offsets of the tree count in; of a notebook its code cells, one behind the other."""
    fault: str = ""
    """Why it cannot be read, empty where it can."""
    fault_line: int = 1
    is_exact: bool = True
    """Whether the offsets are those of the file's bytes, so that changes may be made at them."""
    cells: tuple[tuple[int, int], ...] = ()
    """Of a notebook: number of each code cell, and the line of `text` it begins at, from 1."""

    def cell_of(self, line: int) -> tuple[int, int] | None:
        """Number of the cell and line in it, both from 1, of a line of `text`; None where there are no cells.

        All cells are counted, those of text too.
        """
        at = bisect_right(self.cells, line, key=lambda cell: cell[1]) - 1
        return (self.cells[at][0], line - self.cells[at][1] + 1) if at >= 0 else None


def unread(fault: str, line: int = 1) -> Parsed:
    """Make what stands for a file that cannot be read."""
    return Parsed(ast.Module([], []), b"", fault, line, is_exact=False)


def parse(source: bytes, path: str) -> Parsed:
    """Read a file; `path` says whether it is a notebook, and stands in no note."""
    if len(source) > MAX_BYTES:
        return unread(f"{len(source):,} bytes: longer than the {MAX_BYTES:,} a source file is read up to")
    if path.endswith(notebook.SUFFIX):
        return _of_notebook(source)
    try:
        text = _as_utf8(source)
        tree = _tree(source)
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) and error.lineno else 1
        return unread(_reason(error), line)
    if text.startswith(_BOM):
        _shift_first_line(tree)
    return Parsed(tree, text, is_exact=text == source)


def _tree(source: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes that another's file has
        return ast.parse(source)


def _reason(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"not the syntax of Python {sys.version_info.major}.{sys.version_info.minor}: {error.msg}"
    if isinstance(error, RecursionError | MemoryError):
        return "nested too deeply to be parsed"
    return f"not Python: {error}"


def _as_utf8(source: bytes) -> bytes:
    """Give the text the offsets of the syntax tree count in: the file itself, or its text in UTF-8 where a cookie names
    another encoding.
    """
    named = _ENCODING.match(source)
    if named is None or named[1].lower() in {b"utf-8", b"utf8"}:
        return source
    return source.decode(named[1].decode("ascii")).encode()


def _shift_first_line(tree: ast.Module) -> None:
    """Count the byte order mark, which the interpreter does not; the offsets of the text do."""
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.alias | ast.arg | ast.keyword) and node.lineno == 1:
            node.col_offset += len(_BOM)
            if node.end_lineno == 1 and node.end_col_offset is not None:
                node.end_col_offset += len(_BOM)


def _of_notebook(source: bytes) -> Parsed:
    """Read the code cells of a notebook as one module."""
    try:
        cells = notebook.code_cells(source)
        tree = _tree(b"".join(notebook.without_magics(cell.text) for cell in cells))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        is_code = isinstance(error, SyntaxError) or type(error) is not ValueError
        return unread(_reason(error) if is_code else f"not a notebook: {error}")
    lines = accumulate([1, *(cell.text.count(b"\n") for cell in cells)])
    starts = tuple(zip([cell.number for cell in cells], lines, strict=False))
    return Parsed(tree, b"".join(cell.text for cell in cells), is_exact=False, cells=starts)
