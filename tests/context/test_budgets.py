"""Budgets: nothing is sent that could exceed the limit, whatever comes back, and what was spent is found again."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from contextkit import Budget, Context, OpenAICompatible
from contextkit.errors import BudgetExceeded, UnreadableReply
from contextkit.prices import cost_usd
from tests.context.desk import Desk, refuses, says

DAY = 86_400.0


def cost(context: Context) -> float:
    """What the ledger says was billed."""
    rows = [row for row in context.ledger if row.usage is not None]
    return sum(cost_usd(row.provider, row.model, row.usage, row.at) or 0.0 for row in rows if row.usage)


@pytest.mark.parametrize("way", ["send", "create", "stream", "asend"])
def test_a_call_that_could_exceed_the_budget_is_not_sent(claude: Desk, way: str) -> None:
    budget = Budget(tokens=20_000)
    context = claude.context("Hello", budget=budget)

    def ask_on() -> None:
        for turn in range(30):
            claude.server.script([says(f"answer {turn}")])
            request = context.request()
            reply = claude.send(request, way)
            list(context.stream(reply, request)) if way == "stream" else context.receive(reply, request)
            context.user("And then?")

    with pytest.raises(BudgetExceeded, match="nothing was sent") as caught:
        ask_on()
    error = caught.value
    used = sum((row.usage.prompt or 0) + (row.usage.output or 0) for row in context.ledger if row.usage)
    assert 0 < len(context.ledger) < 30 and budget.spent.tokens == used == error.spent <= 20_000
    assert (error.unit, error.limit, error.reserved, budget.reserved.tokens) == ("tokens", 20_000, 0, 0)
    assert error.would_be > 20_000 and "Budget(tokens=…)" in str(error) and "--budget-tokens" in error.for_shell()
    assert budget.spent.usd == pytest.approx(cost(context))


def test_a_budget_is_raised_where_it_stands(claude: Desk) -> None:
    budget = Budget(tokens=1)
    context = claude.context("Hello", budget=budget)
    claude.server.script([says("Hi.")])
    with claude.client() as client:
        with pytest.raises(BudgetExceeded):
            list(context.run(client))
        budget.tokens = 100_000
        assert [step.text for step in context.run(client)] == ["Hi."]


def test_calls_in_flight_are_reserved_and_branches_share_the_budget(claude: Desk) -> None:
    budget = Budget(tokens=24_000)
    context = claude.context("Hello", budget=budget)
    claude.server.script([says(f"{n}") for n in range(12)])
    branches = context.fan_out([f"task {n}" for n in range(12)])
    with claude.client() as client:
        replies = branches.send(client, limit=12)
    refused = [reply for reply in replies if isinstance(reply, BudgetExceeded)]
    assert refused and len(refused) + len(context.ledger) == 12
    assert any(error.reserved for error in refused)
    assert budget.spent.tokens <= 24_000 and budget.reserved.tokens == 0
    budget.tokens = 100_000  # how much the calls in flight left depends on how many of them had ended
    agent = context.spawn("Another task")
    claude.server.script([says("ok")])
    agent.receive(claude.send(agent.request(), "send"))
    assert budget.spent.tokens == sum(
        (row.usage.prompt or 0) + (row.usage.output or 0) for row in context.ledger if row.usage
    )


def test_what_may_have_been_billed_stays_charged_and_an_error_status_is_not(desk: Desk) -> None:
    budget = Budget(tokens=20_000)
    context = desk.context("Hello", budget=budget)
    with desk.client() as client:
        desk.server.script([refuses(529)])
        with pytest.raises(Exception, match="529"):
            context.request().send(client)
        assert (budget.spent.tokens, budget.reserved.tokens) == (0, 0)
        desk.server.script([says("a long answer " * 50)])
        stream = context.stream(context.request().stream(client))
        next(stream)
        stream.close()
        cut = budget.spent.tokens
        assert cut >= 1_024 and budget.reserved.tokens == 0
        with pytest.raises(UnreadableReply):
            context.receive({"nonsense": 1})
        desk.server.script([says("ok")])
        context.receive(context.request().send(client))
    used = [row.usage for row in context.ledger if row.error is None]
    assert budget.spent.tokens == cut + (used[0].prompt or 0) + (used[0].output or 0)  # type: ignore[union-attr]


def test_a_resumed_session_and_another_conversation_of_the_day_find_what_was_spent(
    claude: Desk, tmp_path: Path
) -> None:
    for per in ("session", "day"):
        before = Budget(usd=1.0, per=per)  # type: ignore[arg-type]
        with claude.open(tmp_path / per, budget=before) as context, claude.client() as client:
            context.user("Hello")
            claude.server.script([says("one"), says("a long answer " * 50)])
            context.receive(context.request().send(client))
            context.user("More")
            stream = context.stream(context.request().stream(client))
            next(stream)
            stream.close()
        after = Budget(usd=1.0, per=per)  # type: ignore[arg-type]
        with claude.open(tmp_path / per, budget=after) as context:
            assert after.spent.tokens == before.spent.tokens > 1_024
            assert after.spent.usd == pytest.approx(before.spent.usd)
            assert context.request() is not None
        with claude.open(tmp_path / per, budget=before):
            assert before.spent.tokens == after.spent.tokens  # found in the ledger again, counted once
        later = Budget(tokens=after.spent.tokens + 1_000, per=per)  # type: ignore[arg-type]
        now = claude.server.clock.now
        with claude.open(tmp_path / per, budget=later, clock=lambda now=now: now() + DAY) as context:
            if per == "day":
                context.request()
            else:
                with pytest.raises(BudgetExceeded):
                    context.request()


def test_a_day_is_shared_and_a_session_is_not(claude: Desk) -> None:
    first = claude.context("Hello")
    claude.server.script([says("ok")] * 2)
    limit = (first.request().predicted.prompt or 0) + 1_500
    with claude.client() as client:
        for per in ("day", "session"):
            budget = Budget(tokens=limit, per=per)  # type: ignore[arg-type]
            first = claude.context("Hello", budget=budget, session="one")
            first.receive(first.request().send(client))
            second = claude.context("Hello, you", budget=budget, session="two")
            if per == "session":
                assert second.request() is not None
                continue
            with pytest.raises(BudgetExceeded, match="per day"):
                second.request()


def test_a_model_without_a_price_counts_tokens_and_warns_once() -> None:
    provider = OpenAICompatible("house-model", host="vllm", max_tokens=64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        context = Context(provider, budget=Budget(usd=0.0, tokens=5_000))
        context.user("Hello")
        for _ in range(3):
            dict(context.request())
        with pytest.raises(BudgetExceeded, match="tokens"):
            [dict(context.request()) for _ in range(30)]
    assert sum("no price is known for 'house-model'" in str(warning.message) for warning in caught) == 1
