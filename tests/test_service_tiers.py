"""A call is priced at the service tier that served it, or not at all: never silently at the standard price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, OpenAIChat, OpenAIResponses, Usage
from contextkit.cache.usage import tier_named
from contextkit.errors import UnknownModel
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Exchange, decode, encode
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.prices import cost_usd

AT = 1_795_132_800.0  # 2026-11-20
BILL = Usage(fresh=1_000_000, read=0, write_5m=0, write_1h=0, output=0)


def cost(provider: str, model: str, tier: str) -> float | None:
    return cost_usd(provider, model, Usage(100_000, 0, 0, 0, 0, service_tier=tier), AT)


@pytest.mark.parametrize(
    ("provider", "model", "tier", "factor"),
    [
        ("openai", "gpt-5.5", "priority", 2.0),
        ("openai", "gpt-5.5-2026-04-23", "flex", 0.5),
        ("openai", "gpt-4o", "batch", 0.5),
        ("openai", "gpt-6.1-sol", "ultrafast", 6.0),
        ("anthropic", "claude-opus-5-5", "fast", 2.0),
        ("anthropic", "claude-sonnet-5-5", "batch", 0.5),
        ("anthropic", "claude-opus-5", "fast + geo-us", 2.2),
    ],
)
def test_a_tier_multiplies_the_list_price(provider: str, model: str, tier: str, factor: float) -> None:
    standard = cost(provider, model, "")
    assert standard
    assert cost(provider, model, tier) == pytest.approx(factor * standard)


@pytest.mark.parametrize(
    ("provider", "model", "tier"),
    [
        ("anthropic", "claude-opus-5-5", "priority"),
        ("anthropic", "claude-sonnet-5-5", "fast"),
        ("openai", "gpt-4o", "priority"),
        ("openai", "gpt-5.5", "scale"),
        ("google", "gemini-3.8-flash", "flex"),
    ],
)
def test_a_tier_nobody_lists_has_no_price(provider: str, model: str, tier: str) -> None:
    with pytest.raises(UnknownModel, match=rf"in service tier '{tier}'.*service_tiers.*--models"):
        cost(provider, model, tier)


@pytest.mark.parametrize("word", [None, "", "standard", "default", "auto", "SERVICE_TIER_STANDARD", "unspecified", 5])
def test_words_for_the_standard_tier(word: Any) -> None:
    assert tier_named(word, "standard", "not_available") == ""


def test_a_live_reply_says_its_tier() -> None:
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 5,
            "output_tokens": 1,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "speed": "fast",
            "service_tier": "standard",
            "inference_geo": "us",
        },
    }
    assert AnthropicMessages("claude-opus-5", max_tokens=9).reply(message).usage.service_tier == "fast + geo-us"
    chat = {
        "id": "c",
        "model": "gpt-5.5",
        "service_tier": "priority",
        "choices": [{"finish_reason": "stop", "message": {"content": "hi"}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}},
    }
    assert OpenAIChat("gpt-5.5").reply(chat).usage.service_tier == "priority"
    assert OpenAIChat("gpt-5.5").usage(chat).service_tier == "priority"
    response = {
        "id": "r",
        "object": "response",
        "status": "completed",
        "model": "gpt-5.5",
        "service_tier": "default",
        "output": [],
        "usage": {"input_tokens": 5, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 0}},
    }
    assert OpenAIResponses("gpt-5.5").reply(response).usage.service_tier == ""


def exchange(n: int, model: str, tier: str) -> Exchange:
    usage = Usage(1_000_000, 0, 0, 0, 0, service_tier=tier)
    return Exchange(f"c{n}", "s", f"lane{n}", AT, None, None, "openai", model, None, usage, None, None)


def test_a_ledger_keeps_the_tier_and_reads_rows_of_before_and_of_later() -> None:
    flex, standard = exchange(0, "gpt-5.5", "flex"), exchange(1, "gpt-5.5", "")
    assert decode(encode(flex)) == flex
    assert b"service_tier" not in encode(standard)
    later = json.loads(encode(standard))
    later["usage"]["something_new"] = 5
    assert decode(json.dumps(later).encode()) == standard


@pytest.mark.parametrize("engine", ["python", "duckdb"])
def test_a_report_prices_each_call_at_its_tier_and_names_what_has_no_price(engine: str, tmp_path: Path) -> None:
    calls = [exchange(0, "gpt-5.4", ""), exchange(1, "gpt-5.4", "priority"), exchange(2, "gpt-5.4", "scale")]
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        for one in calls:
            ledger.append(one)
    if engine == "duckdb":
        pytest.importorskip("duckdb")
        from contextkit.ledger.duckdb_ledger import summarise_files

        summary = summarise_files([str(path)]).summary
    else:
        summary = summarise(records_in([str(path)], Faults()))
    standard = cost_usd("openai", "gpt-5.4", BILL, AT)
    assert standard
    assert summary.cost_usd == pytest.approx(3 * standard)
    assert summary.models_without_price == ("gpt-5.4 (scale)",)
    assert (summary.calls_with_usage, summary.total.calls_with_price, summary.total.is_cost_lower_bound) == (3, 2, True)
