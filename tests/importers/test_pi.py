"""pi's session files: small ones made here, and a real one whose own bills are the oracle."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import ZERO, Usage
from contextkit.errors import UnreadableLog
from contextkit.importers.pi import is_pi, ledger_of, read_pi
from contextkit.importers.recording import (
    AssistantTurn,
    Call,
    Compacted,
    EffortChanged,
    ModelChanged,
    Text,
    Thinking,
    ToolResultTurn,
    UserTurn,
)
from contextkit.importers.registry import records_at
from contextkit.ledger.calls import ModelCall, Outline
from contextkit.ledger.misses import misses
from contextkit.ledger.summary import summarise

START = "2025-12-08T22:41:05.000Z"
AT = 1765233665.0
HEAD = {"type": "session", "id": "abc", "timestamp": START, "cwd": "/", "thinkingLevel": "off"}


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def user(text: str) -> dict[str, Any]:
    return message({"role": "user", "content": [{"type": "text", "text": text}]})


def message(said: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "timestamp": START, "message": said}


def assistant(
    *parts: dict[str, Any], stop: str = "stop", billed: tuple[int, int, int, int] = (1, 2, 3, 4), **more: Any
) -> dict[str, Any]:
    usage = dict(zip(("input", "cacheRead", "cacheWrite", "output"), billed, strict=True))
    said = {
        "role": "assistant",
        "content": list(parts),
        "provider": "anthropic",
        "model": "claude-opus-4-5",
        "stopReason": stop,
    }
    return message({**said, "usage": usage, "timestamp": AT * 1000 - 2500, **more})


def result(call_id: str, text: str) -> dict[str, Any]:
    return message(
        {
            "role": "toolResult",
            "toolCallId": call_id,
            "toolName": "ls",
            "content": [{"type": "text", "text": text}],
            "isError": False,
        }
    )


def test_every_kind_of_record(tmp_path: Path) -> None:
    thinking = {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"}
    call = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"b": 1, "a": 2}}
    ran = {
        "role": "bashExecution",
        "command": "ls",
        "output": "a.txt",
        "exitCode": 2,
        "cancelled": False,
        "truncated": False,
    }
    path = write(
        tmp_path / "pi.jsonl",
        HEAD,
        user("hello"),
        assistant(thinking, call, stop="toolUse"),
        result("c1", "a.txt"),
        {"type": "thinking_level_change", "timestamp": START, "thinkingLevel": "high"},
        {"type": "model_change", "timestamp": START, "provider": "openai", "modelId": "gpt-5"},
        message(ran),
        {"type": "compaction", "timestamp": START, "summary": "so far", "firstKeptEntryIndex": 3, "tokensBefore": 99},
        assistant(stop="aborted", billed=(0, 0, 0, 0), errorMessage="Request was aborted."),
    )
    recording = read_pi(path)
    assert (recording.session, recording.effort, recording.branched_from) == ("abc", "off", None)
    assert recording.events == (
        UserTurn(AT, (Text("hello"),)),
        AssistantTurn(
            AT - 2.5,
            AT,
            "anthropic",
            "claude-opus-4-5",
            (Thinking("hm", "sig"), Call("c1", "ls", {"b": 1, "a": 2})),
            "calls",
            None,
            Usage(1, 2, 3, 0, 4),
        ),
        ToolResultTurn(AT, "c1", "ls", (Text("a.txt"),), False),
        EffortChanged(AT, "high"),
        ModelChanged(AT, "openai", "gpt-5"),
        UserTurn(AT, (Text("Ran `ls`\n```\na.txt\n```\n\nCommand exited with code 2"),)),
        Compacted(AT, "so far", 2, 99),
        AssistantTurn(AT - 2.5, AT, "anthropic", "claude-opus-4-5", (), "aborted", "Request was aborted.", None),
    )


@pytest.mark.parametrize(
    ("ran", "shown"),
    [
        ({"output": "", "exitCode": 0, "cancelled": False}, "Ran `ls`\n(no output)"),
        ({"output": "a", "exitCode": 0, "cancelled": False}, "Ran `ls`\n```\na\n```"),
        ({"output": "a", "exitCode": 130, "cancelled": True}, "Ran `ls`\n```\na\n```\n\n(command cancelled)"),
    ],
)
def test_a_command_is_told_as_pi_tells_it(tmp_path: Path, ran: dict[str, Any], shown: str) -> None:
    path = write(
        tmp_path / "pi.jsonl", HEAD, message({"role": "bashExecution", "command": "ls", "truncated": False, **ran})
    )
    assert read_pi(path).events == (UserTurn(AT, (Text(shown),)),)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "the file is empty"),
        ("not json\n", 1, "not JSON"),
        ('{"type":"user"}\n', 1, "no session record"),
        ("[1]\n", 1, "not an object"),
        (json.dumps({**HEAD, "version": 9}), 1, "format version 9"),
        (json.dumps(HEAD) + '\n\n{"type":"message","times', 3, "not JSON"),
        (json.dumps(HEAD) + '\n{"type":"surprise"}\n', 2, "surprise"),
        (json.dumps(HEAD) + "\n" + json.dumps(message({"role": "user"})), 2, "content"),
        (
            json.dumps(HEAD) + '\n{"type":"message","timestamp":"yesterday","message":{"role":"user","content":"a"}}',
            2,
            "yesterday",
        ),
        (
            json.dumps(HEAD)
            + '\n{"type":"compaction","timestamp":"'
            + START
            + '","summary":"","firstKeptEntryIndex":7,"tokensBefore":1}',
            2,
            "firstKeptEntryIndex 7",
        ),
    ],
)
def test_what_pi_does_not_write_is_refused_with_its_place(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = tmp_path / "pi.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(UnreadableLog, match=rf"pi\.jsonl line {line}: .*{says}.*expected a pi session"):
        read_pi(path)


def test_an_error_of_the_provider_stands_in_the_ledger_without_its_words(tmp_path: Path) -> None:
    said = '400 {"type":"error","error":{"type":"invalid_request_error","message":"you said: secret"}}'
    path = write(
        tmp_path / "pi.jsonl", HEAD, user("secret"), assistant(stop="error", billed=(0, 0, 0, 0), errorMessage=said)
    )
    call = ledger_of(read_pi(path))[0]
    assert (call.error, call.usage) == ("invalid_request_error", None)
    assert "secret" not in repr(call)


@pytest.mark.parametrize(
    ("said", "name", "is_refused"),
    [
        ("Cloud Code Assist API error (429): You have exhausted your capacity on this model.", "http_429", True),
        ("503 status code (no body)", "http_503", True),
        ('{"detail":"The \'some\' model is not supported when using Codex."}', "model_not_supported", True),
        ("Codex error: Your input exceeds the context window of this model.", "context_length_exceeded", True),
        ("Codex error: Our servers are currently overloaded. Please try again later.", "overloaded_error", True),
        ("Codex error: An error occurred while processing your request.", "server_error", True),
        ("You have hit your ChatGPT usage limit (plus plan).", "rate_limit_exceeded", True),
        ("Codex SSE response headers timed out after 300000ms", "error", False),
        ("fetch failed", "error", False),
        ("Connection error.", "error", False),
        ("WebSocket error", "error", False),
        ("something else", "error", False),
    ],
)
def test_an_error_in_place_of_a_reply_bills_nothing_and_one_of_the_way_there_is_unknown(
    tmp_path: Path, said: str, name: str, is_refused: bool
) -> None:
    failed = assistant(stop="error", billed=(0, 0, 0, 0), errorMessage=said)
    call = ledger_of(read_pi(write(tmp_path / "pi.jsonl", HEAD, user("hi"), failed)))[0]
    assert isinstance(call, ModelCall)
    assert (call.error, call.is_refused, call.usage) == (name, is_refused, None)


def test_a_reply_that_broke_off_may_have_been_billed_whatever_the_error(tmp_path: Path) -> None:
    begun = {"type": "text", "text": "I will"}
    failed = assistant(begun, stop="error", billed=(0, 0, 0, 0), errorMessage="Codex error: overloaded")
    call = ledger_of(read_pi(write(tmp_path / "pi.jsonl", HEAD, user("hi"), failed)))[0]
    assert isinstance(call, ModelCall)
    assert (call.error, call.is_refused) == ("cut", False)


def test_calls_that_nobody_answered_are_not_sent_again(tmp_path: Path) -> None:
    def call(name: str) -> dict[str, Any]:
        return {"type": "toolCall", "id": name, "name": "ls", "arguments": {}}

    path = write(
        tmp_path / "pi.jsonl",
        HEAD,
        user("go"),
        assistant({"type": "text", "text": "on it"}, call("cut"), stop="aborted"),
        user("again"),
        assistant(call("done"), stop="toolUse"),
        result("done", "x"),
        assistant({"type": "text", "text": "ok"}),
    )
    outlines = [recorded.prompt for recorded in ledger_of(read_pi(path))]
    assert [o.entries for o in outlines if isinstance(o, Outline)] == [(0,), (1, 2), (3, 4)]


@pytest.fixture(scope="module")
def real(shared: Path) -> Path:
    return shared / "data" / "pi" / "before-compaction.jsonl"


def test_the_real_session_adds_up_to_its_own_bills(real: Path) -> None:
    summary = summarise(ledger_of(read_pi(real)))
    assert (summary.calls, summary.calls_with_usage) == (484, 471)
    assert round(summary.hit_rate or 0, 5) == 0.97004
    assert summary.usage == Usage(fresh=3_689, read=54_693_675, write_5m=1_685_320, write_1h=0, output=187_895)
    records = [json.loads(line) for line in real.read_text("utf-8").splitlines()]
    bills = [record["message"]["usage"]["cost"]["total"] for record in records if "usage" in record.get("message", {})]
    assert summary.cost_usd == pytest.approx(sum(bills), rel=1e-9)
    calls = [record for record in records_at(str(real))[1] if isinstance(record, ModelCall)]
    assert sum(call.billed_usd or 0 for call in calls) == pytest.approx(sum(bills), rel=1e-9)


def test_the_real_session_is_read_whole(real: Path) -> None:
    assert is_pi(real.read_bytes().splitlines()[0])
    recording = read_pi(real)
    assert Counter(type(event).__name__ for event in recording.events) == {
        "UserTurn": 58,
        "AssistantTurn": 484,
        "ToolResultTurn": 448,
        "EffortChanged": 5,
        "ModelChanged": 5,
        "Compacted": 2,
    }
    said = [event for event in recording.events if isinstance(event, AssistantTurn)]
    assert Counter(event.stop for event in said if event.stop in ("aborted", "error")) == {"aborted": 18, "error": 1}
    assert all(event.started_at <= event.ended_at for event in said)
    assert all(one.started_at < other.started_at for one, other in pairwise(said))
    assert recording.branched_from is not None


def test_the_real_sessions_collapses_are_named(real: Path) -> None:
    found = [(miss.index + 1, miss.cause) for miss in misses(ledger_of(read_pi(real)))]
    assert found == [
        (1, "below_minimum"),
        (2, "first_write"),
        (4, "params_changed"),
        (175, "compaction"),
        (252, "ttl_expired"),
        (293, "unknown"),
        (304, "compaction"),
        (309, "unknown"),
        (342, "unknown"),
        (374, "unknown"),
        (410, "unknown"),
        (420, "unknown"),
        (483, "unknown"),
        (484, "unknown"),
    ]


def test_compactions_keep_what_the_bills_say_they_kept(real: Path) -> None:
    """What was billed after a compaction is what was kept, by the bills before it, and the summary, and the unrecorded
    head."""
    events = read_pi(real).events
    said = [
        (index, event.usage) for index, event in enumerate(events) if isinstance(event, AssistantTurn) and event.usage
    ]
    head = 2_600
    for index, event in enumerate(events):
        if not isinstance(event, Compacted):
            continue
        assert event.keep_from is not None
        assert isinstance(events[event.keep_from], UserTurn)
        before = next(usage for at, usage in reversed(said) if at < event.keep_from)
        after = next(usage for at, usage in said if at > index)
        kept = event.tokens_before - (before.prompt or 0) - (before.output or 0)
        assert after.prompt == pytest.approx(kept + head + len(event.summary) / 3.28, abs=350)


def test_sizes_of_outlines_follow_the_bills(real: Path) -> None:
    head, ratios = 2_600, []
    for call, prompt in ledger_of(read_pi(real)).prompts():
        tokens = (call.usage or ZERO).prompt
        if prompt and tokens and tokens > 20_000:
            ratios.append((tokens - head) / prompt.n_tokens)
    assert 0.85 < min(ratios) < max(ratios) < 1.15


def test_an_outline_costs_what_was_added(real: Path) -> None:
    outlines = [call.prompt for call in ledger_of(read_pi(real)) if isinstance(call.prompt, Outline)]
    assert sum(len(outline.digests) for outline in outlines) < 2_000
    assert [outline.epoch for outline in outlines][-1] == 2
