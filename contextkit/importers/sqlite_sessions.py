"""Our own SQLite files: the ledgers of many sessions, each a conversation of its own.

Takes a source, gives the calls in the order they were recorded. A damaged row is left out and reported, and so is what
stands behind the place where the file itself is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contextkit.errors import LogCorrupt, StorageError, UnreadableLog
from contextkit.importers.source import Source, damage
from contextkit.ledger.calls import Record
from contextkit.ledger.ledger import Rows
from contextkit.log.sqlite import MAGIC, call_lines, has_our_mark, is_of_another_program


def is_sqlite(head: bytes) -> bool:
    """Return whether a file is one of SQLite's; `read` says whose."""
    return head.startswith(MAGIC)


def is_ours(source: Source) -> bool:
    """Return whether a SQLite file is one of our sessions; of a file just made its log ahead says so."""
    path = Path(source.name)
    return has_our_mark(source.head) or (path.is_file() and _starts_as_sqlite(path) and not is_of_another_program(path))


def read(source: Source) -> Iterator[Record]:
    """The calls of all sessions; a fault's line is the number of the row in the table `call`.

    Raises `UnreadableLog` for a file of another program, and for what comes packed or by a pipe, where SQLite cannot look.
    """
    source.close()
    path = Path(source.name)
    if not path.is_file() or not _starts_as_sqlite(path):
        raise UnreadableLog(f"{source.name}: a SQLite file that is packed, or comes by a pipe; give the plain file")
    sessions: dict[str, Rows] = {}
    n_read = 0

    def report(number: int, error: LogCorrupt, what: str) -> None:
        source.fault(number, damage(what))

    try:
        for number, session, line in call_lines(path):
            n_read += 1
            if session not in sessions:
                sessions[session] = Rows(source.name, report)
            record = sessions[session].read(number, line)
            if record is not None:
                yield record
    except StorageError as fault:
        what = str(fault).removeprefix(f"{path.resolve()} ").removeprefix(f"{path} ")
        if not n_read and not isinstance(fault, LogCorrupt):
            raise UnreadableLog(f"{source.name}: {what}") from None
        source.fault(0, f"{what}; the {n_read:,} rows before that were read")


def _starts_as_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC
