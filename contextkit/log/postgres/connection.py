"""Connections to Postgres, one of our own or those of a pool, and what Postgres says in our words.

Takes connection strings and pools, gives rows; knows nothing of entries. psycopg is imported when a connection is first
needed.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from inspect import iscoroutinefunction
from threading import Event, Timer
from types import ModuleType
from typing import TYPE_CHECKING, Any, LiteralString, Protocol

from contextkit.errors import MissingExtra, StorageError, UsageError
from contextkit.log.rows import Rows

if TYPE_CHECKING:
    import psycopg

_SETTINGS: dict[str, Any] = {
    "client_encoding": "utf8",
    "connect_timeout": 10,
    "fallback_application_name": "contextkit",
    "keepalives_idle": 30,  # seconds until a silent line is asked whether it is still there; a follower's is silent most of the time
    "tcp_user_timeout": 30_000,  # milliseconds an append waits for a peer that answers nothing; else the system's quarter of an hour
}
"""libpq's parameters where the connection string does not say otherwise."""
_HOW: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
"""One statement, one transaction; and nothing prepared, as poolers such as PgBouncer may send the next statement
elsewhere."""
READ: LiteralString = """
select sequence, kind, at, body, prev, digest from entry
where session = %(session)s::text and sequence > %(after)s::bigint and sequence <= coalesce(%(last)s::bigint, 9223372036854775807)
order by sequence limit %(page)s::bigint
"""
"""One query of a reading (`log/rows.py`)."""
SERIALIZATION_FAILURE = "40001"
"""SQLSTATE of a transaction that was undone for the sake of another, where the database makes every one serializable.
"""
_PASSING = frozenset({"57P01", "57P02", "57P03", SERIALIZATION_FAILURE})
"""SQLSTATEs after which the same statement may well succeed; the others are of a server that was stopped or is
starting."""
_CONNECTION_CLASS = "08"
_WHAT_NOW = {
    "42P01": "make its table once, with contextkit.log.postgres.create(server)",
    "42703": "the table `entry` is somebody else's: give the log a schema of its own (docs/postgres.md)",
    "42501": "grant this user select and insert on the table `entry`",
    "25006": "this server takes no writes, as a standby does: connect to the primary",
    "53100": "its disk is full: make room there, nothing was kept",
    "53300": "it has no connection left: share some with psycopg_pool.ConnectionPool, or close other logs",
}
"""SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html) → what to do."""


LOCKED = frozenset({"55P03", "57014"})
"""SQLSTATEs of a statement that was undone because it waited too long: for a lock, or until it was cancelled."""


