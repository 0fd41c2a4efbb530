"""Transcripts of Claude Code: one bill a call whatever the lines do, lanes, remarks, faults."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall, Remark
from contextkit.ledger.summary import summarise

FIXTURES = Path(__file__).parent / "fixtures" / "claude_code"
SESSION = "5b1d0c7e-0000-4000-8000-00000000c0de"
TRANSCRIPT = FIXTURES / f"{SESSION}.jsonl"
REAL = (  # a real record, ids left out (shared facts on log formats)
    '{"type":"assistant","timestamp":"2026-04-09T01:03:35.960Z","requestId":"req_…","sessionId":"…","version":"2.1.97","message":{"usage":'
    '{"input_tokens":1,"cache_creation_input_tokens":781,"cache_read_input_tokens":42507,"cache_creation":{"ephemeral_5m_input_tokens":781,'
    '"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard","inference_geo":"not_available"}}}'
)


def calls(path: Path, faults: Faults | None = None) -> list[ModelCall]:
    return [
        record
        for record in records_in([str(path)], Faults() if faults is None else faults)
        if isinstance(record, ModelCall)
    ]


def remarks(path: Path) -> list[Remark]:
    return [record for record in records_in([str(path)], Faults()) if isinstance(record, Remark)]


def lines() -> list[str]:
    return TRANSCRIPT.read_text(encoding="utf-8").splitlines()


def put(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def reply(number: int, at: str, usage: dict[str, Any], **more: Any) -> str:
    message = {"model": "claude-opus-4-5", "id": f"msg_{number}", "role": "assistant", "content": [], "usage": usage}
    message |= more.pop("message", {})
    return json.dumps(
        {
            "parentUuid": None,
            "isSidechain": False,
            "message": message,
            "requestId": f"req_{number}",
            "type": "assistant",
            "uuid": f"u{number}",
            "timestamp": at,
            "sessionId": "s",
            **more,
        },
        separators=(",", ":"),
    )


def counted(paths: Iterator[Path]) -> tuple[int, ...]:
    """An independent count: every line parsed, the last one of each (request, message) kept, counters added up."""
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            message = record.get("message", {})
            if record["type"] == "assistant" and message.get("model") != "<synthetic>":
                last[record["requestId"], message["id"]] = message["usage"]
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    return (len(last), *(sum(usage[name] for usage in last.values()) for name in names))


def totals(found: list[ModelCall]) -> tuple[int, ...]:
    usages = [call.usage for call in found if call.usage]
    written = sum((usage.write_5m or 0) + (usage.write_1h or 0) for usage in usages)
    return (
        len(usages),
        sum(usage.fresh or 0 for usage in usages),
        sum(usage.read or 0 for usage in usages),
        written,
        sum(usage.output or 0 for usage in usages),
    )


def test_a_real_record_without_ids(tmp_path: Path) -> None:
    faults = Faults()
    [call] = calls(put(tmp_path / "one.jsonl", [REAL]), faults)
    assert call.usage == Usage(fresh=1, read=42507, write_5m=781, write_1h=0, output=1)
    assert (call.session, call.lane, call.at, not faults.kept) == ("…", "main", 1775696615.96, True)


@pytest.mark.parametrize("seed", range(5))
def test_lines_twice_and_out_of_order_are_never_counted_twice(tmp_path: Path, seed: int) -> None:
    rows, dice = lines(), random.Random(seed)
    rows += dice.sample(rows, 6)
    dice.shuffle(rows)
    found = calls(put(tmp_path / "mixed.jsonl", rows))
    assert totals(found) == totals(calls(TRANSCRIPT))


def test_a_resumed_session_repeats_its_history_which_is_counted_once(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES, tmp_path / "logs")
    resumed = [line.replace(SESSION, "resumed") for line in lines()]
    usage = {
        "input_tokens": 2,
        "cache_read_input_tokens": 24000,
        "cache_creation_input_tokens": 100,
        "output_tokens": 9,
    }
    put(tmp_path / "logs" / "resumed.jsonl", [*resumed, reply(99, "2026-04-09T02:00:00.000Z", usage)])
    faults = Faults()
    records = list(records_in([str(tmp_path / "logs")], faults))
    assert [record.id for record in records if isinstance(record, ModelCall)][-1] == "msg_99"
    assert summarise(records).calls == 6
    assert not [
        record
        for record in records
        if isinstance(record, Remark) and (record.kind, record.about) == ("compaction", "msg_99")
    ]
    assert any("counted once" in str(fault) for fault in faults.kept)


def test_interleaved_sub_agents_of_older_builds_are_told_apart(tmp_path: Path) -> None:
    usage = {"input_tokens": 2, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 3000, "output_tokens": 9}
    rows = []
    for number in range(6):
        agent, turn = number % 2, number // 2
        asked = {
            "parentUuid": f"u{number - 2}" if turn else None,
            "isSidechain": True,
            "type": "user",
            "message": {"role": "user", "content": "on"},
            "uuid": f"q{number}",
            "timestamp": f"2026-04-09T02:00:{number:02}.000Z",
        }
        rows.append(json.dumps({**asked, "sessionId": "s"}, separators=(",", ":")))
        rows.append(
            reply(number, f"2026-04-09T02:00:{number:02}.500Z", usage, isSidechain=True, parentUuid=f"q{number}")
        )
        assert agent in (0, 1)
    assert [call.lane for call in calls(put(tmp_path / "old.jsonl", rows))] == ["sidechain 1", "sidechain 2"] * 3


def test_settings_and_surcharges(tmp_path: Path) -> None:
    usage = {"input_tokens": 2, "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 30, "output_tokens": 9}
    rows = [
        reply(1, "2026-04-09T02:00:00.000Z", usage, effort="medium"),
        reply(2, "2026-04-09T02:00:10.000Z", usage, effort="high"),
        reply(3, "2026-04-09T02:00:20.000Z", {**usage, "speed": "fast", "service_tier": "priority"}, effort="high"),
    ]
    faults = Faults()
    records = list(records_in([str(put(tmp_path / "a.jsonl", rows))], faults))
    found = [record for record in records if isinstance(record, Remark)]
    assert [(remark.kind, remark.about, remark.text) for remark in found] == [
        ("setting", "msg_2", "effort medium → high")
    ]
    tiers = [record.usage.service_tier for record in records if isinstance(record, ModelCall) and record.usage]
    assert (tiers, len(faults)) == (["", "", "priority + fast"], 0)


def test_iterations_are_calls_of_their_own(tmp_path: Path) -> None:
    step = {
        "type": "message",
        "input_tokens": 10,
        "cache_read_input_tokens": 5000,
        "cache_creation_input_tokens": 7,
        "output_tokens": 3,
    }
    whole = {
        "input_tokens": 20,
        "cache_read_input_tokens": 10000,
        "cache_creation_input_tokens": 14,
        "output_tokens": 6,
    }
    path = put(tmp_path / "a.jsonl", [reply(1, "2026-04-09T02:00:00.000Z", {**whole, "iterations": [step, step]})])
    found = calls(path)
    assert [call.id for call in found] == ["msg_1", "msg_1/2"]
    assert totals(found)[1:] == (20, 10000, 14, 6)


def test_what_is_not_said_is_unknown_and_lifetimes_are_kept(tmp_path: Path) -> None:
    rows = [
        reply(1, "2026-04-09T02:00:00.000Z", {"input_tokens": 20, "output_tokens": 6}),
        reply(
            2,
            "2026-04-09T02:00:01.000Z",
            {
                "input_tokens": 1,
                "output_tokens": 1,
                "cache_read_input_tokens": 5,
                "cache_creation_input_tokens": 9,
                "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5},
            },
        ),
        reply(
            3,
            "2026-04-09T02:00:02.000Z",
            {
                "input_tokens": 0,
                "output_tokens": 0,
                "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 0,
            },
        ),
    ]
    usages = [call.usage for call in calls(put(tmp_path / "a.jsonl", rows))]
    assert usages == [Usage(fresh=20, output=6), Usage(1, 5, 4, 5, 1), None]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda line: line[:300], "cut"),
        (lambda line: "no json at all", "cut"),
        (lambda line: "{" + line, "cut"),
        (lambda line: line.replace("2026-04-09T01:00:11", "1970-01-01T00:00:11"), "clock"),
        (lambda line: line.replace("2026-04-09T01:00:11", "2026-04-08T01:00:11"), "out of order"),
        (
            lambda line: line.replace('"cache_creation_input_tokens":781', '"cache_creation_input_tokens":780'),
            "lifetimes",
        ),
        (lambda line: line.replace('"output_tokens":1,', '"output_tokens":-1,'), "natural"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_reading_goes_on(tmp_path: Path, bad: Any, said: str) -> None:
    rows = lines()
    place = next(number for number, row in enumerate(rows) if "msg_B" in row)
    rows[place] = bad(rows[place])
    faults = Faults()
    found = calls(put(tmp_path / "bad.jsonl", rows), faults)
    assert [call.id for call in found if call.id != "msg_B"] == ["msg_A", "msg_C", "msg_D"]
    assert [(fault.line, said in fault.what) for fault in faults.kept] == [(place + 1, True)]


def test_times_in_milliseconds_are_understood(tmp_path: Path) -> None:
    row = json.loads(REAL)
    row["timestamp"] = 1775696615960
    [call] = calls(put(tmp_path / "one.jsonl", [json.dumps(row, separators=(",", ":"))]))
    assert call.at == 1775696615.96


def test_a_transcript_that_was_written_anew_with_blanks_says_the_same(tmp_path: Path) -> None:
    path = put(tmp_path / "blanks.jsonl", [json.dumps(json.loads(row)) for row in lines()])
    assert list(records_at(str(path))[1]) == list(records_at(str(TRANSCRIPT))[1])


def test_what_a_progress_line_repeats_of_a_sub_agent_is_no_call(tmp_path: Path) -> None:
    inner = json.loads(next(row for row in lines() if "msg_B" in row))
    data = {"type": "agent_progress", "message": inner}
    row = {"parentUuid": "p", "isSidechain": False, "type": "progress", "data": data, "sessionId": "s"}
    path = put(tmp_path / "a.jsonl", [json.dumps(row, separators=(",", ":")), *lines()])
    assert totals(calls(path)) == totals(calls(TRANSCRIPT))


HEAD_OF_LINE = {"isSidechain": False, "sessionId": "s", "version": "2.1.37", "type": "user"}
USED = {"input_tokens": 3, "cache_read_input_tokens": 9, "cache_creation_input_tokens": 50_000, "output_tokens": 5}


def typed(text: str, **more: Any) -> str:
    """A line of the user's, its keys in the order in which Claude Code writes them."""
    row = {**HEAD_OF_LINE, "message": {"role": "user", "content": text}, "timestamp": "2026-02-01T10:00:00Z", **more}
    return json.dumps(row, separators=(",", ":"))


