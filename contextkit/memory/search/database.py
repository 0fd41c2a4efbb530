"""The file an index lives in: SQLite with FTS5, one transaction a batch.

Takes a path, gives a connection to read from and to write to, one thread at a time; knows nothing of ranking.

FTS5 keeps no text of its own (`content=''`): it gets the terms `words.py` made, which its `ascii` tokenizer leaves as
they are, and `term` counts in how many passages each stands, which FTS5 could tell only by reading all of them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from contextkit.errors import StorageError, UsageError
from contextkit.private_files import connect_private

VERSION = 1
"""Of the tables below and of the terms in them."""
BUSY_SECONDS = 60.0
"""How long one process waits for another's batch."""

_TABLES = """
CREATE TABLE document (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, digest BLOB NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL);
CREATE TABLE passage (
    row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, start INTEGER NOT NULL, line INTEGER NOT NULL, at REAL NOT NULL,
    text TEXT NOT NULL
);
CREATE UNIQUE INDEX passage_of ON passage (id, start);
CREATE INDEX newest ON passage (at DESC, id, start);
CREATE TABLE term (term TEXT PRIMARY KEY, passages INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE name (name TEXT, document INTEGER, PRIMARY KEY (name, document)) WITHOUT ROWID;
CREATE INDEX name_of ON name (document);
CREATE TABLE vector (passage INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE signs (passage INTEGER PRIMARY KEY, bits BLOB NOT NULL);
CREATE TABLE state (changes INTEGER NOT NULL);
INSERT INTO state VALUES (0);
CREATE TABLE fed (log TEXT PRIMARY KEY, sequence INTEGER NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5(terms, content='', tokenize='ascii');
"""


def require_module(connection: sqlite3.Connection, module: str) -> None:
    """Raise `UsageError` where this SQLite was compiled without `module`."""
    try:
        connection.execute(f"CREATE VIRTUAL TABLE temp.probe USING {module}(x)")
        connection.execute("DROP TABLE temp.probe")
    except sqlite3.OperationalError as fault:
        if "no such module" not in str(fault):
            raise
        raise UsageError(
            f"searching needs SQLite's {module.upper()} module, and the SQLite of this Python has none: use a Python whose sqlite3 has "
            f"it (those of python.org, uv and conda do), SQLite here is {sqlite3.sqlite_version} ({fault})"
        ) from fault


class Database:
    """One connection, shared by the threads of a process; other processes wait their turn."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open or create.

        Raises `UsageError` without FTS5, `StorageError` for a file that is not an index of this version.
        """
        self.path = os.fspath(path)
        """Where it lies; `:memory:` for one that goes with the process."""
        self._lock = RLock()
        self._connection = _connect(self.path)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the index, whatever others write meanwhile."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection whose changes are kept, durably and all together, when the block ends.

        None of them if it raises.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def close(self) -> None:
        """Give the file back; closing twice is closing."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._connection.execute(begin)
                try:
                    yield self._connection
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
            except sqlite3.ProgrammingError as fault:
                raise UsageError(f"the index {self.path} cannot be used: {fault} Open a new Index on it.") from fault
            except sqlite3.DatabaseError as fault:
                raise _unreadable(self.path, fault) from fault


def _connect(path: str) -> sqlite3.Connection:
    try:
        options: dict[str, Any] = {"timeout": BUSY_SECONDS, "isolation_level": None, "check_same_thread": False}
        is_in_memory = path in ("", ":memory:")
        connection = sqlite3.connect(path, **options) if is_in_memory else connect_private(path, **options)
    except (sqlite3.OperationalError, OSError) as fault:
        raise StorageError(
            f"the index {path} cannot be opened ({fault}): is its folder there, and may it be written?"
        ) from fault
    try:
        require_module(connection, "fts5")
        _prepare(connection, path)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as fault:  # the latter: a message that quotes damaged bytes
        connection.close()
        raise _unreadable(path, fault) from fault
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables of a new file, check the version of an old one."""
    connection.execute("PRAGMA cache_size = -32768")  # KiB
    (version,), (tables,) = (
        connection.execute(sql).fetchone() for sql in ("PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if version > VERSION:
        raise StorageError(
            f"{path} holds an index of version {version}, this contextkit reads up to {VERSION}: upgrade contextkit, or choose another "
            "path and feed the log to it anew"
        )
    if version != VERSION and (version or tables):
        found = f"an index of version {version}" if version else "a database of something else"
        raise StorageError(
            f"{path} holds {found}, this contextkit writes version {VERSION}: choose another path, feed the log to it anew"
        )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")  # a batch that was acknowledged survives a power cut
    connection.execute("BEGIN IMMEDIATE")
    if connection.execute("PRAGMA user_version").fetchone() == (
        0,
    ):  # another process may have made them in the meantime
        for statement in filter(str.strip, _TABLES.split(";")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _unreadable(path: str, fault: Exception) -> StorageError:
    return StorageError(
        f"the index {path} cannot be read or written ({fault}). An index holds nothing that is not in the log and the memory files: "
        "free the disk or the lock, or delete it and feed it anew"
    )
