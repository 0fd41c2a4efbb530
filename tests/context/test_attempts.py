"""Every attempt to send a request counts against a budget, whoever makes it, and a small budget caps what a request may
generate."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import anthropic
import pytest

from contextkit import (
    AnthropicMessages,
    Budget,
    Context,
    OpenAIChat,
    OpenAICompatible,
    OpenAIResponses,
)
from contextkit.errors import BudgetExceeded
from contextkit.providers.bedrock.converse import BedrockConverse
from contextkit.providers.gemini.generate import Gemini
from tests.context.desk import CUT_BEFORE, Desk, refuses, says

OVERLOADED = refuses(529, retry_after=0.01)


def billed(desk: Desk) -> int:
    """What the provider billed, replies that never arrived included."""
    usages = [call.usage for call in desk.server.ledger if call.usage is not None]
    return sum((usage.with_unknown_writes_as_zero().prompt or 0) + (usage.output or 0) for usage in usages)


def charged(budget: Budget) -> int:
    return budget.spent.tokens + budget.reserved.tokens


# The mapping
# ------------------------------------------------------------------------------------------------------------------


def test_a_mapping_that_is_sent_again_and_again_stops_with_the_budget(claude: Desk) -> None:
    budget = Budget(tokens=60_000)
    request = claude.context("Hello", budget=budget).request()
    claude.server.script([says("ok " * 50)] * 60)

    def ask_on() -> None:
        for _ in range(60):
            claude.send(request, "create")

    with pytest.raises(BudgetExceeded, match="nothing was sent"):
        ask_on()
    assert 0 < billed(claude) <= charged(budget) <= 60_000


def test_attempts_that_nobody_told_of_stay_charged_and_are_found_again(claude: Desk, tmp_path: Path) -> None:
    budget = Budget(tokens=1_000_000)
    with claude.open(tmp_path, budget=budget) as context, claude.client() as client:
        context.user("Hello")
        claude.server.script([CUT_BEFORE, says("ok")])
        request = context.request()
        with pytest.raises(Exception, match="onnection"):
            claude.wire.create(client)(**request)
        lost = budget.reserved.tokens
        context.receive(claude.wire.create(client)(**request), request)
        usage = context.ledger.calls[-1].usage
        assert usage is not None
        bill = (usage.with_unknown_writes_as_zero().prompt or 0) + (usage.output or 0)
        assert (budget.spent.tokens, budget.reserved.tokens) == (lost + bill, 0)
        assert billed(claude) <= budget.spent.tokens
    again = Budget(tokens=1_000_000)
    with claude.open(tmp_path, budget=again):
        assert again.spent.tokens == lost + bill


def test_a_mapping_that_is_unpacked_after_its_reply_is_another_attempt(claude: Desk) -> None:
    budget = Budget(tokens=1_000_000)
    context = claude.context("Hello", budget=budget)
    claude.server.script([says("ok")] * 2)
    request = context.request()
    with claude.client() as client:
        context.receive(claude.wire.create(client)(**request), request)
        assert budget.reserved.tokens == 0
        assert request["model"] and request.body and len(request) and "model" in request
        assert budget.reserved.tokens == 0
        claude.wire.create(client)(**request)
    assert budget.reserved.tokens > 0
    assert billed(claude) <= charged(budget)


def test_what_a_mapping_sets_aside_is_released_by_an_error_status(claude: Desk) -> None:
    budget = Budget(tokens=1_000_000)
    context = claude.context("Hello", budget=budget)
    claude.server.script([OVERLOADED])
    request = context.request()
    with claude.client() as client, pytest.raises(Exception, match="529") as caught:
        claude.wire.create(client)(**request)
    assert budget.reserved.tokens > 0
    context.failed(caught.value, request)
    assert charged(budget) == 0


# Retries of the SDK
# ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("desk", ["anthropic", "chat"], indirect=True)
@pytest.mark.parametrize("way", ["send", "asend", "stream"])
def test_a_retry_after_an_error_status_costs_nothing(desk: Desk, way: str) -> None:
    budget = Budget(tokens=20_000)
    context = desk.context("Hello", budget=budget)
    desk.server.script([OVERLOADED, OVERLOADED, says("ok")])
    request = context.request()
    reply = desk.send(request, way, max_retries=2)
    list(context.stream(reply, request)) if way == "stream" else context.receive(reply, request)
    assert (budget.spent.tokens, budget.reserved.tokens) == (billed(desk), 0)


def test_a_retry_after_a_lost_reply_is_charged_and_found_again(claude: Desk, tmp_path: Path) -> None:
    budget = Budget(tokens=1_000_000)
    with claude.open(tmp_path, budget=budget) as context:
        context.user("Hello")
        claude.server.script([CUT_BEFORE, says("ok")])
        request = context.request()
        context.receive(claude.send(request, "send", max_retries=2), request)
        assert billed(claude) <= budget.spent.tokens and budget.reserved.tokens == 0
        claude.server.script([CUT_BEFORE] * 3)
        context.user("More")
        with pytest.raises(anthropic.APIConnectionError):
            claude.send(context.request(), "send", max_retries=2)
        assert billed(claude) <= budget.spent.tokens and budget.reserved.tokens == 0
    again = Budget(tokens=1_000_000)
    with claude.open(tmp_path, budget=again):
        assert again.spent == budget.spent


def test_a_retry_that_the_budget_has_no_room_for_is_not_sent(claude: Desk, tmp_path: Path) -> None:
    budget = Budget(tokens=5_500)  # room for one attempt, not for two
    with claude.open(tmp_path, budget=budget) as context:
        context.user("Hello")
        claude.server.script([CUT_BEFORE, says("ok")])
        with pytest.raises(BudgetExceeded, match="nothing was sent"):
            claude.send(context.request(), "send", max_retries=2)
        assert len(claude.server.ledger) == 1
        assert billed(claude) <= budget.spent.tokens <= 5_500 and budget.reserved.tokens == 0
    again = Budget(tokens=5_500)
    with claude.open(tmp_path, budget=again):
        assert again.spent == budget.spent


def test_a_client_whose_attempts_are_not_seen_sets_all_of_them_aside(claude: Desk) -> None:
    class Own(anthropic.Anthropic):
        """A class of the program's own, which cannot be copied."""

        def __init__(self, url: str) -> None:
            super().__init__(base_url=url, api_key="any", max_retries=1)

    budget = Budget(tokens=1_000_000)
    context = claude.context("Hello", budget=budget)
    claude.server.script([CUT_BEFORE, CUT_BEFORE, says("ok")])
    with Own(claude.url) as client:
        with pytest.raises(anthropic.APIConnectionError):
            context.request().send(client)
        assert billed(claude) <= budget.spent.tokens and budget.reserved.tokens == 0
        before = budget.spent.tokens
        request = context.request()
        context.receive(request.send(client), request)
    usage = context.ledger.calls[-1].usage
    assert usage is not None and budget.reserved.tokens == 0
    assert budget.spent.tokens == before + (usage.prompt or 0) + (usage.output or 0)


