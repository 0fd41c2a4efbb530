"""Several calls of one reply with one id: the reply is kept and billed once, each call is answered under an id of its
own, and the conversation goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context
from contextkit.providers.bedrock.converse import BedrockConverse
from contextkit.providers.gemini.generate import Gemini
from tests.context.desk import Desk, asks, honest, says

SAME = "call_0123456"


def twice(**more: Any) -> Any:
    """A script that calls `add` three times, twice with one id."""
    calls = [("add", {"a": 1, "b": 2}, SAME), ("add", {"a": 3, "b": 4}, SAME), ("add", {"a": 5, "b": 6}, "call_own")]
    return {"parts": [{"type": "call", "name": name, "arguments": to, "id": own} for name, to, own in calls], **more}


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_the_loop_goes_on_and_opens_again_with_the_same_bytes(desk: Desk, tmp_path: Path, is_stream: bool) -> None:
    with desk.open(tmp_path) as context, desk.client() as client:
        context.user("Add.")
        desk.server.script([twice(), says("3, 7 and 11.")])
        steps = list(context.run(client, on_event=(lambda event: None) if is_stream else None))
        assert [len(step.calls) for step in steps] == [3, 0] and steps[-1].text == "3, 7 and 11."
        ids = [call.id for call in steps[0].calls]
        assert ids[0] == SAME and ids[2] == "call_own" and len(set(ids)) == 3 and len(ids[1]) == len(SAME)
        answers = [json.loads(entry.body)["content"] for entry in steps[0].results]
        assert [json.dumps(answer).count(str(n)) for answer, n in zip(answers, (3, 7, 11), strict=True)] == [1, 1, 1]
        honest(desk, context)
        context.user("And then?")
        body = context.request().body
    with desk.open(tmp_path) as context, desk.client() as client:
        assert context.request().body == body
        desk.server.script([says("Nothing.")])
        assert [step.text for step in context.run(client)] == ["Nothing."]
        honest(desk, context)


def test_a_reply_that_is_received_again_is_billed_and_renamed_once(claude: Desk, tmp_path: Path) -> None:
    with claude.open(tmp_path) as context:
        context.user("Add.")
        claude.server.script([twice()])
        request = context.request()
        response = claude.send(request, "send")
        context.receive(response, request)
        ids = [call.id for call in context.calls]
    with claude.open(tmp_path) as context:  # whoever received it died before learning that it was kept
        context.receive(response, request)
        assert [call.id for call in context.calls] == ids and len(context.ledger) == 1


@pytest.mark.parametrize("desk", ["responses"], indirect=True)
def test_what_a_server_stores_under_the_old_ids_is_not_gone_on_from(desk: Desk) -> None:
    for is_twice in (False, True):
        context = desk.context("Add.")
        context.provider = desk.wire.provider(continues=True)
        desk.server.script([twice() if is_twice else asks(("add", {"a": 1, "b": 2})), says("ok")])
        with desk.client() as client:
            steps = list(context.run(client))
        assert steps[-1].text == "ok" and ("previous_response_id" in steps[-1].request) is not is_twice


NAMED = {"name": "add", "input": {"a": 1, "b": 2}}
NESTED = {"type": "tool_use", "id": SAME, "name": "add", "input": {"type": "tool_use", "id": SAME}}
REPLIES: dict[str, tuple[Any, Any]] = {
    "converse": (
        BedrockConverse("anthropic.claude-haiku-4-5-20251001-v1:0", max_tokens=99),
        {
            "output": {"message": {"role": "assistant", "content": [{"toolUse": {"toolUseId": SAME, **NAMED}}] * 2}},
            "stopReason": "tool_use",
            "usage": {"inputTokens": 9, "outputTokens": 2, "totalTokens": 11},
        },
    ),
    "gemini": (
        Gemini("gemini-2.5-pro", max_tokens=99),
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [{"functionCall": {"id": SAME, "name": "add", "args": {}}}] * 2,
                    },
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11},
        },
    ),
    "anthropic": (
        AnthropicMessages("claude-sonnet-5-5", max_tokens=99),
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5-5",
            "content": [NESTED] * 2,
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 9, "output_tokens": 2},
        },
    ),
}


@pytest.mark.parametrize(("provider", "response"), REPLIES.values(), ids=REPLIES)
def test_every_endpoint_sends_unique_ids_back(provider: Any, response: Any) -> None:
    context = Context(provider)
    context.user("Add.")
    context.receive(response, context.request())
    ids = [call.id for call in context.calls]
    assert len(set(ids)) == 2 and ids[0] == SAME
    for call in context.calls:
        context.result(call, "3")
    body = context.request().body.decode()
    is_nested = isinstance(provider, AnthropicMessages)  # the arguments hold the id, too, and are not touched
    assert body.count(f'"{ids[1]}"') == 2 and body.count(f'"{ids[0]}"') == (4 if is_nested else 2)
    assert len(context.ledger) == 1
