"""What sessions are called: the names that programs wrote down, never the text of a prompt."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from contextkit.importers.live import LiveFiles
from contextkit.importers.registry import records_at, remarked_records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Remark, decode, encode
from tests.cli.conftest import pi_session

AT = "2026-04-09T01:00:{:02}.000Z"


def titles(path: Path) -> dict[str, str]:
    """Session → its title, the last that was said."""
    remarks = [record for record in records_at(str(path))[1] if isinstance(record, Remark)]
    return {remark.about: remark.text for remark in remarks if remark.kind == "title"}


def parsed(line: bytes) -> dict[str, Any]:
    """The object of a line, an empty one where it is damaged."""
    try:
        row: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return row


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows), "utf-8")
    return path


# Claude Code
# ------------------------------------------------------------------------------------------------------------


def said(number: int) -> dict[str, Any]:
    """A line of the user's, which could be taken for a title."""
    about = {"parentUuid": None, "isSidechain": False, "sessionId": "s-1", "uuid": f"q{number}"}
    message = {"role": "user", "content": "my secret plan"}
    return {**about, "type": "user", "timestamp": AT.format(2 * number), "message": message}


def reply(number: int) -> dict[str, Any]:
    message = {"id": f"m{number}", "role": "assistant", "model": "claude-opus-4-5", "content": []}
    about = {"parentUuid": f"q{number}", "isSidechain": False, "sessionId": "s-1", "requestId": f"r{number}"}
    usage = {"input_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 9_000, "output_tokens": 9}
    answered = {"timestamp": AT.format(2 * number + 1), "uuid": f"u{number}", "message": {**message, "usage": usage}}
    return {**about, "type": "assistant", **answered}


SUMMARY = {"type": "summary", "summary": "Fix the flaky test", "leafUuid": "u1"}
AI = {"type": "ai-title", "aiTitle": "Flaky checkout test"}
CUSTOM = {"type": "custom-title", "customTitle": "checkout", "sessionId": "s-1"}


@pytest.mark.parametrize(
    ("rows", "title"),
    [
        ([said(1), reply(1)], None),
        ([{**SUMMARY, "leafUuid": "elsewhere"}, said(1), reply(1)], None),
        ([said(1), reply(1), SUMMARY, {**SUMMARY, "summary": "Other", "leafUuid": "elsewhere"}], "Fix the flaky test"),
        ([said(1), reply(1), SUMMARY], "Fix the flaky test"),
        ([said(1), reply(1), AI, SUMMARY], "Flaky checkout test"),
        ([said(1), CUSTOM, reply(1), AI, SUMMARY], "checkout"),
        ([said(1), reply(1), AI, {**AI, "aiTitle": "Another"}], "Another"),
        ([said(1), reply(1), {**AI, "aiTitle": None}, {"type": "summary", "summary": 3}], None),
        ([AI, said(1), reply(1)], "Flaky checkout test"),
    ],
)
def test_claude_code_s_titles_by_rank_and_no_summary_of_another_session(
    tmp_path: Path, rows: list[dict[str, Any]], title: str | None
) -> None:
    path = lines(tmp_path / "s-1.jsonl", *rows)
    assert titles(path) == ({} if title is None else {"s-1": title})


def test_a_summary_of_real_transcripts_is_of_its_own_session_where_it_stands_behind_a_message(shared: Path) -> None:
    """The oracle is the line's own `leafUuid`: it names a line of the same file, or of none."""
    n = 0
    for path in sorted((shared / "data" / "agent-logs" / "claude-code").glob("*.gz")):
        rows = [row for line in gzip.decompress(path.read_bytes()).splitlines() if (row := parsed(line))]
        own = {row["uuid"] for row in rows if "uuid" in row}
        summaries = [row["summary"] for row in rows if row.get("type") == "summary" and row["leafUuid"] in own]
        found = set(titles(path).values())
        assert found <= {*summaries[-1:]}, path.name
        n += len(found)
    assert n == 4


def test_a_live_transcript_has_its_title_and_its_program(tmp_path: Path) -> None:
    path = lines(tmp_path / "s-1.jsonl", said(0), reply(0), AI)
    live = LiveFiles()
    assert list(live.news([str(path)])) == []
    waiting = [record for record in live.waiting() if isinstance(record, Remark)]
    assert waiting == [Remark("program", "s-1", "Claude Code"), Remark("title", "s-1", AI["aiTitle"])]
    rest = [record for record in live.rest() if isinstance(record, Remark)]
    assert rest == waiting


# The other programs
# ------------------------------------------------------------------------------------------------------------


def rollout(name: str | None = None) -> list[dict[str, Any]]:
    counts = {"input_tokens": 9_000, "cached_input_tokens": 8_000, "output_tokens": 9}
    info = {"total_token_usage": counts, "last_token_usage": counts}
    rows: list[dict[str, Any]] = [
        {"timestamp": AT.format(0), "type": "session_meta", "payload": {"id": "t-1", "cwd": "/shop"}},
        {"timestamp": AT.format(1), "type": "turn_context", "payload": {"model": "gpt-5.1-codex", "cwd": "/shop"}},
        {"timestamp": AT.format(2), "type": "event_msg", "payload": {"type": "token_count", "info": info}},
    ]
    named = {"type": "thread_name_updated", "thread_id": "t-1", "thread_name": name}
    return rows if name is None else [*rows, {"timestamp": AT.format(3), "type": "event_msg", "payload": named}]


def test_codex_s_event_and_index_name_a_session(tmp_path: Path) -> None:
    path = lines(tmp_path / ".codex/sessions/2026/04/09/rollout-1.jsonl", *rollout())
    assert titles(path) == {}
    index = lines(
        tmp_path / ".codex/session_index.jsonl",
        {"id": "t-1", "thread_name": "First name", "updated_at": "2026-04-09T01:00:00Z"},
        {"id": "t-2", "thread_name": "Another session"},
        {"id": "t-1", "thread_name": "Planner review", "updated_at": "2026-04-09T02:00:00Z"},
    )
    with index.open("a") as file:
        file.write('{"id":"t-1","thread_na')
    assert titles(path) == {"t-1": "Planner review"}
    lines(path, *rollout("Said in the file"))
    assert titles(path) == {"t-1": "Said in the file"}
    archived = lines(tmp_path / ".codex/archived_sessions/rollout-1.jsonl", *rollout())
    assert titles(archived) == {"t-1": "Planner review"}


def test_opencode_s_title_once_it_has_one(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    path.write_bytes((Path(__file__).parent / "fixtures/opencode/opencode.db").read_bytes())
    for title, found in (("New session - 2026-04-09T01:00:00.000Z", {}), ("Water the plants", {"ses_1"})):
        with sqlite3.connect(path) as database:
            database.execute("update session set title = ? where parent_id is null", (title,))
        database.close()
        assert titles(path) == dict.fromkeys(found, title)


def test_the_older_folder_of_opencode_has_titles_in_files_of_their_own(tmp_path: Path) -> None:
    tokens = {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 0, "write": 900}}
    message = {"id": "msg_1", "sessionID": "ses_1", "role": "assistant", "modelID": "claude-opus-4-5"}
    timed = {"providerID": "anthropic", "time": {"created": 1_775_696_400_000, "completed": 1_775_696_404_000}}
    path = lines(tmp_path / "storage/message/ses_1/msg_1.json", {**message, **timed, "tokens": tokens})
    assert titles(path) == {}
    lines(tmp_path / "storage/session/abc/ses_1.json", {"id": "ses_1", "title": "Water", "directory": "/greenhouse"})
    records = [record for record in records_at(str(path))[1] if isinstance(record, Remark)]
    assert records == [Remark("project", "ses_1", "/greenhouse"), Remark("title", "ses_1", "Water")]


def test_gemini_cli_s_summary_and_the_folder_it_was_held_in(tmp_path: Path) -> None:
    message = {"id": "1", "type": "gemini", "timestamp": AT.format(1), "model": "gemini-2.5-flash"}
    tokens = {"input": 900, "output": 5, "cached": 0, "total": 905}
    session = {"sessionId": "g-1", "projectHash": "abc", "startTime": AT.format(0)}
    asked = {"id": "0", "type": "user", "timestamp": AT.format(0), "content": "my secret plan"}
    told = {**session, "messages": [asked, {**message, "tokens": tokens}]}
    path = lines(tmp_path / "tmp/shop/chats/session-1.json", told)
    assert titles(path) == {}
    (tmp_path / "tmp/shop/.project_root").write_text("/home/ada/shop\n")
    lines(path, {**told, "summary": "Sort the shelves"})
    remarks = [record for record in records_at(str(path))[1] if isinstance(record, Remark)]
    assert remarks == [Remark("title", "g-1", "Sort the shelves"), Remark("project", "g-1", "/home/ada/shop")]


def test_qwen_code_s_last_title(tmp_path: Path) -> None:
    def title(name: object) -> dict[str, Any]:
        about = {"uuid": f"t{name}", "parentUuid": None, "sessionId": "q-1", "timestamp": AT.format(3)}
        return {**about, "type": "system", "subtype": "custom_title", "systemPayload": {"customTitle": name}}

    message = {"role": "user", "parts": [{"text": "my secret plan"}]}
    asked = {"uuid": "a", "parentUuid": None, "sessionId": "q-1", "type": "user", "timestamp": AT.format(0)}
    path = lines(tmp_path / "q-1.jsonl", {**asked, "message": message}, title("First"), title("Second"), title(None))
    assert titles(path) == {"q-1": "Second"}


def test_pi_s_name_of_a_session_and_its_folder(tmp_path: Path) -> None:
    path = pi_session(tmp_path / "session.jsonl", 3)
    with path.open("a") as file:
        file.write('{"type":"session_info","id":"n","name":"  Refactor auth "}\n{"type":"session_info","name":""}\n')
    assert titles(path) == {"s": "Refactor auth"}
    assert Remark("project", "s", "/") in list(records_at(str(path))[1])


def test_copilot_s_stream_names_a_session(tmp_path: Path) -> None:
    start = {"type": "session.start", "data": {"sessionId": "c-1"}, "id": "e", "timestamp": AT.format(0)}
    named = {"type": "session.title_changed", "data": {"title": "Sort imports"}, "id": "f", "timestamp": AT.format(1)}
    assert titles(lines(tmp_path / "events.jsonl", start, named)) == {"c-1": "Sort imports"}


def test_the_program_is_remarked_once_a_session_and_survives_a_ledger(tmp_path: Path) -> None:
    path = lines(tmp_path / "s-1.jsonl", said(0), reply(0), said(1), reply(1), AI)
    records = list(remarked_records_at(str(path), Faults()))
    about = [record for record in records if isinstance(record, Remark) and record.kind in ("program", "title")]
    assert about == [Remark("program", "s-1", "Claude Code"), Remark("title", "s-1", AI["aiTitle"])]
    assert [decode(encode(record)) for record in records] == records
