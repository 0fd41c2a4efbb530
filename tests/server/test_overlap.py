"""Requests that overlap: what one writes is readable once its response has begun, not before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import anthropic
import pytest

from contextkit.ledger.misses import misses
from contextkit.server import LocalServer

SHARED = "A long shared instruction. " * 400


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


def ask(server: LocalServer, question: str, timeout: float = 30) -> anthropic.types.Message:
    system = [{"type": "text", "text": SHARED, "cache_control": {"type": "ephemeral"}}]
    with anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0, timeout=timeout) as client:
        return client.messages.create(
            model="claude-sonnet-5-5", max_tokens=9, system=system, messages=[{"role": "user", "content": question}]
        )


def test_siblings_sent_at_once_all_pay_for_the_write(server: LocalServer) -> None:
    server.script([{"parts": [{"type": "text", "text": "ok"}], "wait_seconds": 0.6}] * 3)
    replies: list[anthropic.types.Message] = []
    threads = [threading.Thread(target=lambda: replies.append(ask(server, "the same part"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.usage.cache_read_input_tokens for reply in replies] == [0, 0, 0]
    assert all((reply.usage.cache_creation_input_tokens or 0) > 1000 for reply in replies)
    assert ask(server, "part 4").usage.cache_read_input_tokens == replies[0].usage.cache_creation_input_tokens
    assert [miss.cause for miss in misses(server.ledger)].count("cold_fan_out") == 2


def test_a_leader_that_has_begun_is_read_by_its_siblings(server: LocalServer) -> None:
    written = ask(server, "part 0").usage.cache_creation_input_tokens
    assert written
    assert [ask(server, f"part {n}").usage.cache_read_input_tokens for n in (1, 2)] == [written, written]


def test_a_client_that_leaves_before_the_response_begins_leaves_nothing(server: LocalServer) -> None:
    server.script([{"parts": [{"type": "text", "text": "late"}], "wait_seconds": 0.5}])
    with pytest.raises(anthropic.APITimeoutError):
        ask(server, "hello", timeout=0.1)
    patience = time.monotonic() + 5
    while not len(server.ledger) and time.monotonic() < patience:
        time.sleep(0.02)
    assert [call.error for call in server.ledger] == ["aborted"]
    assert server.ledger[0].usage is not None and server.ledger[0].first_byte_at is None
    assert ask(server, "hello").usage.cache_read_input_tokens == 0
