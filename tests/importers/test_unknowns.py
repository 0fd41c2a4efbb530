"""What nobody recorded is unknown, never zero: packed logs, masked ids, lost bills, and counters that are meant otherwise."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import zstandard

from contextkit import Usage
from contextkit.importers.registry import ledger_at, records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.providers import BedrockConverse
from tests.cli.conftest import Run, run

__all__ = ["run"]  # the fixture
FIXTURES = Path(__file__).parent / "fixtures"
GIVEN = {
    "claude-code/starcar-5m-effort.jsonl.gz": (159, 38_333_399),
    "claude-code/ohmyposh-fallback-iterations.jsonl.gz": (4, 195_897),
    "claude-code/ohmyposh-out-of-reach.jsonl.gz": (233, 49_089_430),
    "claude-code/cipherbox-agent-progress.jsonl.gz": (224, 18_957_970),
    "claude-code/packmind-second-call-miss.jsonl.gz": (12, 420_674),
    "opencode/gatomia-copilot-provider.json.gz": (65, 8_782_848),
}
"""File → calls and tokens read, as the README of the data counts them; it leaves out the one call of gatomia's whose
counters are all 0."""


def read(path: Path) -> tuple[list[ModelCall], Faults]:
    faults = Faults()
    return [record for record in records_at(str(path), faults)[1] if isinstance(record, ModelCall)], faults


def totals(path: Path) -> tuple[int, int]:
    calls = read(path)[0]
    return len(calls), sum((call.usage and call.usage.read) or 0 for call in calls)


@pytest.mark.parametrize("name", GIVEN)
def test_the_given_logs_have_the_calls_and_the_tokens_read_that_were_counted(shared: Path, name: str) -> None:
    path = shared / "data" / "agent-logs" / "2026-11-27" / name
    if not path.is_file():
        pytest.skip("the logs of 2026-11-27 are not beside this checkout")
    assert totals(path) == GIVEN[name]


def reply(name: str, request: str, parent: str, uuid: str, read: int, **more: Any) -> str:
    usage = {"input_tokens": 3, "cache_read_input_tokens": read, "cache_creation_input_tokens": 9, "output_tokens": 7}
    message = {"model": "claude-opus-4-5", "id": name, "type": "message", "role": "assistant", "content": []}
    line = {"parentUuid": parent, "isSidechain": False, "sessionId": "s", "type": "assistant"}
    line |= {"message": message | {"usage": usage} | more, "requestId": request, "uuid": uuid}
    return json.dumps(line | {"timestamp": "2026-11-20T09:00:01.000Z"}, separators=(",", ":"))


def transcript(path: Path, *, hides: str = "", has_usage: bool = True) -> Path:
    """Two calls, the first of two lines."""
    lines = [
        reply("msg_1", "req_1", "u0", "u1", 100),
        reply("msg_1", "req_1", "u1", "u2", 100),
        reply("msg_2", "req_2", "u3", "u4", 200),
    ]
    for name in hides.split():
        lines = [re.sub(rf'"{name}":"(?:msg|req)_\d"', f'"{name}":"REDACTED"', line) for line in lines]
    if not has_usage:
        lines = [re.sub(r',"usage":\{[^}]*\}', "", line) for line in lines]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("hides", ["", "id", "requestId", "id requestId"])
def test_a_masked_id_names_no_call(tmp_path: Path, hides: str) -> None:
    calls, faults = read(transcript(tmp_path / "a.jsonl", hides=hides))
    assert [call.usage and call.usage.read for call in calls] == [100, 200]
    assert len({call.id for call in calls}) == 2 and not faults.kept


def test_masked_ids_of_an_export_merge_no_messages(tmp_path: Path) -> None:
    tokens = {"input": 1, "output": 2, "reasoning": 0, "cache": {"read": 50, "write": 0}}
    info = {"id": "REDACTED", "sessionID": "ses_1", "role": "assistant", "providerID": "opencode", "tokens": tokens}
    messages = [
        {"info": info | {"modelID": "claude-opus-4-5", "time": {"created": 1_795_000_000_000 + n}}} for n in range(3)
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"info": {"id": "ses_1", "projectID": "p"}, "messages": messages}), encoding="utf-8")
    calls, _ = read(path)
    assert [call.usage and call.usage.read for call in calls] == [50, 50, 50]
    assert len({call.id for call in calls}) == 3 and {call.provider for call in calls} == {"opencode"}


def test_what_zstd_packed_is_read_by_its_path(tmp_path: Path) -> None:
    plain = transcript(tmp_path / "a.jsonl")
    frames = [
        zstandard.ZstdCompressor().compress(part) for part in (plain.read_bytes()[:500], plain.read_bytes()[500:])
    ]
    packed = tmp_path / "a.jsonl.zst"
    packed.write_bytes(b"".join(frames))
    assert totals(packed) == totals(plain) == (2, 300)


@pytest.mark.parametrize("pack", [zstandard.ZstdCompressor().compress, gzip.compress])
def test_a_packed_log_that_is_cut_says_so(tmp_path: Path, pack: Any) -> None:
    data = transcript(tmp_path / "a.jsonl").read_bytes()
    packed = tmp_path / "cut"
    packed.write_bytes(pack(data * 200)[:-9])
    [fault] = [fault.what for fault in read(packed)[1].kept if "what came before was read" in fault.what]
    assert (not fault.startswith((";", " ")) and "ended" in fault.lower()) or "ends" in fault


def test_calls_whose_bill_is_lost_are_unknown_in_every_output(tmp_path: Path, run: Run) -> None:
    path = transcript(tmp_path / "a.jsonl", has_usage=False)
    page = tmp_path / "page.html"
    shown = run("report", path, "--verbose", "--html", page)
    assert shown.code == 0 and "2 without a whole bill" in " ".join(shown.out.split())
    assert "usage unknown for 2 of 2 calls" in " ".join(shown.out.split())
    assert "$0" not in shown.out and not re.search(
        r"(?<![\d.])0(?![\d.])", shown.out.replace("\n", " ").split("hit rate ")[1]
    )
    told = json.loads(run("report", path, "--json").out)
    for row in (told["total"], *told["models"], *told["sessions"], *told["projects"]):
        assert row["calls"] == 2 and row["n_misses"] is None and row["cost_usd"] is None
        assert all(row["usage"][name] is None for name in ("fresh", "read", "writes", "output"))
    assert told["projects"][0]["lost_tokens"] is None and told["projects"][0]["lost_usd"] is None
    assert told["calls_without_usage"] == {"claude-opus-4-5": 2}
    [group] = csv.DictReader(io.StringIO(run("report", path, "--csv", "--by", "model").out))
    assert (group["misses"], group["read"], group["cost_usd"]) == ("", "", "")
    text = run("report", path, "--markdown").out
    assert "$0" not in text and "| unknown | unknown | unknown | unknown |" in text
    assert "$0" not in page.read_text("utf-8") and "no call says its usage" in page.read_text("utf-8")


def test_a_sum_over_known_and_unknown_calls_is_a_lower_bound(tmp_path: Path, run: Run) -> None:
    path = transcript(tmp_path / "a.jsonl")
    lost = re.sub(r',"usage":\{[^}]*\}', "", reply("msg_3", "req_3", "u5", "u6", 0))
    path.write_text(path.read_text("utf-8") + lost + "\n", encoding="utf-8")
    text = run("report", path, "--markdown").out
    assert "≥ 324" in text and "≥ $" in text and "usage unknown for 1 of 3 calls" in text
    assert json.loads(run("report", path, "--json").out)["total"]["cost_is_lower_bound"] is True


def test_a_session_without_any_counts_says_so(tmp_path: Path) -> None:
    row = {
        "uuid": "u1",
        "parentUuid": None,
        "sessionId": "s",
        "type": "assistant",
        "message": {"role": "model", "parts": []},
    }
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps(row | {"timestamp": "2026-11-20T09:00:01Z"}) + "\n", encoding="utf-8")
    calls, faults = read(path)
    assert calls == [] and [fault.what for fault in faults.kept] == [
        "none of its 1 replies says token counts; they are in no figure"
    ]


def span(number: int, parent: str, attributes: dict[str, Any]) -> dict[str, Any]:
    start = 1_795_000_000_000_000_000 + number * 10**9
    pairs = [
        {"key": key, "value": {"stringValue" if isinstance(value, str) else "intValue": str(value)}}
        for key, value in attributes.items()
    ]
    times = {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 10**8)}
    return {"traceId": "t", "spanId": f"s{number}", "parentSpanId": parent, "attributes": pairs, **times}


def ai_sdk(operation: str, provider: str, model: str, **counts: Any) -> dict[str, Any]:
    names = {"ai.operationId": operation, "ai.model.provider": provider, "ai.model.id": model, "session.id": "ses"}
    return names | {f"ai.usage.{name.replace('__', '.')}": count for name, count in counts.items()}


def test_spans_of_the_ai_sdk(tmp_path: Path) -> None:
    """Version 6 says the parts of its input; version 5 passes on Anthropic's count, which leaves the cached ones out, and
    OpenAI's, which holds them."""
    details = {"cacheReadTokens": 649_452, "cacheWriteTokens": 907, "noCacheTokens": 2}
    six = {f"inputTokenDetails__{name}": count for name, count in details.items()}
    six |= {"inputTokens": 650_361, "outputTokens": 369, "cachedInputTokens": 649_452, "totalTokens": 650_730}
    five = {"inputTokens": 100, "outputTokens": 5, "totalTokens": 105, "cachedInputTokens": 90}
    written = {"ai.response.providerMetadata": json.dumps({"anthropic": {"cacheCreationInputTokens": 40}})}
    spans = [
        span(0, "", ai_sdk("ai.streamText", "anthropic.messages", "claude-fable-5", **six)),
        span(1, "s0", ai_sdk("ai.streamText.doStream", "anthropic.messages", "claude-fable-5", **six)),
        span(2, "", ai_sdk("ai.generateText.doGenerate", "anthropic.messages", "claude-opus-4-5", **five) | written),
        span(3, "", ai_sdk("ai.generateObject.doGenerate", "openai.responses", "gpt-5.2", **five)),
        span(4, "", ai_sdk("ai.generateText.doGenerate", "vertex.anthropic.messages", "claude-opus-4-5", **five)),
    ]
    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "ai"}, "spans": spans}]}]}))
    assert [(call.provider, call.session, call.usage) for call in read(path)[0]] == [
        ("anthropic", "ses", Usage(2, 649_452, output=369, writes={300: 907})),
        ("anthropic", "ses", Usage(100, 90, output=5, writes={300: 40})),
        ("openai", "ses", Usage(10, 90, output=5)),
        ("google", "ses", Usage(100, 90, output=5)),
    ]


