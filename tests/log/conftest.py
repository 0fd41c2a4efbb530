"""A Postgres server for the tests of a log: one for all of them, with its disk's durability off, and a copy of its
folder to crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.log.postgres_server import Postgres, new_server, require
from tests.log.wire import Wire, wired


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """A data folder no server has run in; skips where none is installed."""
    require()
    with new_server(None) as made:
        yield made.folder / "data"


@pytest.fixture(scope="session")
def postgres(template: Path) -> Iterator[Postgres]:
    """A server with the table, and no fsync."""
    from contextkit.log.postgres import create

    with new_server(template, "fsync=off") as server:
        create(server.start().dsn)
        yield server


@pytest.fixture
def wire(postgres: Postgres) -> Iterator[Wire]:
    """The network to that server."""
    with wired(postgres.connect) as wire:
        yield wire


@pytest.fixture
def durable(template: Path) -> Iterator[Postgres]:
    """A server with the table that may be killed."""
    from contextkit.log.postgres import create

    with new_server(template, "fsync=on") as server:
        create(server.start().dsn)
        yield server


@pytest.fixture(scope="session")
def fresh() -> Callable[[], str]:
    """A session nobody has used."""
    numbers = count()
    return lambda: f"session {next(numbers)}"


@pytest.fixture
def session(fresh: Callable[[], str]) -> str:
    """The name of one."""
    return fresh()
