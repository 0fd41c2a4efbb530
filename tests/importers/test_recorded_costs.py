"""Dollars that a provider, a gateway or a program wrote down: read from every log that has them, and reported first."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.summary import summarise

FIXTURES = Path(__file__).parent / "fixtures"
AT = "2026-11-20T10:00:00Z"


def calls(path: Path) -> list[ModelCall]:
    return [record for record in records_in([str(path)], Faults()) if isinstance(record, ModelCall)]


def put(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


# OpenRouter
# ---------------------------------------------------------------------------------------------------------------------


def said_to_cost(response: Any) -> float | None:
    """The cost in the text of a response of OpenRouter: found without parsing it."""
    spelled = response if isinstance(response, str) else json.dumps(response)
    spelled = spelled.replace('\\"', '"')
    costs = re.findall(r'"cost": ?([\d.e-]+)', spelled)
    if not costs:
        return None
    if '"is_byok": true' not in spelled and '"is_byok":true' not in spelled:
        return float(costs[-1])
    upstream = re.findall(r'"upstream_inference_cost": ?([\d.e-]+)', spelled)
    return float(costs[-1]) + float(upstream[-1]) if upstream else None


def test_real_responses_of_openrouter_cost_what_they_say(shared: Path, tmp_path: Path) -> None:
    path = shared / "data" / "agent-logs" / "recorded-pairs.jsonl.gz"
    cassettes = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    pairs = [pair for cassette in cassettes for pair in cassette["calls"] if "openrouter.ai" in pair["url"]]
    found = calls(put(tmp_path / "pairs.jsonl", *pairs))
    expected = [usd for pair in pairs if (usd := said_to_cost(pair["response"])) is not None]
    assert len(expected) > 25
    assert sorted(call.billed_usd for call in found if call.billed_usd is not None) == sorted(expected)
    # searches and files that the list prices of tokens do not hold
    sol = [call for call in found if call.model == "openai/gpt-5.6-sol"]
    assert [call.billed_usd for call in sol] == [0.025265, 0.002196]
    total = summarise(found).total
    assert total.recorded.calls == len(expected)
    assert total.recorded.usd == pytest.approx(sum(expected))
    assert (total.recorded.comparable_usd or 0) > (total.recorded.list_usd or 0) > 0


def generations(path: Path, **more: Any) -> Path:
    rows = [
        json.loads(line) for line in (FIXTURES / "openrouter" / "generations.jsonl").read_text("utf-8").splitlines()
    ]
    return put(path, *({"data": row["data"] | more} for row in rows))


def test_generation_records_cost_what_they_say(tmp_path: Path) -> None:
    assert [call.billed_usd for call in calls(generations(tmp_path / "a.jsonl"))] == [0.0015] * 4
    own_key = generations(tmp_path / "b.jsonl", is_byok=True, total_cost=0.00006, upstream_inference_cost=0.0012)
    assert [call.billed_usd for call in calls(own_key)] == [pytest.approx(0.00126)] * 4
    unsaid = generations(tmp_path / "c.jsonl", is_byok=True, total_cost=0.00006, upstream_inference_cost=None)
    assert [call.billed_usd for call in calls(unsaid)] == [None] * 4


def test_the_cost_of_a_reply_of_several_calls_is_that_of_none_of_them(tmp_path: Path) -> None:
    step = {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    usage = step | {"cost": 0.5, "iterations": [step, step | {"type": "compaction"}]}
    answer = {"id": "gen-1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    request = {"model": "anthropic/claude-sonnet-4.5", "messages": [{"role": "user", "content": "a"}]}
    path = put(tmp_path / "a.jsonl", {"request": request, "response": answer | {"stop_reason": "end_turn"}, "at": AT})
    assert [call.billed_usd for call in calls(path)] == [None, None]


# LiteLLM and Langfuse
# ---------------------------------------------------------------------------------------------------------------------


def test_a_cost_of_0_in_litellm_is_an_unknown_price_and_the_router_s_own_cost_stands(tmp_path: Path) -> None:
    row = {"request_id": "a", "call_type": "acompletion", "startTime": AT, "model": "m", "prompt_tokens": 9, "spend": 0}
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "cost": 0.25}
    path = put(tmp_path / "a.jsonl", row, row | {"request_id": "b", "metadata": {"usage_object": usage}})
    assert [call.billed_usd for call in calls(path)] == [None, 0.25]


@pytest.mark.parametrize(
    ("said", "usd"),
    [
        ({"costDetails": {"input": 0.25, "output": 0.5, "total": 0.75}}, 0.75),
        ({"cost_details": {"input": "0.250000000000", "output": "0.500000000000"}}, 0.75),
        ({"costDetails": {}, "calculatedTotalCost": 0.5}, 0.5),
        ({"total_cost": "0.5"}, 0.5),
        ({"costDetails": {}, "calculatedTotalCost": 0}, None),
        ({"costDetails": {"input": 0, "output": 0}}, None),
        ({"totalCost": "much"}, None),
        ({}, None),
    ],
)
def test_every_form_of_langfuse_s_cost(said: dict[str, Any], usd: float | None, tmp_path: Path) -> None:
    row = {"id": "a", "traceId": "t", "type": "GENERATION", "startTime": AT, "model": "m", "usageDetails": {"input": 3}}
    assert [call.billed_usd for call in calls(put(tmp_path / "a.jsonl", row | said))] == [usd]


# Claude Code before 1.0.9
# ---------------------------------------------------------------------------------------------------------------------


def old_transcript(path: Path, *costs: float | None) -> Path:
    """Replies as Claude Code 1.0.3 wrote them (github.com/ccusage/ccusage/issues/4 has the line without the cost)."""
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 161,
        "cache_read_input_tokens": 89_356,
        "output_tokens": 97,
        "service_tier": "standard",
    }
    rows = []
    for number, cost in enumerate(costs):
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-opus-4-20250514"}
        message |= {"content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": usage}
        rows.append(
            {
                "parentUuid": None,
                "isSidechain": False,
                "userType": "external",
                "cwd": "/home/a/b",
                "sessionId": "9a8045f2-53e9-44b1-83fb-aafc6e1f4f0b",
                "version": "1.0.3",
                "message": message,
                **({} if cost is None else {"costUSD": cost}),
                "durationMs": 3_000,
                "requestId": f"req_{number}",
                "type": "assistant",
                "uuid": f"u{number}",
                "timestamp": f"2025-05-26T07:2{number}:40.079Z",
            }
        )
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows), "utf-8")
    return path


def test_old_transcripts_of_claude_code_say_what_a_call_cost(tmp_path: Path) -> None:
    found = calls(old_transcript(tmp_path / "a.jsonl", 0.5, None, 0))
    assert [call.billed_usd for call in found] == [0.5, None, None]
    total = summarise(found).total
    # 15 fresh, 18.75 written, 1.5 read, 75 generated a million
    listed = (3 * 15 + 161 * 18.75 + 89_356 * 1.5 + 97 * 75) / 1e6
    assert total.cost_usd == pytest.approx(0.5 + 2 * listed)
    assert total.list_cost_usd == pytest.approx(3 * listed)


def test_ccusage_takes_the_cost_of_old_transcripts_too(tmp_path: Path) -> None:
    ccusage = shutil.which("ccusage")
    if ccusage is None:
        pytest.skip("ccusage is not installed")
    (tmp_path / "projects" / "p").mkdir(parents=True)
    path = old_transcript(tmp_path / "projects" / "p" / "9a8045f2-53e9-44b1-83fb-aafc6e1f4f0b.jsonl", 0.5, None, 0.25)
    said = subprocess.run(
        [ccusage, "claude", "daily", "--offline", "--json", "--timezone", "UTC"],
        env={**os.environ, "CLAUDE_CONFIG_DIR": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    assert summarise(calls(path)).cost_usd == pytest.approx(json.loads(said.stdout)["totals"]["totalCost"])
