"""Whatever is sent, the answer is the provider's: never a 500, never a dropped connection."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.server.conftest import CLAUDE, GPT, HEAD

MARK, POINT = {"type": "ephemeral"}, {"type": "default"}
WHOLE: dict[str, dict[str, Any]] = {
    "/v1/messages": {
        "model": CLAUDE,
        "max_tokens": 100,
        "stream": False,
        "stop_sequences": ["x"],
        "metadata": {"user_id": "u"},
        "cache_control": MARK,
        "tools": [
            {
                "name": "f",
                "description": "d",
                "input_schema": {"type": "object", "properties": {}},
                "cache_control": MARK,
            }
        ],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "diagnostics": {"previous_message_id": None},
        "system": [{"type": "text", "text": HEAD, "cache_control": MARK}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "hi"},
                    {"type": "image", "source": {"type": "url", "url": "https://x"}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": "s"},
                    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": "3", "cache_control": MARK}],
                    },
                ],
            },
        ],
    },
    "/v1/chat/completions": {
        "model": GPT,
        "stream": False,
        "max_completion_tokens": 5,
        "temperature": 1.0,
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
        "tool_choice": "auto",
        "response_format": {"type": "text"},
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
        ],
        "messages": [
            {
                "role": "developer",
                "content": [{"type": "text", "text": HEAD, "prompt_cache_breakpoint": {"mode": "explicit"}}],
            },
            {
                "role": "user",
                "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "https://x"}}],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "3"},
        ],
    },
    "/v1/responses": {
        "model": GPT,
        "stream": False,
        "max_output_tokens": 5,
        "instructions": "be brief",
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "prompt_cache_options": {"mode": "implicit", "ttl": "12h"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "tool_choice": "auto",
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
        ],
        "input": [
            {
                "role": "developer",
                "content": [{"type": "input_text", "text": HEAD, "prompt_cache_breakpoint": {"mode": "explicit"}}],
            },
            {"role": "user", "content": "hi"},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "t"}],
                "encrypted_content": "e",
            },
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "3"}]},
        ],
    },
    "/model/anthropic.claude-sonnet-5-5/converse": {
        "inferenceConfig": {"maxTokens": 5, "stopSequences": ["x"]},
        "toolConfig": {
            "tools": [
                {"toolSpec": {"name": "f", "description": "d", "inputSchema": {"json": {"type": "object"}}}},
                {"cachePoint": POINT},
            ],
            "toolChoice": {"tool": {"name": "f"}},
        },
        "system": [{"text": HEAD}, {"cachePoint": {**POINT, "ttl": "1h"}}],
        "messages": [
            {"role": "user", "content": [{"text": "hi"}, {"image": {"format": "png", "source": {"bytes": "AA=="}}}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "t", "signature": "s"}}},
                    {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"a": 1}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "t1", "content": [{"text": "3"}], "status": "success"}},
                    {
                        "document": {
                            "name": "d",
                            "format": "txt",
                            "source": {"text": "words"},
                            "citations": {"enabled": True},
                        }
                    },
                ],
            },
        ],
    },
    "/v1beta/models/gemini-2.5-pro:generateContent": {
        "systemInstruction": {"parts": [{"text": HEAD}]},
        "generationConfig": {"maxOutputTokens": 5, "stopSequences": ["x"]},
        "tools": [
            {"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}]}
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "safetySettings": [],
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}}]},
            {
                "role": "model",
                "parts": [
                    {"text": "t", "thought": True, "thoughtSignature": "cw=="},
                    {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}},
                ],
            },
            {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "f", "response": {"output": "3"}}}]},
        ],
    },
}
HEADERS = {"authorization": "Bearer any", "anthropic-version": "2026-10-21"}
STRANGE: tuple[Any, ...] = (
    None,
    5,
    -1,
    1.5,
    True,
    "",
    "x",
    "\x00",
    [],
    {},
    [None],
    [[]],
    {"type": 5},
    {"type": []},
    [{"type": None}],
    10**25,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) inside."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from places(item)


@pytest.mark.parametrize("path", WHOLE)
def test_corrupted_bodies(http: httpx2.Client, path: str) -> None:
    assert http.post(path, json=WHOLE[path], headers=HEADERS).status_code == 200
    random_ = random.Random(path)
    n_places = len(list(places(WHOLE[path])))
    refused = 0
    for index in range(2 * n_places):
        body = copy.deepcopy(WHOLE[path])
        container, key = list(places(body))[index % n_places]
        container[key] = random_.choice(STRANGE)
        response = http.post(path, content=json.dumps(body), headers=HEADERS)
        assert response.status_code in (200, 400, 404), (response.status_code, key, container[key], response.text[:300])
        refused += response.status_code != 200
    assert refused > n_places / 2


@pytest.mark.parametrize("path", WHOLE)
def test_required_fields_of_every_block(http: httpx2.Client, path: str) -> None:
    bodies = []
    for index in range(len(list(places(WHOLE[path])))):
        body = copy.deepcopy(WHOLE[path])
        container, key = list(places(body))[index]
        if isinstance(container, dict) and key in (
            "type",
            "role",
            "model",
            "messages",
            "input",
            "text",
            "id",
            "call_id",
            "tool_call_id",
        ):
            bodies += [(body, container, key)] if container.get(key) not in ("object", "url") else []
    for body, container, key in bodies:
        was, container[key] = container[key], 7
        response = http.post(path, content=json.dumps(body), headers=HEADERS)
        assert response.status_code in (400, 404), (key, was if len(str(was)) < 40 else "")
