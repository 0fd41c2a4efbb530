"""One session's log in the table `entry` of a Postgres database: the storage of a fleet of workers.

An append is one statement that expects the entry it follows to be the session's last, so of two writers one gets
`ConcurrentAppend` and nothing is lost or doubled. No worker holds a lock, and none has to be the same as before. Bodies
are `bytea`: `jsonb` would sort keys.

The table `last_entry` holds the sequence and the digest of the last entry of each session, written with it: rows that
were deleted at the end of a session break no chain, and are noticed all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString, Self, TypeGuard
from urllib.parse import unquote

from contextkit.errors import ConcurrentAppend, LogCorrupt, LogLocked, StorageError, UsageError
from contextkit.log.entry import Entry
from contextkit.log.postgres.connection import (
    LOCKED,
    SERIALIZATION_FAILURE,
    WAIT_SECONDS,
    Pool,
    Server,
    driver,
    is_passing,
    refused,
)
from contextkit.log.rows import Parameters, Rows, checked_session, read
from contextkit.log.storage import GENESIS, Storage

MAX_SESSION_BYTES = 1_000
"""Of a session's name: an index of Postgres takes rows of at most 2,704 bytes, of all its columns."""

_CREATE: LiteralString = """
create table if not exists entry (
    session text not null, sequence bigint not null, kind text not null, at double precision not null,
    body bytea not null, prev bytea not null, digest bytea not null, primary key (session, sequence)
)
"""
_COLUMNS: LiteralString = """
select column_name::text, data_type::text from information_schema.columns
where table_name = 'entry' and table_schema = current_schema() order by ordinal_position
"""
_SCHEMA = [
    ("session", "text"),
    ("sequence", "bigint"),
    ("kind", "text"),
    ("at", "double precision"),
    ("body", "bytea"),
    ("prev", "bytea"),
    ("digest", "bytea"),
]
_CREATE_LAST: LiteralString = """
create table if not exists last_entry (
    session text primary key, first bigint not null, sequence bigint not null, digest bytea not null,
    foreign key (session, first) references entry (session, sequence) on delete cascade on update cascade
)
"""
"""Deleting a whole session, or its first entry, deletes its row here too."""
_FILL_LAST: LiteralString = """
insert into last_entry (session, first, sequence, digest)
select distinct on (session) session, min(sequence) over (partition by session), sequence, digest from entry
order by session, sequence desc on conflict do nothing
"""
_NOTED: LiteralString = "select sequence, digest from last_entry where session = %(session)s::text"
_LOCK: LiteralString = "select pg_advisory_xact_lock(7311145026432951)"
"""Two workers that create the table at once would both find it missing."""
_MAKE_LAST = (_LOCK, _CREATE_LAST, _FILL_LAST)
_CREATE_SECONDS = 600.0
"""Filling the table of last entries reads all of a database."""
_APPEND: LiteralString = """
with kept as (
    insert into entry (session, sequence, kind, at, body, prev, digest)
    select %(session)s::text, %(sequence)s::bigint, %(kind)s::text, %(at)s::double precision, %(body)b, %(prev)b, %(digest)b
    where coalesce((
        select last.sequence = %(sequence)s::bigint - 1 and last.digest = %(prev)b from entry as last
        where last.session = %(session)s::text order by last.sequence desc limit 1
    ), %(sequence)s::bigint = %(first)s::bigint)
    on conflict (session, sequence) do nothing
    returning sequence
), noted as (
    insert into last_entry (session, first, sequence, digest)
    select %(session)s::text, %(first)s::bigint, kept.sequence, %(digest)b from kept
    on conflict (session) do update set sequence = excluded.sequence, digest = excluded.digest
)
select case current_setting('synchronous_commit') when 'off' then set_config('synchronous_commit', 'on', true) end from kept
"""
"""Answers a row where it was kept, none where another entry is the last. A database that would acknowledge before its
disk is overruled."""
_READ: LiteralString = """
select sequence, kind, at, body, prev, digest from entry
where session = %(session)s::text and sequence > %(after)s::bigint and sequence <= coalesce(%(last)s::bigint, 9223372036854775807)
order by sequence limit %(page)s::bigint
"""
"""One query of a reading (`log/rows.py`)."""
_LAST: LiteralString = (
    "select sequence, digest from entry where session = %(session)s::text order by sequence desc limit 1"
)
_AT: LiteralString = "select digest from entry where session = %(session)s::text and sequence = %(sequence)s::bigint"
_HOLDER: LiteralString = """
select session from entry where session = any(%(sessions)s::text[]) and sequence = %(sequence)s::bigint and digest = %(digest)b limit 1
"""
_BELOW: LiteralString = """
with recursive named (session) as (
    select min(session) from entry
    union all
    select (select min(entry.session) from entry where entry.session > named.session) from named
    where named.session is not null
)
select session from named where starts_with(session, %(prefix)s::text)
order by (select at from entry where entry.session = named.session order by sequence limit 1), session
"""
"""From one session's name to the next in the index: entries are not scanned, and names that begin alike need not stand
together in the order of every collation."""
_SCHEMES = ("postgresql://", "postgres://")


