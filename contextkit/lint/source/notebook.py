"""Takes the Python out of a Jupyter notebook.

Takes the bytes of an `.ipynb` file, gives its code cells; knows what of a cell is for IPython and not Python.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

SUFFIX = ".ipynb"
"""Of a notebook's name."""
_PYTHON = ("python", "ipython", "python2", "python3")
_KEPT = frozenset({b"time", b"timeit", b"capture", b"prun"})
"""`%%` magics whose cell is Python."""
_MAGIC = re.compile(
    rb"""(?P<indent>[ \t]*)(?:
        %(?P<run>time|timeit|prun)(?=[ \t]+[^-\s])      # a statement comes behind it
        |[%!?][^\n]*|[\w.*%]+\?{1,2}[ \t]*$             # a line of IPython
        |(?P<name>[\w., \t]+=[ \t]*)[!%][^\n=][^\n]*)   # its result""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell."""

    number: int
    """Among all cells, from 1."""
    text: bytes
    """In UTF-8, ends with a line end."""


def code_cells(source: bytes) -> list[Cell]:
    """Its code cells, none where it is in another language than Python; raises `ValueError` for what is no notebook."""
    try:
        reported: Any = json.loads(source)
    except (RecursionError, ValueError) as fault:
        raise ValueError(f"not JSON: {fault}") from None
    if not isinstance(reported, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - what a file holds is a value
    cells = reported.get("cells")
    if cells is None and isinstance(sheets := reported.get("worksheets"), list):  # version 3
        cells = [cell for sheet in sheets if isinstance(sheet, dict) for cell in _listed(sheet.get("cells"))]
    if not isinstance(cells, list):
        raise ValueError("it has no list of cells")  # noqa: TRY004
    if _language(reported.get("metadata")) not in _PYTHON:
        return []
    return [
        Cell(number, _text(cell)) for number, cell in enumerate(cells, 1) if isinstance(cell, dict) and _is_code(cell)
    ]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _language(metadata: Any) -> str:
    """Python where nothing is said."""
    if not isinstance(metadata, dict):
        return "python"
    for part, key in (("language_info", "name"), ("kernelspec", "language")):
        table = metadata.get(part)
        if isinstance(table, dict) and isinstance(table.get(key), str):
            return str(table[key]).lower()
    return "python"


def _is_code(cell: dict[str, Any]) -> bool:
    return cell.get("cell_type") == "code" and cell.get("language", "python") in _PYTHON


def _text(cell: dict[str, Any]) -> bytes:
    reported = cell.get("source", cell.get("input", ""))
    lines = reported if isinstance(reported, list) else [reported]
    text = "".join(line for line in lines if isinstance(line, str)).replace("\r\n", "\n").replace("\r", "\n")
    data = text.replace("\0", " ").encode("utf-8", "replace")
    return data if data.endswith(b"\n") else data + b"\n"


def without_magics(text: bytes) -> bytes:
    """A cell with as many lines, in which what is for IPython is no more."""
    head = re.match(rb"\s*%%(\w+)", text)
    if head is not None and head[1] not in _KEPT:
        return b"\n" * text.count(b"\n")
    lines, is_continued, quote = list[bytes](), False, b""
    for line in text.split(b"\n"):
        results = None if quote else _MAGIC.match(line)
        if is_continued:
            lines.append(b"")
            is_continued = line.endswith(b"\\")
        elif results is None:
            lines.append(line)
            quote = _open_quote(line, quote)
        elif results["run"]:
            lines.append(results["indent"] + b"pass;" + line[results.end() :].rjust(len(line) - results.start() - 5))
        else:
            lines.append(results["indent"] + (results["name"] + b"None" if results["name"] else b"pass"))
            is_continued = line.endswith(b"\\")
    return b"\n".join(lines)


_QUOTES = re.compile(rb"\\.|\"\"\"|'''|[\"'#]")


def _open_quote(line: bytes, quote: bytes) -> bytes:
    """The triple quote that is open behind a line, in front of which `quote` was."""
    for results in _QUOTES.finditer(line):
        token = results[0]
        if quote:
            quote = b"" if token == quote else quote
        elif token == b"#":
            break
        elif token in (b'"', b"'", b'"""', b"'''"):
            quote = token
    return quote if len(quote) == 3 else b""