COUNTED_TWICE = {"inputTokens": 4_995, "cacheReadInputTokens": 0, "cacheWriteInputTokens": 4_993, "outputTokens": 19}


def test_a_converse_stream_of_an_openai_model_counts_what_it_wrote_once(shared: Path) -> None:
    path = shared / "data" / "cases" / "15-converse-stream-counts-twice" / "calls.jsonl"
    if not path.is_file():
        pytest.skip("the cases are not beside this checkout")
    [call] = ledger_at(path)[1]
    assert call.usage is not None and (call.usage.fresh, call.usage.written, call.usage.prompt) == (2, 4_993, 4_995)


@pytest.mark.parametrize(
    ("model", "path", "fresh"),
    [
        ("us.openai.gpt-5.6-sol", "converse-stream", 2),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.openai.gpt-5.6-sol", "converse-stream", 2),
        ("openai.gpt-5.6-sol", "converse", 4_995),
        ("anthropic.claude-opus-5", "converse-stream", 4_995),
    ],
)
def test_so_does_a_stream_that_was_joined_before_it_was_recorded(
    model: str, path: str, fresh: int, tmp_path: Path
) -> None:
    """Only the path tells that it was one."""
    usage = {**COUNTED_TWICE, "totalTokens": 10_007}
    message = {"role": "assistant", "content": [{"text": "x"}]}
    row = {
        "started_at": "2026-11-20T09:00:00Z",
        "url": f"https://bedrock-runtime.us-east-1.amazonaws.com/model/{quote(model, safe='')}/{path}",
        "request": {"messages": [{"role": "user", "content": [{"text": "Go."}, {"cachePoint": {"type": "default"}}]}]},
        "response": {"output": {"message": message}, "stopReason": "end_turn", "usage": usage},
    }
    recorded = tmp_path / "calls.jsonl"
    recorded.write_text(json.dumps(row) + "\n", encoding="utf-8")
    [call] = ledger_at(recorded)[1]
    assert call.usage is not None and (call.usage.fresh, call.usage.written, call.error) == (fresh, 4_993, None)


@pytest.mark.filterwarnings("ignore::contextkit.models.AssumedModelWarning")
@pytest.mark.parametrize(("model", "fresh"), [("openai.gpt-9-sol", 2), ("anthropic.claude-opus-5", 4_995)])
def test_so_does_the_adapter(model: str, fresh: int) -> None:
    provider = BedrockConverse(model)
    events: list[dict[str, Any]] = [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "x"}}},
        {"messageStop": {"stopReason": "end_turn"}},
        {"metadata": {"usage": COUNTED_TWICE}},
    ]
    assert provider.reply(provider.joined(events)).usage.fresh == fresh


def test_the_price_of_a_redeemed_fallback_credit_is_unknown(tmp_path: Path) -> None:
    lines = [
        reply("msg_1", "req_1", "u0", "u1", 5, usage=usage)
        for usage in [
            {
                "input_tokens": 3,
                "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 900,
                "output_tokens": 7,
                "fallback_credit": {"status": {"type": "redeemed"}},
            }
        ]
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    [call] = read(path)[0]
    assert call.usage is not None and (call.usage.service_tier, call.usage.written) == ("fallback-credit", 900)
