"""A report as Markdown, for a pull request or a ticket: the line that matters, the sums, the misses with their fixes.

Takes `Contents`, gives text. What came from a recording is escaped: a name is never a link, an image or a tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from contextkit.report import tables
from contextkit.report.contents import Contents, notes, unknowns
from contextkit.report.overview import avoidable
from contextkit.report.tables import Table, Words, text_of
from contextkit.terminal import sanitize

ROWS, MISSES = 30, 30
"""Listed in full; the dearest ones where there are more."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&@:])")


def markdown(contents: Contents) -> str:
    """Return the whole text."""
    return "\n".join(_lines(contents)) + "\n"


def escaped(text: str) -> str:
    r"""`text` as Markdown shows it letter by letter, and a terminal too: what it would obey is an escape.

    >>> print(escaped("a|b [c](d)"))
    a\|b \[c\]\(d\)
    """
    return _SPECIAL.sub(r"\\\1", sanitize(" ".join(text.split())))


def _lines(contents: Contents) -> Iterator[str]:
    summary = contents.summary
    yield f"### Prompt cache: {escaped(contents.title)}"
    yield ""
    yield f"**{escaped(str(summary))}**" + (" (partial: reading was cut short)" if contents.is_partial else "")
    if not summary.calls:
        return
    yield from ["", f"Counted: {escaped(contents.counted)}"] if contents.counted else []
    yield from (part for line in notes(contents) for part in ("", escaped(line)))
    saved = avoidable(contents)
    yield from ["", escaped(f"Avoidable: {saved[0]} ({saved[1]})")] if saved else []
    yield from table_lines(tables.actions(contents))
    yield from table_lines(tables.by_project(contents, ROWS))
    yield from table_lines(tables.causes(contents))
    lines = unknowns(contents)
    yield from ["", "Cannot be determined:", ""] if lines else []
    yield from (f"* {escaped(line)}" for line in lines)
    yield from table_lines(tables.sums("model", summary.models, ROWS, total=summary.total))
    if contents.by not in ("", "model"):
        yield from table_lines(tables.by_group(contents, ROWS, total=summary.total))
    yield from table_lines(tables.misses(contents, MISSES))
    if contents.n_faults:
        yield from ["", f"{contents.n_faults:,} faults in the recordings, such as:", ""]
        yield from (
            f"* {escaped(file)}{f' line {line}' if line else ''}: {escaped(what)}"
            for file, line, what in contents.faults
        )


def table_lines(table: Table[Any] | None) -> Iterator[str]:
    """Yield the lines of a table, an empty one before it; none for a table without rows."""
    if table is None or not table.rows:
        return
    visible = table.in_format("markdown")
    yield from ["", _row([column.heading for column in visible.columns])]
    yield f"|{'|'.join('--:' if column.is_number else '---' for column in visible.columns)}|"
    for cells in visible.cells():
        yield _row([cell.text if isinstance(cell, Words) else escaped(text_of(cell)) for cell in cells])
    yield from ["", table.more] if table.more else []


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
