"""One reader of token counters: adapters, importers, watcher and proxy read the same usage."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.prices import cost_usd
from contextkit.providers.codecs import BODIES
from contextkit.providers.gemini.generate import Gemini
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
