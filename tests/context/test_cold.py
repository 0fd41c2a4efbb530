"""Cold caches: when the entry ends, what its end costs, and who is asked before it is paid for again."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextkit import Budget
from contextkit.errors import ColdCacheRefused, UsageError
from contextkit.ledger.cold import ColdCache
from contextkit.prices import cost_usd
from tests.context.desk import Desk, says

LONG = "You are careful. " * 900


class Asked(list[ColdCache]):
    """Keeps what it was given, and answers as it is told to."""

    def __init__(self, answer: object = None) -> None:
        super().__init__()
        self.answer = answer

    def __call__(self, cold: ColdCache) -> object:
        self.append(cold)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def input_cost(desk: Desk) -> float:
    """What the server billed for the prompt of its last call."""
    row = desk.server.ledger[-1]
    assert row.usage is not None
    return (cost_usd(row.provider, row.model, row.usage, row.at) or 0.0) - (
        cost_usd(row.provider, row.model, type(row.usage)(0, 0, 0, 0, row.usage.output), row.at) or 0.0
    )


def test_what_is_at_risk_is_what_the_server_bills_more_once_the_entry_has_ended(desk: Desk) -> None:
    bills = []
    for is_late in (False, True):
        desk.server.reset()
        context = desk.context("Hello", system=LONG)
        assert (context.expires_at, context.at_risk_usd) == (None, 0.0)
        desk.ask(context, says("one"))
        context.user("More")
        ends, risk = context.expires_at, context.at_risk_usd
        now = desk.server.clock.now()
        assert ends is not None and ends > now and risk is not None and risk > 0
        if is_late:
            desk.server.clock.advance(ends - now)
            assert (context.expires_at, context.at_risk_usd) == (None, 0.0)
        desk.ask(context, says("two"))
        bills.append((input_cost(desk), risk))
    (warm, risk), (cold, same) = bills
    assert risk == same == pytest.approx(cold - warm)


@pytest.mark.parametrize("way", ["send", "create", "stream", "asend"])
def test_on_cold_is_asked_once_before_a_late_request_is_sent(claude: Desk, way: str) -> None:
    asked = Asked()
    context = claude.context("Hello", system=LONG, on_cold=asked)
    for _ in range(2):
        claude.ask(context, says("one"))
        context.user("More")
    assert not asked
    ends, risk = context.expires_at, context.at_risk_usd
    assert ends is not None and risk is not None
    claude.server.clock.advance(ends - claude.server.clock.now() + 1)
    claude.server.script([says("two")])
    request = context.request()
    assert not asked
    reply = claude.send(request, way)
    list(context.stream(reply, request)) if way == "stream" else context.receive(reply, request)
    (cold,) = asked
    assert (cold.lane, cold.reason, cold.expired_at) == ("main", "ttl_expired", ends)
    assert cold.cost_usd == pytest.approx(risk, rel=0.02) and cold.n_tokens > 1_000
    assert f"{cold.n_tokens:,} tokens are cached no more (ttl_expired)" in str(cold)


@pytest.mark.parametrize("answer", [False, ValueError("too expensive")])
def test_false_or_an_error_stops_the_call(claude: Desk, answer: object) -> None:
    asked, budget = Asked(), Budget(usd=1.0)
    context = claude.context("Hello", system=LONG, on_cold=asked, budget=budget)
    claude.ask(context, says("one"))
    context.user("More")
    claude.server.clock.advance(100_000)
    asked.answer = answer
    spent, n_calls = budget.spent, len(claude.server.ledger)
    request = context.request()
    with claude.client() as client, pytest.raises((ColdCacheRefused, ValueError)) as caught:
        request.send(client)
    assert getattr(caught.value, "cold", asked[0]) is asked[0]
    assert (budget.spent, budget.reserved.usd, len(claude.server.ledger)) == (spent, 0.0, n_calls)
    assert len(context.ledger) == n_calls
    asked.answer = True
    claude.server.script([says("two")])
    context.receive(claude.send(request, "send"), request)
    assert len(asked) == 2


def test_a_rewritten_prompt_is_cold_and_a_resumed_one_too(claude: Desk, tmp_path: Path) -> None:
    asked = Asked()
    with claude.open(tmp_path, system=LONG, on_cold=asked) as context:
        context.user("Hello")
        claude.ask(context, says("one"))
        context.user("More")
        context.resystem(LONG.upper())
        claude.ask(context, says("two"))
        assert [cold.expired_at for cold in asked] == [None] and asked[0].reason != "ttl_expired"
    claude.server.clock.advance(400)
    with claude.open(tmp_path, system=LONG.upper(), on_cold=asked) as context:
        context.user("Still there?")
        claude.ask(context, says("three"))
    assert [cold.reason for cold in asked[1:]] == ["ttl_expired"]


def test_branches_ask_too_and_what_is_no_function_is_refused(claude: Desk) -> None:
    asked = Asked()
    context = claude.context("Hello", system=LONG, on_cold=asked)
    claude.ask(context, says("one"))
    agent = context.spawn("a task")
    claude.ask(agent, says("two"))
    agent.user("go on")
    claude.server.clock.advance(100_000)
    claude.ask(agent, says("three"))
    assert [cold.lane for cold in asked] == [agent.lane]
    with pytest.raises(UsageError, match="on_cold is a function"):
        claude.context(on_cold=5)
