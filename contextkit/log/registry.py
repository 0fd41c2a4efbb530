"""The storage of a log, by the place that names it: a folder, or a URL.

A URL's scheme chooses the storage: `sqlite:///path.db?session=x`, `postgresql://user@host/db?session=x`. Anything else
is a folder, whose log is `log.jsonl`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from contextkit.errors import UsageError
from contextkit.log.entry import Entry
from contextkit.log.storage import JSONLStorage, Storage, folder_at

LOG_NAME = "log.jsonl"
"""Name of the log in its folder."""


@runtime_checkable
class SessionStorage(Storage, Protocol):
    """A storage that holds many sessions by name."""

    session: str
    """Whose entries these are."""

    def beside(self, session: str) -> Storage:
        """Another session in the same place."""


@runtime_checkable
class ListedSessions(SessionStorage, Protocol):
    """A storage that can say which sessions it holds, and read each of them while somebody else writes it."""

    def sessions_below(self, prefix: str) -> list[str]:
        """Names of the sessions with entries whose names begin so, in the order they were begun."""

    def read_beside(self, session: str) -> list[Entry]:
        """The entries of another session in the same place, also while somebody writes it; none of one not there."""


def _open_sqlite(url: str) -> Storage:
    from contextkit.log.sqlite import SQLiteStorage

    return SQLiteStorage.at(url)


def _open_postgres(url: str) -> Storage:
    from contextkit.log.postgres import PostgresStorage

    return PostgresStorage.at(url)


STORAGES: dict[str, Callable[[str], Storage]] = {
    "sqlite": _open_sqlite,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
}
"""Scheme → what opens a URL of it. A program may add its own: `STORAGES["etcd"] = open_etcd`."""


def scheme_of(place: object) -> str:
    """The scheme of a URL, empty for a folder.

    >>> scheme_of("sqlite:///agents.db?session=a"), scheme_of("runs/a"), scheme_of(r"C:\\\\runs")
    ('sqlite', '', '')
    """
    if not isinstance(place, str):
        return ""
    scheme, colon, rest = place.partition(":")
    is_url = bool(colon) and (scheme.lower() in STORAGES or rest.startswith("//"))
    return scheme.lower() if is_url else ""


def open_storage(place: str | os.PathLike[str]) -> Storage:
    """The storage at a place. Raises `UsageError` for a scheme that is not registered, and what the storage raises."""
    scheme = scheme_of(place)
    if not scheme:
        return JSONLStorage(folder_at(place) / LOG_NAME)
    if scheme not in STORAGES:
        raise UsageError(f"no storage is registered for {scheme}: URLs; give a folder, or one of {', '.join(STORAGES)}")
    return STORAGES[scheme](str(place))


def sessions_in(storage: Storage, prefix: str) -> list[str]:
    """Names of the sessions beside a storage that begin so; none where it cannot say."""
    return storage.sessions_below(prefix) if isinstance(storage, ListedSessions) else []
