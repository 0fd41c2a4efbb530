"""No request body gives 500: whatever stands in any field, the answer is 2xx or the provider's own 4xx, in JSON."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from contextkit.server import LocalServer
from tests.server.conftest import saying
from tests.server.test_corruption import HEADERS, WHOLE

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
VALUES: tuple[Any, ...] = (
    5,
    "x",
    "",
    [],
    [{}],
    [None],
    [5],
    ["x"],
    [[]],
    {},
    {"type": 5},
    {"x": [None]},
    None,
    True,
    1e300,
    -1,
    0,
    10**30,
    10**300,
    "\x00",
)
NESTED = '{"type":"object","properties":{"a":' * 400 + "{}" + "}}" * 400
RAW = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "null": "null",
    "a text": '"x"',
    "a number": "5",
    "NaN": '{"a":NaN}',
    "a lone surrogate": '{"model":"\\ud800"}',
    "a key twice": '{"model":"a","model":5}',
    "800 levels": '{"a":' + NESTED + "}",
    "5,000 levels": "[" * 5000 + "]" * 5000,
    "1e999": '{"max_tokens":1e999}',
    "not UTF-8": "\udcff",
}


def places(value: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of the first levels."""
    for key, item in (
        value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    ):
        yield value, key
        if depth:
            yield from places(item, depth - 1)


def variants(body: dict[str, Any], depth: int) -> Iterator[str]:
    """The body with each field replaced by each value, by a deeply nested one, and left out."""
    for number in range(len(list(places(body, depth)))):
        for value in (*VALUES, _NESTED):
            other = copy.deepcopy(body)
            container, key = list(places(other, depth))[number]
            container[key] = value
            yield json.dumps(other).replace(f'"{_NESTED}"', NESTED)
        other = copy.deepcopy(body)
        container, key = list(places(other, depth))[number]
        del container[key]
        yield json.dumps(other)


_NESTED = "nested deeper than Python recurses"


def shape_of(path: str, answer: httpx2.Response) -> None:
    """Fails unless the answer is 2xx, or a 4xx as the provider words it."""
    if answer.status_code < 300:
        return
    assert 400 <= answer.status_code < 500, (path, answer.status_code, answer.text[:300])
    error = answer.json()
    if path.startswith("/_contextkit"):
        assert isinstance(error["error"], str)
    elif path.endswith("/converse"):
        assert error["__type"] and error["message"]
    elif "messages" in path or "invoke" in path or "Predict" in path:
        assert error["type"] == "error" and error["error"]["type"] and error["error"]["message"]
    else:
        assert error["error"]["message"]


def send(http: httpx2.Client, path: str, bodies: list[str]) -> None:
    for body in bodies:
        shape_of(path, http.post(path, content=body.encode("utf-8", "surrogateescape"), headers=HEADERS))


def sample(bodies: list[str], name: str, most: int) -> list[str]:
    """Some of them, the same each time; all of them with `--full`."""
    return bodies if len(bodies) <= most else random.Random(name).sample(bodies, most)


@pytest.fixture
def most(request: pytest.FixtureRequest) -> int:
    return 10**9 if request.config.getoption("--full") else 100


@pytest.mark.parametrize("name", BODIES)
def test_any_value_in_any_field(http: httpx2.Client, name: str, most: int) -> None:
    path, body = BODIES[name]
    send(http, path, sample(list(variants(body, depth=2)), name, most))


@pytest.mark.parametrize("raw", RAW)
@pytest.mark.parametrize("name", BODIES)
def test_any_bytes(http: httpx2.Client, name: str, raw: str) -> None:
    send(http, BODIES[name][0], [RAW[raw]])


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llamacpp"])
def test_any_value_in_any_field_sent_to_an_engine(engine: str, most: int) -> None:
    with LocalServer(now=1000.0, cache=engine) as server, httpx2.Client(base_url=server.url) as http:
        for name in ("/v1/chat/completions", "/v1/responses", "functions", "search"):
            path, body = BODIES[name]
            more = {
                "cache_salt": "a",
                "response_format": {"type": "structural_tag", "format": {"type": "triggered_tags", "tags": [{}]}},
            }
            send(http, path, sample(list(variants({**body, **more}, depth=2)), engine + name, most // 2))
            send(http, path, list(RAW.values()))


def test_any_value_in_any_field_of_what_clients_send(http: httpx2.Client, shared: Path, most: int) -> None:
    for file in sorted((shared / "data" / "client-requests").glob("*.jsonl.gz")):
        last = json.loads(gzip.decompress(file.read_bytes()).splitlines()[-1])["request"]
        small = {name: value[:3] if isinstance(value, list) else value for name, value in last.items()}
        path = next(path for field, path in PATHS.items() if field in small)
        send(http, path, sample(list(variants(small, depth=1)), file.name, most // 4))


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (
            "/v1/responses",
            {"model": "gpt-6.1-sol", "input": [{"type": "function_call_output", "output": "3"}]},
            "input[0].call_id",
        ),
        ("/v1/responses/compact", {"model": "gpt-6.1-sol", "input": "hi", "reasoning": "x"}, "reasoning"),
        (
            "/v1/messages",
            {
                "model": "claude-sonnet-5-5",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": "hi"}],
                "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "x"}]},
            },
            "context_management.edits.0",
        ),
    ],
)
def test_a_refusal_says_which_field_is_wrong(http: httpx2.Client, path: str, body: dict[str, Any], field: str) -> None:
    beta = {**HEADERS, "anthropic-beta": "context-management-2025-06-27"}
    answer = http.post(path, json=body, headers=beta)
    assert answer.status_code == 400 and field in answer.json()["error"]["message"]


def test_a_system_message_without_content_is_read(http: httpx2.Client) -> None:
    effort = {"role": "system", "output_config": {"effort": "low"}}
    body = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}, effort]}
    beta = {**HEADERS, "anthropic-beta": "mid-conversation-output-config-2026-07-01"}
    assert http.post("/v1/messages", json=body, headers=beta).status_code == 200
    body["messages"][-1] = {"role": "system"}
    assert http.post("/v1/messages", json=body, headers=beta).status_code == 400
