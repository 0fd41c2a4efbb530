"""Who may steer the local provider: tests, not the pages a browser happens to show."""

from __future__ import annotations

import httpx2
import pytest

from contextkit.server import LocalServer


@pytest.mark.parametrize(("method", "path"), [("POST", "clock"), ("POST", "reset"), ("POST", "script"), ("GET", "ledger")])
def test_a_page_of_another_origin_is_refused(method: str, path: str) -> None:
    with LocalServer(now=1000.0) as server, httpx2.Client(base_url=f"{server.url}/_contextkit/") as client:
        answer = client.request(method, path, json={"advance_seconds": 5}, headers={"origin": "http://example.invalid"})
        assert answer.status_code == 403 and "origin" in answer.json()["error"]
        assert server.clock.now() == 1000.0
        assert client.post("clock", json={"advance_seconds": 5}, headers={"origin": server.url}).json() == {"now": 1005.0}