class Pool(Protocol):
    """What lends connections: `psycopg_pool.ConnectionPool`, or anything that does it the same way."""

    def connection(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """A connection for the time of a `with`, its transaction committed at the end."""


class Server:
    """Where statements go."""

    __slots__ = ("__weakref__", "_close", "_own", "_place")

    def __init__(self, place: str | Pool) -> None:
        """Connects to nothing yet.

        Raises `UsageError` for what is neither a connection string nor a pool, `MissingExtra`.
        """
        self._place = place
        self._own: dict[
            int, psycopg.Connection[Any]
        ] = {}  # by process: a fork of the process must not speak on its parent's line
        self._close = weakref.finalize(
            self, _hang_up, self._own
        )  # a storage that is dropped unclosed must not keep a line until the end
        _parameters(place) if isinstance(place, str) else _check_pool(place)

    @property
    def place(self) -> str | Pool:
        """The connection string, or the pool."""
        return self._place

    @property
    def is_open(self) -> bool:
        """Whether it was not closed."""
        return self._close.alive

    def query(self, statement: LiteralString, values: Mapping[str, object], wait_seconds: float | None = None) -> Rows:
        """Run one statement in a transaction of its own; what it did is durable when this returns.

        Raises `StorageError` when there is no connection to send it on, and psycopg's own errors once it may have been
        sent; one whose SQLSTATE is in `LOCKED` when it was undone because it took longer than `wait_seconds`.
        """
        from psycopg.rows import tuple_row

        with ExitStack() as held:
            connection = self._connected(held)
            cursor = held.enter_context(connection.cursor(binary=True, row_factory=tuple_row))
            if wait_seconds is not None:
                held.enter_context(_cancelled(connection, wait_seconds))
            return cursor.execute(statement, values).fetchall()

    def settings(self) -> dict[str, Any]:
        """What `psycopg.connect` takes to reach the same server on a line of one's own."""
        if isinstance(self._place, str):
            return {**_SETTINGS, **_parameters(self._place), **_HOW}
        conninfo, kwargs = (_called(getattr(self._place, name, None)) for name in ("conninfo", "kwargs"))
        ours = {key: value for key, value in (kwargs or {}).items() if not key.endswith("_factory")}
        return {**_SETTINGS, **_parameters(conninfo or ""), **ours, **_HOW}

    def renew(self) -> None:
        """Let go of connections that are broken; the next statement gets a new one."""
        if (own := self._own.pop(os.getpid(), None)) is not None:
            own.close()
        check = getattr(self._place, "check", None)
        if check is not None:
            check()

    def close(self) -> None:
        """Close what is our own; a pool stays open, it is the caller's."""
        self._close()

    def _connected(self, held: ExitStack) -> psycopg.Connection[Any]:
        psycopg = driver()
        try:
            return self._opened() if isinstance(self._place, str) else held.enter_context(self._place.connection())
        except psycopg.Error as fault:
            raise unreachable(fault) from fault

    def _opened(self) -> psycopg.Connection[Any]:
        own = self._own.get(os.getpid())
        if own is None or own.closed:
            own = self._own[os.getpid()] = driver().connect(**self.settings())
        return own


@contextmanager
def _cancelled(connection: psycopg.Connection[Any], after_seconds: float) -> Iterator[None]:
    """Have the server undo what the block asks when it takes longer.

    A `lock_timeout` would not do: set within a statement it comes too late for the lock on the table, and set before
    one it stays behind in the connections of a pooler.
    """
    fired = Event()

    def cancel() -> None:
        fired.set()
        with suppress(Exception):  # the connection is lost: the statement says so
            getattr(connection, "cancel_safe", connection.cancel)()

    timer = Timer(after_seconds, cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if fired.is_set():
            connection.close()  # else a request to cancel that is still on its way would undo the next statement


def driver() -> ModuleType:
    """psycopg. Raises `MissingExtra` where it, or the libpq it needs, is not installed."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("a log in Postgres", "postgres") from None
    return psycopg


def is_passing(fault: psycopg.Error) -> bool:
    """Whether the connection was lost, or the server going down or coming up, so that the same statement may succeed
    next.
    """
    state = fault.sqlstate
    if state is None:
        return isinstance(fault, driver().OperationalError | driver().InterfaceError)
    return state.startswith(_CONNECTION_CLASS) or state in _PASSING


def unreachable(fault: psycopg.Error) -> StorageError:
    """That there is no connection, and what to do."""
    what_now = _WHAT_NOW.get(
        fault.sqlstate or "", "check that it runs and what the connection string says; the next try connects anew"
    )
    return StorageError(f"Postgres cannot be reached ({server_message(fault)}): {what_now}")


def refused(fault: psycopg.Error, what: str) -> StorageError:
    """That `what` was not done, and what to do."""
    advice = _WHAT_NOW.get(fault.sqlstate or "")
    lost = "the connection is gone: check that the server runs, the next try connects anew"
    what_now = advice or (lost if is_passing(fault) else "look into the server's log")
    return StorageError(f"{what} (Postgres says: {server_message(fault)}): {what_now}")


def server_message(fault: psycopg.Error) -> str:
    """The server's own sentence, without the details that repeat values."""
    return fault.diag.message_primary or str(fault).strip().partition("\n")[0] or type(fault).__name__


def _parameters(conninfo: str) -> dict[str, Any]:
    """What a connection string says. It is never repeated, nor what libpq says of it: a password stands in it."""
    psycopg = driver()
    try:
        settings: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(conninfo)
        hosts, ports = (str(settings.get(name) or "").split(",") for name in ("host", "port"))
        is_plain = not any("@" in host[1:] for host in hosts) and all(port.isdigit() or not port for port in ports)
    except (psycopg.Error, ValueError):
        is_plain = False
    if not is_plain:  # with an @ or / in a password, its rest would be a host or a port, and stand in errors
        raise UsageError(
            "that is not a connection string libpq understands: postgresql://user:password@host:5432/database,"
            " with @ : / ? % in a name or password spelled %40 %3A %2F %3F %25"
        )
    return settings


def _check_pool(pool: object) -> None:
    driver()
    if not callable(getattr(pool, "connection", None)):
        raise UsageError(f"a server is a connection string or a pool of connections, not {type(pool).__name__}")
    if iscoroutinefunction(getattr(pool, "getconn", None)):
        raise UsageError(
            f"an append is a call that waits, so the pool must be a psycopg_pool.ConnectionPool, not {type(pool).__name__}"
        )


def _called(value: Any) -> Any:
    """Pools may take what they connect with as a function, for passwords that change."""
    return value() if callable(value) else value


def _hang_up(own: dict[int, psycopg.Connection[Any]]) -> None:
    if (connection := own.pop(os.getpid(), None)) is not None:
        connection.close()