def tool_answered(**more: Any) -> str:
    content = [{"tool_use_id": "toolu_1", "type": "tool_result", "content": "done"}]
    row = {**HEAD_OF_LINE, "message": {"role": "user", "content": content}, "toolUseResult": more}
    return json.dumps({**row, "sourceToolAssistantUUID": "u"}, separators=(",", ":"))


def other(kind: str, **more: Any) -> str:
    return json.dumps({"isSidechain": False, "sessionId": "s", "type": kind, **more}, separators=(",", ":"))


THINKS = {"thinkingMetadata": {"maxThinkingTokens": 31999}}
HOOK = {"type": "hook_success", "hookName": "SessionStart:resume", "hookEvent": "SessionStart", "content": "hello"}
GONE = {"type": "deferred_tools_delta", "addedNames": [], "removedNames": ["mcp__a__x", "mcp__a__y"]}
OWN_REPLY = {
    "role": "assistant",
    "model": "<synthetic>",
    "content": [],
    "usage": {"input_tokens": 0, "output_tokens": 0},
}


@pytest.mark.parametrize(
    ("between", "event"),
    [
        (
            [typed("<command-message>review</command-message><command-name>/review</command-name>")],
            "slash command: /review",
        ),
        (
            [typed("<command-name>/exit</command-name>"), typed("<local-command-stdout>bye</local-command-stdout>")],
            "resume: after /exit",
        ),
        ([other("progress", data={"type": "hook_progress", "hookName": "SessionStart:resume"})], "resume: "),
        ([other("attachment", attachment=HOOK)], "resume: "),
        ([other("assistant", message=OWN_REPLY)], "resume: "),
        ([other("assistant", message=OWN_REPLY, isApiErrorMessage=True)], "API error: "),
        ([other("system", subtype="api_error", error={"status": 529})], "API error: "),
        ([tool_answered(success=True, commandName="superpowers:brainstorming")], "skill: superpowers:brainstorming"),
        ([tool_answered(matches=["SendMessage"], query="q", total_deferred_tools=36)], "tool search: "),
        ([other("attachment", attachment=GONE)], "MCP change: 2 removed"),
        ([typed("go on", permissionMode="plan")], "permission mode: default → plan"),
        ([typed("go on", permissionMode="default", **THINKS)], "thinking: none → maxThinkingTokens:31999"),
        ([typed("go on", permissionMode="default")], None),
        ([typed("go on", permissionMode="default", version="2.1.38", **THINKS)], None),
        ([typed("said in passing", isMeta=True, **THINKS)], None),
        (
            [typed("<command-name>/model</command-name>"), typed("go on", permissionMode="default")],
            "slash command: /model",
        ),
        (
            [
                typed("go", **THINKS),
                typed("[Request interrupted by user]"),
                typed("no, wait", permissionMode="default"),
            ],
            None,
        ),
        ([typed('a text that says "subtype":"api_error" and <command-name> /x')], None),
        ([other("attachment", attachment={**GONE, "removedNames": []})], None),
    ],
)
def test_what_the_client_wrote_between_two_calls_is_an_event(
    tmp_path: Path, between: list[str], event: str | None
) -> None:
    rows = [typed("hello", permissionMode="default"), reply(1, "2026-02-01T10:00:05Z", USED)]
    path = put(tmp_path / "s.jsonl", [*rows, *between, reply(2, "2026-02-01T10:01:05Z", USED)])
    events = [(remark.about, remark.text) for remark in remarks(path) if remark.kind == "event"]
    assert events == ([("msg_2", event)] if event else [])
    assert len(calls(path)) == 2


