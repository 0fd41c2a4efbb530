"""One reader of token counters: adapters, importers, watcher and proxy read the same usage."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses
from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.prices import cost_usd
from contextkit.providers import BedrockConverse
from contextkit.providers.endpoints import BODIES
from contextkit.providers.gemini.generate import Gemini
from contextkit.providers.openai_compatible import OpenAICompatible
from contextkit.providers.paths import FOLLOWED
from contextkit.providers.response_facts import ResponseFacts, response_bytes
from contextkit.providers.usage import endpoint_usage, usage_fields_of, usage_of

NAMES = (
    "input_tokens",
    "prompt_tokens",
    "promptTokenCount",
    "inputTokens",
    "input_tokens_details",
    "prompt_tokens_details",
    "cache_creation",
    "cacheDetails",
    "completion_tokens",
    "cached_tokens",
)
BUCKETS = ("fresh", "read", "write_5m", "write_1h", "output")


def counters_in(value: Any) -> Iterator[dict[str, Any]]:
    """Every `usage` of a recorded response, whole or streamed."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("usage", "usageMetadata") and isinstance(inner, dict):
                yield inner
            else:
                yield from counters_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from counters_in(inner)


def test_the_codec_reads_what_the_importers_read(shared: Path) -> None:
    lines = gzip.decompress((shared / "data" / "agent-logs" / "recorded-pairs.jsonl.gz").read_bytes()).splitlines()
    n_compared = 0
    for counters in counters_in([call["response"] for line in lines for call in json.loads(line)["calls"]]):
        row = usage_fields_of(counters)
        if row is None or row.name not in BODIES or counters.get("iterations"):
            continue
        named = {name: value for name, value in counters.items() if value is not None}
        codec = endpoint_usage(row.name, named)
        importer = usage_of(named, lambda message: None) or Usage()
        for bucket in BUCKETS:
            assert getattr(codec, bucket) == getattr(importer, bucket) or not (
                getattr(codec, bucket) and getattr(importer, bucket)
            ), (bucket, counters)
        n_compared += 1
    assert n_compared >= 300


@pytest.mark.parametrize("spelling", ["toolUsePromptTokenCount", "tool_use_prompt_token_count"])
def test_gemini_counts_the_results_of_its_tools_as_input(spelling: str) -> None:
    is_snake = "_" in spelling
    prompt, output, thoughts = (
        ("prompt_token_count", "candidates_token_count", "thoughts_token_count")
        if is_snake
        else ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    )
    counters = {prompt: 100, spelling: 877, output: 20, thoughts: 5}
    assert usage_of(counters, lambda message: None) == Usage(977, 0, 0, 0, 25)


@pytest.mark.parametrize("endpoint", BODIES)
@pytest.mark.parametrize("value", ["x", -1, 1.5, True, [], {}, [None], {"a": [5]}])
def test_a_counter_that_is_no_count_is_unknown(endpoint: str, value: Any) -> None:
    usage = endpoint_usage(endpoint, dict.fromkeys(NAMES, value))
    assert all(getattr(usage, bucket) in (None, 0) for bucket in BUCKETS)


ENDPOINTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "anthropic_messages": (
        lambda: AnthropicMessages("claude-opus-4-8", max_tokens=100),
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-8",
            "content": [{"type": "text", "text": "ok"}],
            "stop_reason": "end_turn",
            "diagnostics": {"cache_miss_reason": {"type": "system_changed"}},
            "usage": {
                "input_tokens": 3,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 5,
                "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3},
                "output_tokens": 7,
                "service_tier": "standard",
                "fallback_credit": {"status": {"type": "redeemed"}},
                "iterations": [{"type": "compaction", "input_tokens": 3, "output_tokens": 1}, {"type": "message"}],
            },
        },
    ),
    "openai_chat": (
        lambda: OpenAIChat("gpt-5.2"),
        {
            "id": "c",
            "object": "chat.completion",
            "model": "gpt-5.2",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
            "service_tier": "default",
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "cost": 0.1,
                "is_byok": True,
                "cost_details": {"upstream_inference_cost": 0.2},
                "prompt_tokens_details": {
                    "cached_tokens": 4,
                    "cache_write_tokens": 2,
                    "cache_write_tokens_details": {"ttl_30m_tokens": 2},
                },
            },
        },
    ),
    "openai_responses": (
        lambda: OpenAIResponses("gpt-5.2"),
        {
            "id": "r",
            "object": "response",
            "model": "gpt-5.2",
            "status": "completed",
            "output": [
                {"type": "message", "id": "o", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}
            ],
            "prompt_cache_diagnostics": {"type": "cache_miss", "reason": "tools_changed"},
            "usage": {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}},
        },
    ),
    "gemini": (
        lambda: Gemini("gemini-2.5-pro"),
        {
            "candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}],
            "responseId": "g",
            "modelVersion": "gemini-2.5-pro",
            "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 3, "trafficType": "ON_DEMAND"},
        },
    ),
    "bedrock_converse": (
        lambda: BedrockConverse("amazon.nova-pro-v1:0"),
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}},
            "stopReason": "end_turn",
            "serviceTier": {"type": "default"},
            "usage": {"inputTokens": 3, "outputTokens": 2, "cacheDetails": [{"ttl": "5m", "inputTokens": 1}]},
        },
    ),
    "deepseek": (
        lambda: OpenAICompatible("deepseek-chat", host="deepseek"),
        {
            "id": "d",
            "object": "chat.completion",
            "model": "deepseek-chat",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
            "usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 5},
        },
    ),
}
"""Endpoint → what makes an adapter (one for a host registers its model), and a response whose bill has every kind of field."""
_REPLY_FIELDS = {"type", "object", "content", "choices", "output", "candidates", "status", "stop_reason", "stopReason"}
"""Fields of the reply itself, without which it cannot be kept."""


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        if path or name not in _REPLY_FIELDS | {"role", "model"}:
            yield (*path, name)
            yield from paths_in(inner, (*path, name))


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("value", [None, 5, 10**400, [], [None], {}, {"a": [5]}, "x"], ids=lambda value: str(value)[:9])
def test_a_malformed_bill_stops_neither_watching_nor_receiving(endpoint: str, value: Any) -> None:
    make, response = ENDPOINTS[endpoint]
    for path in paths_in(response):
        if path == ("id",) and value is None and endpoint == "anthropic_messages":
            continue  # a message without an id is none
        malformed = deepcopy(response)
        inner = malformed
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        context = Context(make(), system="Be brief.")
        context.user("hi")
        context.request()
        assert context.receive(malformed) is not None, path
        assert len(context.ledger) == 1, path
        facts = ResponseFacts()
        facts.add(malformed)
        facts.usage()
        if endpoint in FOLLOWED:
            reader = response_bytes(endpoint, "application/json", "")
            reader.feed(json.dumps(malformed).encode())
            reader.summary(is_closed=True)


@pytest.mark.parametrize("usage", [5, [None], "x", {"output_tokens": [None]}])
def test_a_malformed_bill_in_a_stream_does_not_stop_it(usage: Any) -> None:
    make, response = ENDPOINTS["anthropic_messages"]
    adapter = make()
    events = [
        {"type": "message_start", "message": {**response, "content": [], "usage": usage}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
    ]
    assert adapter.usage(adapter.joined(events)).prompt is None


# Tool results that Gemini puts into the prompt
# ---------------------------------------------------------------------------------------------------------------------

GENERATED = {
    "promptTokenCount": 343,
    "toolUsePromptTokenCount": 877,
    "candidatesTokenCount": 40,
    "totalTokenCount": 1_260,
}
"""A call that searched: 877 of its 1,220 input tokens are what the search brought."""


def test_what_gemini_s_own_tools_bring_is_input_and_is_billed(tmp_path: Path) -> None:
    answer = {
        "candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": "ok"}]}}],
        "modelVersion": "gemini-2.5-pro",
    }
    answer = {**answer, "responseId": "a", "usageMetadata": GENERATED}
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"request": body, "response": answer, "at": "2026-11-20T10:00:00Z"}), "utf-8")
    (call,) = (record for record in records_in([str(path)], Faults()) if isinstance(record, ModelCall))
    assert call.usage is not None
    assert call.usage == Usage(1_220, 0, 0, 0, 40)
    # $1.25 and $10 a million
    assert cost_usd("google", "gemini-2.5-pro", call.usage, 1_795_132_800.0) == pytest.approx(
        1_220 * 1.25e-6 + 40 * 1e-5
    )
    assert Gemini("gemini-2.5-pro").reply(answer).usage == call.usage
