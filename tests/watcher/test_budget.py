"""A watched client under a budget: what could exceed it is not sent, and every attempt of the SDK counts."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from contextkit import AnthropicMessages, Budget, Context, watch
from contextkit.errors import BudgetExceeded
from contextkit.server import LocalServer
from tests.watcher.talk import Talk

CALLS: dict[str, Any] = {
    "claude": (anthropic.Anthropic, lambda client: client.messages.create, {}),
    "chat": (openai.OpenAI, lambda client: client.chat.completions.create, {"max_completion_tokens": 100}),
    "responses": (openai.OpenAI, lambda client: client.responses.create, {"max_output_tokens": 100}),
}


MADE: list[Any] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()


def client_of(server: LocalServer, name: str, budget: Budget, **more: Any) -> Any:
    kind = CALLS[name][0]
    base = server.url if name == "claude" else f"{server.url}/v1"
    made = kind(base_url=base, api_key="any", **{"max_retries": 0, **more})
    MADE.append(made)
    return watch(made, budget=budget)


def used(server: LocalServer) -> int:
    usages = [call.usage for call in server.ledger if call.usage is not None and call.error is None]
    return sum((usage.with_unknown_writes_as_zero().prompt or 0) + (usage.output or 0) for usage in usages)


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", CALLS)
def test_a_request_that_could_exceed_the_budget_does_not_leave(server: LocalServer, name: str, is_stream: bool) -> None:
    budget, talk = Budget(tokens=20_000), Talk()
    create = CALLS[name][1](client_of(server, name, budget))
    more = {**CALLS[name][2], **({"stream": True} if is_stream else {})}
    if name == "chat" and is_stream:
        more["stream_options"] = {"include_usage": True}

    def ask_on() -> None:
        for _ in range(60):
            reply = create(**getattr(talk, name)(**more))
            if is_stream:
                list(reply)
            talk.say()

    with pytest.raises(BudgetExceeded, match="nothing was sent"):
        ask_on()
    assert 0 < used(server) == budget.spent.tokens <= 20_000
    assert budget.reserved.tokens == 0


def test_an_async_client_is_kept_back_too(server: LocalServer) -> None:
    budget = Budget(usd=0.0)

    async def ask() -> None:
        client = watch(anthropic.AsyncAnthropic(base_url=server.url, api_key="any", max_retries=0), budget=budget)
        await client.messages.create(**Talk().claude())

    with pytest.raises(BudgetExceeded, match=r"\$0\.0000 are spent"):
        asyncio.run(ask())
    assert not list(server.ledger)


def test_every_attempt_counts_and_an_error_status_does_not(server: LocalServer) -> None:
    budget = Budget(tokens=50_000)
    client = client_of(server, "claude", budget, max_retries=1)
    server.script([{"fault": {"kind": "status", "status": 529}}, {"parts": [{"type": "text", "text": "ok"}]}])
    client.messages.create(**Talk().claude())
    assert budget.spent.tokens == used(server)
    server.script([{"parts": [{"type": "text", "text": "ok " * 50}]}])
    with client.messages.create(**Talk("again").claude(stream=True)) as stream:
        next(iter(stream))
    assert used(server) < budget.spent.tokens and budget.reserved.tokens == 0


def test_a_connection_that_was_refused_costs_nothing() -> None:
    budget = Budget(tokens=50_000)
    made = anthropic.Anthropic(base_url="http://127.0.0.1:9", api_key="any", max_retries=0)
    with watch(made, budget=budget) as client, pytest.raises(anthropic.APIConnectionError):
        client.messages.create(**Talk().claude())
    assert (budget.spent.tokens, budget.reserved.tokens) == (0, 0)


def test_a_context_and_its_client_count_a_call_once(server: LocalServer) -> None:
    budget = Budget(tokens=50_000)
    client = client_of(server, "claude", budget)
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=100), system="Be brief.", budget=budget)
    context.user("Hello")
    context.receive(context.request().send(client))
    assert budget.spent.tokens == used(server)


def test_a_day_is_found_again_in_the_recording(server: LocalServer, tmp_path: Path) -> None:
    spent = []
    for _ in range(2):
        budget = Budget(tokens=1_000_000, per="day")
        spent.append(budget.spent.tokens)
        kind = anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with watch(kind, budget=budget, record=tmp_path / "runs.jsonl") as client:
                spent.append(budget.spent.tokens)
                client.messages.create(**Talk().claude())
                spent.append(budget.spent.tokens)
    assert spent[:3] == [0, 0, spent[2]] and spent[4] == spent[2] and spent[5] == 2 * spent[2]


def test_a_mapping_of_a_context_is_counted_once_by_a_watched_client(server: LocalServer) -> None:
    budget = Budget(tokens=200_000)
    client = client_of(server, "claude", budget, max_retries=2)
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=100), system="Be brief.", budget=budget)
    context.user("Hello")
    server.script(
        [{"fault": {"kind": "status", "status": 529, "retry_after": 0.01}}, {"parts": [{"type": "text", "text": "ok"}]}]
    )
    request = context.request()
    context.receive(client.messages.create(**request), request)
    assert (budget.spent.tokens, budget.reserved.tokens) == (used(server), 0)
    context.user("More")
    server.script([{"fault": {"kind": "never"}}, {"parts": [{"type": "text", "text": "ok"}]}])
    request = context.request()
    context.receive(client.messages.create(**request), request)
    everything = [call.usage for call in server.ledger if call.usage is not None]
    assert budget.spent.tokens >= sum((usage.prompt or 0) + (usage.output or 0) for usage in everything) > used(server)
    assert budget.reserved.tokens == 0


def test_what_was_unpacked_once_does_not_cover_what_is_sent_again_and_again(server: LocalServer) -> None:
    budget = Budget(tokens=20_000, per="day")
    client = client_of(server, "claude", budget)
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=500), system="Be brief. " * 200, budget=budget)
    context.user("Hello")
    sent = dict(context.request())

    def ask_on() -> None:
        for _ in range(60):
            client.messages.create(**sent)

    with pytest.raises(BudgetExceeded):
        ask_on()
    assert 3_000 < used(server) <= budget.spent.tokens + budget.reserved.tokens <= 20_000


def test_a_mapping_that_was_answered_several_times_is_charged_each_time(server: LocalServer) -> None:
    budget = Budget(tokens=200_000)
    client = client_of(server, "claude", budget)
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=100), system="Be brief.", budget=budget)
    context.user("Hello")
    request = context.request()
    fields = dict(request)
    replies = [client.messages.create(**fields) for _ in range(3)]
    context.receive(replies[0], request)
    assert used(server) <= budget.spent.tokens and budget.reserved.tokens == 0


def test_a_lost_attempt_stays_charged_where_the_last_one_was_refused(server: LocalServer) -> None:
    budget = Budget(tokens=200_000)
    client = client_of(server, "claude", budget, max_retries=1)
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=100), system="Be brief.", budget=budget)
    context.user("Hello")
    server.script([{"fault": {"kind": "never"}}, {"fault": {"kind": "status", "status": 400}}])
    request = context.request()
    with pytest.raises(anthropic.BadRequestError) as refused:
        client.messages.create(**request)
    context.failed(refused.value, request)
    billed = sum((call.usage.prompt or 0) for call in server.ledger if call.usage is not None)
    assert 0 < billed <= budget.spent.tokens and budget.reserved.tokens == 0


def test_equal_requests_in_flight_are_each_counted_once(server: LocalServer) -> None:
    budget = Budget(tokens=200_000)
    client = client_of(server, "claude", budget)
    contexts = [
        Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=100), system="Be brief.", budget=budget)
        for _ in range(2)
    ]
    for context in contexts:
        context.user("Hello")
    requests = [context.request() for context in contexts]
    sent = [dict(request) for request in requests]
    replies = [client.messages.create(**fields) for fields in sent]
    for context, reply, request in zip(contexts, replies, requests, strict=True):
        context.receive(reply, request)
    assert (budget.spent.tokens, budget.reserved.tokens) == (used(server), 0)
