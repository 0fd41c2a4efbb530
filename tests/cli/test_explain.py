"""`contextkit explain`: the verdict on one call, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

WORDS = "Be careful with what you delete. " * 600


def line(number: int, clock: str, read: int, written: int) -> dict[str, Any]:
    system = [{"type": "text", "text": f"{WORDS}Now {clock}.", "cache_control": {"type": "ephemeral"}}]
    body = {"model": "claude-sonnet-5-5", "max_tokens": 9, "system": system}
    usage = {
        "input_tokens": 9,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": 1,
    }
    return {
        "started_at": f"2026-11-20T09:00:{10 * number:02}Z",
        "session_id": "s",
        "request": {**body, "messages": [{"role": "user", "content": f"question {number}"}]},
        "response": {"id": f"msg_{number}", "type": "message", "model": "claude-sonnet-5-5", "usage": usage},
    }


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "calls.jsonl"
    rows = [line(0, "10:31", 0, 5_000), line(1, "10:31", 5_000, 0), line(2, "10:32", 0, 5_000)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_a_change_is_told_with_its_place_and_both_texts(run: Run, recording: Path) -> None:
    ended = run("explain", recording, 3)
    assert ended.code == 0, ended.err
    told = ended.out.splitlines()
    assert told[0].startswith("call 3 · claude-sonnet-5-5 · 2026-11-20") and told[0].endswith("prompt 5,009 tokens")
    assert [row.split()[0] for row in told[1:5]] == ["read", "readable", "shared", "similar"]
    assert "equal to an earlier prompt" in told[3]
    assert "system_changed (clock) · the program changed bytes" in ended.out
    assert "system[0] byte" in ended.out and "Now 10:31" in ended.out and "Now 10:32" in ended.out


def test_an_id_names_a_call_and_json_has_the_version(run: Run, recording: Path) -> None:
    told = json.loads(run("explain", recording, "msg_2", "--json").out)
    assert (told["call"], told["index"], told["verdict"]["format"]) == ("msg_2", 2, 1)
    assert told["verdict"]["is_miss"] and told["verdict"]["gaps"][0]["cause"] == "system_changed"
    assert (
        told["verdict"]["read"]
        <= told["verdict"]["readable"]
        <= told["verdict"]["shared"]
        <= told["verdict"]["similar"]
    )


def test_a_converse_stream_of_an_openai_model_is_counted_once(run: Run, shared: Path) -> None:
    path = shared / "data" / "cases" / "15-converse-stream-counts-twice" / "calls.jsonl"
    usage = json.loads(run("report", path, "--json").out)["total"]["usage"]
    assert (usage["fresh"], usage["read"], sum(usage["writes"].values())) == (2, 0, 4_993)
    verdict = json.loads(run("explain", path, 1, "--json").out)["verdict"]
    assert (verdict["prompt"], verdict["is_miss"]) == (4_995, False)


def test_what_read_everything_is_no_miss(run: Run, recording: Path) -> None:
    assert "no miss: nothing was lost" in run("explain", recording, 2).out


def test_a_check_that_a_request_fails_is_told(run: Run, recording: Path) -> None:
    marked = {"type": "text", "text": WORDS, "cache_control": {"type": "ephemeral"}}
    row = line(0, "10:31", 0, 5_000)
    row["request"]["system"] = [marked] * 5
    recording.write_text(json.dumps(row) + "\n", "utf-8")
    assert (
        "check      system[4].cache_control: 5 markers in one request, which takes 4"
        in run("explain", recording, 1).out
    )
    (check,) = json.loads(run("explain", recording, 1, "--json").out)["checks"]
    assert (check["check"], check["place"]) == ("too_many_markers", "system[4].cache_control")


def test_a_call_that_is_not_there_is_an_error_that_says_how_many_are(run: Run, recording: Path) -> None:
    ended = run("explain", recording, 9)
    assert (ended.code, "give a number from 1 to 3" in ended.err) == (2, True)


def test_secrets_in_the_texts_are_covered(run: Run, recording: Path) -> None:
    secret = "sk-ant-api03-" + "a1B2c3D4" * 6
    rows = [json.loads(row) for row in recording.read_text("utf-8").splitlines()]
    for row in rows:
        row["request"]["system"][0]["text"] = row["request"]["system"][0]["text"].replace("Now", f"key {secret} Now")
    recording.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for options in ((), ("--json",)):
        assert "a1B2c3D4a1B2c3D4" not in run("explain", recording, 3, *options).out


def test_a_call_without_a_bill_has_lost_nothing_yet(run: Run, recording: Path) -> None:
    rows = [json.loads(text) for text in recording.read_text("utf-8").splitlines()]
    del rows[2]["response"]["usage"]
    recording.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    ended = run("explain", recording, 3)
    assert "no bill" in ended.out and "would lose" in ended.out and "\nlost" not in ended.out
