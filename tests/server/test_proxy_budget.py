"""The proxy under a budget: what could exceed it is answered with 402 in the endpoint's form, and not passed on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from contextkit import Budget, Ledger
from contextkit.cache.usage import Usage
from contextkit.cli.proxy import Options, _budget
from contextkit.ledger.calls import ModelCall
from contextkit.server import LocalServer
from tests.server.conftest import CLAUDE, GPT
from tests.server.proxied import client, passing, provider
from tests.server.test_proxy_endpoints import CONVERSE, GEMINI

ASKED = [{"role": "user", "content": "Hello " * 500}]


def used(server: LocalServer) -> int:
    usages = [call.usage for call in server.ledger if call.usage is not None and call.error is None]
    return sum((usage.with_unknown_writes_as_zero().prompt or 0) + (usage.output or 0) for usage in usages)


def settled(budget: Budget) -> None:
    """Wait until the proxy's thread has charged what it has passed on."""
    while budget.reserved.tokens:
        time.sleep(0.001)


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_claude_is_told_with_402_and_does_not_try_again(server: LocalServer, is_stream: bool) -> None:
    budget = Budget(tokens=4_000)
    asked: dict[str, Any] = {"model": CLAUDE, "max_tokens": 300, "messages": ASKED}

    def ask_on(claude: anthropic.Anthropic) -> None:
        for _ in range(20):
            reply = claude.messages.create(**asked, stream=is_stream)
            if is_stream:
                list(reply)

    refused: list[Any] = []
    with (
        passing(server.url, budget=budget, on_report=refused.append) as url,
        anthropic.Anthropic(base_url=url, api_key="any") as claude,
        pytest.raises(anthropic.APIStatusError, match=r"a call to .* could cost up to") as caught,
    ):
        ask_on(claude)
    assert caught.value.status_code == 402 and "--budget-tokens" in str(caught.value)
    assert caught.value.body["type"] == "error"  # type: ignore[index]
    [told] = [report["refused"] for report in refused]
    assert told["path"] == "/v1/messages" and told["text"] in str(caught.value)
    settled(budget)
    assert 0 < used(server) == budget.spent.tokens <= 4_000 and budget.reserved.tokens == 0


def test_openai_is_told_in_its_form(server: LocalServer) -> None:
    with (
        passing(server.url, budget=Budget(tokens=700)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="any") as gpt,
    ):
        for create, more in (
            (gpt.chat.completions.create, {"messages": ASKED, "max_completion_tokens": 300}),
            (gpt.responses.create, {"input": ASKED, "max_output_tokens": 300}),
        ):
            with pytest.raises(openai.APIStatusError, match="per session") as caught:
                create(model=GPT, **more)  # type: ignore[operator]
            assert caught.value.status_code == 402
    assert not list(server.ledger)


@pytest.mark.parametrize("path", [GEMINI, CONVERSE])
def test_other_endpoints_are_kept_back_and_charged_too(path: str) -> None:
    said, asked_with = {"role": "model", "parts": [{"text": "ok"}]}, [{"text": "hi " * 60}]
    if path is GEMINI:
        counts = {"promptTokenCount": 40, "candidatesTokenCount": 2, "totalTokenCount": 42}
        answer: Any = {"candidates": [{"content": said, "finishReason": "STOP"}], "usageMetadata": counts}
        body: Any = {"contents": [{"parts": asked_with}], "generationConfig": {"maxOutputTokens": 20}}
    else:
        said, counts = {"role": "assistant", "content": [{"text": "ok"}]}, {"inputTokens": 40, "outputTokens": 2}
        counts |= {"totalTokens": 42, "cacheReadInputTokens": 0, "cacheWriteInputTokens": 0}
        answer = {"output": {"message": said}, "stopReason": "end_turn", "usage": counts}
        body = {"messages": [{"role": "user", "content": asked_with}], "inferenceConfig": {"maxTokens": 20}}
    written, sent = json.dumps(answer).encode(), json.dumps(body).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(written)
    budget = Budget(tokens=150)
    asked = b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(sent), sent)

    def replies(wire: Any) -> None:
        while wire.request()[0]:
            wire.say(head + written)

    with provider(replies) as upstream, passing(upstream, budget=budget) as url, client(url) as wire:
        wire.say(asked)
        assert wire.request()[0].startswith(b"HTTP/1.1 200")
        settled(budget)
        assert budget.spent.tokens == 42
        statuses = []
        for _ in range(4):
            wire.say(asked)
            reply = wire.request()
            statuses.append(reply[0].split()[1])
            settled(budget)
    assert statuses[-1] == b"402" and b"could cost up to" in reply[1] and budget.spent.tokens <= 150


def test_a_day_counts_what_was_recorded_and_a_session_does_not(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with Ledger.open(path) as ledger:
        usage = Usage(100, 0, 0, 0, 5)
        ledger.append(ModelCall("a", "s", "main", time.time(), 1.0, 2.0, "anthropic", CLAUDE, None, usage, None, None))
    fields = dict.fromkeys(Options.__dataclass_fields__, None) | {"record": str(path), "budget_usd": 1.0}
    spent = {per: _budget(Options(**{**fields, "budget_per": per})).spent.tokens for per in ("day", "session")}  # type: ignore[union-attr, arg-type]
    assert spent == {"day": 105, "session": 0}