# Budgets smaller than one request
# ------------------------------------------------------------------------------------------------------------------

BIG = 60_000


def test_a_small_budget_caps_the_output_and_says_so_once(claude: Desk) -> None:
    budget = Budget(tokens=12_000)
    context = Context(claude.wire.provider(max_tokens=BIG), system="Be brief.", budget=budget)
    claude.server.script([says("Yes.")] * 60)
    asked: list[int] = []

    def ask_on() -> None:
        with claude.client() as client:
            for _ in range(60):
                context.user("Go on? " * 100)
                request = context.request()
                asked.append(json.loads(request.body)[claude.wire.output])
                assert request.body == context.request().body
                context.receive(request.send(client), request)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(BudgetExceeded, match="256 of output, the fewest that are of use") as refused:
            ask_on()
    assert sum("its output is capped" in str(warning.message) for warning in caught) == 1
    assert len(asked) > 3 and asked == sorted(asked, reverse=True) and 256 <= asked[-1] < asked[0] < 12_000
    assert budget.spent.tokens == billed(claude) <= 12_000 and refused.value.limit == 12_000


def _with(provider: Any, **limits: Any) -> Context:
    context = Context(provider, system="Be brief.", budget=Budget(**limits) if limits else None, clock=lambda: 1000.0)
    context.user("Hello")
    return context


