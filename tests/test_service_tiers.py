"""A call is priced at the service tier that served it, or not at all: never silently at the standard price."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, OpenAIChat, OpenAIResponses, Usage
from contextkit.cache.usage import tier_named
from contextkit.errors import UnknownModel
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall, Remark, decode, encode
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
        ("openai", "gpt-6.1-sol", "ultrafast", 6.0),
        ("anthropic", "claude-opus-5-5", "fast", 2.0),
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
        ("openai", "gpt-5.5", "scale"),
    ],
)
def test_a_tier_nobody_lists_has_no_price(provider: str, model: str, tier: str) -> None:
    with pytest.raises(UnknownModel, match=rf"in service tier '{tier}'.*service_tiers.*--models"):
        cost(provider, model, tier)


STANDARD = (None, "", "standard", "default", "auto", "SERVICE_TIER_STANDARD", "unspecified", "ON_DEMAND", 5)


def test_words_for_the_standard_tier() -> None:
    assert {tier_named(word, "standard", "not_available") for word in (*STANDARD, "TRAFFIC_TYPE_UNSPECIFIED")} == {""}


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


def call(n: int, model: str, tier: str) -> ModelCall:
    usage = Usage(1_000_000, 0, 0, 0, 0, service_tier=tier)
    return ModelCall(f"c{n}", "s", f"lane{n}", AT, None, None, "openai", model, None, usage, None, None)


def test_a_ledger_keeps_the_tier_and_reads_rows_of_before_and_of_later() -> None:
    flex, standard = call(0, "gpt-5.5", "flex"), call(1, "gpt-5.5", "")
    assert decode(encode(flex)) == flex
    assert b"service_tier" not in encode(standard)
    later = json.loads(encode(standard))
    later["usage"]["something_new"] = 5
    assert decode(json.dumps(later).encode()) == standard


def test_a_report_prices_each_call_at_its_tier_and_names_what_has_no_price(tmp_path: Path) -> None:
    calls = [call(0, "gpt-5.4", ""), call(1, "gpt-5.4", "priority"), call(2, "gpt-5.4", "scale")]
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        for one in calls:
            ledger.append(one)
    summary = summarise(records_in([str(path)], Faults()))
    standard = cost_usd("openai", "gpt-5.4", BILL, AT)
    assert standard
    assert summary.cost_usd == pytest.approx(3 * standard)
    assert summary.models_without_price == ("gpt-5.4 (scale)",)
    assert (summary.calls_with_usage, summary.total.calls_with_price, summary.total.is_cost_lower_bound) == (3, 2, True)


# Logs that record a tier
# ---------------------------------------------------------------------------------------------------------------------

WHEN = "2026-11-20T10:00:00Z"
COUNTS = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
ASKED = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "hi"}]}
CHAT = {"id": "c", "model": "gpt-5.5", "choices": [{"finish_reason": "stop"}], "usage": COUNTS, "service_tier": "flex"}
CLAUDE = {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
GEMINI = {"promptTokenCount": 9, "candidatesTokenCount": 1}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
SPAN = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-5.5",
    "gen_ai.usage.input_tokens": 9,
    "gen_ai.usage.output_tokens": 1,
}


def pair(request: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    return {"request": request, "response": response, "at": WHEN}


def gemini_pair(usage: dict[str, Any]) -> dict[str, Any]:
    answer = {
        "candidates": [{"finishReason": "STOP"}],
        "usageMetadata": GEMINI | usage,
        "modelVersion": "gemini-2.5-pro",
    }
    return pair(CONTENTS, answer)


def span(attributes: dict[str, Any]) -> dict[str, Any]:
    said = [{"key": name, "value": {"stringValue": str(value)}} for name, value in {**SPAN, **attributes}.items()]
    ids = {"traceId": "t", "spanId": "s", "startTimeUnixNano": "1795132800000000000", "kind": 3}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [{**ids, "attributes": said}]}]}]}


def transcript(usage: dict[str, Any]) -> dict[str, Any]:
    message = {"model": "claude-opus-5", "id": "m", "role": "assistant", "content": [], "usage": CLAUDE | usage}
    ids = {"parentUuid": None, "isSidechain": False, "requestId": "r", "uuid": "u", "sessionId": "s"}
    return {**ids, "message": message, "type": "assistant", "timestamp": WHEN}


SPEND = {"request_id": "a", "call_type": "acompletion", "startTime": WHEN, "model": "gpt-5.5", "prompt_tokens": 9}
RECORDED_TIERS = [
    ("Claude Code", transcript({"speed": "fast", "inference_geo": "us"}), "fast + geo-us"),
    ("Chat", pair(ASKED, CHAT), "flex"),
    (
        "Messages",
        pair(ASKED, {"id": "m", "type": "message", "usage": CLAUDE | {"service_tier": "priority"}}),
        "priority",
    ),
    ("Gemini", gemini_pair({"serviceTier": "flex"}), "flex"),
    ("Gemini on Vertex AI", gemini_pair({"trafficType": "ON_DEMAND_PRIORITY"}), "priority"),
    ("Gemini on Vertex AI", gemini_pair({"trafficType": "ON_DEMAND"}), ""),
    ("OpenTelemetry", span({"openai.response.service_tier": "priority"}), "priority"),
    ("LiteLLM", SPEND | {"response": {"usage": COUNTS, "service_tier": "flex"}}, "flex"),
    ("LiteLLM", SPEND | {"metadata": {"usage_object": CLAUDE | {"speed": "fast"}}}, "fast"),
]


@pytest.mark.parametrize(("log", "row", "tier"), RECORDED_TIERS)
def test_every_log_that_records_a_tier_is_read_with_it(
    log: str, row: dict[str, Any], tier: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(row, separators=(",", ":")) + "\n", "utf-8")
    usages = [call.usage for call in records_in([str(path)], Faults()) if isinstance(call, ModelCall)]
    assert [usage and usage.service_tier for usage in usages] == [tier], log


# Prompts above a price tier
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "model", "above", "times_input", "times_output"),
    [
        ("anthropic", "claude-sonnet-4-5", 200_000, 2.0, 1.5),
        ("google", "gemini-2.5-pro", 200_000, 2.0, 1.5),
        ("openai", "gpt-5.4", 272_000, 2.0, 1.5),
        ("openrouter", "anthropic/claude-sonnet-4.5", 200_000, 2.0, 1.5),
    ],
)
def test_a_long_prompt_is_billed_at_its_tier_as_a_whole_cached_tokens_included(
    provider: str, model: str, above: int, times_input: float, times_output: float
) -> None:
    def dollars(prompt: int, read: int, output: int) -> float:
        found = cost_usd(provider, model, Usage(prompt - read, read, writes={}, output=output), AT)
        assert found is not None
        return found

    fresh, read, generated = (
        dollars(above, 0, 0),
        dollars(above, above, 0),
        dollars(above, 0, 1_000) - dollars(above, 0, 0),
    )
    longer = above + 1
    assert dollars(longer, 0, 0) == pytest.approx(times_input * fresh * longer / above)
    assert dollars(longer, longer, 0) == pytest.approx(times_input * read * longer / above)
    assert dollars(longer, 0, 1_000) - dollars(longer, 0, 0) == pytest.approx(times_output * generated)


def test_a_report_prices_a_long_prompt_of_a_transcript_at_its_tier(tmp_path: Path) -> None:
    row = transcript({"cache_read_input_tokens": 200_000})
    row["message"]["model"] = "claude-sonnet-4-5"
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(row, separators=(",", ":")) + "\n", "utf-8")
    # 9 fresh at 6, 200,000 read at 0.6, 1 generated at 22.5 a million
    assert summarise(records_in([str(path)], Faults())).cost_usd == pytest.approx((9 * 6 + 200_000 * 0.6 + 22.5) / 1e6)


def test_a_row_that_adds_up_calls_is_priced_at_the_lowest_tier_as_a_lower_bound() -> None:
    usage = Usage(100_000, 400_000, 0, 0, 1_000)
    call = ModelCall("a", "s", "main", AT, None, None, "anthropic", "claude-sonnet-4-5", None, usage, None, None)
    total = summarise([Remark("sum", "s/main", "all calls of a session"), call]).total
    assert total.cost_usd == pytest.approx((100_000 * 3 + 400_000 * 0.3 + 1_000 * 15) / 1e6)
    assert total.cost_uncached_usd == pytest.approx((500_000 * 3 + 1_000 * 15) / 1e6)
    assert total.is_cost_lower_bound
    small = replace(call, usage=Usage(100_000, 0, 0, 0, 1_000))
    assert not summarise([Remark("sum", "s/main", "all calls of a session"), small]).total.is_cost_lower_bound
