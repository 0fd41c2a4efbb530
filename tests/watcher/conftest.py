"""A provider on loopback, and a callable to tell findings to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("uvicorn", reason="the local server is the extra `server`")

from contextkit.server import LocalServer
from tests.watcher.talk import Told


@pytest.fixture(scope="module")
def running() -> Iterator[LocalServer]:
    with LocalServer(now=1000.0) as server:
        yield server


@pytest.fixture
def server(running: LocalServer) -> LocalServer:
    running.reset()
    return running


@pytest.fixture
def told() -> Told:
    return Told()
