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
from contextkit.cli.proxy_output import ConsoleOutput
from contextkit.ledger.calls import ModelCall
from contextkit.prices import cost_usd
from contextkit.proxy.repairs.repairs import Repairs
from contextkit.proxy.repairs.splices import undo_of, undone
from contextkit.server import LocalServer
from contextkit.watcher.budget import Cap
from tests.server.conftest import CLAUDE, GPT
from tests.server.proxied import Seen, client, passing, provider
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
    fields = dict.fromkeys(Options.__dataclass_fields__, None) | {"record": str(path), "budget": 1.0}
    spent = {per: _budget(Options(**{**fields, "budget_per": per})).spent.tokens for per in ("day", "session")}  # type: ignore[union-attr, arg-type]
    assert spent == {"day": 105, "session": 0}


# Output limits that are lowered
# ----------------------------------------------------------------------------------------------------------------------


def usd_of(server: LocalServer) -> float:
    bills = [
        cost_usd(call.provider, call.model, call.usage, call.at) for call in server.ledger if call.usage is not None
    ]
    return sum(bill or 0.0 for bill in bills)


@pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
def test_a_loop_of_an_agent_ends_in_a_refusal_within_its_budget(server: LocalServer, wire: str) -> None:
    """Each call asks for more output than the whole budget buys."""
    server.script([{"parts": [{"type": "text", "text": "word " * 150}]}] * 200)
    budget, reports = Budget(usd=0.01), list[Any]()
    with (
        passing(server.url, budget=budget, caps_output=True, on_report=reports.append) as url,
        anthropic.Anthropic(base_url=url, api_key="any") as claude,
        openai.OpenAI(base_url=f"{url}/v1", api_key="any") as gpt,
    ):
        ask: Any = {
            "messages": lambda: claude.messages.create(
                model="claude-haiku-4-5", max_tokens=32_000, messages=[{"role": "user", "content": "Hello"}], timeout=60
            ),
            "chat": lambda: gpt.chat.completions.create(model="gpt-5-mini", messages=ASKED[:1], n=1),  # type: ignore[arg-type]
            "responses": lambda: gpt.responses.create(model="gpt-5-mini", input="Hello", max_output_tokens=128_000),
        }[wire]

        def ask_on() -> None:
            for _ in range(200):
                ask()
                settled(budget)

        with pytest.raises((anthropic.APIStatusError, openai.APIStatusError), match="the fewest that are of") as caught:
            ask_on()
    assert caught.value.status_code == 402 and len(list(server.ledger)) > 1
    assert 0 < usd_of(server) <= budget.spent.usd <= 0.01 and budget.reserved.tokens == 0
    lowered = [report["capped"] for report in reports if "capped" in report]
    assert lowered and all(report["from"] is None or report["to"] < report["from"] for report in lowered)
    assert [report["to"] for report in lowered] == sorted((report["to"] for report in lowered), reverse=True)
    assert lowered[0]["text"].endswith(": the budget's worst case")


def test_a_lowered_request_is_recorded_as_it_was_sent_and_with_what_came() -> None:
    reached, seen = list[bytes](), Seen()
    answer = json.dumps(
        {"id": "m", "usage": {"input_tokens": 9, "output_tokens": 1}, "stop_reason": "end_turn"}
    ).encode()
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("b", "a")]
    fields = {"tools": tools, "max_tokens": 64_000, "model": CLAUDE, "messages": [{"role": "user", "content": "hï"}]}
    body = json.dumps(fields, indent=1, ensure_ascii=False).encode()

    def replies(wire: Any) -> None:
        while (asked := wire.request())[0]:
            reached.append(asked[1])
            wire.say(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (len(answer), answer)
            )

    named: dict[str, Any] = {"observer": seen, "budget": Budget(tokens=20_000), "caps_output": True}
    with (
        provider(replies) as upstream,
        passing(upstream, **named, repair=Repairs(["sort-tools"])) as url,
        client(url) as wire,
    ):
        for more, status in ((b"", b"200"), (b"Authorization: AWS4-HMAC-SHA256 x\r\n", b"402")):
            head = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n" % (more, len(body))
            wire.say(head + body)
            assert wire.request()[0].split()[1] == status
    [sent], [departed] = reached, seen.left
    assert departed.body == sent and departed.before == body and departed.repairs == ("sort-tools", "output-limit")
    assert undone(sent, undo_of(body, departed.shared, departed.repairs)) == body
    now = json.loads(sent)
    assert [tool["name"] for tool in now["tools"]] == ["a", "b"] and 7_000 < now["max_tokens"] < 10_000
    assert {**now, "tools": tools, "max_tokens": 64_000} == fields


def test_the_output_says_it_once_and_counts_it(capsys: pytest.CaptureFixture[str]) -> None:
    shown = ConsoleOutput(is_json=False, is_quiet=False)
    shown.began("http://here", "https://there")
    for to in (8_100, 7_000):
        text = str(Cap("max_tokens", 32_000, to))
        shown.report(
            {"capped": {"path": "/v1/messages", "field": "max_tokens", "from": 32_000, "to": to, "text": text}}
        )
    shown.report({"summary": {"total": {"calls": 2}}, "text": "$0.01", "breaks": {}})
    shown.close()
    out = capsys.readouterr().out
    assert out.count("max_tokens lowered from 32,000 to 8,100: the budget's worst case") == 1 and "7,000" not in out
    assert "output limit lowered to what the budget had left: 2 calls" in out