def test_an_image_and_another_version_are_events(tmp_path: Path) -> None:
    image = [{"type": "image", "source": {"type": "base64", "data": "A" * 4_000}}]
    line = json.loads(typed("", permissionMode="default"))
    line["message"]["content"] = image
    rows = [
        reply(1, "2026-02-01T10:00:05Z", USED, version="2.1.36"),
        json.dumps(line, separators=(",", ":")),
        reply(2, "2026-02-01T10:01:05Z", USED, version="2.1.37"),
    ]
    events = [remark.text for remark in remarks(put(tmp_path / "s.jsonl", rows)) if remark.kind == "event"]
    assert events == ["image: ", "client version: 2.1.36 → 2.1.37"]


def test_a_compaction_before_an_error_of_claude_code_is_not_forgotten(tmp_path: Path) -> None:
    boundary = other("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"}, parentUuid=None)
    failed = other("assistant", message=OWN_REPLY, isApiErrorMessage=True)
    rows = [reply(1, "2026-02-01T10:00:05Z", USED), boundary, failed, reply(2, "2026-02-01T10:01:05Z", USED)]
    said = {remark.kind: remark.text for remark in remarks(put(tmp_path / "s.jsonl", rows)) if remark.about == "msg_2"}
    assert said == {"compaction": "compact_boundary, auto", "event": "API error: "}


