"""The oracle is no rubber stamp: requests that fit the SDKs' types pass, and each corruption of them fails."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParams
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses.response_create_params import ResponseCreateParams

from tests.providers.strict import faults

MARK = {"mode": "explicit"}
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
CHAT = {
    "model": "gpt-6.1-sol",
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}],
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "a", "prompt_cache_breakpoint": MARK}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "4"},
    ],
}
RESPONSES = {
    "model": "gpt-6.1-sol",
    "tools": [{"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": False}],
    "input": [
        {"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": "https://e.org/a.png"}]},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "4"}]},
    ],
}
ANTHROPIC = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 9,
    "tools": [{"name": "f", "description": "d", "input_schema": SCHEMA}],
    "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}],
        },
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "4"}]}],
        },
    ],
}
ORACLES: list[tuple[Any, Any]] = [
    (CompletionCreateParams, CHAT),
    (ResponseCreateParams, RESPONSES),
    (MessageCreateParams, ANTHROPIC),
]
FREE = frozenset({"parameters", "input_schema", "input"})
"""Keys below which anything is allowed."""


def corruptions(body: Any) -> Iterator[tuple[str, Any]]:
    """`body` with one thing wrong: an unknown key in one object, or another type in one leaf."""
    for path in _places(body, ()):
        spoilt = copy.deepcopy(body)
        inside = spoilt
        for step in path[:-1]:
            inside = inside[step]
        where = inside[path[-1]] if path else spoilt
        if isinstance(where, dict):
            where["no_such_key"] = 1
        else:
            inside[path[-1]] = {"no": "such", "type": []}
        yield ".".join(map(str, path)) or "$", spoilt


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*path, index))
        return
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in FREE or isinstance(item, list):
                yield from _places(item, (*path, key))


@pytest.mark.parametrize(("kind", "body"), ORACLES, ids=["chat", "responses", "messages"])
def test_a_good_request_passes_and_every_corruption_of_it_fails(kind: Any, body: Any) -> None:
    assert faults(kind, body) == []
    spoilt = dict(corruptions(body))
    assert len(spoilt) >= 15
    assert [name for name, one in spoilt.items() if not faults(kind, one)] == []