class PostgresStorage:
    """One session's entries in a database.

    Any number of readers, and of writers one at a time, told apart at each append.

    Raises `UsageError` for a server or session that names none, `MissingExtra` without psycopg. It connects when the
    log is loaded.
    """

    path: Path | None = None
    """Never in a file."""

    def __init__(self, server: str | Pool, session: str, *, wait_seconds: float = WAIT_SECONDS) -> None:
        """`server`: a connection string, or a pool of connections such as `psycopg_pool.ConnectionPool`.

        `wait_seconds`: after which an append gives up that waits for a lock another transaction holds. Nothing waits for
        the server or the network for longer than that and `connection.MARGIN_SECONDS`.
        """
        if not isinstance(wait_seconds, int | float) or not 0 < wait_seconds < float("inf"):
            raise UsageError(f"wait_seconds={wait_seconds!r}: seconds, more than 0")
        self.session = checked_session(session, MAX_SESSION_BYTES)
        """Whose entries these are."""
        self._server, self._wait_seconds = Server(server, wait_seconds), wait_seconds
        self._first = 0
        """Sequence of the first entry of its own: a fork's follow its parent's."""
        self._doubt: bytes | None = None
        """Digest of the entry whose append was given up, and which may be there all the same."""
        self._lineage: list[str] = [session]

    @classmethod
    def at(cls, url: str) -> Self:
        """The session a URL names: `postgresql://user@host/database?session=x`.

        What else stands behind the `?` is libpq's.

        But for `wait_seconds=5`: see `PostgresStorage`.
        """
        base, _, query = url.partition("?")
        options = [parameter.partition("=") for parameter in query.split("&") if parameter]
        sessions = [unquote(value) for name, _, value in options if name == "session"]
        waits = [value for name, _, value in options if name == "wait_seconds"]
        if not is_url(url) or len(sessions) != 1:
            raise UsageError("a session in Postgres is postgresql://user@host/database?session=name, with one session")
        rest = "&".join("".join(parameter) for parameter in options if parameter[0] not in ("session", "wait_seconds"))
        try:
            wait_seconds = float(waits[-1]) if waits else WAIT_SECONDS
        except ValueError:
            raise UsageError(f"wait_seconds={waits[-1]} in the URL: seconds, more than 0") from None
        return cls(f"{base}?{rest}" if rest else base, sessions[0], wait_seconds=wait_seconds)

    def beside(self, session: str) -> PostgresStorage:
        """Another session in the same database, over the same pool or on a connection of its own."""
        return PostgresStorage(self._server.place, session, wait_seconds=self._wait_seconds)

    def sessions_below(self, prefix: str) -> list[str]:
        """Names of the sessions with entries whose names begin so, in the order of the times of their first entries.

        Raises `StorageError` when the server refuses or is gone.
        """
        self._check_open()
        with self._faults("the sessions below it could not be listed"):
            return [session for (session,) in self._query(_BELOW, prefix=prefix)]

    def read_beside(self, session: str) -> list[Entry]:
        """The entries of another session of the same database, also while somebody writes it; none of one that is not
        there.

        Raises `LogCorrupt` where the chain is broken, `StorageError` when the server refuses or is gone.
        """
        self._check_open()
        with self._faults(f"session {session!r} could not be read"):
            return read(session, self._page)

    def load(self) -> Iterator[Entry]:
        """What the session holds now; a fork begins with what it shares with its parent.

        Raises `LogCorrupt` where the chain is broken, or entries at its end were deleted.
        """
        self._check_open()
        lineage: list[str] = []
        with self._faults("could not be read"):
            noted = self._query(_NOTED, session=self.session)  # before the entries: others may append meanwhile
            entries = read(self.session, self._page, lineage=lineage)
        self._check_end(entries, noted)
        self._lineage = lineage
        own = [entry.sequence for entry in entries if entry.kind == "opened"]
        self._first = own[-1] if len(lineage) > 1 and own else 0
        return iter(entries)

    def append(self, entry: Entry, prev: bytes) -> None:
        """Keep one more; when this returns the server has it on its disk.

        Raises `ConcurrentAppend` when the session's last entry is not the one it follows, `StorageError` when the
        server refuses or is gone. A connection lost on the way is made anew once; where that fails the entry may have
        been kept all the same: append the same entry again, it is kept once. Raises `LogLocked` when a lock of another
        transaction kept it waiting for `wait_seconds`; nothing was kept then.
        """
        self._check_open()
        by = self._server.deadline()
        with self._faults(f"entry {entry.sequence} could not be appended"):
            if not self._insert(entry, prev, by):
                raise self._overtaken(entry, by)
        self._doubt = None

    def inherit(self, parent: Storage, shared: Sequence[Entry]) -> str | None:
        """Begin as a fork: the session that holds what is shared, where that is in this database.

        Else it is written here, and None.
        """
        sessions = parent._lineage if isinstance(parent, PostgresStorage) else []
        with self._faults("could not be forked"):
            last = {"sequence": shared[-1].sequence, "digest": shared[-1].digest}
            holders = self._query(_HOLDER, sessions=sessions, **last) if sessions else []
        if holders:
            self._first = len(shared)
            self._lineage = [self.session, *sessions]
            return str(holders[0][0])
        prev = GENESIS
        for entry in shared:
            self.append(entry, prev)
            prev = entry.digest
        return None

    def close(self) -> None:
        """Hang up; a pool stays open, it is the caller's. A second call does nothing."""
        self._server.close()

    def _page(self, parameters: Parameters) -> Rows:
        """One answer of a reading."""
        return self._query(_READ, **parameters)

    def _query(self, *statements: LiteralString, **values: Any) -> Rows:
        """What statements that only read, or may run twice, answer; a line that broke meanwhile is made anew."""
        by = self._server.deadline()
        try:
            return self._server.query(*statements, values=values, by=by)
        except driver().Error as fault:
            if not is_passing(fault):
                raise
        return self._server.query(*statements, values=values, by=by, is_anew=True)

    def _insert(self, entry: Entry, prev: bytes, by: float) -> bool:
        """Insert the entry, again on a new connection if the first is lost; return False if another entry has its place.

        A lost connection, of this append or the one before, may have inserted it: then the row in its place is this entry.
        """
        psycopg, place = driver(), {"session": self.session, "sequence": entry.sequence, "first": self._first}
        row = {"kind": entry.kind, "at": entry.at, "body": entry.body, "prev": prev, "digest": entry.digest}
        may_be_there, is_anew = entry.digest == self._doubt, False
        while True:
            try:
                if self._server.query(_APPEND, values=place | row, by=by, is_anew=is_anew):
                    return True
                return may_be_there and self._server.query(_AT, values=place, by=by) == [(entry.digest,)]
            except (psycopg.Error, StorageError) as fault:
                if isinstance(fault, psycopg.Error) and is_passing(fault) and not is_anew:
                    may_be_there, is_anew = may_be_there or fault.sqlstate != SERIALIZATION_FAILURE, True
                elif may_be_there:
                    self._doubt = entry.digest
                    raise self._doubted(entry, fault) from fault
                elif isinstance(fault, psycopg.Error) and fault.sqlstate in LOCKED:
                    raise self._locked(entry) from fault
                else:
                    raise
            except BaseException:  # interrupted while it waited
                self._doubt = entry.digest
                raise

    def _check_end(self, entries: list[Entry], noted: Rows) -> None:
        """Raise `LogCorrupt` where the entry that was noted as the last is not there."""
        if not noted:
            return
        sequence, digest = noted[0]
        if sequence >= len(entries) or entries[sequence].digest != digest:
            rows = "another one there" if sequence < len(entries) else f"{len(entries)} entries"
            raise LogCorrupt(
                f"session {self.session!r}: it ended with entry {sequence}, and the table has {rows}: its last rows were deleted; "
                "restore them from a backup, or accept the loss by deleting the row of this session in the table last_entry"
            )

    def _locked(self, entry: Entry) -> LogLocked:
        return LogLocked(
            f"session {self.session!r}: entry {entry.sequence} waited {self._wait_seconds:g} seconds for a lock that another transaction "
            "holds (pg_stat_activity says which): nothing was appended; append again, or end that transaction"
        )

    def _doubted(self, entry: Entry, fault: Exception) -> StorageError:
        return StorageError(
            f"session {self.session!r}: the connection was lost while entry {entry.sequence} was appended, so it may be kept or not"
            f" ({str(fault).partition(chr(10))[0]}): append the same again when the server is back, it is kept once; if it was kept,"
            " another one raises ConcurrentAppend"
        )

    def _overtaken(self, entry: Entry, by: float) -> ConcurrentAppend:
        rows = self._server.query(_LAST, values={"session": self.session}, by=by)
        last = f"entry {rows[0][0]} is its last" if rows else "it holds none"
        there = self._server.query(_AT, values={"session": self.session, "sequence": entry.sequence}, by=by)
        is_ours = there == [(self._doubt,)]
        who = (
            "the entry that was in doubt when the connection was lost was kept"
            if is_ours
            else "another writer was first"
        )
        what_now = "nothing was appended: open the log again and decide anew"
        return ConcurrentAppend(
            f"session {self.session!r}: entry {entry.sequence} was to follow entry {entry.sequence - 1}, but {last}; {who}; {what_now}"
        )

    def _check_open(self) -> None:
        if not self._server.is_open:
            raise StorageError(f"session {self.session!r} is closed: open the log again")

    @contextmanager
    def _faults(self, what: str) -> Iterator[None]:
        psycopg = driver()
        try:
            yield
        except psycopg.Error as fault:
            raise refused(fault, f"session {self.session!r}: {what}") from fault


def create(server: str | Pool) -> None:
    """Make the tables `entry` and `last_entry`, where they are not there yet, in the first schema of the search path.

    Raises `StorageError`.
    """
    psycopg, place = driver(), Server(server, _CREATE_SECONDS)
    by = place.deadline()
    try:
        place.query(_LOCK, _CREATE, values={}, by=by)
        rows = place.query(_COLUMNS, values={}, by=by)
        if rows == _SCHEMA:
            place.query(*_MAKE_LAST, values={}, by=by)
    except psycopg.Error as fault:
        raise refused(fault, "the table `entry` could not be made") from fault
    finally:
        place.close()
    if rows != _SCHEMA:
        raise StorageError(
            "there is another table `entry` in this schema: give the log one of its own, with options=-csearch_path%3Dcontextkit in the URL"
        )


def is_url(place: object) -> TypeGuard[str]:
    """Return whether this names a Postgres database, and no folder."""
    return isinstance(place, str) and place.startswith(_SCHEMES)
