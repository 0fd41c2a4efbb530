"""One local provider for all conversations of a worker, reset before each; every test runs once for each endpoint."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contextkit.server import LocalServer
from tests.context.desk import CLIENTS, WIRES, Desk

pytest.importorskip("uvicorn", reason="the local provider needs the extra `server`")


@pytest.fixture(scope="session")
def running() -> Iterator[LocalServer]:
    with LocalServer(now=1000.0) as server:
        yield server
        while CLIENTS:
            CLIENTS.popitem()[1].close()


@pytest.fixture(params=WIRES)
def desk(request: pytest.FixtureRequest, running: LocalServer) -> Desk:
    running.reset()
    return Desk(WIRES[request.param], running)


@pytest.fixture
def claude(running: LocalServer) -> Desk:
    """For what only Anthropic's endpoint has."""
    running.reset()
    return Desk(WIRES["anthropic"], running)
