"""Ledgers added up by DuckDB for `contextkit report --engine duckdb`: what a report shows, as far as sums and misses
go.

Takes names as people give them, gives `Contents`; what is no ledger of ours is refused with the way to make one of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from contextkit.errors import UsageError
from contextkit.importers.found import files_at, is_ledger
from contextkit.ledger.duckdb_ledger import summarise_files
from contextkit.report.contents import BILLED, Contents, Fault


def added(paths: Sequence[str], by: str) -> Contents:
    """The report over all ledgers that `paths` name.

    Raises `UsageError` for a recording in another format, `MissingExtra` without DuckDB.
    """
    files = files_at(paths)
    other = next((file for file in files if file == "-" or not Path(file).is_file() or not is_ledger(file)), None)
    if other is not None:
        raise UsageError(
            f"{other}: --engine duckdb reads contextkit ledgers; make one first: contextkit report {other} --to ledger.jsonl"
        )
    found = summarise_files(files, by)
    what = f"{found.n_unread:,} damaged lines are left out; `contextkit report` without --engine names them"
    faults: tuple[Fault, ...] = ((files[0], 0, what),) if found.n_unread else ()
    title = files[0] if len(files) == 1 else f"{len(files):,} files"
    without = {
        row.name: row.calls - row.calls_with_usage for row in found.summary.models if row.calls > row.calls_with_usage
    }
    return Contents(
        title,
        found.summary,
        by,
        found.verdicts,
        found.sessions,
        faults=faults,
        n_faults=found.n_unread,
        counted=BILLED,
        calls_without_usage=without,
    )
