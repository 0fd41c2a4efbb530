"""Entries as they come: each once, in order, those included that came before anybody listened.

Takes a session and a place in it, gives the entries behind it; knows nothing of who writes them.

A notification only says that it is time to look: what is given is what the table holds behind the entry given last. So
a notification that is lost, doubled or late loses and doubles nothing, and one that never comes (PgBouncer passes none
on) costs `POLL_SECONDS`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from contextkit.log.entry import Entry
from contextkit.log.postgres.connection import READ, Attempt, Server, driver, refused
from contextkit.log.rows import Parameters, Reading, Rows, aread, read, reading

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

POLL_SECONDS = 5.0
"""A follower looks at least this often."""


def channel_of(session: str) -> str:
    """Where the appends of a session are told: a name any session's can be, and no longer than Postgres takes."""
    return f"contextkit_{blake2b(session.encode(), digest_size=16).hexdigest()}"


class Following:
    """Where somebody stands who follows a session, and how long to wait for more."""

    def __init__(self, session: str, after: int, prev: bytes | None, timeout: float | None) -> None:
        """`timeout`: seconds without an entry until it ends, None for never."""
        self._session, self._after, self._prev, self._timeout = session, after, prev, timeout
        self._deadline, self._is_last = self._from_now(), False

    def follow(self, server: Server) -> Iterator[Entry]:
        """The entries behind where it stands, on a line of its own."""

        def listening(attempt: Attempt) -> psycopg.Connection[Any]:
            connection: psycopg.Connection[Any] = driver().connect(**server.settings())
            try:
                attempt.begin(connection)
                connection.execute(self._listen())
            except BaseException:
                connection.close()
                raise
            return connection

        def fetch(parameters: Parameters) -> Rows:
            def fetched(attempt: Attempt) -> Rows:
                attempt.begin(connection)
                return cursor.execute(READ, parameters).fetchall()

            return server.within(server.deadline(), fetched)

        with (
            self._faults(),
            server.within(server.deadline(), listening) as connection,
            connection.cursor(binary=True) as cursor,
        ):
            while (wait := self._wait()) is not None:
                entries = read(self._look(), fetch)
                yield from self._advance(entries)
                if not entries:
                    list(connection.notifies(timeout=wait, stop_after=1))

    async def afollow(self, server: Server) -> AsyncIterator[Entry]:
        """`follow`, off the event loop."""
        with self._faults():
            async with asyncio.timeout(server.limit_seconds):
                connection = await driver().AsyncConnection.connect(**server.settings())
            async with connection, connection.cursor(binary=True) as cursor:

                async def execute(statement: Any, values: Any = None) -> None:
                    attempt = Attempt()
                    attempt.begin(connection)
                    limit = asyncio.get_running_loop().call_later(server.limit_seconds, attempt.give_up)
                    try:
                        await cursor.execute(statement, values)
                    finally:
                        limit.cancel()
                        attempt.end()

                async def fetch(parameters: Parameters) -> Rows:
                    await execute(READ, parameters)
                    entries: Rows = await cursor.fetchall()
                    return entries

                await execute(self._listen())
                while (wait := self._wait()) is not None:
                    entries = await aread(self._look(), fetch)
                    for entry in self._advance(entries):
                        yield entry
                    if not entries:
                        [_ async for _ in connection.notifies(timeout=wait, stop_after=1)]

    def _look(self) -> Reading:
        return reading(self._session, self._after, self._prev)

    def _advance(self, entries: list[Entry]) -> Iterator[Entry]:
        for entry in entries:
            self._after, self._prev = entry.sequence, entry.digest
            yield entry
        if entries:
            self._deadline, self._is_last = self._from_now(), False

    def _wait(self) -> float | None:
        """Seconds to wait before the next look; None once it was quiet for long enough and the last look found nothing."""
        left = self._deadline - time.monotonic()
        if left > 0:
            return min(left, POLL_SECONDS)
        was_last, self._is_last = self._is_last, True
        return None if was_last else 0.0

    def _from_now(self) -> float:
        return float("inf") if self._timeout is None else time.monotonic() + self._timeout

    def _listen(self) -> Composed:
        from psycopg.sql import SQL, Identifier

        return SQL("listen {}").format(Identifier(channel_of(self._session)))

    @contextmanager
    def _faults(self) -> Iterator[None]:
        psycopg = driver()
        try:
            yield
        except (psycopg.Error, TimeoutError) as fault:
            where = f"following session {self._session!r} stopped; follow(after={self._after}) goes on where it did"
            lost = fault if isinstance(fault, psycopg.Error) else psycopg.OperationalError("no connection in time")
            raise refused(lost, where) from fault
