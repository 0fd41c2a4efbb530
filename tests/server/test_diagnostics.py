"""Each provider's own diagnosis of a miss."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import Message
from openai.types.responses import Response

from tests.server.conftest import GPT, HEAD, asking
from tests.server.strict import strictly

USER = {"role": "user", "content": "hello"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
MARK = {"type": "ephemeral"}


def diagnosed(claude: anthropic.Anthropic, previous: str | None, **change: Any) -> tuple[str, Any]:
    raw = claude.messages.with_raw_response.create(
        **{**asking(), **change}, diagnostics={"previous_message_id": previous}
    )
    message = strictly(Message, raw.http_response.json())
    return message.id, message.diagnostics and message.diagnostics.cache_miss_reason


ANTHROPIC: dict[str, tuple[dict[str, Any], str | None]] = {
    "appended": ({"messages": [USER, {"role": "assistant", "content": "hi"}, USER]}, None),
    "same": ({}, None),
    "model": ({"model": "claude-opus-5-5"}, "model_changed"),
    "speed": ({"speed": "fast"}, "model_changed"),
    "tools": ({"tools": [TOOL]}, "tools_changed"),
    "system": ({"system": [{"type": "text", "text": HEAD + "!", "cache_control": MARK}]}, "system_changed"),
    "messages": ({"messages": [{"role": "user", "content": "hallo"}]}, "messages_changed"),
    "thinking": ({"thinking": {"type": "adaptive"}}, "unavailable"),
}


@pytest.mark.parametrize("name", ANTHROPIC)
def test_anthropic(claude: anthropic.Anthropic, name: str) -> None:
    change, kind = ANTHROPIC[name]
    first, nothing = diagnosed(claude, None)
    assert nothing is None
    _, reason = diagnosed(claude, first, **change)
    assert (reason and reason.type) == kind
    if kind in ("tools_changed", "system_changed", "model_changed"):
        assert reason.cache_missed_input_tokens > 512


def test_only_requests_that_ask_are_remembered(claude: anthropic.Anthropic) -> None:
    forgotten = claude.messages.create(**asking()).id
    for previous in (forgotten, "msg_never"):
        assert diagnosed(claude, previous)[1].type == "previous_message_not_found"


def responded(gpt: openai.OpenAI, previous: str | None, **change: Any) -> tuple[str, Any]:
    turns = [{"role": "developer", "content": HEAD}, USER]
    options: Any = {"comparison_response_id": previous} if previous else {}
    raw = gpt.responses.with_raw_response.create(
        **{"model": GPT, "input": turns, **change, "prompt_cache_options": options}
    )
    response = strictly(Response, raw.http_response.json())
    return response.id, response.prompt_cache_diagnostics


OPENAI: dict[str, tuple[dict[str, Any], str]] = {
    "same": ({}, "cache_hit"),
    "model": ({"model": "gpt-6-sol"}, "model_changed"),
    "key": ({"prompt_cache_key": "other"}, "prompt_cache_key_changed"),
    "tools": ({"tools": [{"type": "function", "name": "f", "parameters": {}}]}, "tools_changed"),
    "effort": ({"reasoning": {"effort": "high"}}, "reasoning_effort_changed"),
    "verbosity": ({"text": {"verbosity": "low"}}, "verbosity_changed"),
    "tier": ({"service_tier": "flex"}, "service_tier_changed"),
    "input": ({"input": [{"role": "developer", "content": HEAD + "!"}, USER]}, "input_changed"),
}


@pytest.mark.parametrize("name", OPENAI)
def test_openai(gpt: openai.OpenAI, name: str) -> None:
    change, kind = OPENAI[name]
    first, nothing = responded(gpt, None)
    assert nothing is None
    _, diagnosis = responded(gpt, first, **change)
    assert getattr(diagnosis, "reason", diagnosis.type) == kind
    assert responded(gpt, "resp_never")[1].type == "comparison_response_not_found"