def test_a_session_that_was_cleared_starts_anew(tmp_path: Path) -> None:
    data = {"type": "hook_progress", "hookEvent": "SessionStart", "hookName": "SessionStart:clear", "command": "true"}
    rows = [
        reply(1, "2026-02-01T10:00:05Z", USED),
        other("progress", data=data),
        reply(2, "2026-02-01T10:01:05Z", USED),
    ]
    said = [
        (remark.about, remark.text)
        for remark in remarks(put(tmp_path / "s.jsonl", rows))
        if remark.kind == "compaction"
    ]
    assert said == [("msg_2", "the session was cleared")]


def test_thinking_in_a_reply_contradicts_a_prompt_that_asks_for_none(tmp_path: Path) -> None:
    thought = {"content": [{"type": "thinking", "thinking": "", "signature": "s"}]}
    rows = [
        typed("hello", **THINKS),
        reply(1, "2026-02-01T10:00:05Z", USED, message=thought),
        typed("<command-message>review</command-message><command-name>/review</command-name>"),
        reply(2, "2026-02-01T10:01:05Z", USED, message=thought),
        typed("go on", **THINKS),
        reply(3, "2026-02-01T10:02:05Z", USED, message=thought),
    ]
    events = [remark.text for remark in remarks(put(tmp_path / "s.jsonl", rows)) if remark.kind == "event"]
    assert events == ["slash command: /review"]
    rows[3] = reply(2, "2026-02-01T10:01:05Z", USED)
    events = [remark.text for remark in remarks(put(tmp_path / "s.jsonl", rows)) if remark.kind == "event"]
    assert events == [
        "slash command: /review",
        "thinking: maxThinkingTokens:31999 → none",
        "thinking: none → maxThinkingTokens:31999",
    ]


