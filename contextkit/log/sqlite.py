"""The logs of many sessions in one SQLite file.

A row is an entry; the digest chain, and what it detects, are those of a JSONL log. An append is one transaction and is
over when the disk has it (write-ahead log, `synchronous=FULL`). One process writes a session at a time: a lock of the
operating system on `<file>.<hash of the session>.lock`, gone with the process that holds it. Sessions of one file have
writers of their own; SQLite lets one of them commit at a time, and the others wait.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, Self
from urllib.parse import parse_qsl, quote, unquote

from contextkit.canonical import canonical
from contextkit.errors import LogCorrupt, LogLocked, StorageError, UsageError
from contextkit.log.entry import Entry
from contextkit.log.rows import Parameters, Rows, checked_session, read
from contextkit.log.storage import GENESIS, FileLock, Storage, folder_at, real_path
from contextkit.private_files import connect_private, own_path

SCHEME = "sqlite:///"
WAIT_SECONDS = 30.0
"""How long an append waits for writers of other sessions in the file."""
MAGIC = b"SQLite format 3\0"
"""A SQLite file starts with it."""
_APPLICATION_ID = 0x636B6C67
"""Marks a file as ours (SQLite's `application_id`): `cklg`."""
_SCHEMA = """
create table if not exists entry (
    session text not null, sequence integer not null, kind text not null, at text not null,
    body blob not null, prev blob not null, digest blob not null, primary key (session, sequence)
);
create table if not exists call (number integer primary key, session text not null, line blob not null);
create index if not exists call_session on call (session, number);
create table if not exists last_entry (session text primary key, sequence integer not null, digest blob not null);
insert or ignore into last_entry select session, max(sequence), digest from entry group by session;
"""
"""`at` is text: SQLite has no negative zero. `call` holds the ledgers' lines. `last_entry` is written with each entry: rows
that were deleted at the end of a session break no chain."""
_VERSION = 1
"""Of the schema (SQLite's `user_version`); 0 has no table `last_entry`."""
_READ = """
select sequence, kind, at, body, prev, digest from entry
where session = :session and sequence > :after and sequence <= coalesce(:last, 9223372036854775807)
order by sequence limit :page
"""
_ADD_CALL = """
insert into call (session, line) select :session, :line
where (select max(number) from call where session = :session) is :last returning number
"""
_CALLS = "select number, cast(session as blob), cast(line as blob) from call order by number"
_LAST = "select sequence, digest from entry where session = ? order by sequence desc limit 1"
_INSERT = "insert into entry values (?, ?, ?, ?, ?, ?, ?)"
_DELETE = "delete from entry where session = ? and sequence = ? and digest = ?"
_NOTE = """
insert into last_entry values (?, ?, ?)
on conflict (session) do update set sequence = excluded.sequence, digest = excluded.digest
"""
_NOTED = "select sequence, digest from last_entry where session = ?"
_HOLDS = "select 1 from entry where session = ? and sequence = ? and digest = ?"


def parse_url(url: str) -> tuple[Path, str]:
    """File and session of `sqlite:///relative.db?session=x` or `sqlite:////absolute/path.db?session=x`.

    Raises `UsageError` for another form.

    >>> parse_url("sqlite:////var/agents.db?session=a%20b")[1]
    'a b'
    """
    place, _, query = url.partition("?")
    fields = parse_qsl(query, keep_blank_values=True)
    names = [value for name, value in fields if name == "session"]
    path = unquote(place.removeprefix(SCHEME))
    if not place.startswith(SCHEME) or not path or len(names) != 1 or len(fields) != 1:
        raise UsageError(
            f"{url!r} names no session: sqlite:///relative.db?session=name, or sqlite:////absolute/path.db?session=name"
        )
    return Path(path), names[0]


class SQLiteStorage:
    """One session's entries in a SQLite file; one writer for each session, any number of readers.

    Raises `LogLocked` when somebody writes the session already, `LogCorrupt` where a row does not fit, `StorageError`
    where the file cannot be read or written, `UsageError` for what names no session.
    """

    path: Path | None = None
    """None: a log in another place cannot name it as its parent."""

    def __init__(self, file: str | os.PathLike[str], session: str) -> None:
        """Open the session, or begin it; the file is made where it is not there."""
        self.session = checked_session(session)
        """Whose entries these are."""
        self.file = own_path(folder_at(file))
        """The file, links of its folders resolved."""
        self._lineage = [session]
        self._statements = Lock()
        held = ExitStack()
        self._close = weakref.finalize(self, held.close)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._lock = self._locked()
            held.callback(self._lock.release)
            self._connection = connect(self.file)
            held.callback(self._connection.close)
            self._made = _identity(self.file)
            self._entries, self._lineage = self._loaded()
        except OSError as fault:
            self.close()
            raise StorageError(
                f"{self.file} cannot be opened ({fault.strerror or fault}): choose a folder you may write to"
            ) from fault
        except BaseException:
            self.close()
            raise

    @classmethod
    def at(cls, url: str) -> Self:
        """The session a URL names; see `parse_url`."""
        return cls(*parse_url(url))

    @staticmethod
    def read(file: str | os.PathLike[str], session: str) -> list[Entry]:
        """The entries of a session, also while somebody writes it: no lock is taken. None of one that is not there."""
        path = real_path(folder_at(file))
        with _closing(connect(path, is_read_only=True)) as connection, _faults(path):
            return _read(connection, path, session, [])

    def beside(self, session: str) -> SQLiteStorage:
        """Another session in the same file."""
        return SQLiteStorage(self.file, session)

    def sessions_below(self, prefix: str) -> list[str]:
        """Names of the sessions with entries whose names begin so, in the order of their first entries' rows."""
        with self._use():
            rows = self._connection.execute(
                "select session, min(rowid) from entry where substr(session, 1, ?) = ? group by session order by 2",
                (len(prefix), prefix),
            ).fetchall()
        return [session for session, _ in rows]

    def read_beside(self, session: str) -> list[Entry]:
        """The entries of another session of the file, also while somebody writes it; see `read`."""
        return self.read(self.file, session)

    def load(self) -> Iterator[Entry]:
        """What the session held when it was opened; a fork begins with what it shares with its parent."""
        return iter(self._entries)

    def append(self, entry: Entry, prev: bytes) -> None:
        """Write one row and wait until the disk has it; when this raises, the entry is not there.

        Raises `LogLocked` in another process than the one that opened the file, or where other sessions' writers keep
        it waiting; `StorageError` where the disk is full or fails, or the file was replaced, deleted or changed.
        """
        self._check_open()
        self._lock.check_process()
        self._check_file()
        at = canonical(entry.at).decode()
        row = (self.session, entry.sequence, entry.kind, at, entry.body, prev, entry.digest)
        with self._use():
            try:
                self._connection.execute("begin immediate")
                self._check_last(entry, prev)
                self._connection.execute(_INSERT, row)
                self._connection.execute(_NOTE, (self.session, entry.sequence, entry.digest))
                self._connection.execute("commit")
            except BaseException as failure:
                self._undo(entry, prev, failure)
                raise

    def inherit(self, parent: Storage, shared: Sequence[Entry]) -> str | None:
        """Begin as a fork: the session of this file that holds what is shared; else it is written here, and None."""
        last = shared[-1]
        if isinstance(parent, SQLiteStorage) and parent.file == self.file:
            with self._use():
                for session in parent._lineage:
                    if self._connection.execute(_HOLDS, (session, last.sequence, last.digest)).fetchone():
                        self._lineage = [self.session, *parent._lineage]
                        return session
        prev = GENESIS
        for entry in shared:
            self.append(entry, prev)
            prev = entry.digest
        return None

    def close(self) -> None:
        """Let others write; a second call does nothing."""
        self._close()

    def _locked(self) -> FileLock:
        name = blake2b(self.session.encode(), digest_size=8).hexdigest()
        place = self.file.with_name(f"{self.file.name}.{name}")
        try:
            return FileLock(place)
        except LogLocked as locked:
            holder = locked.args[0].rpartition("being written by ")[2]
            raise LogLocked(
                f"session {self.session!r} of {self.file} is being written by {holder}",
                in_code="close it there, or read it with SQLiteStorage.read",
                in_shell="close it there first",
            ) from None

    def _loaded(self) -> tuple[list[Entry], list[str]]:
        lineage: list[str] = []
        with self._use():
            entries = _read(self._connection, self.file, self.session, lineage)
        return entries, lineage

    def _check_last(self, entry: Entry, prev: bytes) -> None:
        """Raise `StorageError` where the entry does not follow the session's last row."""
        last = self._connection.execute(_LAST, (self.session,)).fetchone()
        if last is not None and last != (entry.sequence - 1, prev):
            raise StorageError(
                f"{self.file}, session {self.session!r}: entry {entry.sequence} was to follow another entry than row {last[0]}, its last: "
                "somebody else changed it; nothing was appended, open the log again"
            )

    def _undo(self, entry: Entry, prev: bytes, failure: BaseException) -> None:
        """Take back an append that raised, also one that was committed before it did."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            if self._connection.execute(_HOLDS, (self.session, entry.sequence, entry.digest)).fetchone():
                if entry.sequence:
                    self._connection.execute(_NOTE, (self.session, entry.sequence - 1, prev))
                self._connection.execute(_DELETE, (self.session, entry.sequence, entry.digest))
        except sqlite3.Error as error:
            failure.add_note(
                f"{self.file}: whether entry {entry.sequence} was kept is not known ({error}): open the log again"
            )

    def _check_open(self) -> None:
        if not self._close.alive:
            raise StorageError(f"session {self.session!r} of {self.file} is closed: open the log again to append to it")

    def _check_file(self) -> None:
        """Raise before anything is written to a file that is not the one that was opened."""
        if _identity(self.file) != self._made:
            raise StorageError(
                f"{self.file} was deleted, moved or replaced while it was open: nothing was appended; put it back where it was, "
                "or open the log again"
            )
        self._lock.check_file()

    @contextmanager
    def _use(self) -> Iterator[None]:
        """The connection, for one thread at a time; SQLite's errors in our words."""
        self._check_open()
        with self._statements, _faults(self.file):
            yield


class CallLines:
    """The lines of one session's ledger, in the file of its log; written by `Ledger`."""

    def __init__(self, file: Path, session: str) -> None:
        """Raises `StorageError` where the file cannot be read or written."""
        self.path = file
        """Where they are."""
        self._session, self._pid = session, os.getpid()
        self._statements = Lock()
        self._last: int | None = None
        self._connection: sqlite3.Connection | None = connect(file, is_forced=False)

    def lines(self) -> list[bytes]:
        """Every line, in the order they were appended."""
        with self._use() as connection:
            rows = connection.execute(
                "select number, line from call where session = ? order by number", (self._session,)
            ).fetchall()
            self._last = rows[-1][0] if rows else None
            return [bytes(line) for _, line in rows]

    def append(self, line: bytes) -> None:
        """Append one line; the disk is not waited for.

        Raises `LogLocked` in a forked process, `StorageError` where another line is the session's last than when this
        process read or appended.
        """
        if os.getpid() != self._pid:
            raise LogLocked(
                f"{self.path} was opened by process {self._pid}, and this is process {os.getpid()}, forked from it: record in the process "
                "that opened it"
            )
        with self._use() as connection:
            rows = connection.execute(
                _ADD_CALL, {"session": self._session, "line": line, "last": self._last}
            ).fetchall()
        if not rows:
            raise StorageError(
                f"{self.path}, session {self._session!r}: somebody else changed its ledger: nothing was recorded, open it again"
            )
        self._last = rows[0][0]

    def close(self) -> None:
        """Give the file back; a second call does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        if self._connection is None:
            raise StorageError(f"{self.path} is closed: open the ledger again to record")
        with self._statements, _faults(self.path):
            yield self._connection


def has_our_mark(head: bytes) -> bool:
    """Return whether a file that starts like this is a SQLite file of logs."""
    return head.startswith(MAGIC) and head[68:72] == _APPLICATION_ID.to_bytes(4, "big")


def is_of_another_program(file: Path) -> bool:
    """Return whether this is a SQLite file that is not one of logs; nothing is opened but to be read. Raises
    `OSError`.
    """
    with file.open("rb") as opened:
        head = opened.read(72)
    ours = _APPLICATION_ID.to_bytes(4, "big")
    if not head.startswith(MAGIC) or has_our_mark(head):
        return False
    ahead = file.with_name(f"{file.name}-wal")  # a file just made has its first transaction there
    if head[68:72] != bytes(4) or not ahead.is_file():
        return True
    with ahead.open("rb") as opened:
        return ours not in opened.read(1 << 16)


def call_lines(file: str | os.PathLike[str]) -> Iterator[tuple[int, str, bytes]]:
    """Number, session and line of every call that the ledgers of a file hold, in the order they were recorded; also while
    sessions of it are written.

    Raises `StorageError` where the file cannot be read or is of another program, `LogCorrupt` where it is damaged.
    """
    path = real_path(folder_at(file))
    with _closing(connect(path, is_read_only=True)) as connection, _faults(path):
        if connection.execute("select 1 from sqlite_master where name = 'call'").fetchone():
            for number, session, line in connection.execute(_CALLS):
                yield (
                    number,
                    (session or b"").decode(errors="replace"),
                    line or b"",
                )  # damage leaves what no row may hold


def connect(file: Path, *, is_read_only: bool = False, is_forced: bool = True) -> sqlite3.Connection:
    """A connection to a file of logs, whose tables are there. `is_forced`: each commit waits for the disk.

    Raises `StorageError` where the file cannot be opened or holds something else, `LogCorrupt` where it is damaged.
    """
    with _faults(file):
        options: dict[str, Any] = {"timeout": WAIT_SECONDS, "isolation_level": None, "check_same_thread": False}
        if is_read_only:
            connection: sqlite3.Connection = sqlite3.connect(
                f"file:{quote(file.as_posix())}?mode=ro", uri=True, **options
            )
        else:
            connection = connect_private(file, **options)
        try:
            _prepare(connection, file, is_read_only=is_read_only, is_forced=is_forced)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: sqlite3.Connection, file: Path, *, is_read_only: bool, is_forced: bool) -> None:
    (owner,) = connection.execute("pragma application_id").fetchone()
    (n_tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
    if n_tables and owner != _APPLICATION_ID:
        raise StorageError(f"{file} is the SQLite file of another program: name another file")
    (version,) = connection.execute("pragma user_version").fetchone()
    if version > _VERSION:
        raise StorageError(
            f"{file} has format {version}, this contextkit reads up to {_VERSION}: a newer contextkit wrote it, upgrade contextkit"
        )
    if is_read_only:
        return
    connection.execute("pragma journal_mode = wal")
    connection.execute(f"pragma synchronous = {'full' if is_forced else 'normal'}")
    if not n_tables or version < _VERSION:
        marks = f"pragma application_id = {_APPLICATION_ID}; pragma user_version = {_VERSION};"
        connection.executescript(f"begin immediate; {marks} {_SCHEMA} commit;")


def _read(connection: sqlite3.Connection, file: Path, session: str, lineage: list[str]) -> list[Entry]:
    """A session's entries, those it shares with its parents first. Raises `LogCorrupt` naming file, session and row."""

    def fetch(parameters: Parameters) -> Rows:
        rows = connection.execute(_READ, parameters).fetchall()
        return [_row(row) for row in rows]

    (version,) = connection.execute("pragma user_version").fetchone()
    noted = connection.execute(_NOTED, (session,)).fetchone() if version else None  # first: a writer may go on
    try:
        entries = read(session, fetch, lineage=lineage)
    except LogCorrupt as broken:
        raise type(broken)(f"{file}, {broken}") from None
    if noted is not None and entries and [noted[1]] != [entry.digest for entry in entries[noted[0] :][:1]]:
        raise LogCorrupt(
            f"{file}, session {session!r}: it ended with entry {noted[0]}, and {len(entries)} entries are there: its last rows were "
            "deleted; restore them from a copy, or accept the loss by deleting the row of this session in the table last_entry"
        )
    return entries


def _row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with its time as a number; a row of other types is one whose digest cannot fit."""
    sequence, kind, at, *blobs = row
    with suppress(TypeError, ValueError):
        number = float(at)
        if canonical(number).decode() == at and all(isinstance(blob, bytes) for blob in blobs):
            return (sequence, kind, number, *blobs)
    return (sequence, kind, 0.0, b"", b"", b"")


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        status = file.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _closing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _faults(file: Path) -> Iterator[None]:
    """SQLite's errors in our words."""
    try:
        yield
    except sqlite3.OperationalError as fault:
        if "locked" in str(fault):
            raise LogLocked(
                f"{file} was locked by another writer for {WAIT_SECONDS:g} seconds: nothing was written; try again, or end that writer"
            ) from fault
        raise StorageError(
            f"{file} cannot be used ({fault}): nothing was written; look at the disk and its rights"
        ) from fault
    except (sqlite3.DatabaseError, UnicodeDecodeError) as fault:  # the latter: a message that quotes damaged bytes
        raise LogCorrupt(f"{file} is damaged, or no SQLite file ({fault}): restore it from a copy") from fault
