"""Rows of a table of entries, in SQLite or Postgres, as entries whose chain was checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from contextkit.canonical import parse
from contextkit.errors import LogCorrupt, NewerFormat, NotSerialisable, UsageError
from contextkit.log.entry import Entry
from contextkit.log.storage import GENESIS, check

PAGE = 1_000
"""Rows asked for at once."""
Rows: TypeAlias = list[tuple[Any, ...]]
"""(sequence, kind, time, body, digest before, digest) of entries."""
Parameters: TypeAlias = dict[str, Any]
"""Session, entry after which to read, last entry, rows at once: the values of one query."""


def checked_session(session: str, most_bytes: int | None = None) -> str:
    """`session`, if it can name one. Raises `UsageError`."""
    if not isinstance(session, str) or not session or "\0" in session:
        raise UsageError(f"a session is text with no zero byte in it, not {session!r:.60}")
    try:
        n_bytes = len(session.encode())
    except UnicodeEncodeError:
        raise UsageError(
            "a session's name holds a lone surrogate, which has no UTF-8 form: give another name"
        ) from None
    if most_bytes is not None and n_bytes > most_bytes:
        raise UsageError(f"a session's name of {n_bytes} bytes: give one of at most {most_bytes}")
    return session


def read(
    session: str,
    fetch: Callable[[Parameters], Rows],
    *,
    last: int | None = None,
    lineage: list[str] | None = None,
) -> list[Entry]:
    """The entries of a session up to `last`, what a fork shares with its parent included; `fetch` runs a query.

    `lineage` is filled with the sessions they stand in. Raises `LogCorrupt` at the first row that does not fit.
    """
    sessions = [] if lineage is None else lineage
    sessions.append(session)
    entries: list[Entry] = []
    after, prev = -1, GENESIS
    while True:
        rows = fetch({"session": session, "after": after, "last": last, "page": PAGE})
        for row in rows:
            entry, before = _entry(session, row)
            if not entries and entry.sequence > 0:
                entries = _inherited(session, entry, fetch, sessions)
                after, prev = entries[-1].sequence, entries[-1].digest
            if entry.sequence != after + 1 or before != prev:
                raise _corrupt(session, entry.sequence, f"it does not follow entry {after}")
            entries.append(entry)
            after, prev = entry.sequence, entry.digest
        if len(rows) < PAGE:
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


def _inherited(session: str, first: Entry, fetch: Callable[[Parameters], Rows], sessions: list[str]) -> list[Entry]:
    """What a fork shares with its parent, held against the digest the fork names."""
    parent = parse(first.body).get("parent") if first.kind == "opened" else None
    if not parent or parent["path"] is None or parent["sequence"] != first.sequence - 1:
        raise _corrupt(session, first.sequence, "entry 0 is missing before it, and it names no parent that has it")
    origin, last = parent["path"], parent["sequence"]
    shared = [] if origin in sessions else read(origin, fetch, last=last, lineage=sessions)
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
