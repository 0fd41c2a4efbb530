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

from contextkit.lint.source import notebook

MAX_BYTES = 8_000_000
"""A longer file is data, and is not parsed."""
_BOM = b"\xef\xbb\xbf"
_ENCODING = re.compile(rb"\A((?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*)([-\w.]+)")


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
    cells: list[tuple[int, int]] = []
    text = source
    try:
        if path.endswith(notebook.SUFFIX):
            text = b""
            for number, cell in notebook.code_cells(source):
                cells.append((number, text.count(b"\n") + 1))
                text += cell
        else:
            text = _as_utf8(source.removeprefix(_BOM))
        return Parsed(_tree(text), text, is_exact=text == source, cells=tuple(cells))
    except SyntaxError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return unread(f"not the syntax of Python {version}: {error.msg}", error.lineno or 1)
    except (RecursionError, MemoryError):
        return unread("nested too deeply to be parsed")
    except (ValueError, LookupError) as error:
        return unread(str(error))


def _tree(text: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes that another's file has
        return ast.parse(_ENCODING.sub(rb"\1utf-8", text))


def _as_utf8(source: bytes) -> bytes:
    """Give the text of a file in UTF-8, where a cookie names another encoding."""
    named = _ENCODING.match(source)
    return source if named is None else source.decode(named[2].decode("ascii")).encode()
