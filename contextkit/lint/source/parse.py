"""Turns the bytes of a file into a syntax tree, whatever Python runs contextkit.

Takes bytes, gives a tree, and notes on what is not in it; never raises for what a file holds. What the running
interpreter parses is taken as it is. Otherwise newer syntax (up to Python 3.15) is rewritten to what it parses, with
every line and column kept (`newer.py`); what is no Python in any version is left out statement by statement
(`repair.py`), so that the rest of the file is read.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from contextkit.lint.source import notebook
from contextkit.lint.source.newer import as_tree, rewritten
from contextkit.lint.source.repair import REFUSALS, Note, reason, repaired

MAX_BYTES = 8_000_000
"""A longer file is data, and is not parsed."""
_BOM = b"\xef\xbb\xbf"
_PLACE = re.compile(rb"\{\{.*?\}\}|\{%.*?%\}")
"""Of a template of Jinja: what is filled in, and what says which lines there are."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file says."""

    tree: ast.Module
    """Empty where nothing can be read."""
    text: bytes
    """UTF-8 text that the offsets of the tree count in; of a notebook its code cells, one behind the other."""
    notes: tuple[Note, ...] = ()
    """What is not in the tree, by line."""
    is_template: bool = False
    """Whether it is Python only once a template engine has filled it in; then the tree is empty."""
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


def parse(source: bytes, path: str) -> Parsed:
    """Read a file; `path` says whether it is a notebook, and stands in no note.

    The interpreter's warnings on what it parses are the caller's to silence.
    """
    if len(source) > MAX_BYTES:
        return _unread(f"{len(source):,} bytes: longer than the {MAX_BYTES:,} a source file is read up to")
    if path.endswith(notebook.SUFFIX):
        return _of_notebook(source)
    if b"\0" in source:
        return _unread("not Python: it holds null bytes", source.count(b"\n", 0, source.index(b"\0")) + 1)
    try:
        tree = ast.parse(source, path)
    except REFUSALS as error:
        return _of_refused(source, error)
    text = as_utf8(source)
    if text.startswith(_BOM):
        _shift_first_line(tree)
    return Parsed(tree, text, is_exact=text == source)


def _unread(message: str, line: int = 1) -> Parsed:
    return Parsed(ast.Module([], []), b"", (Note(line, message),), is_exact=False)


def as_utf8(source: bytes) -> bytes:
    """The text the offsets of the syntax tree count in: the file itself, or its text in UTF-8 where a cookie names
    another encoding.

    Raises `LookupError` for an encoding there is not.
    """
    results = re.match(rb"(?:[^\n]*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", source)
    if results is None or results[1].lower() in {b"utf-8", b"utf8"}:
        return source
    return source.decode(results[1].decode("ascii"), "replace").encode()


def _shift_first_line(tree: ast.Module) -> None:
    """The interpreter counts no byte order mark; the offsets of the text do."""
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.alias | ast.arg | ast.keyword) and node.lineno == 1:
            node.col_offset += len(_BOM)
            if node.end_lineno == 1 and node.end_col_offset is not None:
                node.end_col_offset += len(_BOM)


def _of_refused(source: bytes, error: BaseException) -> Parsed:
    """What the running interpreter does not parse as it is."""
    try:
        text = as_utf8(source)
        text.decode()
    except (LookupError, UnicodeDecodeError) as fault:
        line = source.count(b"\n", 0, fault.start) + 1 if isinstance(fault, UnicodeDecodeError) else 1
        return _unread(f"cannot be decoded: {reason(error)}", line)
    plain = text.removeprefix(_BOM)
    code = rewritten(plain)
    notes: tuple[Note, ...] = ()
    try:
        tree = as_tree(code)
    except REFUSALS:
        if _is_template(plain):
            return Parsed(ast.Module([], []), text, is_template=True, is_exact=text == source)
        tree, notes = repaired(code)
    if plain != text:
        _shift_first_line(tree)
    return Parsed(tree, text, notes, is_exact=text == source)


def _is_template(text: bytes) -> bool:
    """Whether it is Python once its places are filled in: `from {{folder}}.crew import {{name}}Crew` is there to be
    written anew.
    """
    filled = _PLACE.sub(lambda results: b"x" if results[0].startswith(b"{{") else b"", text)
    try:
        return filled != text and bool(as_tree(rewritten(filled)))
    except REFUSALS:
        return False


def _of_notebook(source: bytes) -> Parsed:
    """The code cells of a notebook as one module."""
    try:
        cells = notebook.code_cells(source)
    except ValueError as fault:
        return _unread(f"not a notebook: {fault}")
    codes = [notebook.without_magics(cell.text) for cell in cells]
    notes: tuple[Note, ...] = ()
    try:
        tree = ast.parse(b"".join(codes))
    except REFUSALS:
        code = rewritten(b"".join(codes), frozenset(accumulate(map(len, codes))))
        try:
            tree = as_tree(code)
        except REFUSALS:
            tree, notes = repaired(code)
    lines = accumulate([1, *(cell.text.count(b"\n") for cell in cells)])
    starts = tuple(zip([cell.number for cell in cells], lines, strict=False))
    return Parsed(tree, b"".join(cell.text for cell in cells), notes, is_exact=False, cells=starts)
