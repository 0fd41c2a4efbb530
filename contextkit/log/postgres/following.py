"""Entries as they come: each once, in order, those included that came before anybody listened.

Takes a session and a place in it, gives the entries behind it; knows nothing of who writes them.

A notification only says that it is time to look: what is given is what the table holds behind the entry given last. So
a notification that is lost, doubled or late loses and doubles nothing, and one that never comes (PgBouncer passes none
on) costs `POLL_SECONDS`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from contextkit.log.entry import Entry
from contextkit.log.postgres.connection import READ, driver, refused
from contextkit.log.rows import Parameters, Reading, Rows, aread, read, reading

if TYPE_CHECKING:
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

    def follow(self, settings: dict[str, Any]) -> Iterator[Entry]:
        """The entries behind where it stands, on a line of its own."""
        with self._faults(), driver().connect(**settings) as connection, connection.cursor(binary=True) as cursor:

            def fetch(parameters: Parameters) -> Rows:
                entries: Rows = cursor.execute(READ, parameters).fetchall()
                return entries

            connection.execute(self._listen())
            while (wait := self._wait()) is not None:
                entries = read(self._look(), fetch)
                yield from self._advance(entries)
                if not entries:
                    list(connection.notifies(timeout=wait, stop_after=1))

    async def afollow(self, settings: dict[str, Any]) -> AsyncIterator[Entry]:
        """`follow`, off the event loop."""
        with self._faults():
            async with (
                await driver().AsyncConnection.connect(**settings) as connection,
                connection.cursor(binary=True) as cursor,
            ):

                async def fetch(parameters: Parameters) -> Rows:
                    entries: Rows = await (await cursor.execute(READ, parameters)).fetchall()
                    return entries

                await connection.execute(self._listen())
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
        except psycopg.Error as fault:
            where = f"following session {self._session!r} stopped; follow(after={self._after}) goes on where it did"
            raise refused(fault, where) from fault