@pytest.mark.parametrize(("year", "events"), [("2026-02", ["many blocks: 22"]), ("2026-10", [])])
def test_more_blocks_than_a_lookup_goes_back_are_an_event(tmp_path: Path, year: str, events: list[str]) -> None:
    rows = [typed("hello"), *[reply(1, f"{year}-01T10:00:{number:02}Z", USED) for number in range(11)]]
    rows += [tool_answered() for _ in range(11)] + [reply(2, f"{year}-01T10:01:05Z", USED), tool_answered()]
    rows += [reply(3, f"{year}-01T10:01:15Z", USED)]
    said = [remark.text for remark in remarks(put(tmp_path / "s.jsonl", rows)) if remark.kind == "event"]
    assert said == events


def test_calls_that_overlap_are_no_fault_of_a_clock(tmp_path: Path) -> None:
    def usage(read: int) -> dict[str, Any]:
        return {"input_tokens": 1, "cache_read_input_tokens": read, "output_tokens": 9}

    rows = [
        reply(1, "2026-11-20T09:00:10.000Z", usage(100)),
        reply(2, "2026-11-20T09:00:12.000Z", usage(900)),
        reply(1, "2026-11-20T09:00:20.000Z", usage(100)),
        reply(3, "2026-11-20T09:00:24.000Z", usage(200)),
    ]
    faults = Faults()
    found = calls(put(tmp_path / "a.jsonl", rows), faults)
    assert [call.usage and call.usage.read for call in found] == [100, 900, 200]
    assert [fault.what[:50] for fault in faults.kept] == ["overlaps the call before it: one session sent requ"]
    faults = Faults()
    calls(put(tmp_path / "b.jsonl", [rows[1], rows[0]]), faults)
    assert ["wrong clock" in fault.what for fault in faults.kept] == [True]
