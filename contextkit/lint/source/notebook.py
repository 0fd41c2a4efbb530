"""Takes the Python out of a Jupyter notebook.

Takes the bytes of an `.ipynb` file, gives its code cells; knows what of a cell is for IPython and not Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

SUFFIX = ".ipynb"
"""Of a notebook's name."""
_MAGIC = re.compile(
    rb"^([ \t]*)(?:[%!?][^\n]*|[\w.]+\?{1,2}[ \t]*)$|^([ \t]*[\w, ]+=[ \t]*)[!%][^\n=][^\n]*$", re.MULTILINE
)
"""A line of IPython, or a result of one that is assigned."""


def code_cells(source: bytes) -> Iterator[tuple[int, bytes]]:
    """Number among all cells, from 1, and text of each code cell, in which what is for IPython is no more.

    None where the notebook is in another language than Python; raises `ValueError` for what is no notebook.
    """
    try:
        held: Any = json.loads(source)
        cells = held["cells"]
        metadata = held.get("metadata") or {}
        kernel, info = metadata.get("kernelspec") or {}, metadata.get("language_info") or {}
        language = str(kernel.get("language") or info.get("name") or "python").lower()
        if not isinstance(cells, list):
            raise TypeError("its cells are no list")
    except (RecursionError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"not a notebook: {fault!r}") from None
    for number, cell in enumerate(cells if language == "python" else (), 1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            lines = cell.get("source", "")
            text = "".join(map(str, lines)) if isinstance(lines, list) else str(lines)
            yield (
                number,
                _without_magics(text.replace("\r\n", "\n").replace("\0", " ").encode("utf-8", "replace") + b"\n"),
            )


def _without_magics(text: bytes) -> bytes:
    """Return a cell with as many lines, of which those for IPython do nothing."""
    if text.lstrip().startswith(b"%%") and not re.match(rb"\s*%%(?:time|timeit|capture|prun)\b", text):
        return b"\n" * text.count(b"\n")
    return _MAGIC.sub(lambda line: line[2] + b"None" if line[2] else line[1] + b"pass", text)
