"""Whole request bodies of every endpoint of the local provider, for tests that damage them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.server.conftest import CLAUDE, GPT, HEAD, saying

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
                    }
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
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
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
PATHS = {
    "contents": "/v1beta/models/gemini-2.5-pro:generateContent",
    "input": "/v1/responses",
    "system": "/v1/messages",
    "messages": "/v1/chat/completions",
}
"""Field that only bodies of one endpoint have → the endpoint; asked in this order."""
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "count_tokens": (
        "/v1/messages/count_tokens",
        {
            name: WHOLE["/v1/messages"][name]
            for name in ("model", "system", "messages", "tools", "tool_choice", "thinking")
        },
    ),
    "edits": (
        "/v1/messages",
        {
            **WHOLE["/v1/messages"],
            "mcp_servers": [{"type": "url", "url": "https://x", "name": "m"}],
            "container": {"skills": []},
            "context_management": {
                "edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 1}}]
            },
            "fallbacks": [],
            "speed": "standard",
            "compaction": None,
            "thread": None,
            "betas": [],
        },
    ),
    "invoke": (
        "/model/anthropic.claude-sonnet-5-5/invoke",
        {
            "anthropic_version": "bedrock-2023-05-31",
            "anthropic_beta": ["a"],
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "hi"}],
        },
    ),
    "predict": (
        "/v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-5-5:rawPredict",
        {"anthropic_version": "vertex-2023-10-16", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    ),
    "count on Google Cloud": (
        "/v1/projects/p/locations/global/publishers/anthropic/models/count-tokens:rawPredict",
        {
            "anthropic_version": "vertex-2023-10-16",
            "model": "claude-sonnet-5-5",
            "messages": [{"role": "user", "content": "hi"}],
        },
    ),
    "Foundry": ("/anthropic/v1/messages", WHOLE["/v1/messages"]),
    "content": (
        "/v1beta/cachedContents",
        {
            "model": "models/gemini-2.5-pro",
            "ttl": "300s",
            "displayName": "d",
            "systemInstruction": {"parts": [{"text": "a " * 9000}]},
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        },
    ),
    "compact": (
        "/v1/responses/compact",
        {"model": "gpt-6.1-sol", "input": [{"role": "user", "content": "hi"}], "instructions": "brief"},
    ),
    "conversation": ("/v1/conversations", {"items": [{"role": "user", "content": "hi"}], "metadata": {"a": "b"}}),
    "state": (
        "/v1/responses",
        {
            "model": "gpt-6.1-sol",
            "input": [{"type": "compaction_trigger"}],
            "previous_response_id": None,
            "conversation": None,
            "context_management": [{"type": "compaction", "compact_threshold": 1000}],
            "store": True,
            "stream_options": None,
            "prompt_cache_options": {"comparison_response_id": "resp_1", "prewarm": False},
            "include": [],
            "metadata": {},
        },
    ),
    "search": (
        "/v1/responses",
        {
            "model": "gpt-6.1-sol",
            "tools": [{"type": "tool_search", "execution": "client"}],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "tool_search"}]},
            "input": [
                {"type": "tool_search_output", "tools": [{"type": "function", "name": "f"}]},
                {"type": "additional_tools", "tools": []},
            ],
        },
    ),
    "functions": (
        "/v1/chat/completions",
        {
            "model": "gpt-6.1-sol",
            "messages": [{"role": "user", "content": "hi"}],
            "functions": [{"name": "f"}],
            "function_call": "auto",
            "tools": [{"type": "custom", "custom": {"name": "c"}}, {"type": "function", "function": {"name": "f"}}],
            "user": "u",
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
            "stream_options": {"include_usage": True},
            "stream": True,
            "reasoning_effort": "low",
            "web_search_options": {},
            "prediction": {},
        },
    ),
    "clock": ("/_contextkit/clock", {"advance_seconds": 1}),
    "script": ("/_contextkit/script", {"replies": [saying()]}),
}
BODIES = {**{path: (path, body) for path, body in WHOLE.items()}, **MORE}
_CLAUDE, _GEMINI = "anthropic.claude-sonnet-5-5", "/v1beta/models/gemini-2.5-pro"
SAME_BODY_OF = {
    "converse-stream": (f"/model/{_CLAUDE}/converse-stream", f"/model/{_CLAUDE}/converse"),
    "invoke-with-response-stream": (f"/model/{_CLAUDE}/invoke-with-response-stream", "invoke"),
    "streamGenerateContent": (f"{_GEMINI}:streamGenerateContent", f"{_GEMINI}:generateContent"),
    "Foundry count": ("/anthropic/v1/messages/count_tokens", "count_tokens"),
}
"""Endpoints that take a body of another one: name → (path, whose body)."""
STORED: dict[str, tuple[str, dict[str, Any]]] = {
    "a conversation's metadata": ("/v1/conversations/{conversation}", {"metadata": {"a": "b"}}),
    "a conversation's items": (
        "/v1/conversations/{conversation}/items",
        {
            "items": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "3"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "e"},
            ]
        },
    ),
    "a response in a conversation": (
        "/v1/responses",
        {
            "model": "gpt-6.1-sol",
            "conversation": "{conversation}",
            "input": [{"type": "function_call_output", "call_id": "c", "output": "3"}],
        },
    ),
    "a response behind a response": (
        "/v1/responses",
        {"model": "gpt-6.1-sol", "previous_response_id": "{response}", "input": [{"role": "user", "content": "more"}]},
    ),
    "compact with everything": (
        "/v1/responses/compact",
        {
            "model": "gpt-6.1-sol",
            "instructions": "brief",
            "reasoning": {"effort": "low"},
            "text": {"verbosity": "low"},
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
            "prompt_cache_key": "k",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "3"},
            ],
        },
    ),
    "a cached content": ("/v1beta/{content}", {"ttl": "300s"}),
}
_NO_POST = ("clock", "script")
"""What steers the server is no endpoint of a provider."""
ENDPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: one for name, one in BODIES.items() if name not in _NO_POST},
    **{name: (path, BODIES[whose][1]) for name, (path, whose) in SAME_BODY_OF.items()},
    **STORED,
}
MOST_ITEMS = 6
"""Of a list in a body that a client sent: the damage is the same in a long one, and takes longer."""


def clients_bodies(path: str) -> list[Any]:
    """The last body that each client of real life sent to the endpoint, shortened; none where they are not at hand."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "data" / "client-requests"
    found = []
    for file in sorted(folder.glob("*.jsonl.gz")):
        body = json.loads(gzip.decompress(file.read_bytes()).splitlines()[-1])["request"]
        if path == next(path for field, path in PATHS.items() if field in body):
            found.append(
                {name: value[-MOST_ITEMS:] if isinstance(value, list) else value for name, value in body.items()}
            )
    return found