PROVIDERS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "anthropic": (lambda n: AnthropicMessages("claude-sonnet-5-5", max_tokens=n or BIG), ("max_tokens",)),
    "chat": (lambda n: OpenAIChat("gpt-6.1-sol", max_tokens=n), ("max_completion_tokens",)),
    "responses": (lambda n: OpenAIResponses("gpt-6.1-sol", max_output_tokens=n), ("max_output_tokens",)),
    "engine": (
        lambda n: OpenAICompatible("house-model", host="vllm", max_tokens=n),
        ("max_completion_tokens",),
    ),
    "host": (lambda n: OpenAICompatible("deepseek-chat", host="deepseek", max_tokens=n), ("max_tokens",)),
    "gemini": (
        lambda n: Gemini("gemini-2.5-pro", max_tokens=n),
        ("generationConfig", "maxOutputTokens"),
    ),
    "converse": (
        lambda n: BedrockConverse("anthropic.claude-haiku-4-5-20251001-v1:0", max_tokens=n),
        ("inferenceConfig", "maxTokens"),
    ),
}


@pytest.mark.parametrize("limit", [BIG, None], ids=["asked", "not asked"])
@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.filterwarnings("ignore:.*its output is capped", "ignore:no price is known")
def test_the_cap_is_in_the_endpoints_own_field_and_changes_nothing_else(name: str, limit: int | None) -> None:
    made, path = PROVIDERS[name]
    free, capped = _with(made(limit)).request(), _with(made(limit), tokens=3_000).request()
    bodies = [json.loads(request.body) for request in (free, capped)]
    n_output = _popped(bodies[1], path)
    assert 2_500 < n_output < 3_000
    _popped(bodies[0], path)
    assert bodies[0] == bodies[1]
    assert (capped.prompt, capped.predicted) == (free.prompt, free.predicted)
    assert capped.body == _with(made(limit), tokens=3_000).request().body


def _popped(body: Any, path: tuple[str, ...]) -> int:
    *above, last = path
    for name in above:
        inner = body.get(name, {})
        if set(inner) <= {last}:
            body.pop(name, None)
        body = inner
    return int(body.pop(last, 0))


@pytest.mark.filterwarnings("ignore:.*its output is capped")
def test_what_is_sent_by_the_mapping_has_room_for_the_retries_of_the_sdk(claude: Desk) -> None:
    budget = Budget(tokens=12_000)
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=BIG), system="Be brief.", budget=budget)
    context.user("Hello")
    claude.server.script([CUT_BEFORE, CUT_BEFORE, says("ok")])
    request = context.request()
    with claude.client(max_retries=2) as client:
        context.receive(client.messages.create(**request), request)
    assert request["max_tokens"] < 4_000 and json.loads(request.body)["max_tokens"] == request["max_tokens"]
    assert billed(claude) <= 12_000 and budget.reserved.tokens == 0


@pytest.mark.filterwarnings("ignore:.*its output is capped")
def test_thinking_keeps_its_room_below_the_cap_or_the_request_is_refused() -> None:
    def made() -> AnthropicMessages:
        thinking = {"type": "enabled", "budget_tokens": 2_000}
        return AnthropicMessages("claude-sonnet-4-5", max_tokens=BIG, thinking=thinking)

    assert 2_256 <= _with(made(), tokens=3_000).request()["max_tokens"] < 3_000
    with pytest.raises(BudgetExceeded, match="2,256 of output, the fewest that are of use"):
        _with(made(), tokens=2_200).request()


@pytest.mark.filterwarnings("ignore:.*its output is capped")
def test_dollars_cap_too_and_a_budget_with_room_for_a_request_refuses_as_before() -> None:
    provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=BIG)
    assert 256 <= _with(provider, usd=0.05).request()["max_tokens"] < BIG
    context = _with(provider, tokens=100_000)
    request = context.request()
    request.reserve()  # a call in flight: what it has set aside is not the other's to shrink into
    assert request["max_tokens"] == BIG
    with pytest.raises(BudgetExceeded, match=f"and {BIG:,} of output"):
        context.request()


def test_a_budget_that_is_given_to_a_session_opened_again_counts_lost_attempts_once(
    claude: Desk, tmp_path: Path
) -> None:
    budget = Budget(tokens=1_000_000)
    with claude.open(tmp_path, budget=budget) as context:
        context.user("Hello")
        claude.server.script([CUT_BEFORE, refuses(400)])
        with pytest.raises(anthropic.BadRequestError):
            claude.send(context.request(), "send", max_retries=2)
        spent = budget.spent
        assert spent.tokens > 0 and budget.reserved.tokens == 0
    with claude.open(tmp_path, budget=budget):
        assert budget.spent == spent
    again = Budget(tokens=1_000_000)
    with claude.open(tmp_path, budget=again):
        assert again.spent == spent
