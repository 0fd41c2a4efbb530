"""A report as CSV: a row a call as they come, in constant memory, or a row a group.

Takes judged calls or rows, writes lines (RFC 4180, each ended as the file ends lines). Unknown is an empty cell,
never 0.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import TextIO

from contextkit.ledger.misses import AnalyzedCall
from contextkit.ledger.summary import Row
from contextkit.report.tables import CALLS, Cell, all_sums, value_of
from contextkit.terminal import sanitized_cells


def safe(text: str) -> str:
    """`text` as a spreadsheet shows it: what it would take for a formula gets an apostrophe in front.

    >>> safe("main"), safe("=1+1"), safe("-x")
    ('main', "'=1+1", "'-x")
    """
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _row(cells: Iterable[Cell]) -> list[object]:
    values = map(value_of, cells)
    return sanitized_cells(safe(value) if isinstance(value, str) else value for value in values)


class Calls:
    """Writes a row a call, below a row of names."""

    def __init__(self, file: TextIO) -> None:
        self._out = csv.writer(file, lineterminator="\n")
        self._out.writerow([column.name for column in CALLS])

    def __call__(self, call: AnalyzedCall) -> None:
        """Write the row of the next call."""
        self._out.writerow(_row(column.cell(call) for column in CALLS))


def write_groups(file: TextIO, by: str, rows: Sequence[Row]) -> None:
    """Write a row a group, below a row of names; the first column is named for what they are groups by."""
    out, table = csv.writer(file, lineterminator="\n"), all_sums(by, rows).in_format("csv")
    out.writerow([column.name for column in table.columns])
    out.writerows(map(_row, table.cells()))
