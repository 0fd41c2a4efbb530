"""Rows of a table of entries, in SQLite or Postgres, as entries whose chain was checked.

Takes rows, gives entries; knows nothing of connections: a reading yields what to ask and is sent the rows, so that a
line that waits and one that does not read the same way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias

from contextkit.canonical import parse
from contextkit.errors import LogCorrupt, NewerFormat, NotSerialisable
from contextkit.log.entry import Entry
from contextkit.log.storage import check

PAGE = 1_000
"""Rows asked for at once."""
Rows: TypeAlias = list[tuple[Any, ...]]
"""(sequence, kind, time, body, digest before, digest) of entries."""
Parameters: TypeAlias = dict[str, Any]
"""Session, entry after which to read, last entry, rows at once: the values of one query."""
Reading: TypeAlias = Generator[Parameters, Rows, list[Entry]]
"""Asks, is sent rows, returns entries."""


def reading(
    session: str, after: int, prev: bytes | None, last: int | None = None, lineage: list[str] | None = None
) -> Reading:
    """The entries behind `after`, up to `last`; `prev` is the digest the first must follow, None where nobody knows it.

    `lineage` is filled with the sessions they stand in. Raises `LogCorrupt` at the first row that does not fit.
    """
    sessions = [] if lineage is None else lineage
    sessions.append(session)
    entries: list[Entry] = []
    while True:
        rows = yield {"session": session, "after": after, "last": last, "page": PAGE}
        for row in rows:
            entry, before = _entry(session, row)
            if not entries and entry.sequence > after + 1:
                entries = yield from _inherited(session, entry, after, prev, sessions)
                after, prev = entries[-1].sequence, entries[-1].digest
            if entry.sequence != after + 1 or before != (before if prev is None else prev):
                raise _corrupt(session, entry.sequence, f"it does not follow entry {after}")
            entries.append(entry)
            after, prev = entry.sequence, entry.digest
        if len(rows) < PAGE:
            return entries


def read(pages: Reading, fetch: Callable[[Parameters], Rows]) -> list[Entry]:
    """Run the queries of `pages` with `fetch`."""
    try:
        parameters = next(pages)
        while True:
            parameters = pages.send(fetch(parameters))
    except StopIteration as end:
        entries: list[Entry] = end.value
        return entries


async def aread(pages: Reading, fetch: Callable[[Parameters], Awaitable[Rows]]) -> list[Entry]:
    """Run the queries of `pages` with an async `fetch`."""
    try:
        parameters = next(pages)
        while True:
            parameters = pages.send(await fetch(parameters))
    except StopIteration as end:
        entries: list[Entry] = end.value
        return entries


def _entry(session: str, row: tuple[Any, ...]) -> tuple[Entry, bytes]:
    sequence, kind, at, body, prev, digest = row
    if None in row:
        raise _corrupt(session, sequence, "a column is empty")
    entry = Entry(sequence, kind, body, at, digest)
    try:
        check(entry, prev)
    except NotSerialisable:
        raise _corrupt(session, sequence, "its time is not a number") from None
    except NewerFormat as newer:
        raise NewerFormat(f"session {session!r}, entry {sequence}: {newer}") from None
    except LogCorrupt as broken:
        raise _corrupt(session, sequence, str(broken)) from None
    return entry, prev


def _inherited(session: str, first: Entry, after: int, prev: bytes | None, sessions: list[str]) -> Reading:
    """What a fork shares with its parent, held against the digest the fork names."""
    parent = parse(first.body).get("parent") if first.kind == "opened" else None
    if not parent or parent["path"] is None or parent["sequence"] != first.sequence - 1:
        raise _corrupt(
            session, first.sequence, f"entry {after + 1} is missing before it, and it names no parent that has it"
        )
    origin, last = parent["path"], parent["sequence"]
    shared = [] if origin in sessions else (yield from reading(origin, after, prev, last, sessions))
    if not shared or shared[-1].sequence != last or shared[-1].digest.hex() != parent["digest"]:
        what = f"its parent, session {origin!r}, is not in this database as it was at entry {last}"
        what_now = "restore the parent, this session holds only what came after"
        raise LogCorrupt(f"session {session!r}, entry {first.sequence}: {what}: {what_now}")
    return shared


def _corrupt(session: str, sequence: int, what: str) -> LogCorrupt:
    keep = "restore the session from a backup" + (
        f", or remove its rows from {sequence} on to keep what is whole" if sequence > 0 else ""
    )
    return LogCorrupt(f"session {session!r}, entry {sequence}: {what}; {keep}")
