"""The server as a thing that starts, listens and stops."""

from __future__ import annotations

import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import pytest

from contextkit.server import LocalServer
from contextkit.server.state import Clock
from tests.server.conftest import asking, saying


def test_listens_on_loopback_and_gives_the_port_back(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    before = threading.active_count()
    with LocalServer() as server:
        port = int(server.url.rsplit(":", 1)[1])
        assert server.url.startswith("http://127.0.0.1:")
        with anthropic.Anthropic(base_url=server.url, api_key="any") as client:
            client.messages.create(**asking())
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port))
    assert threading.active_count() == before
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
    assert capfd.readouterr() == ("", "")


def test_one_that_listens_already_goes_on() -> None:
    with LocalServer().start() as server:
        url = server.start().url
        with anthropic.Anthropic(base_url=url, api_key="any") as client:
            client.messages.create(**asking())
        assert len(server.ledger) == 1
    with (
        pytest.raises(anthropic.APIConnectionError),
        anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client,
    ):
        client.messages.create(**asking())
    with server:
        assert server.url == url


def test_two_servers_share_nothing() -> None:
    with LocalServer(now=0.0) as one, LocalServer(now=0.0) as other:
        for server in (one, other):
            with anthropic.Anthropic(base_url=server.url, api_key="any") as client:
                assert not client.messages.create(**asking()).usage.cache_read_input_tokens
        assert len(one.ledger) == len(other.ledger) == 1


def test_many_calls_at_once(server: LocalServer, claude: anthropic.Anthropic) -> None:
    threads = [threading.Thread(target=lambda: claude.messages.create(**asking())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bills = [call.usage for call in server.ledger if call.usage]
    assert len(bills) == 8 and len({bill.prompt for bill in bills}) == 1
    assert sum(bool(bill.write_5m) for bill in bills) == 1


def test_a_running_clock_runs_and_a_frozen_one_stands() -> None:
    running, frozen = Clock(5.0), Clock(5.0, is_frozen=True)
    time.sleep(0.01)
    assert running.now() > 5.0 and frozen.now() == 5.0
    for clock in (running, frozen):
        clock.advance(10)
        assert 15.0 <= clock.now() < 16.0
        clock.reset()
        assert 5.0 <= clock.now() < 6.0
    assert abs(Clock().now() - time.time()) < 1


@pytest.mark.parametrize(("seconds", "is_answered"), [(0.3, True), (60, False)])
def test_a_reply_under_way_is_waited_for_but_not_for_long(
    seconds: float, is_answered: bool, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    before, arrived = threading.active_count(), threading.Event()

    def late(*_: object) -> dict[str, Any]:
        arrived.set()
        return saying("late", wait_seconds=seconds)

    with LocalServer(late) as server, ThreadPoolExecutor(1) as pool:
        client = anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0)
        asked = pool.submit(client.messages.create, **asking())
        assert arrived.wait(10)
        server.stop()  # a reply that takes a minute is not waited for: the client's exception comes before the reply would
        failed = asked.exception(30)
        assert isinstance(failed, anthropic.APIError) if not is_answered else failed is None
        client.close()
    assert threading.active_count() == before
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
    assert capfd.readouterr() == ("", "")
