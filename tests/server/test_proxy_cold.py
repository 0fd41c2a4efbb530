"""A request whose cache has expired is held back once, where that was asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import pytest

from contextkit.canonical import Json, parse
from contextkit.providers.client_names import ClientNames
from contextkit.proxy.call_analyzer import CallAnalyzer
from contextkit.proxy.cold import ColdGate, ExpiredCache
from contextkit.proxy.observer import Departed, Ended, ForecastRequest, Passed
from contextkit.server import LocalServer
from tests.server.proxied import passing

HEAD = "You are careful. " * 2_000


class Analyzed:
    """The process that judges, in this one."""

    def __init__(self) -> None:
        self.analysis = CallAnalyzer(None, print)

    def departed(self, call: Departed) -> None:
        self.analysis.departed(call)

    def ended(self, call: Ended) -> None:
        self.analysis.ended(call)

    def passed(self, request: Passed) -> None:
        """Take what is no call."""

    async def forecast(self, call: ForecastRequest) -> Json | None:
        return parse(self.analysis.forecast(call))["forecast"]


def said(turns: int) -> list[Any]:
    return [{"role": ("user", "assistant")[n % 2], "content": f"turn {n}"} for n in range(2 * turns - 1)]


@pytest.mark.parametrize("pause", [400, 4_000], ids=["its own lifetime", "any lifetime"])
def test_a_pause_that_outlives_the_cache_is_told_before_it_is_paid(pause: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_780_000_000.0]
    monkeypatch.setattr("contextkit.proxy.relay.time.time", lambda: now[0])
    judge, told = Analyzed(), list[Any]()
    with (
        LocalServer(now=now[0]) as server,
        passing(server.url, observer=judge, cold=ColdGate(judge.forecast, 0.01), on_report=told.append) as url,
        anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client,
    ):

        def ask(turns: int, after: float, session: str = "s1") -> Any:
            now[0] += after
            server.clock.set(now[0])
            return client.messages.create(
                model="claude-sonnet-5-5",
                max_tokens=50,
                system=[{"type": "text", "text": HEAD, "cache_control": {"type": "ephemeral"}}],
                messages=said(turns),
                extra_headers={"x-claude-code-session-id": session},
            )

        ask(1, 0)
        ask(2, 60)
        ask(3, 200)
        now[0] += pause - 30
        client.messages.create(  # a small request beside it, as clients make for a title, says nothing of its cache
            model="claude-haiku-4-5",
            max_tokens=50,
            messages=[{"role": "user", "content": "a title"}],
            extra_headers={"x-claude-code-session-id": "s1"},
        )
        with pytest.raises(anthropic.APIStatusError) as held:
            ask(4, 30)
        assert held.value.status_code == 402
        text = str(held.value)
        assert "its cache" not in text and "has expired" in text and "tokens again, for $0.0" in text
        assert ask(4, 10).usage.cache_read_input_tokens == 0  # sent again it passes, and pays
        assert ask(5, 10).usage.cache_read_input_tokens > 0
        ask(1, 4_000, "s2")  # another conversation, which shares the head: there is nothing to decide
    assert list(told[0]) == ["refused"] and len(server.ledger) >= 5


def test_what_costs_little_or_cannot_be_told_passes() -> None:
    asyncio.run(_what_costs_little_passes())


async def _what_costs_little_passes() -> None:
    asked = list[ForecastRequest]()

    def gate(said: Json | None) -> ColdGate:
        async def forecast(call: ForecastRequest) -> Json | None:
            asked.append(call)
            return said

        return ColdGate(forecast, 0.5)

    def call(at: float, names: ClientNames | None = None) -> Departed:
        given = () if names is None else (names.session, names.agent, "", "", "")
        return Departed(1, "anthropic_messages", "/v1/messages", "", b"{}", None, (), (), at, (), given)

    for passes in (None, {"tokens": 0, "usd": None}, {"tokens": 9, "usd": 0.49}):
        one = gate(passes)
        await one.check(call(1e9 - 900))
        await one.check(call(1e9))
    for held in ({"tokens": 9, "usd": 0.5}, {"tokens": 9, "usd": None}):
        one = gate(held)
        await one.check(call(1e9 - 900))
        with pytest.raises(ExpiredCache, match="9 tokens again"):
            await one.check(call(1e9))
        await one.check(call(1e9 + 299))
        with pytest.raises(ExpiredCache):
            await one.check(call(1e9 + 700))
    one = gate({"tokens": 9, "usd": 9.0})
    for agent in "ab":
        await one.check(call(1e9 - 900, ClientNames("s", agent)))
    with pytest.raises(ExpiredCache):
        await one.check(call(1e9, ClientNames("s", "a")))
    with pytest.raises(ExpiredCache):  # another agent of the session has its own
        await one.check(call(1e9, ClientNames("s", "b")))
    assert asked
