"""Connections to Postgres, one of our own or those of a pool, and what Postgres says in our words.

Takes connection strings and pools, gives rows; knows nothing of entries. psycopg is imported when a connection is first
needed.

Nobody waits longer than `wait_seconds` and `MARGIN_SECONDS`. No setting bounds all that may wait: the lookup of a name,
a pool, each of a host's addresses, a peer whose system acknowledges what its server never answers. So each query runs
in a thread of its own; when its time is up its connection is shut down, and the thread ends by itself.
"""

from __future__ import annotations

import os
import socket
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from inspect import iscoroutinefunction
from threading import Lock, Thread
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Any, LiteralString, Protocol

from contextkit.errors import MissingExtra, StorageError, UsageError
from contextkit.log.rows import Rows

if TYPE_CHECKING:
    import psycopg

WAIT_SECONDS = 30.0
"""A statement may wait so long for locks of others, then the server undoes it."""
MARGIN_SECONDS = 2.0
"""Seconds beyond `wait_seconds` for connecting, sending and the answer, all together; then a call gives up."""
_LONGEST_SECONDS = 2e6
"""A setting in milliseconds is an integer of 32 bits."""
_SETTINGS: dict[str, Any] = {
    "client_encoding": "utf8",
    "connect_timeout": 10,
    "fallback_application_name": "contextkit",
}
"""libpq's parameters where the connection string does not say otherwise."""
_LIMIT: LiteralString = "select set_config('statement_timeout', %(milliseconds)s::text, true)"
"""For one transaction: what stayed behind in a connection of a pooler would limit other clients."""
SERIALIZATION_FAILURE = "40001"
"""SQLSTATE of a transaction that was undone for the sake of another, where the database makes every one serializable.
"""
_PASSING = frozenset({"57P01", "57P02", "57P03", SERIALIZATION_FAILURE})
"""SQLSTATEs after which the same statement may well succeed; the others are of a server that was stopped or is
starting."""
_CONNECTION_CLASS = "08"
_WHAT_NOW = {
    "42P01": "make its tables once, with contextkit.log.postgres.create(server)",
    "42703": "the table `entry` is somebody else's: give the log a schema of its own (docs/guides/postgres.md)",
    "42501": "grant this user select and insert on the table `entry`, and select, insert and update on `last_entry`",
    "25006": "this server takes no writes, as a standby does: connect to the primary",
    "57014": "another transaction may hold a lock (pg_stat_activity says which): end it and try again, or give more wait_seconds",
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


class _Attempt:
    """A use of a connection that another thread may give up."""

    __slots__ = ("_is_over", "_lock", "_socket", "is_sent")

    def __init__(self) -> None:
        self._lock, self._is_over = Lock(), False
        self._socket: socket.socket | None = None
        self.is_sent = False
        """Whether anything may have been sent."""

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        """Call this before sending on `connection`. Raises `psycopg.OperationalError` if it is over."""
        with self._lock:
            if self._is_over:
                raise driver().OperationalError("it was given up before it was sent")
            # a descriptor of our own: libpq may close its own at any time, and the system give the number to another file
            self._socket = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
            self.is_sent = True

    def end(self, *, is_given_up: bool) -> None:
        """Send nothing from here on; if it is given up, whoever waits for an answer finds the connection closed."""
        with self._lock:
            self._is_over = True
            if self._socket is not None:
                if is_given_up:
                    with suppress(OSError):  # the peer was first
                        self._socket.shutdown(socket.SHUT_RDWR)
                self._socket.close()
                self._socket = None


class Server:
    """Where statements go."""

    __slots__ = ("__weakref__", "_close", "_limit_seconds", "_own", "_wait_seconds", "place")

    def __init__(self, place: str | Pool, wait_seconds: float = WAIT_SECONDS) -> None:
        """Connects to nothing yet.

        Raises `UsageError` for what is neither a connection string nor a pool, `MissingExtra`.
        """
        self.place = place
        """The connection string, or the pool."""
        self._wait_seconds = min(wait_seconds, _LONGEST_SECONDS)
        self._limit_seconds = self._wait_seconds + MARGIN_SECONDS
        # The connection that nobody uses now, by process: a fork must not speak on its parent's.
        self._own: dict[int, psycopg.Connection[Any]] = {}
        # A storage that is dropped unclosed must not keep a connection until the end.
        self._close = weakref.finalize(self, _hang_up, self._own)
        _parameters(place) if isinstance(place, str) else _check_pool(place)

    @property
    def is_open(self) -> bool:
        """Return whether it was not closed."""
        return self._close.alive

    def deadline(self) -> float:
        """The time of `time.monotonic` at which a call that begins now gives up."""
        return monotonic() + self._limit_seconds

    def query(self, *statements: LiteralString, values: Mapping[str, object], by: float, is_anew: bool = False) -> Rows:
        """Run statements in one transaction; what they did is durable when this returns the rows of the last.

        `by`: see `deadline`; `is_anew`: let a pool find out first which of its connections are lost. Raises
        `StorageError` where nothing was sent, and psycopg's own errors once it may have been; one whose SQLSTATE is in
        `LOCKED` when the server undid it because it took longer than `wait_seconds`.
        """
        attempt, done = _Attempt(), Future[Rows]()
        silent = driver().OperationalError(f"no answer within {self._limit_seconds:g} seconds")
        if monotonic() >= by:
            raise unreachable(silent)

        def run() -> None:
            try:
                try:
                    rows = self._query(attempt, statements, values, by, is_anew=is_anew)
                finally:
                    attempt.end(is_given_up=False)
            except BaseException as fault:  # noqa: BLE001 - raised where it is waited for
                done.set_exception(fault)
            else:
                done.set_result(rows)

        Thread(target=run, name="contextkit postgres", daemon=True).start()
        try:
            return done.result(by - monotonic())
        except TimeoutError:
            if done.done():  # it ended between the two, or raised a `TimeoutError` of its own
                return done.result()
            raise (silent if attempt.is_sent else unreachable(silent)) from None
        finally:  # also when who waits is interrupted
            attempt.end(is_given_up=True)

    def _query(
        self,
        attempt: _Attempt,
        statements: tuple[LiteralString, ...],
        values: Mapping[str, object],
        by: float,
        *,
        is_anew: bool,
    ) -> Rows:
        with ExitStack() as held:
            try:
                if is_anew and (check := getattr(self.place, "check", None)) is not None:
                    check()
                pool = self if isinstance(self.place, str) else self.place
                connection = held.enter_context(pool.connection())
            except driver().Error as fault:
                raise unreachable(fault) from fault
            attempt.begin(connection)
            seconds = max(min(self._wait_seconds, by - monotonic() - MARGIN_SECONDS / 2), 0.001)
            return _run(connection, statements, values, seconds)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection of our own, as a pool does; what raised on it is not lent again."""
        connection = self._own.pop(os.getpid(), None)
        if connection is None or connection.closed:
            connection = driver().connect(
                # a lost statement is not delivered later than we wait for it
                **{**_SETTINGS, "tcp_user_timeout": int(self._limit_seconds * 1000), **_parameters(str(self.place))},
                autocommit=True,  # one statement, one transaction
                prepare_threshold=None,  # poolers such as PgBouncer may send the next statement elsewhere
            )
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if not self.is_open or self._own.setdefault(os.getpid(), connection) is not connection:
            connection.close()

    def close(self) -> None:
        """Close what is our own; a pool stays open, it is the caller's."""
        self._close()


def _run(
    connection: psycopg.Connection[Any],
    statements: tuple[LiteralString, ...],
    values: Mapping[str, object],
    seconds: float,
) -> Rows:
    """The rows of the last of `statements`, sent together; the server undoes them all when one takes longer."""
    from psycopg.rows import tuple_row

    cursors = [connection.cursor(binary=True, row_factory=tuple_row) for _ in statements]
    with connection.pipeline():
        try:
            connection.execute(_LIMIT, {"milliseconds": str(int(seconds * 1000))})
            for cursor, statement in zip(cursors, statements, strict=True):
                cursor.execute(statement, values)
        except driver().OperationalError:
            if not connection.closed:  # else leaving the block raises; with two errors psycopg would log one
                raise
    connection.commit()
    return cursors[-1].fetchall() if cursors[-1].description else []


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


def _hang_up(own: dict[int, psycopg.Connection[Any]]) -> None:
    if (connection := own.pop(os.getpid(), None)) is not None:
        connection.close()
